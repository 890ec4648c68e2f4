package account

import (
	"bytes"
	"errors"
	"slices"
	"testing"

	"quire.dev/pkg/event"
	"quire.dev/pkg/plan"
	"quire.dev/pkg/pricebook"
)

// Tests of the parts of a fold, without a journal.

func newBase(at int64) *base { return &base{sequence: 7, time: at, month: monthOf(at)} }

func accountAt(b *base, tier plan.Tier) *account {
	a := &account{principal: newPrincipal(alice), tier: tier, created: b.time, month: b.month.number, storageSince: b.time, tierThen: tier, keyVersion: 1, fingerprint: 1}
	a.principal.account = a
	return a
}

// TestAHoldIsFoundUntilItIsDropped: by its request and its offset, and by its idempotency id only until another hold takes that
// over.
func TestAHoldIsFoundUntilItIsDropped(t *testing.T) {
	b := newBase(1000)
	s := newHolds(b)
	a := accountAt(b, plan.Pro)
	var list []*hold
	for i := range uint32(3) {
		h := s.newHold()
		h.request, h.key, h.principal, h.sequence, h.index = event.RequestID{byte(i + 1)}, plan.LiteGet, &a.principal, b.sequence, i
		h.idempotency, h.hasIdempotency = event.IdempotencyID{9}, true
		s.addOpen(h)
		list = append(list, h)
	}
	if s.open.count != 3 || a.open.count != 3 || a.openBy[plan.LiteGet] != 3 || a.holding[plan.LiteGet] != 3 {
		t.Fatalf("%d and %d are open", s.open.count, a.open.count)
	}
	if s.byIdempotency[event.IdempotencyID{9}] != list[2] || list[0].hasIdempotency || list[1].hasIdempotency {
		t.Error("the newest does not own the idempotency id")
	}
	for i, h := range list {
		if s.byRequest[h.request] != h || s.at(7, uint32(i)) != h {
			t.Errorf("hold %d is not found", i)
		}
	}
	s.removeOpen(list[1])
	s.remember(list[1], event.Result_SERVED, b.time)
	s.unindex(list[1])
	if s.at(7, 1) != nil || s.byRequest[list[1].request] != list[1] || s.closed.count != 1 || a.openBy[plan.LiteGet] != 2 {
		t.Error("a remembered hold is not found by its request alone")
	}
	if a.open.head != list[0] || list[0].after() != list[2] {
		t.Error("the others are not linked")
	}
	for _, at := range []struct {
		sequence uint64
		offset   uint32
	}{{6, 0}, {7, 3}, {7, 1 << 31}} {
		if s.at(at.sequence, at.offset) != nil {
			t.Errorf("a hold at %v", at)
		}
	}
	s.freeHold(list[1])
	if again := s.newHold(); again != list[1] || again.request != (event.RequestID{}) || again.result != event.Result_RESULT_UNSPECIFIED {
		t.Error("the memory of a hold is not used again, or not cleared")
	}
}

// TestCreditsGoInTheOrderOfExpiry and are refunded to their grants; in an expired grant they expire at once.
func TestCreditsGoInTheOrderOfExpiry(t *testing.T) {
	b := newBase(1000)
	c := credits{base: b}
	a := accountAt(b, plan.Pro)
	never := &grant{id: 1, amount: 100, left: 100, account: a}
	soon := &grant{id: 2, amount: 30, left: 30, expires: 5000, account: a}
	for _, g := range []*grant{never, soon} {
		c.addGrant(g)
		a.available += int64(g.left)
		c.enter(a, 0, &event.LedgerEntry{AmountMicros: int64(g.left)})
	}
	h := &hold{principal: &a.principal}
	c.pay(a, h, 50)
	if soon.left != 0 || never.left != 80 || a.available != 80 || a.settled != 130 || h.cost != 50 {
		t.Fatalf("paid from %d and %d, %d are available", soon.left, never.left, a.available)
	}
	soon.over = true
	c.refund(a, h, b.time)
	if never.left != 100 || a.available != 100 || a.settled != 100 || len(h.use) != 0 {
		t.Fatalf("refunded to %d, %d are available, the ledger has %d", never.left, a.available, a.settled)
	}
	last := b.effects.Ledger[len(b.effects.Ledger)-1]
	if last.Type != event.LedgerType_LEDGER_EXPIRY || last.AmountMicros != -30 || last.BalanceMicros != 100 {
		t.Errorf("the ledger ends with %v", last)
	}
	if !slices.IsSortedFunc(b.effects.Ledger, func(x, y *event.LedgerEntry) int {
		if x.Id < y.Id {
			return -1
		}
		return 1
	}) {
		t.Error("ids of the ledger are not in its order")
	}
	if c.pay(a, &hold{}, 101); !errors.Is(b.broken, ErrState) {
		t.Errorf("more than there is was paid: %v", b.broken)
	}
}

