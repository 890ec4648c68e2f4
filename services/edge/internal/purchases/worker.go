package purchases

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"quire.dev/pkg/event"
	"quire.dev/pkg/num"
	"quire.dev/pkg/payments"
	"quire.dev/pkg/plan"
	"quire.dev/pkg/pricebook"
	"quire.dev/pkg/wait"
	"quire.dev/services/edge/internal/endpoint"
)

// One edge compares the provider's payments with the journal, for webhooks that never came, and charges top-ups. It holds a lease in
// billing. The lease only saves requests: everything it does can be repeated, and done by several edges at once.
const (
	workEvery    = 2 * time.Second
	leaseTime    = 20 * time.Second
	renewEvery   = 5 * time.Second
	compareEvery = time.Hour
	tryAgain     = time.Minute // after a comparison that failed
	overlap      = time.Hour   // objects that changed so long before the last comparison are looked at again
	comparing    = 8           // objects at a time
	charging     = 1000        // top-ups of a partition at a time
	maxReason    = 200         // bytes of a failure that billing keeps
	pendingEvery = time.Hour   // a bank debit is asked for again
)

// Work compares payments and charges top-ups until ctx ends, if payments are taken online.
func (p *Purchases) Work(ctx context.Context) {
	if !p.Online() {
		return
	}
	w := &worker{Purchases: p, name: rand.Text(), pending: map[topUpOf]time.Time{}}
	for {
		if err := w.turn(ctx); err != nil && ctx.Err() == nil {
			p.metrics.failures.Inc()
			p.log.Warn("payments will be compared, and top-ups charged, again", "error", err)
		}
		if !wait.For(ctx, workEvery) {
			w.release()
			return
		}
	}
}

// worker is the Work of one edge.
type worker struct {
	*Purchases
	name     string
	last     time.Time // of a complete comparison, by any edge, as of the last claim
	claimed  time.Time // when the lease was last taken or renewed; zero without it
	compared bool      // since this edge started
	after    time.Time // of the next comparison, which follows one that failed

	mu      sync.Mutex
	pending map[topUpOf]time.Time // bank debits, and when they are asked for again
}

// topUpOf names a top-up.
type topUpOf struct{ account, id uint64 }

// claim takes or renews the lease; nil if another edge has it.
func (w *worker) claim(ctx context.Context, c *event.ClaimPayments) (*event.PaymentsLease, error) {
	c.Worker = w.name
	a, err := w.bus.User(ctx, &event.UserRequest{Action: &event.UserRequest_ClaimPayments{ClaimPayments: c}})
	switch {
	case err != nil:
		return nil, err
	case a.Status == event.UserStatus_USER_CHANGED:
		return nil, nil
	case a.Status != event.UserStatus_USER_OK || a.Payments == nil:
		return nil, endpoint.Unavailable(endpoint.ErrUserAnswer)
	}
	return a.Payments, nil
}

// release gives the lease back, so that another edge need not wait for its end.
func (w *worker) release() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_, _ = w.claim(ctx, &event.ClaimPayments{}) // it ends by itself
}

// leads reports whether this edge has the lease, after renewing it or taking a free one.
func (w *worker) leads(ctx context.Context) (bool, error) {
	now := time.Now()
	if now.Sub(w.claimed) < renewEvery {
		return true, nil
	}
	w.claimed = time.Time{}
	lease, err := w.claim(ctx, &event.ClaimPayments{LeaseMs: leaseTime.Milliseconds()})
	if lease == nil {
		return false, err
	}
	w.claimed, w.last = now, time.UnixMilli(lease.ComparedMs)
	return true, nil
}

