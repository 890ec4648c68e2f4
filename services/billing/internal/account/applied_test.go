package account

import (
	"fmt"
	"testing"
	"time"

	"quire.dev/pkg/event"
	"quire.dev/pkg/plan"
	"quire.dev/pkg/pricebook"
)

// priced is a book whose uploads cost an amount on Pro, from the first one on.
func priced(micros plan.Micros) *plan.Book {
	book := plan.Published(10)
	book.Plans[plan.Pro].Terms[plan.FilesUpload] = plan.Term{Price: micros, Overage: true}
	return book
}

// upload uploads one file at a time, and returns its price.
func (h *history) upload(id uint64, at int64) uint64 {
	h.t.Helper()
	h.now = at
	a := h.admission(id, plan.FilesUpload)
	v := h.want(a, admitted)
	h.served(a)
	return v.CostMicros
}

// TestAnAppliedBookIsInForceFromItsTimeOn, to the millisecond, with and without requests in between, in the fold and in one that
// is restored before that time.
func TestAnAppliedBookIsInForceFromItsTimeOn(t *testing.T) {
	h := newHistory(t, priced(1_000))
	h.account(alice, plan.Pro)
	h.grant(alice, 1_000_000, 0)
	start := h.now
	first, second := start+60_000, start+120_000
	h.apply(applied(t, priced(3_000), second))
	h.apply(applied(t, priced(2_000), first))
	if due := h.fold.NextDueMillis(); due != first {
		t.Errorf("next due %d, want %d", due, first)
	}
	books := h.fold.Books()
	if len(books.Books) != 1 || len(books.Upcoming) != 2 || books.Upcoming[0].FromMs != first || books.Upcoming[1].FromMs != second {
		t.Fatalf("books %v", books)
	}
	h.fold = restored(t, h.fold)
	for _, c := range []struct {
		at   int64
		want uint64
	}{{start, 1_000}, {first - 1, 1_000}, {first, 2_000}, {second - 1, 2_000}, {second, 3_000}, {second + 1, 3_000}} {
		if got := h.upload(alice, c.at); got != c.want {
			t.Errorf("%d ms after the first book's time an upload costs %d, want %d", c.at-first, got, c.want)
		}
	}
	books = h.fold.Books()
	if len(books.Upcoming) != 0 || len(books.Books) != 3 || books.Books[2].FromMs != second || books.Books[2].Sequence == 0 {
		t.Errorf("books %v", books)
	}
	h.sound()
}

// TestAStatementHasThePeriodOfEachAppliedBook, also of one that no message fell into, and of a plan set by the very message with
// which a book comes into force. Voids are taken from the period of their request.
func TestAStatementHasThePeriodOfEachAppliedBook(t *testing.T) {
	h := newHistory(t, nil)
	h.know(rules2)
	h.prices(priced(1_000))
	h.account(alice, plan.Pro)
	h.grant(alice, 1_000_000, 0)
	start := h.now
	h.apply(applied(t, priced(2_000), start+60_000))
	h.apply(applied(t, priced(3_000), start+90_000))
	h.upload(alice, start+30_000)
	failing := h.admission(alice, plan.FilesUpload)
	h.want(failing, admitted)
	h.now = start + 100_000 // both books come into force with this message
	h.command(setTier(alice, plan.Max))
	h.voided(failing)
	h.upload(alice, start+110_000)
	late := h.admission(alice, plan.FilesUpload)
	h.want(late, admitted)
	h.rules = rules2 // they end no period
	h.prices(plan.Published(10))
	h.now += 1_000
	h.command(setTier(alice, plan.Pro))
	h.voided(late)
	s, _ := h.fold.StatementAt(event.AccountID(alice), "2026-10", h.now)
	checkStatement(t, s)
	var got string
	for _, p := range s.Periods {
		line := p.Lines[int(plan.FilesUpload)-1]
		got += fmt.Sprintf("%d-%d %s used %d paid %d at %d\n", (p.StartMs-start)/1000, (p.EndMs-start)/1000, plan.Tier(p.Tier), line.Used, line.Paid, line.PriceMicros)
	}
	ended := (monthOf(start).end - start) / 1000
	want := fmt.Sprintf(`0-60 pro used 1 paid 1 at 1000
60-90 pro used 0 paid 0 at 2000
90-100 pro used 0 paid 0 at 3000
100-111 max used 1 paid 0 at 3000
111-%d pro used 0 paid 0 at 3000
`, ended)
	if got != want {
		t.Errorf("periods\n%swant\n%s", got, want)
	}
	h.sound()
}

