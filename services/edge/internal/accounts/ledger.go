package accounts

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp"

	"quire.dev/pkg/event"
	"quire.dev/pkg/num"
	"quire.dev/pkg/plan"
	"quire.dev/services/edge/internal/endpoint"
	"quire.dev/services/edge/internal/fault"
	"quire.dev/services/edge/internal/httpin/httperr"
	"quire.dev/services/edge/internal/httpin/input"
)

const (
	MaxTable     = 10_000 // entries of a ledger in CSV
	tablePage    = 1000   // entries requested from billing at a time
	tablePages   = 50     // pages requested per call: the pages of a search may have few entries
	requestChars = 36
)

type ledgerView struct {
	endpoint.Success
	Entries    []entryView `json:"entries"`
	NextCursor *string     `json:"nextCursor"`
	HasMore    bool        `json:"hasMore"`
}

type entryView struct {
	ID        string  `json:"id"`
	Time      string  `json:"time"`
	Type      string  `json:"type"`
	QuotaKey  *string `json:"quotaKey"`
	Amount    string  `json:"amount"`
	Balance   string  `json:"balance"`
	RequestID *string `json:"requestId"`
	Reason    *string `json:"reason"`
	SettledAt string  `json:"settledAt"`
	Period    *string `json:"period"`  // month of the requests that a refund of no single one corrects
	Payment   *string `json:"payment"` // id of a payment
	Actor     *string `json:"actor"`   // an admin, or the payment's provider
}

// LedgerSearch has the parameters of a ledger search.
type LedgerSearch struct {
	asked event.LedgerQuery
	to    *moment // nil: now
}

// Fields parse the parameters of a search.
func (l *LedgerSearch) Fields() input.Fields {
	q := &l.asked
	return input.Fields{
		"cursor":   input.To(&q.Cursor, endpoint.OpaqueCursor),
		"type":     input.To(&q.Type, ledgerTypeField),
		"quotaKey": input.To(&q.QuotaKey, QuotaKeyField),
		"from": func(name string, v input.Value) error {
			at, err := momentField(name, v)
			q.FromMs = at.start
			return err
		},
		"to": func(name string, v input.Value) error {
			at, err := momentField(name, v)
			l.to = &at
			return err
		},
		"requestId": input.To(&q.RequestId, RequestIDField),
		"q":         input.To(&q.Reason, input.Line(ReasonChars)),
	}
}

// Query returns the search once its fields are parsed.
func (l *LedgerSearch) Query() (*event.LedgerQuery, error) {
	if l.to != nil {
		if l.asked.ToMs = l.to.end; l.asked.ToMs <= l.asked.FromMs {
			return nil, httperr.InvalidField("from", "must be before to").InForm("from must not be after the last one.")
		}
	}
	return &l.asked, nil
}

// ledger answers with a page of the ledger in JSON, or up to MaxTable entries in CSV.
func (s *Accounts) ledger(c *endpoint.Call) error {
	search := &LedgerSearch{}
	fields := search.Fields()
	table, limit := addLimit(c, fields)
	if err := input.QueryFields(c.Ctx, fields.Set); err != nil {
		return err
	}
	q, err := search.Query()
	if err != nil {
		return err
	}
	if err := s.CheckHolder(c); err != nil {
		return err
	}
	if table {
		return s.LedgerTable(c, q, num.Int(*limit))
	}
	q.Limit = num.Uint32(*limit)
	page, err := s.LedgerPage(c.Who.Account, q)
	if err != nil {
		return err
	}
	return s.JSON(c.Ctx, fiber.StatusOK, ViewLedger(page))
}

