package web

import (
	"encoding/base64"
	"errors"
	"strings"
	"time"

	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp"

	"quire.dev/pkg/event"
	"quire.dev/pkg/plan"
	"quire.dev/services/edge/internal/httpin/httperr"
	"quire.dev/services/edge/internal/httpin/input"
)

const (
	maxTable     = 10_000 // entries of a ledger as a table
	tablePage    = 1000   // of them that billing is asked for at a time
	tablePages   = 50     // that one call asks for: a search may have many pages with few entries
	requestChars = 36
)

const cursorChars = 512

type ledgerView struct {
	success
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
}

// ledgerSearch is what a caller asks of the ledger.
type ledgerSearch struct {
	asked event.LedgerQuery
	to    *moment // nil: until now
}

// fields are the parameters of a search.
func (l *ledgerSearch) fields() input.Fields {
	q := &l.asked
	return input.Fields{
		"cursor":   input.To(&q.Cursor, opaqueCursor),
		"type":     input.To(&q.Type, ledgerTypeField),
		"quotaKey": input.To(&q.QuotaKey, quotaKeyField),
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
		"requestId": input.To(&q.RequestId, requestIDField),
		"q":         input.To(&q.Reason, input.Line(reasonChars)),
	}
}

// query is the search, once its fields are read.
func (l *ledgerSearch) query() (*event.LedgerQuery, error) {
	if l.to != nil {
		if l.asked.ToMs = l.to.end; l.asked.ToMs <= l.asked.FromMs {
			return nil, httperr.InvalidField("from", "must be before to")
		}
	}
	return &l.asked, nil
}

// ledger answers with a page of the ledger in JSON, or with a table of up to maxTable entries.
func (s *Server) ledger(c *call) error {
	table := wantsCSV(c)
	most, limit := uint64(maxPage), uint64(defaultPage)
	if table {
		most, limit = maxTable, maxTable
	}
	search := &ledgerSearch{}
	fields := search.fields()
	fields["limit"] = input.To(&limit, input.CountField(most))
	if err := input.QueryFields(c.Ctx, fields.Set); err != nil {
		return err
	}
	q, err := search.query()
	if err != nil {
		return err
	}
	if err := s.checkHolder(c); err != nil {
		return err
	}
	if table {
		return s.ledgerTable(c, q, int(limit))
	}
	q.Limit = uint32(limit)
	page, err := s.ledgerPage(c.who.account, q)
	if err != nil {
		return err
	}
	return s.json(c.Ctx, fiber.StatusOK, viewLedger(page))
}

func (s *Server) ledgerPage(account event.AccountID, q *event.LedgerQuery) (*event.LedgerAnswer, error) {
	a, err := s.query(account, &event.Query{Query: &event.Query_Ledger{Ledger: q}})
	if err != nil {
		return nil, err
	}
	if a.GetLedger() == nil {
		return nil, unavailable(errQueryAnswer)
	}
	return a.GetLedger(), nil
}

// ledgerTable answers in CSV. Where there are more entries, the Link header leads to the rest.
func (s *Server) ledgerTable(c *call, q *event.LedgerQuery, limit int) error {
	var records [][]string
	for asked := 1; ; asked++ {
		q.Limit = uint32(min(limit-len(records), tablePage))
		page, err := s.ledgerPage(c.who.account, q)
		if err != nil {
			return err
		}
		for _, e := range viewLedger(page).Entries {
			records = append(records, []string{
				e.ID, e.Time, e.Type, optional(e.QuotaKey), e.Amount, e.Balance, optional(e.RequestID), cell(optional(e.Reason)),
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
	return sendCSV(c, "ledger.csv", []string{"id", "time", "type", "quotaKey", "amount", "balance", "requestId", "reason"}, records)
}

// nextTable is the path and query of the same call that goes on behind a cursor.
func (s *Server) nextTable(c *call, cursor []byte) string {
	args := fasthttp.AcquireArgs()
	defer fasthttp.ReleaseArgs(args)
	c.Context().QueryArgs().CopyTo(args)
	args.Set("cursor", formatOpaque(cursor))
	return c.Path() + "?" + args.String()
}

func formatOpaque(cursor []byte) string { return base64.RawURLEncoding.EncodeToString(cursor) }

// nextCursor is what a page shows of the cursor behind it, which is empty at the end of the list.
func nextCursor(cursor []byte) (text *string, more bool) {
	if len(cursor) == 0 {
		return nil, false
	}
	return new(formatOpaque(cursor)), true
}

// opaqueCursor reads a cursor whose bytes billing checks.
func opaqueCursor(_ string, v input.Value) ([]byte, error) {
	cursor, err := base64.RawURLEncoding.DecodeString(string(v.Text))
	if err != nil || len(cursor) == 0 || len(v.Text) > cursorChars {
		return nil, invalidCursor()
	}
	return cursor, nil
}

func ledgerTypeField(name string, v input.Value) (event.LedgerType, error) {
	types := []event.LedgerType{
		event.LedgerType_LEDGER_GRANT, event.LedgerType_LEDGER_ADJUSTMENT, event.LedgerType_LEDGER_CHARGE, event.LedgerType_LEDGER_EXPIRY,
	}
	return option(name, string(v.Text), types, ledgerType)
}

// quotaKeyField reads the name of a quota key.
func quotaKeyField(name string, v input.Value) (uint32, error) {
	key, err := option(name, string(v.Text), plan.QuotaKeys(), plan.QuotaKey.String)
	return uint32(key), err
}

// option is the one of the options that has this name in the API.
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

func requestIDField(name string, v input.Value) ([]byte, error) {
	id, err := event.ParseRequestID(strings.ToLower(string(v.Text)))
	if err != nil || len(v.Text) != requestChars {
		return nil, httperr.InvalidField(name, "must be the X-Request-Id of an answer")
	}
	return id[:], nil
}

// moment is a day or a time that a client gave, in Unix milliseconds: its beginning, and the first moment behind it. A time has no
// length.
type moment struct{ start, end int64 }

// momentField reads a day like 2026-11-21, or a time.
func momentField(name string, v input.Value) (moment, error) {
	if day, err := dateField(name, v); err == nil {
		return moment{day.UnixMilli(), day.AddDate(0, 0, 1).UnixMilli()}, nil
	}
	at, err := input.ParseTime(string(v.Text))
	if err == nil && at.Before(time.Unix(0, 0)) {
		err = errors.New("the year must be 1970 or later")
	}
	if err != nil {
		return moment{}, httperr.InvalidField(name, "must be a day like 2026-11-21, or a time like 2026-11-21T12:00:00Z: "+err.Error())
	}
	return moment{at.UnixMilli(), at.UnixMilli()}, nil
}

func viewLedger(l *event.LedgerAnswer) ledgerView {
	out := ledgerView{success: succeeded(), Entries: make([]entryView, 0, len(l.Entries))}
	for _, e := range l.Entries {
		out.Entries = append(out.Entries, entryView{
			ID: e.Id, Time: formatTime(e.TimeMs), Type: ledgerType(e.Type), QuotaKey: quotaKeyName(e.QuotaKey),
			Amount: plan.Micros(e.AmountMicros).String(), Balance: credits(e.BalanceMicros),
			RequestID: requestIDText(e.RequestId), Reason: optionalText(e.Reason),
		})
	}
	out.NextCursor, out.HasMore = nextCursor(l.NextCursor)
	return out
}

func ledgerType(t event.LedgerType) string {
	return strings.ToLower(strings.TrimPrefix(t.String(), "LEDGER_"))
}
