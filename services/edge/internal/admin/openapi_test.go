package admin

import (
	"testing"

	"quire.dev/pkg/event"
	"quire.dev/pkg/plan"
	"quire.dev/services/edge/internal/accounts"
	"quire.dev/services/edge/internal/bus"
	"quire.dev/services/edge/internal/endpoint"
	"quire.dev/services/edge/internal/endpoint/endpointtest"
)

// TestAnswersForAdminsHaveTheDescribedShape checks answers against their schemas.
func TestAnswersForAdminsHaveTheDescribedShape(t *testing.T) {
	spec := endpointtest.API(t)
	id := event.NewRequestID()
	explained := &event.ExplainAnswer{
		RequestId: id[:], Account: 7, QuotaKey: 1, TimeMs: 5, Stream: "BILLING_0", Sequence: 9, Settlement: "served", SettlementSequence: 10,
		StoredMs: 6, SettlementStoredMs: 7, Verdict: &event.Verdict{Decision: event.Decision_ADMITTED, Tier: uint32(plan.Pro), Limit: 500},
	}
	for _, tc := range []struct {
		schema string
		answer any
	}{
		{"AccountCreated", accountCreatedView{Success: endpoint.Succeeded(), Account: accounts.ViewAccount(7, "a@b.example", "max"), APIKey: "qk_x"}},
		{"TierSet", tierSetView{Success: endpoint.Succeeded(), Account: accounts.ViewAccount(7, "a@b.example", "admin")}},
		{"Granted", grantedView{Success: endpoint.Succeeded(), Balance: plan.Credits(1)}},
		{"Audit", ViewAudit(event.NewRequestID(), &bus.Audit{Ended: true, Partitions: []*event.AuditAnswer{
			{
				Partition: 0, LiveHash: []byte{1}, ReplayHash: []byte{1}, ComparedSequence: 3, Tables: []*event.AuditTable{{Table: "ledger", Rows: 2, Differences: 1}},
				Differences: []*event.AuditDifference{{Table: "ledger", Account: 7, Row: "x", Field: "amountMicros", Expected: "1", Found: "2"}, {Table: "snapshots"}},
			},
		}})},
		{"Audit", ViewAudit(event.NewRequestID(), &bus.Audit{Done: 5, Total: 20, Again: true})},
		{"TimedExplanation", explanationView{Success: endpoint.Succeeded(), Request: accounts.ViewExplained(explained), Timing: viewTiming(explained, &event.RecentRequest{
			HttpStatus: 201, DurationMs: 342, Timing: &event.RequestTiming{AdmitSyncMs: 301},
		})}},
		{"TimedExplanation", explanationView{Success: endpoint.Succeeded(), Request: accounts.ViewExplained(explained), Timing: viewTiming(&event.ExplainAnswer{RequestId: id[:]}, nil)}},
		{"TimedExplanation", explanationView{Success: endpoint.Succeeded(), Request: accounts.ViewExplained(explained)}},
		{"AuditBegun", auditBegunView{Success: endpoint.Succeeded(), ID: event.NewRequestID().String(), Done: 5, Total: 20}},
	} {
		endpointtest.HasShape(t, spec, tc.schema, tc.answer)
	}
}
