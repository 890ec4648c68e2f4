package console

import (
	"strings"
	"testing"

	"quire.dev/pkg/event"
	"quire.dev/pkg/plan"
	"quire.dev/services/edge/internal/pages"
)

// TestCorrectionsSayWhatTheyCorrect in the table of the ledger.
func TestCorrectionsSayWhatTheyCorrect(t *testing.T) {
	c := New(pages.New())
	const request = "01a1fff9-83d3-743f-9a6d-5290a1beb664"
	for want, e := range map[string]Entry{
		`Refund</td><td><a href="/console/requests/` + request + `">Upload a file</a> <code>files.upload</code>our mistake</td><td class="n">&#43;0.005000</td><td class="n">0.005000`: {
			RequestID: request, LedgerEntry: &event.LedgerEntry{Type: event.LedgerType_LEDGER_REFUND, QuotaKey: uint32(plan.FilesUpload), AmountMicros: 5000, BalanceMicros: 5000, Reason: "our mistake"},
		},
		`Refund</td><td>Upload a file, November 2026: slow`: {
			LedgerEntry: &event.LedgerEntry{Type: event.LedgerType_LEDGER_REFUND, QuotaKey: uint32(plan.FilesUpload), Month: 2026*12 + 10, AmountMicros: 5000, Reason: "slow"},
		},
		`Payment</td><td>Payment <code>2026-0042</code></td>`: {
			LedgerEntry: &event.LedgerEntry{Type: event.LedgerType_LEDGER_PAYMENT, Payment: "2026-0042", AmountMicros: 10_000_000, BalanceMicros: 10_000_000},
		},
		"Payment reversed</td><td>Payment <code>2026-0042</code>disputed</td><td class=\"n\">\u221210.000000</td><td class=\"n\">\u22121,234.500000": {
			LedgerEntry: &event.LedgerEntry{Type: event.LedgerType_LEDGER_REVERSAL, Payment: "2026-0042", AmountMicros: -10_000_000, BalanceMicros: -1_234_500_000, Reason: "disputed"},
		},
	} {
		var page strings.Builder
		if err := c.templates.ExecuteTemplate(&page, "entries", []Entry{e}); err != nil || !strings.Contains(page.String(), want) {
			t.Errorf("%s lacks %s: %v", page.String(), want, err)
		}
	}
}