// TestAnAppliedBookReplacesConfiguredOnesForGood: later ones change only the rules.
func TestAnAppliedBookReplacesConfiguredOnesForGood(t *testing.T) {
	h := newHistory(t, nil)
	h.know(rules2)
	h.prices(priced(1_000))
	h.account(alice, plan.Pro)
	h.grant(alice, 1_000_000, 0)
	h.apply(applied(t, priced(2_000), h.now+60_000))
	h.prices(priced(1_500)) // not yet
	if got := h.upload(alice, h.now); got != 1_500 {
		t.Errorf("an upload costs %d before the applied book", got)
	}
	h.wait(time.Minute)
	h.rules = rules2
	h.prices(priced(5_000))
	if got := h.upload(alice, h.now); got != 2_000 || h.fold.Rules() != rules2 {
		t.Errorf("an upload costs %d, rules %d", got, h.fold.Rules())
	}
	h.sound()
}

// TestWithdrawnAndRepeatedBooks: a withdrawn book does not come into force, whatever is stored again before or after its time.
func TestWithdrawnAndRepeatedBooks(t *testing.T) {
	h := newHistory(t, priced(1_000))
	h.account(alice, plan.Pro)
	h.grant(alice, 1_000_000, 0)
	effective := h.now + 60_000
	again := func(e *event.PriceBook) { // with its old stamp
		h.append(Prices, e)
	}
	e := applied(t, priced(2_000), effective)
	h.apply(e)
	again(e)
	if n := len(h.fold.Books().Upcoming); n != 1 {
		t.Fatalf("%d books are upcoming", n)
	}
	h.apply(&event.PriceBook{Id: e.Id, Withdrawn: true})
	again(e)
	if b := h.fold.Books(); len(b.Upcoming) != 0 || len(b.Withdrawn) != 1 || b.Withdrawn[0] != e.Id {
		t.Fatalf("books %v", b)
	}
	h.fold = restored(t, h.fold)
	h.wait(2 * time.Minute)
	again(e)
	if got := h.upload(alice, h.now); got != 1_000 {
		t.Errorf("an upload costs %d after the time of the withdrawn book", got)
	}
	if b := h.fold.Books(); len(b.Books) != 1 || len(b.Withdrawn) != 0 {
		t.Errorf("books %v", b)
	}
	inForce := applied(t, priced(3_000), h.now)
	h.apply(inForce)
	h.apply(&event.PriceBook{Id: inForce.Id, Withdrawn: true}) // too late
	if got := h.upload(alice, h.now); got != 3_000 {
		t.Errorf("an upload costs %d", got)
	}
	h.sound()
}

// TestAppliedBooksNeedRules4, and a book of the journal to begin with.
func TestAppliedBooksNeedRules4(t *testing.T) {
	for _, rules := range []uint32{Rules3, Rules4} {
		h := newHistory(t, nil)
		h.apply(applied(t, priced(9_000), h.now))
		if h.fold.Prices() != nil {
			t.Fatal("the first book of a journal was an applied one")
		}
		h.rules = rules
		h.prices(priced(1_000))
		h.apply(applied(t, priced(2_000), h.now))
		h.apply(applied(t, priced(2_000), h.now+1_000))
		if b := h.fold.Books(); len(b.Books)+len(b.Upcoming) != map[uint32]int{Rules3: 1, Rules4: 3}[rules] {
			t.Errorf("rules %d: books %v", rules, b)
		}
		h.sound()
	}
}

// TestAJournalTakesABoundedNumberOfBooks, on both sides of the bound.
func TestAJournalTakesABoundedNumberOfBooks(t *testing.T) {
	h := newHistory(t, plan.Published(10))
	for i := range int64(pricebook.Max) {
		h.apply(applied(t, priced(plan.Micros(i)), h.now+1_000_000+i))
		if b := h.fold.Books(); len(b.Books)+len(b.Upcoming) != int(min(pricebook.Max, i+2)) {
			t.Fatalf("%d books after %d", len(b.Books)+len(b.Upcoming), i+2)
		}
	}
}

// TestPlansKeepTheirNumbers: a book with another plan of the same number, or the same plan under another, has no effect.
func TestPlansKeepTheirNumbers(t *testing.T) {
	h := newHistory(t, plan.Published(10))
	with := func(tier plan.Tier, name string) *event.PriceBook {
		book := plan.Published(10)
		book.Plans[tier].Name = name
		return applied(t, book, h.now+60_000)
	}
	h.apply(with(5, "team"))
	for _, c := range []struct {
		tier plan.Tier
		name string
		want int
	}{{5, "crew", 1}, {6, "team", 1}, {6, "pro", 1}, {plan.Pro, "professional", 1}, {6, "crew", 2}} {
		h.apply(with(c.tier, c.name))
		if n := len(h.fold.Books().Upcoming); n != c.want {
			t.Errorf("with %s as %d, %d books are upcoming, want %d", c.name, c.tier, n, c.want)
		}
	}
	h.sound()
}

