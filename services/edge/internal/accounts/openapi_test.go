package accounts

import (
	"os"
	"slices"
	"strings"
	"testing"

	"quire.dev/pkg/alert"
	"quire.dev/pkg/event"
	"quire.dev/pkg/plan"
	"quire.dev/services/edge/internal/endpoint"
	"quire.dev/services/edge/internal/endpoint/endpointtest"
)

// TestAnswersHaveTheDescribedShape checks answers, full and empty, against their schemas.
func TestAnswersHaveTheDescribedShape(t *testing.T) {
	spec := endpointtest.API(t)
	id := event.NewRequestID()
	full := fullUsage()
	bare := fullUsage()
	bare.KeyVersion = 0
	period, err := ParsePeriod("2026-11")
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		schema string
		answer any
	}{
		{"DevUsage", ViewUsage(full, "a@b.example")},
		{"DevUsage", ViewUsage(bare, "a@b.example")},
		{"DevUsage", ViewUsage(&event.UsageAnswer{Account: 1, Tier: uint32(plan.Free), QuarantinedMs: 1, QuarantineReason: "used"}, "a@b.example")},
		{"Profile", viewProfile(&event.UsageAnswer{Account: 1, Tier: uint32(plan.Free), CreatedMs: 1, QuarantinedMs: 1}, "a@b.example")},
		{"Profile", viewProfile(full, "a@b.example")},
		{"Profile", viewProfile(&event.UsageAnswer{Account: 1, Tier: uint32(plan.Free), CreatedMs: 1}, "a@b.example")},
		{"Done", endpoint.Succeeded()},
		{"NewKey", NewKeyView{Success: endpoint.Succeeded(), APIKey: "qk_x", Key: *viewKey(full)}},
		{"Ledger", ViewLedger(&event.LedgerAnswer{})},
		{"Ledger", ViewLedger(&event.LedgerAnswer{NextCursor: []byte{1, 2}, Entries: []*event.LedgerEntry{
			{Id: "1", TimeMs: 1, Type: event.LedgerType_LEDGER_GRANT, AmountMicros: 5, BalanceMicros: 5, Reason: "a gift"},
			{Id: "2", TimeMs: 2, Type: event.LedgerType_LEDGER_CHARGE, QuotaKey: 1, AmountMicros: -5, RequestId: id[:]},
			{Id: "3", TimeMs: 3, Type: event.LedgerType_LEDGER_ADJUSTMENT, AmountMicros: -1, Reason: "a mistake"},
			{Id: "4", TimeMs: 4, Type: event.LedgerType_LEDGER_EXPIRY, AmountMicros: -1},
		}})},
		{"Statement", ViewStatement(7, &event.StatementAnswer{Period: "2026-11", Tier: uint32(plan.Pro), Usage: full.Usage, SpentMicros: 9}, period)},
		{"Statement", ViewStatement(7, &event.StatementAnswer{
			Period: "2026-11", Tier: uint32(plan.Pro), Periods: []*event.StatementPeriod{{StartMs: 1, EndMs: 2, Tier: uint32(plan.Pro), Lines: []*event.StatementLine{
				{QuotaKey: 1, Limit: 500, Overage: true, PriceMicros: 2_000, Used: 501, Paid: 1, AmountMicros: 2_000}, {QuotaKey: 2, Limit: -1},
			}}}, Credits: &event.StatementCredits{OpeningMicros: 1, AdjustedMicros: -1}, StorageByDay: true, StorageByteMsHigh: 1, StorageByteMsLow: 2, StorageDays: []*event.StorageDay{
				{Day: 20_777, ByteMsLow: 86_400_000}, {Day: 20_778, ByteMsHigh: 1<<64 - 1, ByteMsLow: 1<<64 - 1},
			},
		}, period)},
		{"UsageDays", ViewDays(&event.UsageDaysAnswer{}, DaysBy{})},
		{"UsageDays", ViewDays(daysOfTwoKeys(), DaysBy{QuotaKey: true, Key: true})},
		{"UsageDays", ViewDays(daysOfTwoKeys(), DaysBy{})},
		{"Explanation", explanationView{Success: endpoint.Succeeded(), Request: ViewExplained(&event.ExplainAnswer{
			RequestId: id[:], Account: 7, QuotaKey: 1, TimeMs: 5, PriceMicros: 2000, Stream: "BILLING_0", Sequence: 9,
			Settlement: "served", SettlementSequence: 10, UsedBefore: 1, UsedAfter: 2,
			Verdict: &event.Verdict{Decision: event.Decision_ADMITTED, Charge: event.ChargeSource_CHARGE_CREDITS, Tier: uint32(plan.Pro), Limit: 500, CostMicros: 2000},
			Grants:  []*event.GrantUse{{Grant: 1 << 63, AmountMicros: 2000, Reason: "a gift"}},
		})}},
		{"Explanation", explanationView{Success: endpoint.Succeeded(), Request: ViewExplained(&event.ExplainAnswer{
			RequestId: id[:], Account: 7, QuotaKey: 8, Anonymous: true, Stream: "BILLING_0", Sequence: 1,
			Verdict: &event.Verdict{Decision: event.Decision_ANONYMOUS_LIMIT, Limit: 10},
		})}},
		{"Progress", progressView{Success: endpoint.Succeeded(), Done: 5, Total: 20}},
	} {
		endpointtest.HasShape(t, spec, tc.schema, tc.answer)
	}
}

