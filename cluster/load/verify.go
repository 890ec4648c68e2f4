package load

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// sampled is how many documents are read again that were found before: the crowd makes thousands a second.
	sampled = 500
	// sampledGone is how many deleted ones are asked for through each base. Too many failures are refused.
	sampledGone = 4
	readers     = 16
	// patience is how long a check waits for an answer that is neither 2xx nor a refusal.
	patience   = 30 * time.Second
	settleTick = 200 * time.Millisecond
)

// repeated sends a call that may be repeated until its answer is a 2xx or a refusal. each is told every answer.
func (l *Load) repeated(ctx context.Context, c call, each func(*answer)) (*answer, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		a := l.send(ctx, c)
		if each != nil {
			each(a)
		}
		switch o := a.outcome(); {
		case o == ackedOutcome, o == refusedOutcome && !a.overFailed():
			return a, nil
		case ctx.Err() != nil:
			return nil, fmt.Errorf("no answer: %s", a)
		}
		pause(ctx, l.pace.retry)
	}
}

// patient is repeated for calls that are not metered, and must have a 2xx.
func (l *Load) patient(ctx context.Context, c call) (*answer, error) {
	a, err := l.repeated(ctx, c, nil)
	if err == nil && a.outcome() != ackedOutcome {
		err = fmt.Errorf("%s", a)
	}
	return a, err
}

// Verify holds every base to what was promised, and returns all that is wrong, a few of each sort. No Run may be
// going on; calls without an answer may count until Settled has returned nil. It can be repeated, after each
// fault: of strange answers it tells those that came since the last one.
func (l *Load) Verify(ctx context.Context) error {
	var f findings
	var errs []error
	random := rand.New(rand.NewPCG(l.cfg.Seed, ^l.rounds))
	errs = append(errs, l.checkAccounts(ctx, l.settled, &f))
	if r := l.rotating; r != nil {
		errs = append(errs, r.check(ctx, &f))
	}
	if e := l.exact; e != nil {
		errs = append(errs, l.checkExactLedger(ctx, &f))
		for _, s := range e.shops {
			l.checkShop(ctx, s, random, &f)
		}
	}
	if c := l.crowd; c != nil {
		for _, s := range c.shops() {
			l.checkShop(ctx, s, random, &f)
		}
	}
	// What the reads above cost.
	errs = append(errs, l.checkAccounts(ctx, l.settled, &f))
	l.client.CloseIdleConnections()
	return errors.Join(append(errs, f.err(), l.strange.take())...)
}

// checkAccounts holds each account's usage, as every base tells it, to the calls.
func (l *Load) checkAccounts(ctx context.Context, settled bool, f *findings) error {
	var errs []error
	check := func(a *account, exactly func(u *usage)) {
		for base := range l.baseCount() {
			u, err := l.usage(ctx, a.id, base)
			if err != nil {
				errs = append(errs, err)
				continue
			}
			if start := u.Period.Start; !strings.HasPrefix(start, l.start.UTC().Format("2006-01")) && start != "" {
				errs = append(errs, fmt.Errorf("the month is %s now, the load began in another", start))
				continue
			}
			if exactly != nil {
				exactly(u)
				continue
			}
			a.check(u, settled, f)
		}
	}
	check(l.reader, nil)
	if c := l.crowd; c != nil {
		check(c.owner, nil)
	}
	if e := l.exact; e != nil {
		check(e.owner, func(u *usage) { e.check(u, f) })
	}
	if r := l.refused; r != nil {
		check(r.exhausted, nil)
		check(r.failing, nil)
	}
	if r := l.rotating; r != nil {
		check(r.account, nil)
	}
	return errors.Join(errs...)
}

