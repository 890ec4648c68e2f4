package accounts

import (
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"

	"github.com/gofiber/fiber/v2"

	"quire.dev/pkg/apikey"
	"quire.dev/pkg/event"
	"quire.dev/pkg/num"
	"quire.dev/pkg/plan"
	"quire.dev/services/edge/internal/endpoint"
	"quire.dev/services/edge/internal/httpin/httperr"
	"quire.dev/services/edge/internal/httpin/input"
)

type recentView struct {
	endpoint.Success
	Requests   []recentRequestView `json:"requests"`
	NextCursor *string             `json:"nextCursor"`
	HasMore    bool                `json:"hasMore"`
}

type recentRequestView struct {
	RequestID    string  `json:"requestId"`
	Time         string  `json:"time"`
	QuotaKey     string  `json:"quotaKey"`
	Key          string  `json:"key"`
	Decision     string  `json:"decision"`
	Status       *string `json:"status"` // null: refused
	ChargeSource string  `json:"chargeSource"`
	Cost         string  `json:"cost"`
	Remaining    *int64  `json:"remaining"` // null: billing did not decide

	// From the edge; null until it has reported the request.
	Method        *string `json:"method"`
	Path          *string `json:"path"`
	HTTPStatus    *uint32 `json:"httpStatus"`
	DurationMs    *uint32 `json:"durationMs"`
	SourceAddress *string `json:"sourceAddress"`
	KeyName       *string `json:"keyName"` // null: it has none

	ClientRequestID *string `json:"clientRequestId"` // null: the client sent none
}

const (
	requestPage = 1000 // requests of a log in CSV that are read from billing at a time
	// notCharged is the decision on a request that was answered without asking billing, such as 304.
	notCharged = "not_charged"
)

// recentRequests answers with a page of the account's latest requests, newest first, or in CSV with up to MaxTable.
func (s *Accounts) recentRequests(c *endpoint.Call) error {
	q := &RecentFilter{}
	fields := q.Fields()
	table, limit := addLimit(c, fields)
	err := input.QueryFields(c.Ctx, fields.Set)
	if err == nil {
		err = q.Check()
	}
	if err == nil {
		err = s.CheckHolder(c)
	}
	if err != nil {
		return err
	}
	if table {
		return s.RequestTable(c, &q.RecentQuery, num.Int(*limit))
	}
	names, err := s.KeyNames(c.Who.Account)
	if err != nil {
		return err
	}
	q.Limit = num.Uint32(*limit)
	page, err := s.RecentPage(c.Who.Account, &q.RecentQuery)
	if err != nil {
		return err
	}
	return s.JSON(c.Ctx, fiber.StatusOK, ViewRecent(page, names))
}

// KeyNames returns the names of the account's API keys by number.
func (s *Accounts) KeyNames(account event.AccountID) (map[uint32]string, error) {
	u, err := s.UsageOf(nil, account, &event.UsageQuery{Keys: true})
	if err != nil {
		return nil, err
	}
	names := map[uint32]string{}
	for _, k := range u.Keys {
		names[k.Number] = k.Name
	}
	return names, nil
}

// RequestTable answers in CSV. If there are more requests, the Link header points to the rest.
func (s *Accounts) RequestTable(c *endpoint.Call, q *event.RecentQuery, limit int) error {
	names, err := s.KeyNames(c.Who.Account)
	if err != nil {
		return err
	}
	var records [][]string
	for {
		q.Limit = num.Uint32(min(limit-len(records), requestPage))
		page, err := s.RecentPage(c.Who.Account, q)
		if err != nil {
			return err
		}
		for _, r := range ViewRecent(page, names).Requests {
			records = append(records, []string{
				r.Time, r.RequestID, endpoint.Optional(r.Method), cell(endpoint.Optional(r.Path)), number(r.HTTPStatus), r.QuotaKey, r.Key,
				cell(endpoint.Optional(r.KeyName)), r.Decision, endpoint.Optional(r.Status), r.ChargeSource, r.Cost, number(r.Remaining),
				number(r.DurationMs), endpoint.Optional(r.SourceAddress), cell(endpoint.Optional(r.ClientRequestID)),
			})
		}
		if q.Cursor = page.NextCursor; len(q.Cursor) == 0 {
			break
		}
		if len(records) == limit {
			c.Set(fiber.HeaderLink, "<"+s.nextTable(c, q.Cursor)+`>; rel="next"`)
			break
		}
	}
	return sendCSV(c, "requests.csv", []string{
		"time", "requestId", "method", "path", "httpStatus", "quotaKey", "key", "keyName", "decision", "status", "chargeSource", "cost", "remaining",
		"durationMs", "sourceAddress", "clientRequestId",
	}, records)
}