// TestPlansOfABook: accounts may be on a plan from the time on at which its book is in force. Its name is in every answer.
func TestPlansOfABook(t *testing.T) {
	const team = plan.Admin + 1
	h := newHistory(t, plan.Published(10))
	h.account(alice, plan.Pro)
	book := plan.Published(10)
	book.Plans[team] = plan.Plan{Name: "team", FeeCents: 2_900, FreeStorageBytes: 100 * plan.GB, StorageCentsPerGBMonth: 2}
	book.Plans[team].Terms[plan.FilesUpload] = plan.Term{Limit: 1, Price: 7, Overage: true}
	h.apply(applied(t, book, h.now+60_000))
	invalid := event.CommandStatus_COMMAND_INVALID
	if o := h.command(setTier(alice, team)); o.Status != invalid {
		t.Errorf("a plan of an upcoming book: %v", o)
	}
	h.wait(time.Minute)
	for tier, want := range map[plan.Tier]event.CommandStatus{
		plan.TierUnspecified: invalid, team + 1: invalid, plan.MaxTiers: invalid, plan.MaxTiers + 1: invalid, team: event.CommandStatus_COMMAND_OK,
	} {
		if o := h.command(setTier(alice, tier)); o.Status != want {
			t.Errorf("tier %d: %v, want %v", tier, o, want)
		}
		if o := h.command(create(bob+uint64(tier), tier)); o.Status != want {
			t.Errorf("an account on tier %d: %v, want %v", tier, o, want)
		}
	}
	o := h.command(setTier(alice, team))
	v := h.want(h.admission(alice, plan.FilesUpload), admitted)
	u := h.fold.UsageAt(event.AccountID(alice), h.now)
	s, _ := h.fold.StatementAt(event.AccountID(alice), "2026-10", h.now)
	last := s.Periods[len(s.Periods)-1]
	for what, name := range map[string]string{
		"outcome": o.Plan, "verdict": v.Plan, "usage": u.Plan, "statement": s.Plan, "period": last.Plan, "summary": h.fold.Summary(alice).Plan,
	} {
		if name != "team" {
			t.Errorf("the %s names the plan %q", what, name)
		}
	}
	if s.Periods[0].Plan != "" || s.StorageFreeBytes != 100*plan.GB || s.StorageCentsPerGbMonth != 2 || u.StorageFreeBytes != 100*plan.GB {
		t.Errorf("statement %v, usage %v", s, u)
	}
	h.fold = restored(t, h.fold)
	if again := h.fold.UsageAt(event.AccountID(alice), h.now); again.Plan != "team" {
		t.Errorf("a restored fold names the plan %q", again.Plan)
	}
	h.sound()
}

// TestConfiguredBooksKeepTheirEncoding: instances of different versions compare its hash. It is that of the first built-in book
// with the default limit of anonymous quick pastes, as earlier versions computed it.
func TestConfiguredBooksKeepTheirEncoding(t *testing.T) {
	if got := pricebook.Hash(firstBook(10)); got != publishedHash {
		t.Errorf("hash %s, want %s", got, publishedHash)
	}
	if *pricebook.Of(pricebook.Configured(plan.Published(7))) != *plan.Published(7) {
		t.Error("the built-in book changes when it is published")
	}
	e := applied(t, plan.Published(7), 5)
	if *pricebook.Of(e) != *plan.Published(7) || e.Id == applied(t, plan.Published(7), 6).Id || e.Id != applied(t, plan.Published(7), 5).Id {
		t.Error("the built-in book changes when it is applied")
	}
}

const publishedHash = "3ef78d04442ec976ed1501296e97af0b"

// TestNewRulesEndNoPeriod: a void afterwards is not taken from the period before.
func TestNewRulesEndNoPeriod(t *testing.T) {
	h := newHistory(t, nil)
	h.know(rules2)
	h.prices(priced(1_000))
	h.account(alice, plan.Pro)
	h.grant(alice, 1_000_000, 0)
	h.upload(alice, h.now+1_000)
	h.wait(time.Second).prices(priced(2_000))
	failing := h.admission(alice, plan.FilesUpload)
	h.want(failing, admitted)
	h.rules = rules2
	h.prices(priced(2_000))
	h.voided(failing)
	s, _ := h.fold.StatementAt(event.AccountID(alice), "2026-10", h.now)
	checkStatement(t, s)
	if first, last := s.Periods[0].Lines[plan.FilesUpload-1], s.Periods[1].Lines[plan.FilesUpload-1]; first.Used != 1 || last.Used != 0 {
		t.Errorf("%v, then %v", first, last)
	}
	h.sound()
}