// TestAKeyAndItsSuccessorShareALineage: limits and counters continue, whichever of them is used.
func TestAKeyAndItsSuccessorShareALineage(t *testing.T) {
	b := newBase(at("2026-10-15T12:00:00Z"))
	a := accountAt(b, plan.Pro)
	status, first := a.createKey(b, &event.CreateKey{Fingerprint: 11, Rules: &event.KeyRules{
		Name: new("ci"), Quotas: quotasOf(plan.LiteGet, 2), ExpiresInMs: new(int64(1000)),
	}})
	if status != ok || first.number != 1 || first.expires != b.time+1000 {
		t.Fatalf("%v, %+v", status, first)
	}
	status, second, ends := a.replaceKey(b, &event.ReplaceKey{Key: 1, Fingerprint: 12, OverlapMs: 500})
	if status != ok || ends != b.time+500 || second.lineage != first.lineage || second.expires != b.time+1000 || first.replacedBy != second.number {
		t.Fatalf("%v, %+v until %d", status, second, ends)
	}
	l := a.lineageOf(first.lineage)
	for n, k := range []*apiKey{first, second} {
		if l.full(plan.LiteGet, a.month) {
			t.Fatalf("full after %d of 2", n)
		}
		a.countKey(b, k, l, &hold{key: plan.LiteGet})
	}
	if !l.full(plan.LiteGet, a.month) || l.full(plan.LiteGet, a.month+1) {
		t.Error("not full after 2 of 2, or still so in the next month")
	}
	for _, c := range []struct {
		number      uint32
		fingerprint uint64
		now         int64
		valid       bool
	}{{1, 11, ends - 1, true}, {1, 11, ends, false}, {2, 12, ends, true}, {2, 11, ends, false}, {0, 1, ends, true}} {
		if _, valid := a.sentKey(c.number, 1, c.fingerprint, c.now); valid != c.valid {
			t.Errorf("%+v", c)
		}
	}
	if status, _ := a.revokeKey(b, 2); status != ok || second.live(b.time) {
		t.Error("it is not revoked at once")
	}
}

// TestStorageIsAnIntegralOfTime, by month and by day, even for late changes.
func TestStorageIsAnIntegralOfTime(t *testing.T) {
	b := newBase(at("2026-10-15T00:00:00Z"))
	a := accountAt(b, plan.Pro)
	created := b.time
	a.store(b, 100, 0)
	b.time += dayMillis
	a.store(b, -40, b.time-1000) // deleted a second ago
	a.integrate(b.time + 1000)
	want := product(100, dayMillis-1000).plus(product(60, 2000))
	if a.storageBytes != 60 || a.current.byteMillis != want {
		t.Fatalf("%d bytes, %v, want %v", a.storageBytes, a.current.byteMillis, want)
	}
	var sum uint128
	days := a.current.days.list(b.month, b.time+1000)
	for _, d := range days {
		sum = sum.add(uint128{d.ByteMsHigh, d.ByteMsLow})
	}
	if len(days) != 2 || sum != want || int64(days[0].Day) != created/dayMillis {
		t.Errorf("days %v sum to %v", days, sum)
	}
	if a.store(b, -1000, 0); a.storageBytes != 0 {
		t.Errorf("%d bytes are left", a.storageBytes)
	}
}

// TestACrossingIsNotifiedOnceAPeriod: at each share once, and again for another limit or period.
func TestACrossingIsNotifiedOnceAPeriod(t *testing.T) {
	b := newBase(at("2026-10-15T12:00:00Z"))
	n := notifier{base: b, alerted: map[uint64]uint32{}}
	a := accountAt(b, plan.Free)
	if status, _ := n.setWebhook(a, &event.SetWebhook{
		Webhook: 1, Create: true, Events: new(uint32(1 << (event.AlertType_ALERT_QUOTA - 1))), Thresholds: &event.Percents{Values: []uint32{50, 100}},
	}); status != ok {
		t.Fatal(status)
	}
	of := limited{kind: event.AlertType_ALERT_QUOTA, key: plan.LiteGet, from: b.month.start}
	next := of
	next.from = b.month.end
	for i, c := range []struct {
		of     limited
		growth growth
		want   int
	}{
		{of, growth{before: 3, after: 4, limit: 10}, 0},
		{of, growth{before: 4, after: 5, limit: 10}, 1},
		{of, growth{before: 4, after: 5, limit: 10}, 1}, // after a void
		{of, growth{before: 9, after: 10, limit: 10}, 2},
		{of, growth{before: 9, after: 10, limit: 20}, 3},
		{next, growth{before: 0, after: 10, limit: 10}, 5},
	} {
		if n.grown(a, c.of, c.growth); len(b.effects.Alerts) != c.want {
			t.Errorf("step %d: %d alerts, want %d", i, len(b.effects.Alerts), c.want)
		}
	}
}

