package accounts

import (
	"encoding/base64"

	"github.com/gofiber/fiber/v2"

	"quire.dev/pkg/apikey"
	"quire.dev/pkg/event"
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
	Remaining    int64   `json:"remaining"`
}

// recentRequests answers with a page of the account's latest metered requests, newest first.
func (s *Accounts) recentRequests(c *endpoint.Call) error {
	q, err := recentQuery(c)
	if err != nil {
		return err
	}
	if err := s.CheckHolder(c); err != nil {
		return err
	}
	page, err := s.RecentPage(c.Who.Account, q)
	if err != nil {
		return err
	}
	return s.JSON(c.Ctx, fiber.StatusOK, ViewRecent(page))
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

func recentQuery(c *endpoint.Call) (*event.RecentQuery, error) {
	q := &RecentFilter{RecentQuery: event.RecentQuery{Limit: endpoint.DefaultPage}}
	err := input.QueryFields(c.Ctx, q.Fields().Set)
	if err == nil {
		err = q.Check()
	}
	return &q.RecentQuery, err
}

// RecentFilter has the filters of a list of recent requests.
type RecentFilter struct {
	event.RecentQuery
	until bool
}

func (q *RecentFilter) Fields() input.Fields {
	return input.Fields{
		"limit":    input.To(&q.Limit, endpoint.PageLimit),
		"cursor":   input.To(&q.Cursor, recentCursor),
		"quotaKey": input.To(&q.QuotaKey, quotaKeyField),
		"key":      input.To(&q.Key, keyField),
		"decision": func(name string, v input.Value) error {
			d, err := decisionField(name, v)
			q.Decision, q.Held = d.GetDecision(), d.GetHeld()
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
		return httperr.InvalidField("to", "must be later than from")
	}
	return nil
}

func recentCursor(_ string, v input.Value) ([]byte, error) {
	cursor, err := base64.RawURLEncoding.DecodeString(string(v.Text))
	if err != nil || len(cursor) != len(event.RequestID{}) {
		return nil, endpoint.InvalidCursor()
	}
	return cursor, nil
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

func ViewRecent(a *event.RecentAnswer) recentView {
	out := recentView{Success: endpoint.Succeeded(), Requests: make([]recentRequestView, 0, len(a.Requests))}
	for _, r := range a.Requests {
		view := recentRequestView{
			Time: endpoint.FormatTime(r.TimeMs), QuotaKey: plan.QuotaKey(r.QuotaKey).String(), Key: apikey.ID(r.Key),
			Decision: DecisionName(&event.Verdict{Decision: r.Decision, Held: r.Held}), Status: endpoint.OptionalText(r.Status),
			ChargeSource: chargeName(r.Charge, 0), Cost: endpoint.Credits(r.CostMicros), Remaining: r.Remaining,
		}
		if id := endpoint.RequestIDText(r.RequestId); id != nil {
			view.RequestID = *id
		}
		out.Requests = append(out.Requests, view)
	}
	out.NextCursor, out.HasMore = endpoint.NextCursor(a.NextCursor)
	return out
}
