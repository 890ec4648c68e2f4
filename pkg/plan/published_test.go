package plan_test

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"quire.dev/pkg/plan"
)

// TestThePublishedBookIsTheDocumentedTable holds every limit and price of the built-in book to docs/api.md. Nothing may be sold,
// limited or free that isn't in the table.
func TestThePublishedBookIsTheDocumentedTable(t *testing.T) {
	metering, storage := section(t, "Metering"), section(t, "Storage")
	want := documentedTerms(t, metering)
	book := plan.Published(10)
	for _, key := range plan.QuotaKeys() {
		terms, documented := want[key.String()]
		if !documented {
			t.Errorf("%s is not in the table", key)
		}
		for _, tier := range plan.Tiers() {
			if got := book.Plans[tier].Terms[key]; got != terms[tier] {
				t.Errorf("%s on %s is %+v, the table has %+v", key, tier, got, terms[tier])
			}
		}
	}
	if len(want) != len(plan.QuotaKeys()) {
		t.Errorf("the table has %d quota keys, want %d", len(want), len(plan.QuotaKeys()))
	}
	for _, tier := range plan.Tiers() {
		of := &book.Plans[tier]
		price := fmt.Sprintf("%d GB included per account, then $0.%02d per GB per month", of.FreeStorageBytes/plan.GB, of.StorageCentsPerGBMonth)
		if of.FreeStorageBytes%plan.GB != 0 || !strings.Contains(storage, price) {
			t.Errorf("docs/api.md does not say %q, as %s has it", price, tier)
		}
	}
}

// section is the text under a heading of docs/api.md.
func section(t *testing.T, heading string) string {
	t.Helper()
	rules, err := os.ReadFile("../../docs/api.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, found := strings.Cut(string(rules), "\n## "+heading+"\n")
	if !found {
		t.Fatalf("docs/api.md has no section %s", heading)
	}
	text, _, _ = strings.Cut(text, "\n## ")
	return text
}

// documentedTerms are the terms of the table by the quota key's name. The Admin plan is not in it: it is unlimited.
func documentedTerms(t *testing.T, text string) map[string][plan.Admin + 1]plan.Term {
	t.Helper()
	out := map[string][plan.Admin + 1]plan.Term{}
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "| `") {
			continue
		}
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "| "), " | ")
		if len(cells) != 6 {
			t.Fatalf("the row %q has %d cells", line, len(cells))
		}
		terms := [plan.Admin + 1]plan.Term{
			plan.Free: {Limit: limit(t, cells[1])}, plan.Pro: {Limit: limit(t, cells[2])}, plan.Max: {Limit: limit(t, cells[3])},
			plan.Admin: {Limit: plan.Unlimited},
		}
		for i, tier := range []plan.Tier{plan.Pro, plan.Max} {
			if price := cells[4+i]; price != "–" {
				terms[tier].Price, terms[tier].Overage = plan.MustParseCredits(price), true
			}
		}
		for name := range strings.SplitSeq(strings.Trim(cells[0], "`"), "`, `") {
			if _, twice := out[name]; twice {
				t.Errorf("%s is in the table twice", name)
			}
			out[name] = terms
		}
	}
	return out
}

func limit(t *testing.T, cell string) int64 {
	t.Helper()
	if cell == "unlimited" {
		return plan.Unlimited
	}
	n, err := strconv.ParseInt(strings.ReplaceAll(cell, ",", ""), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}