// TestAStatementHasThePricesOfItsMonth and usage by quota key; a later price book does not change it.
func TestAStatementHasThePricesOfItsMonth(t *testing.T) {
	b := newBase(at("2026-10-15T12:00:00Z"))
	old, renewed := plan.Published(10), plan.Published(10)
	renewed.Plans[plan.Pro].Terms[plan.LiteGet].Limit = 7
	l := prices{list: []bookFrom{{fromMillis: 0, book: old}, {fromMillis: at("2026-11-02T00:00:00Z"), book: renewed}}}
	a := accountAt(b, plan.Pro)
	a.current.used[plan.LiteGet], a.current.charging().overage[plan.LiteGet], a.current.charging().spent[plan.LiteGet] = 5, 2, 300
	var closed []*event.StatementAnswer
	l.roll(a, monthNumber(a.month+2), func(s *event.StatementAnswer) { closed = append(closed, s) })
	if len(closed) != 1 || closed[0].Period != "2026-10" || !closed[0].Closed || closed[0].SpentMicros != 300 {
		t.Fatalf("closed %v", closed)
	}
	u := closed[0].Usage[plan.LiteGet-1]
	if u.Used != 5 || u.Overage != 2 || u.Limit != old.Plans[plan.Pro].Terms[plan.LiteGet].Limit {
		t.Errorf("October: %v", u)
	}
	if now := l.statement(a, monthNumber(a.month)).Usage[plan.LiteGet-1]; now.Used != 0 || now.Limit != 7 {
		t.Errorf("December: %v", now)
	}
}

// TestANetworkIsForgottenWithItsLastMemory: failures, admissions and voided writes keep it.
func TestANetworkIsForgottenWithItsLastMemory(t *testing.T) {
	b := newBase(1_000_000)
	s := newPrincipals(b)
	n := s.network(net1)
	s.fail(&n.principal)
	s.logAdmitted(n)
	if s.reap(&n.principal); s.networks[net1] == nil || len(b.dirty) != 1 {
		t.Fatal("forgotten with an admission and a failure")
	}
	b.time += 1000
	s.trimAdmitted(1000)
	if len(n.admitted) != 0 || s.networks[net1] == nil {
		t.Fatal("the admission is still there, or the failure is not")
	}
	s.trimFailures(s.failures.pop())
	if s.networks[net1] != nil || !n.gone {
		t.Error("it is remembered for nothing")
	}
	if s.principalOf(net1, true) != nil || s.principalOf(alice, false) != nil {
		t.Error("there is nobody")
	}
}

// TestCreditsTakenBackAreOwedUntilMoreCome: the next credits repay the debt first; the balance is capped at maxBalance.
func TestCreditsTakenBackAreOwedUntilMoreCome(t *testing.T) {
	b := newBase(1000)
	c := credits{base: b, alerts: &notifier{base: b, alerted: map[uint64]uint32{}}}
	a := accountAt(b, plan.Pro)
	if status := c.grant(a, &event.Grant{AmountMicros: 70}, "", 0); status != ok || a.available != 70 {
		t.Fatalf("%v, %d are available", status, a.available)
	}
	if status := c.grant(a, &event.Grant{AmountMicros: -71}, "", 0); status != event.CommandStatus_COMMAND_INSUFFICIENT_CREDITS {
		t.Errorf("an admin took more than there is: %v", status)
	}
	c.remove(a, 100, &event.LedgerEntry{AmountMicros: -100})
	if a.available != 0 || a.owed != 30 || a.settled != -30 || len(a.grants) != 0 {
		t.Fatalf("%d are available, %d owed, the ledger has %d", a.available, a.owed, a.settled)
	}
	if c.give(a, maxBalance+31, 0, 1, &event.LedgerEntry{}) || !c.give(a, maxBalance+30, 0, 1, &event.LedgerEntry{AmountMicros: maxBalance + 30}) {
		t.Error("the balance limit is not maxBalance")
	}
	if a.available != maxBalance || a.owed != 0 || a.settled != maxBalance {
		t.Errorf("%d are available, %d owed, the ledger has %d", a.available, a.owed, a.settled)
	}
}

