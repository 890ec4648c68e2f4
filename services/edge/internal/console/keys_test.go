package console

import (
	"testing"

	"quire.dev/pkg/event"
	"quire.dev/pkg/plan"
	"quire.dev/pkg/pricebook"
)

func applied(t *testing.T, book *plan.Book) *event.PriceBook {
	t.Helper()
	out, err := pricebook.Applied(book, 1)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestANewAccountIsOfferedTheNextPlan(t *testing.T) {
	for _, test := range []struct {
		book *plan.Book
		tier plan.Tier
		next string
	}{
		{plan.Published(10), plan.Free, "Pro"},
		{plan.Published(10), plan.Pro, "Max"},
		{plan.Published(10), plan.Max, ""},
		{withFees(), plan.Pro, "Team"},
		{withFees(), 9, "Max"},
		{withFees(), plan.Max, ""},
		{withFees(), plan.Admin, ""},
	} {
		o := OffersOf(applied(t, test.book), test.tier, PlanPath)
		if (o == nil) != (test.next == "") || o != nil && o.Next != test.next {
			t.Errorf("tier %d: %+v, want %q", test.tier, o, test.next)
		}
	}
	if o := OffersOf(nil, plan.Free, PlanPath); o != nil {
		t.Error(o)
	}
	first := OffersOf(applied(t, withFees()), plan.Free, PlanPath).Rows[0]
	if first != (Offer{"Monthly fee", "none", "$10.00"}) {
		t.Error(first)
	}
}
