package load

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"quire.dev/pkg/wait"
)

// exact has an account whose every write is repeated under its Idempotency-Key until it has an answer. So the count and
// the balance of the account are known exactly. Its quotas are small: credits pay most writes.
type exact struct {
	l       *Load
	owner   *account
	granted int64 // micro-credits
	shops   []*shop

	mu      sync.Mutex
	pending []*operation
	open    int // operations without an answer, the pending ones included
	bills   map[string]*bill
}

// operation is a write without an answer.
type operation struct {
	shop   *shop
	number int64 // makes its content
	key    string
	tries  int
	next   time.Time // of the next try
}

// bill adds up the answers under one quota key.
type bill struct {
	price    int64 // micro-credits for each request beyond the quota: docs/api.md, Money
	quota    int64 // answers that were paid from the quota
	paid     int64 // answers that credits paid
	replayed int64 // repeated answers, which do not say what paid the first one
	cost     int64 // micro-credits, as the answers say
	open     int64 // operations without an answer
}

const (
	exactTier    = "pro"
	exactCredits = "1000000.000000"
	// maxOpen bounds the operations without an answer. Each may stay open until its hold is closed.
	maxOpen = 64
	// inFlightWait is the time between two tries of a write that is in flight.
	inFlightWait = 250 * time.Millisecond
	retryStep    = 50 * time.Millisecond
)

func (l *Load) newExact(ctx context.Context) (*exact, error) {
	owner, err := l.newAccount(ctx, "the exact", exactTier)
	if err != nil {
		return nil, err
	}
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
		body: []byte(`{"amount":"` + exactCredits + `","reason":"load"}`), idempotency: l.newKey(),
	})
	return e, err
}

// step tries a pending operation, or a new one.
func (e *exact) step(ctx context.Context, w *client, n int) {
	// Files have the smallest quota and the highest price.
	kind := []int{2, 1, 0, 1}[n%4]
	if op := e.take(e.shops[kind]); op != nil {
		e.try(ctx, w, op)
	}
	wait.For(ctx, e.l.rarely(w.random))
}

// take returns a pending operation whose time has come, or else a new one in the shop. It is nil if too many are open, or
// if s is nil.
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

// left is the number of operations without an answer.
func (e *exact) left() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.open
}

func (e *exact) put(op *operation, after time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	op.next = time.Now().Add(after)
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
	case a.inFlight():
		e.put(op, inFlightWait)
	case o != refusedOutcome:
		e.put(op, min(time.Second, time.Duration(op.tries)*retryStep))
	default:
		e.l.strange.note(strangeAnswer, "%s", a)
		if a.status >= http.StatusInternalServerError || a.overFailed() {
			e.put(op, time.Second)
			return
		}
		e.done(op)
	}
}

// repeat sends an acknowledged write again, which must not do it again.
func (e *exact) repeat(ctx context.Context, c call, id string) {
	a := e.l.send(ctx, c)
	switch {
	case a.acked() && (a.id() != id || a.header.Get(headerReplayed) != "true"):
		e.l.strange.note("done twice", "the first answer was %s, the repeat %s", id, a)
	case a.outcome() == refusedOutcome && !a.inFlight():
		e.l.strange.note(strangeAnswer, "%s", a)
	}
}

func (e *exact) done(op *operation) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.open--
	e.bills[op.shop.quota+op.shop.makes].open--
}

// acked adds the answer to an operation to its bill.
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
		e.l.strange.note(wrongCharges, "source %q, cost %q, the price is %d micro-credits: %s", source, cost, b.price, a)
	}
	b.paid++
	b.cost += v
}

// finish tries the pending operations until each has an answer, or ctx ends.
func (e *exact) finish(ctx context.Context, w *client) error {
	for e.left() > 0 {
		op := e.take(nil)
		if op != nil {
			e.try(ctx, w, op)
		} else {
			wait.For(ctx, failPause)
		}
		if ctx.Err() != nil {
			return fmt.Errorf("%d writes have no answer under their Idempotency-Key", e.left())
		}
	}
	return nil
}

