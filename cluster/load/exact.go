package load

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"
)

// exact is an account all of whose writes are repeated under their Idempotency-Key until they have an answer, so
// that its count and its balance can be told to the unit. Its quotas are soon used up: most writes are paid.
type exact struct {
	l       *Load
	owner   *account
	granted int64 // micro-credits
	shops   []*shop

	mu      sync.Mutex
	pending []*operation
	open    int // pending, and being tried right now
	bills   map[string]*bill
}

// operation is a write that has no answer yet.
type operation struct {
	shop   *shop
	number int64 // of its content
	key    string
	tries  int
	next   time.Time // when to try again
}

// bill is what the answers under one quota key said.
type bill struct {
	price    int64 // contract.md: micro-credits for each request beyond the quota
	quota    int64 // answers that were paid by quota
	paid     int64 // by credits
	replayed int64 // repeats, which do not say what the first was paid by
	cost     int64 // micro-credits that answers named
	open     int64 // operations without an answer
}

const (
	exactTier    = "pro"
	exactCredits = "1000000.000000"
	// maxOpen is how many operations may be without an answer: each may stay so until its hold is given back.
	maxOpen = 64
	// inFlightWait is how soon a write is tried again whose former attempt is still open.
	inFlightWait = 250 * time.Millisecond
	retryStep    = 50 * time.Millisecond
)

func (l *Load) newExact(ctx context.Context) (*exact, error) {
	owner, err := l.newAccount(ctx, exactTier)
	if err != nil {
		return nil, err
	}
	owner.name = "the exact"
	lite, paste, file := domains()
	file.large = 70 << 10
	e := &exact{l: l, owner: owner, bills: map[string]*bill{
		"pasteLite.create": {price: 500}, "pastes.create": {price: 2000}, "files.upload": {price: 5000},
	}}
	for _, d := range []*domain{lite, paste, file} {
		e.shops = append(e.shops, &shop{l: l, domain: d, owner: owner})
	}
	if e.granted, err = micros(exactCredits); err != nil {
		return nil, err
	}
	_, err = l.sure(ctx, call{
		kind: Admin, method: http.MethodPost, path: "/api/admin/accounts/" + owner.id + "/credits", admin: true,
		body: []byte(`{"amount":"` + exactCredits + `","reason":"load"}`), contentType: typeJSON, idempotency: l.newKey(),
	}, nil)
	return e, err
}

// step tries the operation that waits longest, or a new one.
func (e *exact) step(ctx context.Context, w *client, n int) {
	// Files have the smallest quota and the highest price.
	kind := []int{2, 1, 0, 1}[n%4]
	if op := e.take(e.shops[kind]); op != nil {
		e.try(ctx, w, op)
	}
	pause(ctx, e.l.rarely(w.random))
}

// take is a pending operation whose time has come, else a new one in the shop, nil where too many are open.
func (e *exact) take(s *shop) *operation {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := time.Now()
	for i, op := range e.pending {
		if now.After(op.next) {
			e.pending = slices.Delete(e.pending, i, i+1)
			return op
		}
	}
	if s == nil || e.open >= maxOpen {
		return nil
	}
	e.open++
	e.bills[s.quota+s.makes].open++
	return &operation{shop: s, number: e.l.next(), key: e.l.newKey()}
}

// left is how many operations have no answer.
func (e *exact) left() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.open
}

func (e *exact) put(op *operation, wait time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	op.next = time.Now().Add(wait)
	e.pending = append(e.pending, op)
}

func (e *exact) try(ctx context.Context, w *client, op *operation) {
	s := op.shop
	c := s.creation(e.owner.key, op.number, w.home+op.tries)
	c.idempotency = op.key
	op.tries++
	a := e.l.send(ctx, c)
	switch o := a.outcome(); {
	case o == ackedOutcome:
		e.acked(a, op)
		s.shelf.put(w.random, a.id(), op.number)
		if w.random.IntN(8) == 0 {
			c.home = a.base + 1
			e.repeat(ctx, c, a.id())
		}
	case a.is(http.StatusConflict, codeInFlight):
		e.put(op, inFlightWait)
	case o != refusedOutcome:
		e.put(op, min(time.Second, time.Duration(op.tries)*retryStep))
	default:
		e.l.strange.note("answers that should not be", "%s", a)
		if a.status >= http.StatusInternalServerError || a.overFailed() {
			e.put(op, time.Second)
			return
		}
		e.done(op)
	}
}

// repeat sends again what was acknowledged: it must not be done again.
func (e *exact) repeat(ctx context.Context, c call, id string) {
	a := e.l.send(ctx, c)
	switch a.outcome() {
	case ackedOutcome:
		if a.id() != id || a.header.Get(headerReplayed) != "true" {
			e.l.strange.note("done twice", "the first answer was %s, the repeat %s", id, a)
		}
	case refusedOutcome:
		if !a.is(http.StatusConflict, codeInFlight) {
			e.l.strange.note("answers that should not be", "%s", a)
		}
	default:
	}
}

func (e *exact) done(op *operation) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.open--
	e.bills[op.shop.quota+op.shop.makes].open--
}

// acked adds an answer to the bill.
func (e *exact) acked(a *answer, op *operation) {
	s := op.shop
	e.done(op)
	source, cost := a.header.Get(headerSource), a.header.Get(headerCost)
	e.mu.Lock()
	defer e.mu.Unlock()
	b := e.bills[s.quota+s.makes]
	switch {
	case a.header.Get(headerReplayed) == "true":
		b.replayed++
		return
	case source == "quota" && cost == "":
		b.quota++
		return
	}
	v, err := micros(cost)
	if source != "credits" || err != nil || v != b.price {
		e.l.strange.note("wrong charges", "source %q, cost %q, the price is %d micro-credits: %s", source, cost, b.price, a)
	}
	b.paid++
	b.cost += v
}

