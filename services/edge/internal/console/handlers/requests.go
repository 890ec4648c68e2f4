package handlers

import (
	"cmp"
	"strings"

	"github.com/gofiber/fiber/v2"

	"quire.dev/pkg/event"
	"quire.dev/pkg/plan"
	"quire.dev/services/edge/internal/accounts"
	"quire.dev/services/edge/internal/bus"
	"quire.dev/services/edge/internal/console"
	"quire.dev/services/edge/internal/endpoint"
	"quire.dev/services/edge/internal/fault"
	"quire.dev/services/edge/internal/httpin/httperr"
	"quire.dev/services/edge/internal/pages"
)

// showRequests shows the log of recent requests, like recentRequests.
func (s *Handlers) showRequests(c *endpoint.Call) error {
	shown, err := s.requestLog(c)
	if err != nil {
		return err
	}
	if shown.Holder, err = s.holder(c); err != nil {
		return err
	}
	status := fiber.StatusOK
	if shown.Filter.Wrong() {
		status = fiber.StatusBadRequest
	}
	return s.console.Requests(c.Ctx, status, shown)
}

// showRequestList answers with the live part of the log.
func (s *Handlers) showRequestList(c *endpoint.Call) error {
	shown, err := s.requestLog(c)
	if err != nil {
		return err
	}
	if shown.Filter.Wrong() {
		return fault.New(fault.InvalidField, "One of the filters is invalid.")
	}
	return s.console.RequestList(c.Ctx, shown)
}

// requestLog returns a page of the log. Invalid filters are reported in its form, and the page then has no requests.
func (s *Handlers) requestLog(c *endpoint.Call) (*console.Requests, error) {
	u, err := s.UsageOf(c, c.Who.Account, &event.UsageQuery{Keys: true})
	if err != nil {
		return nil, err
	}
	var keys [][2]string
	labels := map[string]string{}
	for _, k := range s.consoleKeys(u) {
		keys = append(keys, [2]string{k.ID, k.Label()})
		labels[k.ID] = k.Label()
	}
	var names []string
	for _, d := range accounts.Decisions() {
		names = append(names, accounts.DecisionName(d))
	}
	shown := &console.Requests{Filter: console.RequestFilters(keys, names), Cursor: strings.Clone(c.Query("cursor"))}
	q := &accounts.RecentFilter{}
	q.Limit = endpoint.DefaultPage
	err = readFilters(c, shown.Filter, q.Fields())
	if err == nil {
		err = q.Check()
	}
	if err != nil {
		e := endpoint.AsFault(err)
		if e.Kind != fault.InvalidField {
			return nil, err
		}
		refuse(shown.Filter, e)
		return shown, nil
	}
	page, err := s.accounts.RecentPage(c.Who.Account, &q.RecentQuery)
	if err != nil {
		return nil, err
	}
	for _, r := range page.Requests {
		shown.List = append(shown.List, loggedRequest(r, labels))
	}
	shown.Next, _ = accounts.RecentCursor(page)
	return shown, nil
}

// loggedRequest returns an entry of the log. labels maps the ids of API keys to their labels.
func loggedRequest(r *event.RecentRequest, labels map[string]string) console.Request {
	view := accounts.ViewRequest(r, "")
	return console.Request{
		ID: view.RequestID, TimeMs: r.TimeMs, QuotaKey: view.QuotaKey, Key: view.Key, KeyLabel: cmp.Or(labels[view.Key], view.Key),
		Decision: view.Decision, Status: r.Status, Source: view.ChargeSource, Cost: view.Cost,
		Undecided: r.Decision == event.Decision_DECISION_UNSPECIFIED,
		Method:    r.Method, Target: r.Path, HTTPStatus: r.HttpStatus, DurationMs: r.DurationMs, Address: r.SourceAddress,
		ClientID: r.ClientRequestId,
	}
}

// showRequestTable answers with the matches of the filters in CSV.
func (s *Handlers) showRequestTable(c *endpoint.Call) error {
	q := &accounts.RecentFilter{}
	err := readFilters(c, console.RequestFilters(nil, nil), q.Fields())
	if err == nil {
		err = q.Check()
	}
	if err != nil {
		return err
	}
	return s.accounts.RequestTable(c, &q.RecentQuery, accounts.MaxTable)
}

// requestMark changes whenever the newest page of the log has something new to show.
func (s *Handlers) requestMark(account event.AccountID) ([]byte, error) {
	return markOf(s.accounts.RecentNow(account, &event.RecentQuery{Limit: endpoint.DefaultPage}))
}

// showRequest shows how a request was decided, like explain. With a run it also verifies the charge.
func (s *Handlers) showRequest(c *endpoint.Call) error {
	id, err := accounts.ExplainedID(c)
	if err != nil {
		return err
	}
	run, err := foldRun(c)
	if err != nil {
		return err
	}
	shown := &console.Explained{ID: id.String()}
	if shown.Holder, err = s.holder(c); err != nil {
		return err
	}
	recorded, err := s.recordOf(c.Who.Account, id)
	if err != nil {
		return err
	}
	if recorded != nil {
		entry := loggedRequest(recorded, nil)
		if shown.Log = &entry; entry.Undecided {
			return s.console.Explained(c.Ctx, shown)
		}
	}
	e, err := s.accounts.ExplainOwn(c, bus.Question{Request: id})
	if err != nil {
		return err
	}
	shown.Done, shown.Total, shown.Explanation = e.Done, e.Total, explanationOf(e.Answer)
	if e.Answer != nil && run != (event.RequestID{}) {
		shown.Fold = s.foldOf(c, &console.Fold{Path: shown.Path()}, bus.Question{Request: id, Run: run}, s.accounts.ExplainOwn)
	}
	return s.console.Explained(c.Ctx, shown)
}