// number is empty for nil.
func number[N int64 | uint32](n *N) string {
	if n == nil {
		return ""
	}
	return fmt.Sprint(*n)
}

// RecentPage returns a page of an account's latest requests, once those answered before are settled.
func (s *Accounts) RecentPage(account event.AccountID, q *event.RecentQuery) (*event.RecentAnswer, error) {
	return recentIn(s.Look(account, &event.Query{Query: &event.Query_Recent{Recent: q}}))
}

// RecentNow is RecentPage without the wait, for a page that follows the list.
func (s *Accounts) RecentNow(account event.AccountID, q *event.RecentQuery) (*event.RecentAnswer, error) {
	return recentIn(s.Query(account, &event.Query{Query: &event.Query_Recent{Recent: q}}))
}

func recentIn(a *event.QueryAnswer, err error) (*event.RecentAnswer, error) {
	if err != nil {
		return nil, err
	}
	if a.GetRecent() == nil {
		return nil, endpoint.Unavailable(endpoint.ErrQueryAnswer)
	}
	return a.GetRecent(), nil
}

// RecentFilter has the filters of a list of recent requests.
type RecentFilter struct {
	event.RecentQuery
	until bool
}

func (q *RecentFilter) Fields() input.Fields {
	return input.Fields{
		"cursor":    input.To(&q.Cursor, recentCursor),
		"quotaKey":  input.To(&q.QuotaKey, QuotaKeyField),
		"key":       input.To(&q.Key, keyField),
		"requestId": input.To(&q.RequestId, RequestIDField),
		"clientRequestId": func(name string, v input.Value) error {
			if !endpoint.ValidClientRequestID(v.Text) {
				return httperr.InvalidField(name, "must be an id that a client can send as X-Request-Id: 1 to 128 letters, digits and -._~:/+=@")
			}
			q.ClientRequestId = string(v.Text)
			return nil
		},
		"decision": func(name string, v input.Value) error {
			d, err := decisionField(name, v)
			q.Decision, q.Held = d.GetDecision(), d.GetHeld()
			return err
		},
		"httpStatus": func(name string, v input.Value) (err error) {
			q.StatusFrom, q.StatusTo, err = statusField(name, string(v.Text))
			return err
		},
		"from": input.To(&q.FromMs, millisField),
		"to": func(name string, v input.Value) (err error) {
			q.until = true
			q.ToMs, err = millisField(name, v)
			return err
		},
	}
}

func (q *RecentFilter) Check() error {
	if q.until && q.ToMs <= max(q.FromMs, 0) { // no requests before 1970
		return httperr.InvalidField("to", "must be later than from").InForm("to must be later than the start.")
	}
	return nil
}

func recentCursor(_ string, v input.Value) ([]byte, error) {
	cursor, err := base64.RawURLEncoding.DecodeString(string(v.Text))
	if err != nil || len(cursor) != 8+len(event.RequestID{}) {
		return nil, endpoint.InvalidCursor()
	}
	return cursor, nil
}

