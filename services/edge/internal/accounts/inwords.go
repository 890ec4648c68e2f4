package accounts

import (
	"fmt"
	"strings"
	"time"

	"quire.dev/pkg/apikey"
	"quire.dev/pkg/event"
	"quire.dev/pkg/plan"
	"quire.dev/services/edge/internal/pages"
)

// InWords explains to an account holder how a request was decided, how it ended and what it cost.
func InWords(e *event.ExplainAnswer) string {
	w := &wording{ExplainAnswer: e, v: e.GetVerdict(), key: plan.QuotaKey(e.QuotaKey).String()}
	if w.v.GetDecision() == event.Decision_ADMITTED {
		w.counted()
		w.ended()
	} else {
		w.say("Refused: %s.", w.refusal())
		w.say("It was not counted and cost nothing.")
	}
	if !e.Anonymous {
		w.say("Limits and prices are from the price book of %s.", dayOf(e.BookMs))
		w.say("API key: %s.", apikey.ID(e.Key))
	}
	if w.v.GetDecision() == event.Decision_ADMITTED {
		w.say("Counter: %s before, %s after.", figure(e.UsedBefore), figure(e.UsedAfter))
	}
	for _, l := range e.Losses {
		if !l.Projected {
			w.say("A part of our stored data from before %s was lost, journal %s, messages %d to %d: this write may be among it.",
				dayOf(l.TimeMs), l.Stream, l.First, l.Last)
		}
	}
	return strings.Join(w.sentences, " ")
}

// recordedAt says where the journal has a request and its settlement.
func recordedAt(e *event.ExplainAnswer) string {
	recorded := fmt.Sprintf("Recorded in journal %s, message %d, offset %d", e.Stream, e.Sequence, e.Index)
	if e.SettlementSequence != 0 {
		recorded += fmt.Sprintf("; settled in message %d", e.SettlementSequence)
	}
	return recorded + "."
}

// wording collects the sentences of an explanation.
type wording struct {
	*event.ExplainAnswer
	v         *event.Verdict
	key       string // the quota key
	sentences []string
}

func (w *wording) say(format string, args ...any) {
	w.sentences = append(w.sentences, fmt.Sprintf(format, args...))
}

// counted says which request of the month an admitted one was.
func (w *wording) counted() {
	month := time.UnixMilli(w.TimeMs).UTC().Format("January 2006")
	switch {
	case w.Anonymous:
		w.say("Anonymous quick paste %s of %s for this network in %s.",
			figure(w.UsedAfter), figure(w.v.Limit), pages.Duration(time.Duration(w.WindowMs)*time.Millisecond))
	case w.v.Limit == plan.Unlimited:
		w.say("Request %s for %s in %s, unlimited on the %s plan.", figure(w.UsedAfter), w.key, month, plan.Tier(w.v.Tier).Title(w.v.Plan))
	default:
		w.say("Request %s of %s for %s in %s.", figure(w.UsedAfter), figure(w.v.Limit), w.key, month)
	}
}

// ended says how an admitted request ended, and its final cost.
func (w *wording) ended() {
	switch w.Settlement {
	case "open":
		w.say("It is pending: its outcome is not recorded yet.")
	case "void":
		w.say("It failed or was not executed, so it was refunded: it does not count and cost nothing.")
		return
	case "waived":
		w.say("It was refunded because its execution was not confirmed within two minutes. It was confirmed later, " +
			"when neither quota nor credits were left to cover it, so it is not charged.")
		return
	case "served_unsettled":
		w.say("Its outcome was not confirmed within two minutes, so it counts as served.")
	}
	if w.ChargedLate {
		w.say("It was refunded because its execution was not confirmed within two minutes. It was confirmed later " +
			"and counted then.")
	}
	w.paid()
}

func (w *wording) paid() {
	switch {
	case w.ReturnedSequence != 0:
		w.say("The quota was used up, so it was paid with credits. Then another request failed and was refunded, which made room in the "+
			"quota (message %d). The credits were refunded, and the request is free.", w.ReturnedSequence)
	case w.Charge == event.ChargeSource_CHARGE_CREDITS:
		w.say("The quota was used up, so it cost %s credits, paid from %s.", plan.Credits(w.CostMicros), w.grants())
		if w.v.GetCharge() == w.Charge {
			w.say("Balance afterwards: %s credits.", plan.Credits(w.v.GetBalanceMicros()))
		}
	case w.Charge == event.ChargeSource_CHARGE_QUOTA && !w.Anonymous:
		w.say("It was within the quota and cost nothing.")
	default:
		w.say("It cost nothing.")
	}
}