// foldRequest answers with the verification of a request's charge.
func (s *Handlers) foldRequest(c *endpoint.Call) error {
	q, err := foldQuestion(c)
	if err != nil {
		return err
	}
	f := &console.Fold{Path: console.RequestsPath + "/" + q.Request.String()}
	switch err := s.ReadSession(c); {
	case fault.KindOf(err) == fault.SessionRequired: // the page's script inserts the answer
		f.SignedOut = true
		return s.console.Folded(c.Ctx, f)
	case err != nil:
		return err
	}
	return s.console.Folded(c.Ctx, s.foldOf(c, f, q, s.accounts.ExplainOwn))
}

// foldQuestion parses a verification's address. It starts a new one if none is named.
func foldQuestion(c *endpoint.Call) (q bus.Question, err error) {
	if q.Request, err = accounts.ExplainedID(c); err != nil {
		return q, err
	}
	if q.Run, err = foldRun(c); err == nil && q.Run == (event.RequestID{}) {
		q.Run = event.NewRequestID()
	}
	return q, err
}

// newRun in a page's address starts a new verification.
const newRun = "new"

// foldRun returns the verification in a page's address, running or new; zero if none is named.
func foldRun(c *endpoint.Call) (event.RequestID, error) {
	switch text := c.Query("run"); text {
	case "":
		return event.RequestID{}, nil
	case newRun:
		return event.NewRequestID(), nil
	default:
		id, err := event.ParseRequestID(strings.ToLower(text))
		if err != nil {
			err = httperr.InvalidField("run", "must be "+newRun)
		}
		return id, err
	}
}

// explanationOf returns nil while billing is still searching.
func explanationOf(e *event.ExplainAnswer) *console.Explanation {
	if e == nil {
		return nil
	}
	view := accounts.ViewExplained(e)
	return &console.Explanation{ExplainAnswer: e, Words: accounts.InWords(e), Decision: view.Decision, Source: view.ChargeSource, KeyID: endpoint.Optional(view.Key)}
}

// explainer explains the decision on a request that the caller may see.
type explainer = func(*endpoint.Call, bus.Question) (*bus.Explanation, error)

// foldOf has the journal folded again up to a request, and compares the result with what billing recorded. It sets f.Problem
// if that is not possible at the moment.
func (s *desk) foldOf(c *endpoint.Call, f *console.Fold, q bus.Question, explain explainer) *console.Fold {
	f.Run = q.Run.String()
	if err := s.foldAgain(c, f, q, explain); err != nil {
		e := endpoint.AsFault(err)
		s.LogFailure(c.Context(), c.Route().Path, e)
		f.Problem = e.Message
	}
	return f
}

func (s *desk) foldAgain(c *endpoint.Call, f *console.Fold, q bus.Question, explain explainer) error {
	found, err := explain(c, q)
	if err != nil {
		return err
	}
	e := found.Answer
	switch {
	case e == nil:
		f.Done, f.Total = found.Done, found.Total
		return nil
	case e.Anonymous:
		f.Problem = "This request was sent without an API key. It is not in any account's log or ledger, so there is nothing to compare."
		return nil
	}
	account := event.AccountID(e.Account)
	paid, err := s.accounts.PaidFor(account, q.Request[:])
	if err != nil {
		return err
	}
	recorded, err := s.recordOf(account, q.Request)
	if err != nil {
		return err
	}
	compare(f, e, recorded, paid.Micros)
	return nil
}

// compare adds the recorded and the replayed values of a request. recorded is nil if the request is no longer in the log.
func compare(f *console.Fold, e *event.ExplainAnswer, recorded *event.RecentRequest, paid int64) {
	const open = "open"
	f.Folded, f.Open, f.Forgotten = e.Folded, e.Settlement == open || recorded.GetStatus() == open, recorded == nil
	if recorded != nil {
		log := accounts.ViewRequest(recorded, "")
		again := accounts.ViewRequest(&event.RecentRequest{
			Key: e.Key, Decision: e.GetVerdict().GetDecision(), Held: e.GetVerdict().GetHeld(), Charge: e.Charge, CostMicros: e.CostMicros,
			Remaining: e.GetVerdict().GetRemaining(), Status: e.Settlement,
		}, "")
		f.Compare("Decision", console.Words(log.Decision), console.Words(again.Decision))
		f.Compare("API key", log.Key, again.Key)
		f.Compare("Remaining", figureLeft(recorded.Remaining), figureLeft(e.GetVerdict().GetRemaining()))
		f.Compare("Outcome", console.SettlementText(endpoint.Optional(log.Status)), console.SettlementText(endpoint.Optional(again.Status)))
		f.Compare("Paid by", log.ChargeSource, again.ChargeSource)
		f.Compare("Credits", log.Cost, again.Cost)
	}
	f.Compare("Credits in the ledger", plan.Credits(paid), plan.Credits(e.CostMicros))
}

// figureLeft formats a number of remaining requests.
func figureLeft(n int64) string {
	if n == plan.Unlimited {
		return "unlimited"
	}
	return pages.Number(n)
}

// recordOf returns a request's entry in the log of recent requests; nil if it is no longer there.
func (s *desk) recordOf(account event.AccountID, id event.RequestID) (*event.RecentRequest, error) {
	page, err := s.accounts.RecentPage(account, &event.RecentQuery{Limit: 1, RequestId: id[:]})
	if err != nil || len(page.Requests) == 0 {
		return nil, err
	}
	return page.Requests[0], nil
}