// statusField parses a status such as 404, or a class of them such as 4xx.
func statusField(name, text string) (from, to uint32, err error) {
	class, isClass := strings.CutSuffix(text, "xx")
	n, err := strconv.ParseUint(class, 10, 16)
	switch {
	case err == nil && isClass && n >= 1 && n <= 5:
		return uint32(100 * n), uint32(100*n + 99), nil
	case err == nil && !isClass && n >= 100 && n <= 599:
		return uint32(n), uint32(n), nil
	}
	return 0, 0, httperr.InvalidField(name, "must be an HTTP status such as 404, or a class such as 4xx")
}

// keyField parses the id of an API key.
func keyField(name string, v input.Value) (*uint32, error) {
	number, ok := apikey.ParseID(string(v.Text))
	if !ok {
		return nil, httperr.InvalidField(name, "must be the id of an API key, such as "+apikey.ID(0))
	}
	return &number, nil
}

// decisionField parses the name of a decision, and returns a verdict with it: see DecisionName.
func decisionField(name string, v input.Value) (*event.Verdict, error) {
	return option(name, string(v.Text), Decisions(), DecisionName)
}

// Decisions returns a verdict for each decision that the API distinguishes.
func Decisions() []*event.Verdict {
	list := []*event.Verdict{{Decision: event.Decision_QUOTA_EXHAUSTED, Held: true}}
	for d := event.Decision_ADMITTED; event.Decision_name[int32(d)] != ""; d++ {
		if d != event.Decision_ANONYMOUS_LIMIT {
			list = append(list, &event.Verdict{Decision: d})
		}
	}
	return list
}

func millisField(name string, v input.Value) (int64, error) {
	t, err := input.TimeField(name, v)
	if err != nil {
		return 0, err
	}
	return t.UnixMilli(), nil
}

// ViewRecent returns a page as the API shows it. names maps the numbers of the account's API keys to their names.
func ViewRecent(a *event.RecentAnswer, names map[uint32]string) recentView {
	out := recentView{Success: endpoint.Succeeded(), Requests: make([]recentRequestView, 0, len(a.Requests))}
	for _, r := range a.Requests {
		out.Requests = append(out.Requests, ViewRequest(r, names[r.Key]))
	}
	out.NextCursor, out.HasMore = endpoint.NextCursor(a.NextCursor)
	return out
}

// ViewRequest returns a request as the API shows it. keyName is the name of its API key, or empty.
func ViewRequest(r *event.RecentRequest, keyName string) recentRequestView {
	view := recentRequestView{
		RequestID: endpoint.Optional(endpoint.RequestIDText(r.RequestId)),
		Time:      endpoint.FormatTime(r.TimeMs), QuotaKey: plan.QuotaKey(r.QuotaKey).String(), Key: apikey.ID(r.Key),
		Decision: requestDecision(r), Status: endpoint.OptionalText(r.Status),
		ChargeSource: chargeName(r.Charge, 0), Cost: plan.Credits(r.CostMicros), KeyName: endpoint.OptionalText(keyName),
		Method: endpoint.OptionalText(r.Method), Path: endpoint.OptionalText(r.Path), SourceAddress: endpoint.OptionalText(r.SourceAddress),
		ClientRequestID: endpoint.OptionalText(r.ClientRequestId),
	}
	if r.Decision != event.Decision_DECISION_UNSPECIFIED {
		view.Remaining = &r.Remaining
	}
	if r.HttpStatus != 0 {
		view.HTTPStatus, view.DurationMs = &r.HttpStatus, &r.DurationMs
	}
	return view
}

// RecentCursor is the cursor of the next page as text; more is false on the last page.
func RecentCursor(a *event.RecentAnswer) (cursor string, more bool) {
	next, more := endpoint.NextCursor(a.NextCursor)
	return endpoint.Optional(next), more
}

// requestDecision is admitted, or the code of a refusal: of billing, or of an edge that refused the request without asking billing.
func requestDecision(r *event.RecentRequest) string {
	switch {
	case r.Decision != event.Decision_DECISION_UNSPECIFIED:
		return DecisionName(&event.Verdict{Decision: r.Decision, Held: r.Held})
	case r.Error != "":
		return r.Error
	}
	return notCharged
}