// TestATierChangesWithTheMonth: until then limits, prices and fee stay, and it may be taken back. What happened before stays as it
// was, also what is voided afterwards.
func TestATierChangesWithTheMonth(t *testing.T) {
	h := newHistory(t, plan.Published(10))
	book := plan.Published(10)
	book.Plans[plan.Pro].FeeCents, book.Plans[plan.Max].FeeCents = 1_000, 5_000
	h.apply(applied(t, book, h.now))
	h.account(alice, plan.Max)
	h.grant(alice, 1_000_000, 0)
	next := func(tier plan.Tier, want event.CommandStatus) {
		t.Helper()
		if o := h.command(setNextTier(alice, tier)); o.Status != want || o.Tier != uint32(plan.Max) {
			t.Errorf("next tier %d: %v, want %v", tier, o, want)
		}
	}
	shown := func(want plan.Tier) {
		t.Helper()
		if u := h.fold.UsageAt(event.AccountID(alice), h.now); u.NextTier != uint32(want) {
			t.Errorf("the next tier is shown as %d, want %d", u.NextTier, want)
		}
	}
	ok := event.CommandStatus_COMMAND_OK
	next(plan.Free, ok)
	next(plan.MaxTiers, event.CommandStatus_COMMAND_INVALID)
	shown(plan.Free)
	next(plan.Max, ok) // it stays
	shown(0)
	next(plan.Free, ok)
	h.command(setTier(alice, plan.Max)) // now, and for good
	shown(0)
	next(plan.Pro, ok)
	h.fold = restored(t, h.fold)
	h.now = monthOf(h.now).end - 1
	h.use(alice, plan.FilesUpload, 1_000)
	paid := h.admission(alice, plan.FilesUpload)
	if v := h.want(paid, admitted); v.CostMicros != 3_000 || plan.Tier(v.Tier) != plan.Max {
		t.Errorf("in the last millisecond of the month: %v", v)
	}
	october := monthOf(h.now)
	h.now++
	a := h.admission(alice, plan.FilesUpload)
	if v := h.want(a, admitted); v.Limit != 100 || plan.Tier(v.Tier) != plan.Pro {
		t.Errorf("in the first millisecond of the next month: %v", v)
	}
	h.served(a)
	h.voided(paid)
	shown(0)
	for i, want := range []struct {
		tier plan.Tier
		used uint64
		fee  uint64
	}{{plan.Max, 1_000, 5_000}, {plan.Pro, 1, 1_000}} {
		m := monthNumber(october.number + uint32(i))
		s, _ := h.fold.StatementAt(event.AccountID(alice), m.period(), h.now)
		checkStatement(t, s)
		p := s.Periods[len(s.Periods)-1]
		if len(s.Periods) != 1 || plan.Tier(s.Tier) != want.tier || plan.Tier(p.Tier) != want.tier || p.Lines[plan.FilesUpload-1].Used != want.used || p.FeeCents != want.fee {
			t.Errorf("%s: %v", s.Period, s.Periods)
		}
	}
	h.sound()
}

// TestThePlansFeeIsForTheSecondsOfEachPeriod, rounded down once a period.
func TestThePlansFeeIsForTheSecondsOfEachPeriod(t *testing.T) {
	h := newHistory(t, plan.Published(10))
	book := plan.Published(10)
	book.Plans[plan.Pro].FeeCents, book.Plans[plan.Max].FeeCents = 1_000, 5_000
	h.apply(applied(t, book, h.now))
	h.now = at("2026-10-31T23:59:59.999Z")
	h.account(alice, plan.Pro) // for a millisecond of October, in its last second
	h.account(bob, plan.Max)
	h.now = at("2026-11-16T00:00:00Z") // half of November
	h.command(setTier(alice, plan.Max))
	h.now = at("2026-11-16T00:00:01.500Z")
	h.command(setTier(alice, plan.Free))
	h.command(deleteAccount(bob))
	h.now = at("2026-11-30T12:00:00Z")
	if o := h.command(eraseAccount(bob)); o.Status != event.CommandStatus_COMMAND_OK {
		t.Fatal(o)
	}
	fees := func(id uint64, period string) (out string) {
		s, _ := h.fold.StatementAt(event.AccountID(id), period, h.now)
		checkStatement(t, s)
		for _, p := range s.Periods {
			out += fmt.Sprintf("%s %d s %d; ", plan.Tier(p.Tier), p.FeeSeconds, p.FeeAmountCents)
		}
		return out
	}
	for _, c := range []struct {
		id           uint64
		period, want string
	}{
		{alice, "2026-10", "pro 1 s 0; "},
		{alice, "2026-11", "pro 1296000 s 500; max 1 s 0; free 1295999 s 0; "},
		{bob, "2026-11", "max 2548800 s 4916; "}, // 29.5 days of 30
	} {
		if got := fees(c.id, c.period); got != c.want {
			t.Errorf("%d in %s: %s, want %s", c.id, c.period, got, c.want)
		}
	}
	h.sound()
}
