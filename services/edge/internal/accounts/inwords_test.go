package accounts

import (
	"strings"
	"testing"
	"time"

	"quire.dev/pkg/event"
	"quire.dev/pkg/plan"
)

func millis(t *testing.T, text string) int64 {
	t.Helper()
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		t.Fatal(err)
	}
	return at.UnixMilli()
}

// paidRequest is a request paid by credits.
func paidRequest(t *testing.T) *event.ExplainAnswer {
	return &event.ExplainAnswer{
		QuotaKey: uint32(plan.LiteGet), TimeMs: millis(t, "2026-11-21T12:00:00Z"), BookMs: millis(t, "2026-11-01T00:00:00Z"), Key: 3,
		UsedBefore: 10_000, UsedAfter: 10_001, PriceMicros: 200, Charge: event.ChargeSource_CHARGE_CREDITS, CostMicros: 200,
		Grants: []*event.GrantUse{{Grant: 7, AmountMicros: 200, Reason: "welcome"}},
		Stream: "BILLING_0", Sequence: 41, Index: 2, Settlement: "served", SettlementSequence: 42,
		Verdict: &event.Verdict{
			Decision: event.Decision_ADMITTED, Charge: event.ChargeSource_CHARGE_CREDITS, Limit: 10_000, CostMicros: 200, BalanceMicros: 4_999_800,
			Tier: uint32(plan.Pro),
		},
	}
}

func TestAnExplanationIsASentenceACustomerUnderstands(t *testing.T) {
	const want = "Request 10,001 of 10,000 for pasteLite.get in November 2026. The quota was used up, so it cost 0.000200 credits, paid from " +
		"grant “welcome”. Balance afterwards: 4.999800 credits. Limits and prices are from the price book of 1 November 2026. API key: k3. " +
		"Counter: 10,000 before, 10,001 after. Recorded in journal BILLING_0, message 41, offset 2; settled in message 42."
	if got := ViewExplained(paidRequest(t)).Explanation; got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
}

func TestEveryEndOfARequestIsExplained(t *testing.T) {
	quota := func(e *event.ExplainAnswer) {
		e.Charge, e.CostMicros, e.Grants, e.Verdict.Charge = event.ChargeSource_CHARGE_QUOTA, 0, nil, event.ChargeSource_CHARGE_QUOTA
	}
	for name, test := range map[string]struct {
		change     func(*event.ExplainAnswer)
		has, lacks string
	}{
		"within the quota": {quota, "within the quota and cost nothing", "used up"},
		"under way":        {func(e *event.ExplainAnswer) { e.Settlement, e.SettlementSequence = "open", 0 }, "is pending", "settled in message"},
		"void": {func(e *event.ExplainAnswer) {
			quota(e)
			e.Settlement, e.Charge = "void", event.ChargeSource_CHARGE_NONE
		}, "refunded: it does not count and cost nothing", "within the quota"},
		"unsettled":    {func(e *event.ExplainAnswer) { e.Settlement = "served_unsettled" }, "counts as served", "refunded"},
		"charged late": {func(e *event.ExplainAnswer) { e.ChargedLate, e.Verdict.Charge = true, event.ChargeSource_CHARGE_QUOTA }, "confirmed later and counted then. The quota was used up, so it cost 0.000200", "Balance afterwards"},
		"waived": {func(e *event.ExplainAnswer) {
			quota(e)
			e.Settlement = "waived"
		}, "it is not charged", "within the quota"},
		"its credits came back": {func(e *event.ExplainAnswer) {
			quota(e)
			e.Verdict.Charge, e.ReturnedSequence = event.ChargeSource_CHARGE_CREDITS, 1042
		}, "room in the quota (message 1042). The credits were refunded, and the request is free", "within the quota and"},
		"two grants": {func(e *event.ExplainAnswer) {
			e.Grants = []*event.GrantUse{{AmountMicros: 50, Reason: "a"}, {AmountMicros: 150, Reason: "b"}}
		}, "grant “a” (0.000050) and grant “b” (0.000150)", "grant “welcome”"},
		"without a limit": {func(e *event.ExplainAnswer) {
			quota(e)
			e.Charge, e.Verdict.Limit, e.Verdict.Tier = event.ChargeSource_CHARGE_NONE, plan.Unlimited, uint32(plan.Admin)
		}, "unlimited on the Admin plan. It cost nothing.", "of -1"},
		"a loss since": {func(e *event.ExplainAnswer) {
			e.Losses = []*event.Loss{{Stream: "LITE_0", First: 1, Last: 399, TimeMs: millis(t, "2026-11-25T12:00:00Z")}}
		}, "from before 25 November 2026 was lost, journal LITE_0, messages 1 to 399: this write may be among it", "LITE_1"},
		"a loss that the read model has": {func(e *event.ExplainAnswer) {
			e.Losses = []*event.Loss{{Stream: "LITE_0", First: 1, Last: 399, Projected: true}}
		}, "used up", "was lost"},
		"the default key": {func(e *event.ExplainAnswer) { e.Key = 0 }, "API key: default.", "k0"},
		"without a key": {func(e *event.ExplainAnswer) {
			quota(e)
			e.Anonymous, e.Verdict.Limit, e.UsedAfter, e.WindowMs = true, 10, 4, 86_400_000
		}, "Anonymous quick paste 4 of 10 for this network in 24 hours. It cost nothing.", "API key"},
	} {
		e := paidRequest(t)
		test.change(e)
		if got := InWords(e); !strings.Contains(got, test.has) || strings.Contains(got, test.lacks) {
			t.Errorf("%s: %s", name, got)
		}
	}
}