// TestATopUpIsDueOnceAndOffAfterTwoFailures: a low balance makes it due, a failure makes it wait for an hour.
func TestATopUpIsDueOnceAndOffAfterTwoFailures(t *testing.T) {
	b := newBase(at("2026-11-02T12:00:00Z"))
	b.rules = Rules4
	u := newTopUps(b, &notifier{base: b, alerted: map[uint64]uint32{}})
	a := accountAt(b, plan.Pro)
	if status := u.set(a, &event.SetTopUp{BelowMicros: 1, CreditsMicros: minTopUp, MonthMicros: 2 * minTopUp}); status != ok || len(b.watched) != 1 {
		t.Fatalf("%v, watched: %v", status, b.watched)
	}
	for n := range uint64(maxTopUpFailures) {
		for range 2 {
			u.decide()
		}
		if due := u.TopUps(nil).TopUps; len(due) != 1 || due[0].Id != n+1 || due[0].CreditsMicros != minTopUp {
			t.Fatalf("due: %v", due)
		}
		b.touch(&a.principal)
		if u.fail(a, &event.TopUpFailed{TopUp: n}); a.topUp.DueMs == 0 {
			t.Error("a failure of another top-up counts")
		}
		if u.fail(a, &event.TopUpFailed{TopUp: n + 1}); a.topUp.DueMs != 0 || a.topUp.SpentMicros != 0 || u.wake != b.time+topUpRetryMillis {
			t.Errorf("%v, wakes at %d", a.topUp, u.wake)
		}
		b.time += topUpRetryMillis - 1
		if u.decide(); len(u.pending) != 0 {
			t.Error("it is due before the hour has passed")
		}
		b.time++
	}
	if u.decide(); !a.topUp.Off || len(u.pending) != 0 || u.wake != b.month.end {
		t.Errorf("%v, wakes at %d", a.topUp, u.wake)
	}
}

// TestABookWaitsForItsTime: an upcoming one changes nothing, and a withdrawn one never comes into force.
func TestABookWaitsForItsTime(t *testing.T) {
	b := newBase(1000)
	l := prices{base: b}
	if !l.set(&event.PriceBook{Rules: Rules4, StampMs: 1000}) || b.rules != Rules4 || l.terms != b.sequence || l.due() != never {
		t.Fatalf("the first book: rules %d, %+v", b.rules, l)
	}
	first := l.current
	b.sequence++
	for i, effective := range []int64{3000, 2000} {
		if l.set(&event.PriceBook{Id: string(rune('a' + i)), StampMs: 1000, EffectiveMs: effective}) || l.current != first {
			t.Fatal("an upcoming book is in force")
		}
	}
	if l.due() != 2000 || l.terms == b.sequence {
		t.Errorf("the next one at %d", l.due())
	}
	l.set(&event.PriceBook{Id: "b", Withdrawn: true})
	if l.next() || l.current != first || l.due() != 3000 {
		t.Error("a withdrawn book came into force")
	}
	if !l.next() || l.current == first || l.terms != b.sequence || l.due() != never || len(l.list) != 2 {
		t.Errorf("the second book is not in force: %+v", l)
	}
}

// TestAReaderChangesNothing, and shows an account as it will be two months later: with empty counters, and without its expired
// grant.
func TestAReaderChangesNothing(t *testing.T) {
	b := newBase(at("2026-10-15T12:00:00Z"))
	s, l := newPrincipals(b), prices{base: b}
	l.set(pricebook.Configured(plan.Published(10)))
	a := accountAt(b, plan.Pro)
	s.accounts[alice] = a
	a.storageBytes, a.available, a.settled = 1000, 70, 70
	a.current.used[plan.LiteGet] = 5
	a.grants = []*grant{{id: 1, amount: 30, left: 30, expires: at("2026-11-01T00:00:00Z"), account: a}, {id: 2, amount: 40, left: 40, account: a}}
	before, err := event.Encode(a.state())
	if err != nil {
		t.Fatal(err)
	}
	r := reader{base: b, principals: &s, prices: &l}
	now, later := r.UsageAt(event.AccountID(alice), 0), r.UsageAt(event.AccountID(alice), at("2026-12-15T12:00:00Z"))
	if now.Usage[plan.LiteGet-1].Used != 5 || now.BalanceMicros != 70 || later.Usage[plan.LiteGet-1].Used != 0 || later.BalanceMicros != 40 {
		t.Errorf("now %v, later %v", now, later)
	}
	if october, held := r.StatementAt(event.AccountID(alice), "2026-10", at("2026-12-15T12:00:00Z")); !held || !october.Closed || october.StorageAverageBytes == 0 {
		t.Errorf("October: %v, %v", october, held)
	}
	if _, plan, statements := r.Shown(event.AccountID(alice)); plan != nil || len(statements) != 1 {
		t.Errorf("shown: %v, %v", plan, statements)
	}
	if after, err := event.Encode(a.state()); err != nil || !bytes.Equal(before, after) || len(b.dirty) != 0 {
		t.Errorf("the account was changed: %v", err)
	}
}