// grants names the grants that paid, with the amount of each if there are several.
func (w *wording) grants() string {
	if len(w.Grants) == 1 {
		return fmt.Sprintf("grant “%s”", w.Grants[0].Reason)
	}
	parts := make([]string, 0, len(w.Grants))
	for _, g := range w.Grants {
		parts = append(parts, fmt.Sprintf("grant “%s” (%s)", g.Reason, plan.Credits(g.AmountMicros)))
	}
	return strings.Join(parts, " and ")
}

// refusal says why a request was refused.
func (w *wording) refusal() string {
	limit := fmt.Sprintf("%s of %s requests for %s", figure(w.UsedBefore), figure(w.v.GetLimit()), w.key)
	const held = ", and pending requests held the rest"
	switch w.v.GetDecision() {
	case event.Decision_QUOTA_EXHAUSTED:
		month := time.UnixMilli(w.TimeMs).UTC().Format("January 2006")
		switch {
		case w.v.Held:
			return limit + " in " + month + " were counted" + held
		case w.PriceMicros == 0:
			return fmt.Sprintf("%s in %s were used, and the %s plan has no price for more", limit, month, plan.Tier(w.v.Tier).Title(w.v.Plan))
		}
		return fmt.Sprintf("%s in %s were used, and the balance was below the price of %s credits", limit, month, plan.Credits(w.PriceMicros))
	case event.Decision_PLAN_UPGRADE_REQUIRED:
		return fmt.Sprintf("%s is not available on the %s plan", w.key, plan.Tier(w.v.Tier).Title(w.v.Plan))
	case event.Decision_ANONYMOUS_LIMIT:
		return fmt.Sprintf("this network had already created %s of %s anonymous quick pastes in %s", figure(w.UsedBefore), figure(w.v.Limit), pages.Duration(time.Duration(w.WindowMs)*time.Millisecond))
	case event.Decision_INVALID_KEY:
		return "the API key was not valid"
	case event.Decision_ACCOUNT_SUSPENDED:
		return "the account was suspended"
	case event.Decision_ACCOUNT_QUARANTINED:
		return "the account was quarantined because one of its counters was wrong"
	case event.Decision_TOO_MANY_FAILURES:
		return "more than 100 requests had failed within a minute"
	case event.Decision_IDEMPOTENCY_IN_FLIGHT:
		return "another request with the same Idempotency-Key was in progress"
	case event.Decision_IDEMPOTENCY_SERVED:
		return "an earlier request with the same Idempotency-Key was served, and its response is replayed"
	case event.Decision_IDEMPOTENCY_OTHER:
		return "the Idempotency-Key had been used with another path or query"
	case event.Decision_KEY_SCOPE:
		return fmt.Sprintf("%s is not among the key's scopes", w.key)
	case event.Decision_KEY_QUOTA_EXHAUSTED:
		if w.v.Held {
			return fmt.Sprintf("the key has its own limit of %s requests for %s per month", figure(w.v.KeyLimit), w.key) + held
		}
		return fmt.Sprintf("the key's own limit of %s requests for %s per month was reached", figure(w.v.KeyLimit), w.key)
	case event.Decision_SPENDING_CAP_REACHED:
		whose := "account"
		if w.v.KeyCap {
			whose = "key"
		}
		passed := fmt.Sprintf("its price of %s credits would have exceeded the %s's spending cap of %s credits %s",
			plan.Credits(w.PriceMicros), whose, plan.Credits(w.v.Cap.GetAmountMicros()), capPeriod(w.v.Cap.GetPeriod()))
		if w.v.Held {
			passed += held
		}
		return passed
	case event.Decision_DECISION_UNSPECIFIED, event.Decision_ADMITTED:
	}
	return "the decision was " + DecisionName(w.v)
}

func capPeriod(p event.CapPeriod) string {
	switch p {
	case event.CapPeriod_CAP_DAY:
		return "per day"
	case event.CapPeriod_CAP_MONTH:
		return "per month"
	case event.CapPeriod_CAP_TOTAL, event.CapPeriod_CAP_NONE:
	}
	return "in total"
}

func figure[N int64 | uint64](n N) string { return pages.Number(int64(n)) }

func dayOf(millis int64) string { return time.UnixMilli(millis).UTC().Format("2 January 2006") }