// LedgerPage reads a page of an account's ledger. Its cursors begin with the account, so that another account's are refused.
func (s *Accounts) LedgerPage(account event.AccountID, q *event.LedgerQuery) (*event.LedgerAnswer, error) {
	ask := s.Look
	if len(q.Cursor) > 0 {
		ask = s.Query
		entry, own := bytes.CutPrefix(q.Cursor, account.Bytes())
		if !own || len(entry) == 0 {
			return nil, endpoint.InvalidCursor()
		}
		q.Cursor = entry
	}
	a, err := ask(account, &event.Query{Query: &event.Query_Ledger{Ledger: q}})
	if err != nil {
		return nil, err
	}
	page, err := LedgerOf(a)
	if err != nil {
		return nil, err
	}
	if len(page.NextCursor) > 0 {
		page.NextCursor = append(account.Bytes(), page.NextCursor...)
	}
	return page, nil
}

// LedgerOf returns the page of a ledger that billing has answered with.
func LedgerOf(a *event.QueryAnswer) (*event.LedgerAnswer, error) {
	switch {
	case a.Status == event.QueryStatus_QUERY_UNREADABLE:
		return nil, fault.New(fault.Internal, "Old entries of this ledger can't be recomputed from the billing journal. Report the requestId.")
	case a.GetLedger() == nil:
		return nil, endpoint.Unavailable(endpoint.ErrQueryAnswer)
	}
	return a.GetLedger(), nil
}

// Paid is what a request has cost by the ledger, in micro-credits.
type Paid struct {
	Micros   int64 // less what was given back because it, or another one, failed
	Refunded int64 // of it, by an admin
	At       int64 // its admission, in Unix milliseconds; 0: the ledger has nothing about it
	QuotaKey uint32
}

// PaidFor reads the entries about an account's request, on up to tablePages pages of the search. It fails rather than leave some out.
func (s *Accounts) PaidFor(account event.AccountID, request []byte) (paid Paid, err error) {
	q := &event.LedgerQuery{RequestId: request, Limit: endpoint.MaxPage}
	for range tablePages {
		page, err := s.LedgerPage(account, q)
		if err != nil {
			return Paid{}, err
		}
		for _, e := range page.Entries {
			if e.Type == event.LedgerType_LEDGER_REFUND {
				paid.Refunded += e.AmountMicros
				continue
			}
			paid.Micros -= e.AmountMicros
			paid.At, paid.QuotaKey = e.TimeMs, e.QuotaKey
		}
		if q.Cursor = page.NextCursor; len(q.Cursor) == 0 {
			return paid, nil
		}
	}
	return Paid{}, endpoint.Unavailable(errManyPages)
}

var errManyPages = errors.New("the entries about a request are not found on the first pages of the search")

// LedgerTable answers in CSV. If there are more entries, the Link header points to the rest.
func (s *Accounts) LedgerTable(c *endpoint.Call, q *event.LedgerQuery, limit int) error {
	var records [][]string
	for asked := 1; ; asked++ {
		q.Limit = num.Uint32(min(limit-len(records), tablePage))
		page, err := s.LedgerPage(c.Who.Account, q)
		if err != nil {
			return err
		}
		for _, e := range ViewLedger(page).Entries {
			records = append(records, []string{
				e.ID, e.Time, e.Type, endpoint.Optional(e.QuotaKey), e.Amount, e.Balance, endpoint.Optional(e.RequestID), cell(endpoint.Optional(e.Reason)), e.SettledAt,
				endpoint.Optional(e.Period), cell(endpoint.Optional(e.Payment)), cell(endpoint.Optional(e.Actor)),
			})
		}
		if q.Cursor = page.NextCursor; len(q.Cursor) == 0 {
			break
		}
		if len(records) == limit || asked == tablePages {
			c.Set(fiber.HeaderLink, "<"+s.nextTable(c, q.Cursor)+`>; rel="next"`)
			break
		}
	}
	return sendCSV(c, "ledger.csv", []string{"id", "time", "type", "quotaKey", "amount", "balance", "requestId", "reason", "settledAt", "period", "payment", "actor"}, records)
}

// nextTable is the path and query of the same call, continued at a cursor.
func (s *Accounts) nextTable(c *endpoint.Call, cursor []byte) string {
	args := fasthttp.AcquireArgs()
	defer fasthttp.ReleaseArgs(args)
	c.Context().QueryArgs().CopyTo(args)
	args.Set("cursor", endpoint.FormatOpaque(cursor))
	return c.Path() + "?" + args.String()
}