// check compares the usage with the answers. They must agree exactly, except for operations without an answer.
func (e *exact) check(u *usage, f *findings) {
	e.mu.Lock()
	defer e.mu.Unlock()
	where := fmt.Sprintf("%s account %s through base %d", e.owner.name, e.owner.id, u.base)
	var spent int64
	for quotaKey, b := range e.bills {
		k := u.Usage[quotaKey]
		acked := b.quota + b.paid + b.replayed
		if k.Used < acked || k.Used > acked+b.open {
			f.note(wrongCounts, "%s of %s: %d counted, %d writes acknowledged, %d without an answer", quotaKey, where, k.Used, acked, b.open)
		}
		// A void gives the payment of the newest paid write back, so fewer may be paid in the end than answers said.
		if k.Overage != max(0, k.Used-k.Limit) || k.Overage > b.paid+b.replayed+b.open {
			f.note(wrongCharges, "%s of %s: %d of %d counted are overage, the quota is %d; %d answers paid, %d repeated, %d open",
				quotaKey, where, k.Overage, k.Used, k.Limit, b.paid, b.replayed, b.open)
		}
		v, err := micros(k.CreditsSpent)
		if want := b.cost + (k.Overage-b.paid)*b.price; err != nil || v != want {
			f.note(wrongCharges, "%s of %s: %s credits spent, want %d micro-credits", quotaKey, where, k.CreditsSpent, want)
		}
		spent += v
	}
	balance, err := micros(u.Credits.Balance)
	total, err2 := micros(u.Credits.SpentThisPeriod)
	if err != nil || err2 != nil || balance != e.granted-spent || total != spent {
		f.note(wrongCharges, "%s: %d micro-credits granted and %d spent, but spentThisPeriod is %s and the balance %s",
			where, e.granted, spent, u.Credits.SpentThisPeriod, u.Credits.Balance)
	}
	for quotaKey, k := range u.Usage {
		if e.bills[quotaKey] == nil && k.Used != 0 {
			f.note(wrongCounts, "%s of %s: %d counted, nothing was sent", quotaKey, where, k.Used)
		}
	}
}

// ledgerPages bounds the pages of the ledger that are read. A page has 100 entries.
const ledgerPages = 10

type entry struct {
	ID, Type, Amount, Balance string
	QuotaKey, RequestID       *string
}

// checkLedger compares the newest entries with each other and with the prices. If nothing is in flight, the newest entry
// must have the balance of the account.
func (e *exact) checkLedger(ctx context.Context, base int, u *usage, f *findings) error {
	where := fmt.Sprintf("%s account %s", e.owner.name, e.owner.id)
	requests := map[string]bool{}
	cursor := ""
	want, err := micros(u.Credits.Balance)
	known := err == nil && e.left() == 0 && e.l.settled // whether want is what the next entry must leave
	for range ledgerPages {
		a, err := e.l.patient(ctx, call{
			kind: Admin, method: http.MethodGet, path: "/api/users/user/credits?limit=100" + cursor, key: e.owner.key, home: base, only: true,
		})
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
		for _, x := range page.Entries {
			amount, err := micros(x.Amount)
			balance, err2 := micros(x.Balance)
			if err != nil || err2 != nil || known && balance != want {
				f.note(wrongLedger, "%s: entry %s of %q leaves %q, want %d micro-credits", where, x.ID, x.Amount, x.Balance, want)
			}
			e.checkCharge(&x, amount, requests, where, f)
			want, known = balance-amount, true
		}
		if !page.HasMore {
			if !known || want != 0 {
				f.note(wrongLedger, "%s: the balance before its first entry is %d micro-credits", where, want)
			}
			return nil
		}
		cursor = "&cursor=" + page.NextCursor
	}
	return nil
}

// checkCharge compares an entry with the price, if it is a charge. requests are those that are charged already.
func (e *exact) checkCharge(x *entry, amount int64, requests map[string]bool, where string, f *findings) {
	switch {
	case x.Type != "charge":
	case x.RequestID == nil || x.QuotaKey == nil || e.bills[*x.QuotaKey] == nil || amount != -e.bills[*x.QuotaKey].price:
		f.note(wrongLedger, "%s: entry %s charges %s", where, x.ID, x.Amount)
	case requests[*x.RequestID]:
		f.note(wrongLedger, "%s: request %s is charged twice", where, *x.RequestID)
	default:
		requests[*x.RequestID] = true
	}
}