// fullUsage has every field set.
func fullUsage() *event.UsageAnswer {
	u := &event.UsageAnswer{
		Account: 1 << 63, Tier: uint32(plan.Pro), PeriodStartMs: 1_793_491_200_000, PeriodEndMs: 1_796_083_200_000,
		BalanceMicros: 1_500_000, SpentMicros: 2500, StorageUsedBytes: 1, StorageFreeBytes: 2, StorageAverageBytes: 3,
		StorageOverageCents: 1207, KeyPrefix: "qk_abcdef", KeyVersion: 2, KeyCreatedMs: 5, CreatedMs: 4,
	}
	for _, k := range plan.QuotaKeys() {
		u.Usage = append(u.Usage, &event.KeyUsage{QuotaKey: uint32(k), Used: 3, Limit: 500, Remaining: 497, Overage: 1, SpentMicros: 500})
	}
	return u
}

func TestEveryDecisionHasADescribedName(t *testing.T) {
	spec := endpointtest.API(t)
	known := endpointtest.KnownValues(t, spec.Components.Schemas["ExplainedRequest"].Value.Properties["decision"].Value)
	for number := range event.Decision_name {
		if d := event.Decision(number); d != event.Decision_DECISION_UNSPECIFIED {
			if name := DecisionName(&event.Verdict{Decision: d}); !slices.Contains(known, name) {
				t.Errorf("%s is not described", name)
			}
		}
	}
}

// TestEveryTypeOfEventIsListed: in the description, for subscriptions and for events, and among the constants of the Go client.
func TestEveryTypeOfEventIsListed(t *testing.T) {
	schemas := endpointtest.API(t).Components.Schemas
	var names []string
	for _, known := range alert.Types() {
		names = append(names, known.Name)
	}
	if listed := endpointtest.KnownValues(t, schemas["WebhookEvents"].Value.Items.Value); !slices.Equal(listed, names) {
		t.Errorf("a webhook may subscribe to %v, described is %v", names, listed)
	}
	names = append(names, alert.TypeOf(event.AlertType_ALERT_TEST).Name)
	if listed := endpointtest.KnownValues(t, schemas["EventType"].Value); !slices.Equal(listed, names) {
		t.Errorf("events are of %v, described is %v", names, listed)
	}
	source, err := os.ReadFile("../../../../clients/go/webhooks.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, known := range alert.Types() {
		if !strings.Contains(string(source), `"`+known.Name+`"`) {
			t.Errorf("the Go client has no constant for %s", known.Name)
		}
	}
}