func ledgerTypeField(name string, v input.Value) (event.LedgerType, error) {
	types := []event.LedgerType{
		event.LedgerType_LEDGER_GRANT, event.LedgerType_LEDGER_ADJUSTMENT, event.LedgerType_LEDGER_CHARGE, event.LedgerType_LEDGER_EXPIRY,
		event.LedgerType_LEDGER_REFUND, event.LedgerType_LEDGER_PAYMENT, event.LedgerType_LEDGER_REVERSAL,
	}
	return option(name, string(v.Text), types, ledgerType)
}

// QuotaKeyField parses the name of a quota key.
func QuotaKeyField(name string, v input.Value) (uint32, error) {
	key, err := option(name, string(v.Text), plan.QuotaKeys(), plan.QuotaKey.String)
	return uint32(key), err
}

// option finds the option with a name in the API.
func option[T any](field, name string, options []T, nameOf func(T) string) (found T, err error) {
	var names []string
	for _, o := range options {
		if nameOf(o) == name {
			return o, nil
		}
		names = append(names, nameOf(o))
	}
	return found, httperr.NotAnOption(field, name, names...)
}

// RequestIDField parses the id of a request.
func RequestIDField(name string, v input.Value) ([]byte, error) {
	id, err := event.ParseRequestID(strings.ToLower(string(v.Text)))
	if err != nil || len(v.Text) != requestChars {
		return nil, httperr.InvalidField(name, "must be the X-Request-Id of an answer").
			InForm(name + " must be a request id such as 01a1fff9-83d3-743f-9a6d-5290a1beb664.")
	}
	return id[:], nil
}

// moment is a day or a time from a client, in Unix milliseconds: its start, and its end, exclusive. A time has no length.
type moment struct{ start, end int64 }

// momentField parses a day like 2026-11-21, or a time.
func momentField(name string, v input.Value) (moment, error) {
	if day, err := dateField(name, v); err == nil {
		return moment{day.UnixMilli(), day.AddDate(0, 0, 1).UnixMilli()}, nil
	}
	at, err := input.ParseTime(string(v.Text))
	if err == nil && at.Before(time.Unix(0, 0)) {
		err = errors.New("the year must be 1970 or later")
	}
	if err != nil {
		return moment{}, httperr.InvalidField(name, "must be a day like 2026-11-21, or a time like 2026-11-21T12:00:00Z: "+err.Error()).
			InForm(name + " must be a day such as 2026-11-21.")
	}
	return moment{at.UnixMilli(), at.UnixMilli()}, nil
}

func ViewLedger(l *event.LedgerAnswer) ledgerView {
	out := ledgerView{Success: endpoint.Succeeded(), Entries: make([]entryView, 0, len(l.Entries))}
	for _, e := range l.Entries {
		out.Entries = append(out.Entries, entryView{
			ID: e.Id, Time: endpoint.FormatTime(e.TimeMs), Type: ledgerType(e.Type), QuotaKey: quotaKeyName(e.QuotaKey),
			Amount: plan.Credits(e.AmountMicros), Balance: plan.Credits(e.BalanceMicros),
			RequestID: endpoint.RequestIDText(e.RequestId), Reason: endpoint.OptionalText(e.Reason), SettledAt: endpoint.FormatTime(e.SettledMs),
			Period: periodText(e.Month), Payment: endpoint.OptionalText(e.Payment), Actor: endpoint.OptionalText(e.Actor),
		})
	}
	out.NextCursor, out.HasMore = endpoint.NextCursor(l.NextCursor)
	return out
}

// periodText is the name of a month by its number, null for 0.
func periodText(month uint32) *string {
	if month == 0 {
		return nil
	}
	return new(fmt.Sprintf("%d-%02d", month/12, month%12+1))
}

func ledgerType(t event.LedgerType) string {
	return strings.ToLower(strings.TrimPrefix(t.String(), "LEDGER_"))
}