// finish tries what is pending until all has an answer, or ctx ends.
func (e *exact) finish(ctx context.Context, w *client) error {
	for e.left() > 0 {
		op := e.take(nil)
		if op != nil {
			e.try(ctx, w, op)
		} else {
			pause(ctx, failPause)
		}
		if ctx.Err() != nil {
			return fmt.Errorf("%d writes have no answer under their Idempotency-Key yet", e.left())
		}
	}
	return nil
}

// check holds the usage to the answers: exactly, but for what has no answer.
func (e *exact) check(u *usage, f *findings) {
	e.mu.Lock()
	defer e.mu.Unlock()
	var spent, open int64
	for quotaKey, b := range e.bills {
		k := u.Usage[quotaKey]
		where := fmt.Sprintf("%s of %s account %s through base %d", quotaKey, e.owner.name, e.owner.id, u.base)
		acked := b.quota + b.paid + b.replayed
		if k.Used < acked || k.Used > acked+b.open {
			f.note("wrong counts", "%s: %d writes were acknowledged, %d are without an answer, %d are counted", where, acked, b.open, k.Used)
		}
		if k.Overage < b.paid || k.Overage > b.paid+b.replayed+b.open || k.Used-k.Overage > k.Limit {
			f.note("wrong charges", "%s: of %d counted %d are overage, with a quota of %d, %d answers that were paid, %d repeats and %d without an answer",
				where, k.Used, k.Overage, k.Limit, b.paid, b.replayed, b.open)
		}
		v, err := micros(k.CreditsSpent)
		if want := b.cost + (k.Overage-b.paid)*b.price; err != nil || v != want {
			f.note("wrong charges", "%s: %s credits are spent, %d micro-credits are to be", where, k.CreditsSpent, want)
		}
		spent += v
		open += b.open
	}
	balance, err := micros(u.Credits.Balance)
	total, err2 := micros(u.Credits.SpentThisPeriod)
	if err != nil || err2 != nil || balance != e.granted-spent || total != spent {
		f.note("wrong charges", "%s account %s through base %d: %d micro-credits were granted, %d are spent (%s are said to be), the balance is %s",
			e.owner.name, e.owner.id, u.base, e.granted, spent, u.Credits.SpentThisPeriod, u.Credits.Balance)
	}
	for quotaKey, k := range u.Usage {
		if e.bills[quotaKey] == nil && k.Used != 0 {
			f.note("wrong counts", "%s of %s account %s through base %d: nothing was sent, %d are counted", quotaKey, e.owner.name, e.owner.id, u.base, k.Used)
		}
	}
}

// ledgerPages bounds how much of the ledger is read: 100 entries each.
const ledgerPages = 10

type entry struct {
	ID, Type, Amount, Balance string
	QuotaKey, RequestID       *string
}

// checkLedger holds the newest entries to one another and to the prices. With nothing in flight the newest says
// the balance.
func (e *exact) checkLedger(ctx context.Context, base int, u *usage, f *findings) error {
	requests := map[string]bool{}
	want, cursor := "", ""
	if e.left() == 0 && e.l.settled {
		want = u.Credits.Balance
	}
	for range ledgerPages {
		c := call{kind: Admin, method: http.MethodGet, path: "/api/users/user/credits?limit=100" + cursor, key: e.owner.key, home: base, only: true}
		a, err := e.l.patient(ctx, c)
		if err != nil {
			return err
		}
		var page struct {
			Entries    []entry
			NextCursor string
			HasMore    bool
		}
		if err := json.Unmarshal(a.body, &page); err != nil {
			return fmt.Errorf("ledger in %s: %w", a, err)
		}
		for i := range page.Entries {
			want = e.checkEntry(&page.Entries[i], want, requests, f)
		}
		if !page.HasMore {
			if v, err := micros(want); err != nil || v != 0 {
				f.note("wrong ledger", "%s account %s: before its first entry the balance is %s", e.owner.name, e.owner.id, want)
			}
			return nil
		}
		cursor = "&cursor=" + page.NextCursor
	}
	return nil
}

// checkEntry returns the balance that the entry before must have. want is the one that this must have, "" for any.
func (e *exact) checkEntry(x *entry, want string, requests map[string]bool, f *findings) string {
	if want != "" && x.Balance != want {
		f.note("wrong ledger", "%s account %s: entry %s leaves %s, it is to be %s", e.owner.name, e.owner.id, x.ID, x.Balance, want)
	}
	amount, err := micros(x.Amount)
	balance, err2 := micros(x.Balance)
	if err != nil || err2 != nil {
		f.note("wrong ledger", "%s account %s: entry %s is of %q and leaves %q", e.owner.name, e.owner.id, x.ID, x.Amount, x.Balance)
	}
	if x.Type == "charge" {
		switch {
		case x.RequestID == nil || x.QuotaKey == nil || e.bills[*x.QuotaKey] == nil || amount != -e.bills[*x.QuotaKey].price:
			f.note("wrong ledger", "%s account %s: entry %s charges %s", e.owner.name, e.owner.id, x.ID, x.Amount)
		case requests[*x.RequestID]:
			f.note("wrong ledger", "%s account %s: request %s is charged twice", e.owner.name, e.owner.id, *x.RequestID)
		default:
			requests[*x.RequestID] = true
		}
	}
	return formatMicros(balance - amount)
}