func (l *Load) checkExactLedger(ctx context.Context, f *findings) error {
	for base := range l.baseCount() {
		u, err := l.usage(ctx, l.exact.owner.id, base)
		if err == nil {
			err = l.exact.checkLedger(ctx, base, u, f)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// checkShop reads what was acknowledged and not checked yet, with a sample of the rest, through every base, and
// some of what was deleted.
func (l *Load) checkShop(ctx context.Context, s *shop, random *rand.Rand, f *findings) {
	type task struct {
		item *item
		base int
	}
	todo := make(chan task)
	var unreadable atomic.Int64
	var group sync.WaitGroup
	for range readers {
		group.Go(func() {
			for t := range todo {
				if !l.checkItem(ctx, s, t.item, t.base, f) {
					unreadable.Add(1)
				}
			}
		})
	}
	for _, i := range s.shelf.toCheck(random, sampled) {
		for base := range l.baseCount() {
			// Each takes all the patience there is: a part that is gone shows in a few.
			if ctx.Err() == nil && unreadable.Load() < readers {
				todo <- task{i, base}
			}
		}
	}
	close(todo)
	group.Wait()
	if unreadable.Load() >= readers {
		f.note("not checked", "%ss: too many can't be read", s.kind)
		return
	}
	if ctx.Err() != nil {
		f.note("not checked", "%ss: %v", s.kind, context.Cause(ctx))
		return
	}
	for _, id := range s.shelf.someGone(random, sampledGone) {
		for base := range l.baseCount() {
			l.checkGone(ctx, s, id, base, f)
		}
	}
}

func (l *Load) read(ctx context.Context, s *shop, id string, base int) (*answer, error) {
	c := s.reading(l.reader.key, id, base)
	c.only = true
	return l.repeated(ctx, c, func(a *answer) { l.reader.meter(s.quota+"get", a) })
}

// checkItem reports whether there was an answer.
func (l *Load) checkItem(ctx context.Context, s *shop, i *item, base int, f *findings) bool {
	a, err := l.read(ctx, s, i.id, base)
	switch {
	case err != nil:
		f.note("not readable", "%s: %v", i.id, err)
	case a.outcome() != ackedOutcome:
		f.note("lost", "%s, which was acknowledged: %s", i.id, a)
	default:
		content := s.read(a)
		s.shelf.mu.Lock()
		now := *i
		s.shelf.mu.Unlock()
		if !now.fits(s.domain, content) {
			f.note("wrong content", "%s %s through base %d is %.60q, want %.60q", s.kind, i.id, base, content, s.content(now.number))
			return true
		}
		s.shelf.found(s.domain, i, content)
		s.shelf.checked(i)
	}
	return err == nil
}

// checkGone asks once: a deleted document fails, and too many failures are refused.
func (l *Load) checkGone(ctx context.Context, s *shop, id string, base int, f *findings) {
	c := s.reading(l.reader.key, id, base)
	c.only = true
	a := l.send(ctx, c)
	l.reader.meter(s.quota+"get", a)
	if o := a.outcome(); o == ackedOutcome || o == refusedOutcome && !a.is(http.StatusNotFound, "not_found") && !a.overFailed() {
		f.note("deleted and still there", "%s: %s", id, a)
	}
}

// Settled waits until nothing is left open: every write under an Idempotency-Key and every regeneration has its
// answer, openHolds says 0, and the accounts are what they are to be for good. openHolds reads how many holds
// billing has open, over all its instances' partitions; nil leaves that out. No Run may be going on. The error,
// once ctx ends, says what is left: a hold that nobody settles is given back after two minutes.
func (l *Load) Settled(ctx context.Context, openHolds func(context.Context) (int64, error)) error {
	w := &client{random: rand.New(rand.NewPCG(l.cfg.Seed, l.rounds))}
	tick := time.NewTicker(settleTick)
	defer tick.Stop()
	for {
		err := l.settle(ctx, w, openHolds)
		if err == nil {
			l.settled = openHolds != nil
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("not settled: %w: %w", context.Cause(ctx), err)
		}
	}
}

func (l *Load) settle(ctx context.Context, w *client, openHolds func(context.Context) (int64, error)) error {
	if e := l.exact; e != nil {
		if err := e.finish(ctx, w); err != nil {
			return err
		}
	}
	if r := l.rotating; r != nil {
		if err := r.resolve(ctx, w.home); err != nil {
			return err
		}
	}
	if openHolds != nil {
		open, err := openHolds(ctx)
		if err != nil {
			return fmt.Errorf("open holds: %w", err)
		}
		if open != 0 {
			return fmt.Errorf("%d holds are open", open)
		}
	}
	var f findings
	return errors.Join(l.checkAccounts(ctx, openHolds != nil, &f), f.err())
}

// Audit has every base fold the journals again; all must match.
func (l *Load) Audit(ctx context.Context) error {
	var errs []error
	for base := range l.baseCount() {
		a, err := l.patient(ctx, call{
			kind: Admin, method: http.MethodPost, path: "/api/admin/audit", admin: true, home: base, only: true, timeout: auditTimeout,
		})
		if err != nil {
			errs = append(errs, fmt.Errorf("audit: %w", err))
			continue
		}
		var body struct{ Match bool }
		if err := json.Unmarshal(a.body, &body); err != nil || !body.Match {
			errs = append(errs, fmt.Errorf("the audit does not match: %s", a))
		}
	}
	return errors.Join(errs...)
}