// TestRecordsAreOptIn: nothing is recorded before Record, and only a watched request is traced.
func TestRecordsAreOptIn(t *testing.T) {
	b := newBase(1000)
	s := records{base: b}
	a := accountAt(b, plan.Pro)
	h := &hold{request: event.RequestID{1}, principal: &a.principal, time: 900}
	anonymous := &hold{request: event.RequestID{2}, principal: &principal{}}
	if s.ended(h, SettlementServed); len(b.effects.Requests) != 0 {
		t.Error("recorded before it was asked for")
	}
	s.Record()
	s.ended(anonymous, SettlementServed)
	if s.ended(h, SettlementVoid); len(b.effects.Requests) != 1 || b.effects.Requests[0].TimeMillis != 900 || b.effects.Requests[0].Status != SettlementVoid {
		t.Errorf("recorded: %v", b.effects.Requests)
	}
	watched := s.Watch(h.request)
	if s.ended(h, SettlementVoid); watched.Answer() != nil {
		t.Error("a request is traced before its admission")
	}
	watched.answer = &event.ExplainAnswer{}
	s.ended(anonymous, SettlementServed)
	if s.ended(h, SettlementWaived); watched.Answer().Settlement != SettlementWaived || watched.Answer().SettlementSequence != b.sequence {
		t.Errorf("traced: %v", watched.Answer())
	}
}

// TestASelectionComparesItsOwnPrincipals: those missing on either side and those that differ, by id; principals of other parts are skipped.
func TestASelectionComparesItsOwnPrincipals(t *testing.T) {
	even := selection(func(id uint64) bool { return id%2 == 0 })
	one := func(id uint64, data string) imagePrincipal { return imagePrincipal{id, []byte(data)} }
	found := []imagePrincipal{one(1, "x"), one(8, "added"), one(6, "other"), one(4, "same"), one(9, "y")}
	var differing []uint64
	even.compare(AccountsField, []imagePrincipal{one(6, "ours"), one(2, "lost"), one(4, "same")}, found, func(_, id uint64, expected, found []byte) {
		differing = append(differing, id)
		if (expected == nil) != (id == 8) || (found == nil) != (id == 2) {
			t.Errorf("%d: %q, %q", id, expected, found)
		}
	})
	if !slices.Equal(differing, []uint64{2, 6, 8}) {
		t.Errorf("%v differ", differing)
	}
	if all := selection(nil); !all.has(1) || even.has(1) || !even.has(2) {
		t.Error("a selection has the wrong ids")
	}
}

// TestAnAccountRefusesBeforeAnyLimit: a suspension comes before a quarantine, and that before a key's scopes.
func TestAnAccountRefusesBeforeAnyLimit(t *testing.T) {
	b := newBase(1000)
	a := accountAt(b, plan.Pro)
	l := &keyLineage{scopes: 1 << plan.LiteGet}
	refused := func(key plan.QuotaKey) event.Decision {
		v := &event.Verdict{}
		if a.accountRefused(l, key, v) != v.Final {
			t.Errorf("%v is final: %v", v.Decision, v.Final)
		}
		return v.Decision
	}
	if d := refused(plan.LiteGet); d != event.Decision_DECISION_UNSPECIFIED {
		t.Errorf("a scope of the key: %v", d)
	}
	for _, step := range []struct {
		change func()
		want   event.Decision
	}{
		{func() {}, event.Decision_KEY_SCOPE},
		{func() { a.quarantined = 1 }, event.Decision_ACCOUNT_QUARANTINED},
		{func() { a.suspended = 1 }, event.Decision_ACCOUNT_SUSPENDED},
		{func() { a.suspended, a.deletes = 0, 1 }, event.Decision_ACCOUNT_SUSPENDED},
	} {
		if step.change(); refused(plan.LiteCreate) != step.want {
			t.Errorf("%v, want %v", refused(plan.LiteCreate), step.want)
		}
	}
}
