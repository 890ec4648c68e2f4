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

// exact retries every write of an account under its Idempotency-Key until it has an answer, so the account's counts and
// balance are known exactly. Its quotas are small, so that most writes are paid from credits.
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
	victim *item // to be deleted; nil: the operation is a creation
	key    string
	tries  int
	next   time.Time // of the next try
}

func (op *operation) quotaKey() string {
	if op.victim != nil {
		return op.shop.quota + "delete"
	}
	return op.shop.quota + op.shop.makes
}

func (op *operation) call(home int) call {
	c := op.shop.createCall(op.shop.owner.key, op.number, home)
	if op.victim != nil {
		c = op.shop.deleteCall(op.shop.owner.key, op.victim.id, home)
	}
	c.idempotency = op.key
	return c
}

// store adds what the operation does to the account's storage, by an outcome.
func (op *operation) store(o outcome) {
	size := len(op.shop.content(op.number))
	switch {
	case op.shop.kind != File:
	case op.victim != nil:
		op.shop.owner.stored.deletion(size, o)
	default:
		op.shop.owner.stored.upload(size, o)
	}
}

// bill adds up the answers under one quota key.
type bill struct {
	price    int64 // micro-credits for each request over quota: docs/api.md, Money
	quota    int64 // answers within the quota
	paid     int64 // answers paid from credits
	replayed int64 // replayed answers, which do not say how the first one was charged
	cost     int64 // micro-credits, as the answers say
	open     int64 // operations without an answer
}

const (
	exactTier    = "pro"
	exactCredits = "1000000.000000"
	// maxOpen bounds the operations without an answer. Each may stay open until its hold is closed.
	maxOpen = 64
	// One step in deletionEvery deletes a file.
	deletionEvery = 12
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
		"pasteLite.create": {price: 500}, "pastes.create": {price: 2000}, "files.upload": {price: 5000}, "files.delete": {price: 500},
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
	if op := e.take(w, e.shops[kind], n%deletionEvery == 0); op != nil {
		e.try(ctx, w, op)
	}
	wait.For(ctx, e.l.rarely(w.random))
}

// take returns a pending operation whose time has come, or else a new one in the shop: a deletion if that is wanted and
// there is a document. It is nil if too many are open, or if s is nil.
func (e *exact) take(w *client, s *shop, deletion bool) *operation {
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
	op := &operation{shop: s, number: e.l.next(), key: e.l.newKey()}
	if deletion {
		if op.victim = s.shelf.lease(w.random, true); op.victim != nil {
			op.number = op.victim.number
		}
	}
	e.open++
	e.bills[op.quotaKey()].open++
	return op
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
	c := op.call(w.home + op.tries)
	op.tries++
	a := e.l.send(ctx, c)
	switch o := a.outcome(); {
	case o == ackedOutcome:
		e.acked(a, op)
		if op.victim != nil {
			op.shop.shelf.forget(op.victim, true)
		} else {
			op.shop.shelf.put(w.random, a.id(), op.number)
		}
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

// repeat resends an acknowledged write, which must be replayed, not repeated.
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
	e.bills[op.quotaKey()].open--
}

// acked adds the answer to an operation to its bill.
func (e *exact) acked(a *answer, op *operation) {
	e.done(op)
	op.store(ackedOutcome)
	source, cost := a.header.Get(headerSource), a.header.Get(headerCost)
	e.mu.Lock()
	defer e.mu.Unlock()
	b := e.bills[op.quotaKey()]
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
		op := e.take(w, nil, false)
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
	least, most := e.owner.stored.least.Load(), e.owner.stored.most.Load()
	for _, op := range e.pending {
		switch size := int64(len(op.shop.content(op.number))); {
		case op.shop.kind != File:
		case op.victim != nil:
			least -= size
		default:
			most += size
		}
	}
	e.owner.checkStorage(u, least, most, e.l.settled, f)
	var spent int64
	for quotaKey, b := range e.bills {
		k := u.Usage[quotaKey]
		acked := b.quota + b.paid + b.replayed
		if k.Used < acked || k.Used > acked+b.open {
			f.note(wrongCounts, "%s of %s: %d counted, %d writes acknowledged, %d without an answer", quotaKey, where, k.Used, acked, b.open)
		}
		// A void refunds the newest paid write, so fewer may be paid in the end than answers said.
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

// ledgerPages bounds the pages of the ledger that are read while calls may be in flight. A page has 100 entries.
const ledgerPages = 10

type entry struct {
	ID, Type, Amount, Balance string
	QuotaKey, RequestID       *string
}

// checkLedger compares the newest entries with each other and with the prices. If nothing is in flight it reads the whole
// ledger: the newest entry must have the balance of the account, and the entries of a quota key must add up to what the
// account spent for it.
func (e *exact) checkLedger(ctx context.Context, base int, u *usage, f *findings) error {
	where := fmt.Sprintf("%s account %s", e.owner.name, e.owner.id)
	requests := map[string]bool{}
	cursor := ""
	want, err := micros(u.Credits.Balance)
	settled := e.left() == 0 && e.l.settled
	known := err == nil && settled // whether want is what the next entry must leave
	spent := map[string]int64{}
	for read := 0; settled || read < ledgerPages; read++ {
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
			if x.QuotaKey != nil {
				spent[*x.QuotaKey] -= amount
			}
			want, known = balance-amount, true
		}
		if !page.HasMore {
			if !known || want != 0 {
				f.note(wrongLedger, "%s: the balance before its first entry is %d micro-credits", where, want)
			}
			if settled {
				e.checkSpent(u, spent, where, f)
			}
			return nil
		}
		cursor = "&cursor=" + page.NextCursor
	}
	return nil
}

// checkSpent compares what the entries of each quota key add up to with the usage.
func (e *exact) checkSpent(u *usage, spent map[string]int64, where string, f *findings) {
	for quotaKey, k := range u.Usage {
		if want, err := micros(k.CreditsSpent); err != nil || spent[quotaKey] != want {
			f.note(wrongLedger, "%s: the entries of %s add up to %d micro-credits, %s were spent", where, quotaKey, spent[quotaKey], k.CreditsSpent)
		}
	}
}

// checkStatement compares the statement of the month with the usage. Nothing may be in flight.
func (e *exact) checkStatement(ctx context.Context, base int, u *usage, f *findings) error {
	period := e.l.start.UTC().Format("2006-01")
	a, err := e.l.patient(ctx, call{
		kind: Admin, method: http.MethodGet, path: "/api/users/user/statements/" + period, key: e.owner.key, home: base, only: true,
	})
	if err != nil {
		return err
	}
	var s struct {
		Requests     int64
		CreditsSpent string
		Usage        map[string]struct {
			Requests, Overage int64
			CreditsSpent      string
		}
	}
	if err := json.Unmarshal(a.body, &s); err != nil {
		return fmt.Errorf("statement in %s: %w", a, err)
	}
	requests := int64(0)
	for quotaKey, k := range u.Usage {
		requests += k.Used
		if l := s.Usage[quotaKey]; l.Requests != k.Used || l.Overage != k.Overage || l.CreditsSpent != k.CreditsSpent {
			f.note(wrongStatement, "%s: %+v through base %d, the usage is %+v", quotaKey, l, base, k)
		}
	}
	if s.Requests != requests || s.CreditsSpent != u.Credits.SpentThisPeriod {
		f.note(wrongStatement, "%d requests for %s through base %d, the usage is %d for %s",
			s.Requests, s.CreditsSpent, base, requests, u.Credits.SpentThisPeriod)
	}
	return nil
}

// checkCharge compares an entry with the price, if it is a charge. requests are already charged.
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