func TestEveryRefusalIsExplained(t *testing.T) {
	refused := func(d event.Decision) *event.ExplainAnswer {
		e := paidRequest(t)
		e.Charge, e.CostMicros, e.Grants, e.Settlement, e.SettlementSequence = 0, 0, nil, "", 0
		e.Verdict = &event.Verdict{Decision: d, Limit: 10_000, Tier: uint32(plan.Pro)}
		e.UsedBefore, e.WindowMs = 10_000, 86_400_000
		return e
	}
	seen := map[string]event.Decision{}
	for d := event.Decision_ADMITTED + 1; event.Decision_name[int32(d)] != ""; d++ {
		got := InWords(refused(d))
		if !strings.HasPrefix(got, "Refused: ") || !strings.Contains(got, "It was not counted and cost nothing.") || strings.Contains(got, "the decision was") {
			t.Errorf("%v: %s", d, got)
		}
		if other, said := seen[got]; said {
			t.Errorf("%v is explained as %v: %s", d, other, got)
		}
		seen[got] = d
	}
	held, free := refused(event.Decision_QUOTA_EXHAUSTED), refused(event.Decision_QUOTA_EXHAUSTED)
	held.Verdict.Held, free.PriceMicros = true, 0
	heldByKey, heldByCap := refused(event.Decision_KEY_QUOTA_EXHAUSTED), refused(event.Decision_SPENDING_CAP_REACHED)
	heldByKey.Verdict.Held, heldByCap.Verdict.Held, heldByCap.Verdict.Cap = true, true, &event.SpendingCap{}
	for _, e := range []*event.ExplainAnswer{held, heldByKey, heldByCap} {
		if name := DecisionName(e.Verdict); name != "quota_held" {
			t.Errorf("%v is called %s", e.Verdict.Decision, name)
		}
	}
	limited, capped := refused(event.Decision_KEY_QUOTA_EXHAUSTED), refused(event.Decision_SPENDING_CAP_REACHED)
	limited.Verdict.KeyLimit = 1500
	capped.Verdict.Cap, capped.Verdict.KeyCap = &event.SpendingCap{Period: event.CapPeriod_CAP_DAY, AmountMicros: 5_000_000}, true
	for has, e := range map[string]*event.ExplainAnswer{
		"own limit of 1,500 requests for pasteLite.get per month was reached":                                  limited,
		"its price of 0.000200 credits would have exceeded the key's spending cap of 5.000000 credits per day": capped,
		"per month, and pending requests held the rest":                                                        heldByKey,
		"in total, and pending requests held the rest":                                                         heldByCap,
	} {
		if got := InWords(e); !strings.Contains(got, has) {
			t.Errorf("%s: %s", has, got)
		}
	}
	for has, e := range map[string]*event.ExplainAnswer{
		"the balance was below the price of 0.000200 credits": refused(event.Decision_QUOTA_EXHAUSTED),
		"pending requests held the rest":                      held,
		"the Pro plan has no price for more":                  free,
	} {
		if got := InWords(e); !strings.Contains(got, "Refused: 10,000 of 10,000 requests for pasteLite.get in November 2026 were") || !strings.Contains(got, has) {
			t.Errorf("%s: %s", has, got)
		}
	}
}
