package accounts

import (
	"strconv"
	"strings"

	"github.com/gofiber/fiber/v2"

	"quire.dev/pkg/apikey"
	"quire.dev/pkg/event"
	"quire.dev/pkg/plan"
	"quire.dev/services/edge/internal/bus"
	"quire.dev/services/edge/internal/endpoint"
	"quire.dev/services/edge/internal/fault"
)

type explanationView struct {
	endpoint.Success
	Request ExplainedView `json:"request"`
}

// ExplainedView is a decision as the API shows it.
type ExplainedView struct {
	ID           string         `json:"id"`
	Explanation  string         `json:"explanation"`
	Account      *string        `json:"account"` // null: keyless
	Anonymous    bool           `json:"anonymous"`
	Key          *string        `json:"key"` // null: keyless
	QuotaKey     string         `json:"quotaKey"`
	Time         string         `json:"time"`
	Decision     string         `json:"decision"`
	ChargeSource string         `json:"chargeSource"`
	Settlement   *string        `json:"settlement"` // null: refused, nothing to settle
	Tier         *string        `json:"tier"`
	Limit        int64          `json:"limit"`
	UsedBefore   uint64         `json:"usedBefore"`
	UsedAfter    uint64         `json:"usedAfter"`
	Price        string         `json:"price"`
	PricesSince  string         `json:"pricesSince"`
	Cost         string         `json:"cost"`
	BalanceAfter *string        `json:"balanceAfter"` // null: not paid by credits
	Grants       []grantUseView `json:"grants"`
	Journal      positionView   `json:"journal"`
	SettledAt    *positionView  `json:"settledAt"`
}

type grantUseView struct {
	Grant  string `json:"grant"`
	Amount string `json:"amount"`
	Reason string `json:"reason"`
}

// positionView is a position in a journal; index is the offset within its message.
type positionView struct {
	Stream   string  `json:"stream"`
	Sequence uint64  `json:"sequence"`
	Index    *uint32 `json:"index,omitempty"`
}

// explain shows how a request of the caller's account was decided.
func (s *Accounts) explain(c *endpoint.Call) error {
	id, err := ExplainedID(c)
	if err != nil {
		return err
	}
	if err := s.CheckHolder(c); err != nil {
		return err
	}
	e, err := s.ExplainOwn(c, bus.Question{Request: id})
	if err != nil {
		return err
	}
	if e.Answer == nil {
		return s.Explaining(c, e)
	}
	return s.JSON(c.Ctx, fiber.StatusOK, explanationView{Success: endpoint.Succeeded(), Request: ViewExplained(e.Answer)})
}

// ExplainOwn explains the decision on a request of the caller's account.
func (s *Accounts) ExplainOwn(c *endpoint.Call, q bus.Question) (*bus.Explanation, error) {
	e, err := s.bus.Explain(s.ctx, c.Who.Account, q)
	if err == nil && e.Answer != nil && (e.Answer.Anonymous || e.Answer.Account != uint64(c.Who.Account)) {
		err = endpoint.NotFound()
	}
	return e, err
}

type progressView struct {
	endpoint.Success
	Done  uint64 `json:"done"`
	Total uint64 `json:"total"`
}

// Explaining answers with billing's progress. Repeating the call leads to the explanation.
func (s *Accounts) Explaining(c *endpoint.Call, e *bus.Explanation) error {
	c.Location(c.Path())
	c.Set(fiber.HeaderRetryAfter, "1")
	return s.JSON(c.Ctx, fiber.StatusAccepted, progressView{Success: endpoint.Succeeded(), Done: e.Done, Total: e.Total})
}

// ExplainedID parses the request id in the path; 404 if it is none.
func ExplainedID(c *endpoint.Call) (event.RequestID, error) {
	id, err := event.ParseRequestID(strings.ToLower(c.Params("requestId")))
	if err != nil {
		return event.RequestID{}, endpoint.NotFound()
	}
	return id, nil
}

func ViewExplained(e *event.ExplainAnswer) ExplainedView {
	v := e.GetVerdict()
	out := ExplainedView{
		Anonymous: e.Anonymous, QuotaKey: plan.QuotaKey(e.QuotaKey).String(), Time: endpoint.FormatTime(e.TimeMs),
		Decision: DecisionName(v), ChargeSource: chargeName(e.Charge, v.GetLimit()), Settlement: endpoint.OptionalText(e.Settlement),
		Limit: v.GetLimit(), UsedBefore: e.UsedBefore, UsedAfter: e.UsedAfter,
		Price: plan.Credits(e.PriceMicros), Cost: plan.Credits(e.CostMicros), PricesSince: endpoint.FormatTime(e.BookMs), Explanation: InWords(e) + " " + recordedAt(e),
		Grants:  make([]grantUseView, 0, len(e.Grants)),
		Journal: positionView{Stream: e.Stream, Sequence: e.Sequence, Index: &e.Index},
	}
	if id := endpoint.RequestIDText(e.RequestId); id != nil {
		out.ID = *id
	}
	if !e.Anonymous {
		out.Account, out.Key = new(event.AccountID(e.Account).String()), new(apikey.ID(e.Key))
	}
	if v.GetTier() != 0 {
		out.Tier = new(plan.Tier(v.GetTier()).String())
	}
	if e.Charge == event.ChargeSource_CHARGE_CREDITS && v.GetCharge() == e.Charge {
		out.BalanceAfter = new(plan.Credits(v.GetBalanceMicros()))
	}
	for _, g := range e.Grants {
		out.Grants = append(out.Grants, grantUseView{
			Grant: strconv.FormatUint(g.Grant, 10), Amount: plan.Credits(g.AmountMicros), Reason: g.Reason,
		})
	}
	if e.SettlementSequence != 0 {
		out.SettledAt = &positionView{Stream: e.Stream, Sequence: e.SettlementSequence}
	}
	return out
}

// DecisionName is the API's code for the decision.
func DecisionName(v *event.Verdict) string {
	switch d := v.GetDecision(); {
	case d == event.Decision_INVALID_KEY:
		return string(fault.InvalidAPIKey)
	case d == event.Decision_IDEMPOTENCY_OTHER:
		return string(fault.IdempotencyMismatch)
	case v.GetHeld() && d != event.Decision_ANONYMOUS_LIMIT:
		return string(fault.QuotaHeld)
	default:
		return strings.ToLower(d.String())
	}
}

func chargeName(charge event.ChargeSource, limit int64) string {
	switch {
	case charge == event.ChargeSource_CHARGE_CREDITS:
		return "credits"
	case charge == event.ChargeSource_CHARGE_QUOTA && limit != plan.Unlimited:
		return "quota"
	}
	return "none"
}