// turn does what is due if this edge has the lease.
func (w *worker) turn(ctx context.Context) error {
	if leads, err := w.leads(ctx); !leads {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	defer func() {
		if ctx.Err() != nil { // another edge has the lease
			w.claimed = time.Time{}
		}
	}()
	go w.renew(ctx, stop)
	charged := w.chargeAll(ctx)
	if w.compared && time.Since(w.last) < compareEvery || time.Now().Before(w.after) {
		return charged
	}
	err := w.compare(ctx)
	w.after = time.Time{}
	if err != nil {
		w.after = time.Now().Add(tryAgain)
	}
	return errors.Join(charged, err)
}

// renew keeps the lease until ctx ends, and stops the work once it is lost.
func (w *worker) renew(ctx context.Context, lost context.CancelFunc) {
	for wait.For(ctx, renewEvery) {
		if lease, err := w.claim(ctx, &event.ClaimPayments{LeaseMs: leaseTime.Milliseconds()}); err == nil && lease == nil {
			lost()
		}
	}
}

// compare looks at everything that has changed at the provider since the last comparison.
func (w *worker) compare(ctx context.Context) error {
	provider, err := w.provider(ctx)
	if err != nil {
		return err
	}
	begun := time.Now() // the provider's times are real ones, whatever QUIRE_CLOCK_OFFSET says
	since := time.Time{}
	if w.last.UnixMilli() > 0 { // 1970 before the first one
		since = w.last.Add(-overlap)
	}
	var group errgroup.Group
	group.SetLimit(comparing)
	for ref, err := range provider.Changed(ctx, since) {
		if err != nil {
			return errors.Join(err, group.Wait())
		}
		group.Go(func() error { return w.syncPatiently(ctx, ref) }) // one that fails does not hold up the others
	}
	if err := group.Wait(); err != nil {
		return err
	}
	_, err = w.claim(ctx, &event.ClaimPayments{LeaseMs: leaseTime.Milliseconds(), ComparedMs: begun.UnixMilli()})
	if err == nil {
		w.compared, w.last = true, begun
		w.metrics.compared.Set(float64(begun.Unix()))
	}
	return err
}

// syncPatiently is Sync for one of many objects, of which the provider may find too many at a time.
func (w *worker) syncPatiently(ctx context.Context, ref payments.Ref) error {
	pause := wait.Backoff{Initial: time.Second, Max: 8 * time.Second}
	for range 4 {
		err := w.Sync(ctx, ref)
		if !errors.Is(err, payments.ErrUnavailable) || !wait.For(ctx, pause.Next()) {
			return err
		}
	}
	return w.Sync(ctx, ref)
}

// chargeAll charges the due top-ups of all partitions. One that fails does not hold up the others.
func (w *worker) chargeAll(ctx context.Context) error {
	due, err := w.bus.TopUps(ctx, charging)
	if err != nil || len(due) == 0 {
		return err
	}
	provider, err := w.provider(ctx)
	if err != nil {
		return err
	}
	var group errgroup.Group
	group.SetLimit(comparing)
	for _, t := range due {
		if w.isPending(t) {
			continue
		}
		group.Go(func() error {
			if err := w.charge(ctx, provider, t); err != nil {
				return fmt.Errorf("top-up %d of account %s: %w", t.Id, event.AccountID(t.Account), err)
			}
			return nil
		})
	}
	return group.Wait()
}

// isPending reports whether a top-up is a bank debit that need not be asked for yet.
func (w *worker) isPending(t *event.TopUp) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return time.Now().Before(w.pending[topUpOf{t.Account, t.Id}])
}

// noteState notes that a top-up is a bank debit, or is not any more.
func (w *worker) noteState(t *event.TopUp, pending bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if pending {
		w.pending[topUpOf{t.Account, t.Id}] = time.Now().Add(pendingEvery)
		return
	}
	delete(w.pending, topUpOf{t.Account, t.Id})
}

// charge charges a top-up once, however often it is called: its key at the provider is its own.
func (w *worker) charge(ctx context.Context, provider payments.Provider, t *event.TopUp) error {
	account := event.AccountID(t.Account)
	book, err := w.bookAt(t.TimeMs)
	if err != nil {
		return err
	}
	cents, err := sold(book, plan.Micros(num.Int64(t.CreditsMicros)))
	if err != nil { // the price has changed since the holder set it
		return w.failTopUp(ctx, t, payments.AmountOutOfRange)
	}
	asOf := w.Now().UnixMilli()
	paid, err := provider.Charge(ctx, payments.TopUp{
		Account: account.String(), CreditsMicros: num.Int64(t.CreditsMicros), AmountMinor: num.Int64(cents), Currency: currency,
		Description: plan.Short(t.CreditsMicros) + " credits (automatic top-up)", Key: fmt.Sprintf("top-up-%d", t.Id),
	})
	w.noteState(t, err == nil && paid.State == payments.Pending)
	if declined, ok := errors.AsType[*payments.Declined](err); ok {
		w.metrics.declined.Inc()
		return w.failTopUp(ctx, t, declined.Reason)
	}
	if errors.Is(err, payments.ErrMismatch) || errors.Is(err, payments.ErrForeign) {
		w.metrics.mismatches.Inc()
		w.log.Error("a top-up does not match its payment: look at it in the provider's dashboard", "account", account.String(), "cause", err)
		return w.failTopUp(ctx, t, "payment_mismatch")
	}
	if err != nil || paid.State != payments.Paid { // a bank debit takes days
		return err
	}
	return w.record(ctx, provider.Name(), paid, asOf, t.Id)
}

func (w *worker) failTopUp(ctx context.Context, t *event.TopUp, reason string) error {
	return w.command(ctx, event.AccountID(t.Account), &event.Command{Action: &event.Command_TopUpFailed{
		TopUpFailed: &event.TopUpFailed{TopUp: t.Id, Reason: reason[:min(len(reason), maxReason)]},
	}})
}

// bookAt is the price book that was in force at a time. The price of a top-up must not change while it is charged.
func (w *worker) bookAt(ms int64) (*plan.Book, error) {
	list, err := w.BooksNow()
	if err != nil {
		return nil, err
	}
	at := list.Books[0]
	for _, b := range list.Books {
		if b.FromMs <= ms {
			at = b
		}
	}
	return pricebook.Of(at.Book), nil
}
