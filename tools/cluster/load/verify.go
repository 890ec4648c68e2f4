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

	"quire.dev/pkg/wait"
)

const (
	// sampled is how many documents of a shop, of tens of thousands, are read again after a check has found them, and
	// sampledAtRest how many once everything is settled.
	sampled, sampledAtRest = 100, 1000
	// sampledGone is how many deleted documents of a shop are read through each base. An account with more than 100 failures a
	// minute is refused, and Verify may be called every few seconds.
	sampledGone = 2
	readers     = 16
	// patience is how long a check retries a call that gets no answer.
	patience   = 30 * time.Second
	settleTick = 200 * time.Millisecond
)

// patiently is retry for at most patience.
func (l *Load) patiently(ctx context.Context, c call, each func(*answer)) (*answer, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return l.retry(ctx, c, each)
}

// patient is sure, for at most patience.
func (l *Load) patient(ctx context.Context, c call) (*answer, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return l.sure(ctx, c)
}

// Verify compares what each base returns with what was acknowledged, and returns all differences, a few of each kind. It
// also returns the unexpected answers since the last Verify. No Run may be in progress. Calls without an answer may have been
// counted, until Settled has returned nil.
func (l *Load) Verify(ctx context.Context) error {
	defer l.client.CloseIdleConnections()
	var f findings
	random := rand.New(rand.NewPCG(l.cfg.Seed, ^l.rounds))
	errs := []error{l.checkAccounts(ctx, l.settled, &f)}
	var shops []*shop
	if r := l.rotating; r != nil {
		errs = append(errs, r.check(ctx, random, &f))
	}
	if e := l.exact; e != nil {
		errs = append(errs, l.checkExactLedger(ctx, &f))
		shops = append(shops, e.shops...)
	}
	if b := l.burning; b != nil {
		b.check(ctx, random, &f)
	}
	if k := l.keyless; k != nil {
		shops = append(shops, &k.pool)
	}
	if c := l.crowd; c != nil {
		shops = append(shops, c.lite, c.paste, c.file)
	}
	for _, s := range shops {
		l.checkShop(ctx, s, random, &f)
	}
	// The reads above were counted too.
	errs = append(errs, l.checkAccounts(ctx, l.settled, &f))
	return errors.Join(append(errs, f.take(), l.strange.take())...)
}

// checkAccounts compares the usage of each account, as each base returns it, with the calls.
func (l *Load) checkAccounts(ctx context.Context, settled bool, f *findings) error {
	accounts := []*account{l.reader}
	if l.crowd != nil {
		accounts = append(accounts, l.crowd.owner)
	}
	if l.exact != nil {
		accounts = append(accounts, l.exact.owner)
	}
	if l.refused != nil {
		accounts = append(accounts, l.refused.exhausted, l.refused.failing)
	}
	if l.rotating != nil {
		accounts = append(accounts, l.rotating.account)
	}
	if l.burning != nil {
		accounts = append(accounts, l.burning.owner, l.burning.reader)
	}
	var errs []error
	for _, a := range accounts {
		for base := range l.baseCount() {
			u, err := l.usage(ctx, a.id, base)
			switch {
			case err != nil:
				errs = append(errs, err)
			case u.Period.Start != "" && !strings.HasPrefix(u.Period.Start, l.start.UTC().Format("2006-01")):
				errs = append(errs, fmt.Errorf("the month is %s, but the load began in another one", u.Period.Start))
			case l.exact != nil && a == l.exact.owner:
				l.exact.check(u, f)
			default:
				a.check(u, settled, f)
			}
		}
	}
	return errors.Join(errs...)
}

func (l *Load) checkExactLedger(ctx context.Context, f *findings) error {
	for base := range l.baseCount() {
		u, err := l.usage(ctx, l.exact.owner.id, base)
		if err == nil {
			err = l.exact.checkLedger(ctx, base, u, f)
		}
		if err == nil && l.settled {
			err = l.exact.checkStatement(ctx, base, u, f)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// checkShop reads all documents that no check has found yet, a sample of the others, and some deleted ones, through every
// base.
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
	sample := sampled
	if l.settled {
		sample = sampledAtRest
	}
	for _, i := range s.shelf.toCheck(random, sample) {
		for base := range l.baseCount() {
			// Each unreadable document takes all of patience, so a few are enough.
			if ctx.Err() == nil && unreadable.Load() < readers {
				todo <- task{i, base}
			}
		}
	}
	close(todo)
	group.Wait()
	if unreadable.Load() >= readers {
		f.note("not checked", "%ss: too many are unreadable", s.kind)
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
	c := s.readCall(l.reader.key, id, base)
	c.only = true
	return l.patiently(ctx, c, func(a *answer) { l.reader.meter(s.quota+"get", a) })
}

// checkItem reads a document through a base. It reports whether there was an answer.
func (l *Load) checkItem(ctx context.Context, s *shop, i *item, base int, f *findings) bool {
	a, err := l.read(ctx, s, i.id, base)
	switch {
	case err != nil:
		f.note("not readable", "%s: %v", i.id, err)
	case !a.acked():
		f.note("lost", "%s, which was acknowledged: %s", i.id, a)
	default:
		content := s.read(a)
		now := s.shelf.copy(i)
		if !now.fits(s.domain, content) {
			f.note("wrong content", "%s %s through base %d is %.60q, want %.60q", s.kind, i.id, base, content, s.content(now.number))
			return true
		}
		s.shelf.found(s.domain, i, content)
		s.shelf.checked(i)
	}
	return err == nil
}

// checkGone reads a deleted document once. It does not repeat the call, since too many failures are refused.
func (l *Load) checkGone(ctx context.Context, s *shop, id string, base int, f *findings) {
	c := s.readCall(l.reader.key, id, base)
	c.only = true
	a := l.send(ctx, c)
	l.reader.meter(s.quota+"get", a)
	if a.acked() || a.outcome() == refusedOutcome && !a.is(http.StatusNotFound, "not_found") && !a.overFailed() {
		f.note("deleted and still there", "%s: %s", id, a)
	}
}

// Settled waits until everything has its outcome: each write under an Idempotency-Key and each regeneration has an answer,
// openHolds returns 0, and the usage of the accounts is final. openHolds returns how many holds billing has open in all
// partitions; if nil, Settled doesn't wait for holds. No Run may be in progress. If ctx ends first, the error says what has no
// outcome. An unsettled hold closes after two minutes.
func (l *Load) Settled(ctx context.Context, openHolds func(context.Context) (int64, error)) error {
	w := &client{random: rand.New(rand.NewPCG(l.cfg.Seed, l.rounds))}
	for {
		err := l.settle(ctx, w, openHolds)
		if err == nil {
			l.settled = openHolds != nil
			return nil
		}
		if !wait.For(ctx, settleTick) {
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
			return fmt.Errorf("read open holds: %w", err)
		}
		if open != 0 {
			return fmt.Errorf("%d holds are open", open)
		}
	}
	var f findings
	return errors.Join(l.checkAccounts(ctx, openHolds != nil, &f), f.take())
}

// Audit has the journals audited through every base. All audits must match.
func (l *Load) Audit(ctx context.Context) error {
	var errs []error
	for base := range l.baseCount() {
		if err := l.auditThrough(ctx, base); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// auditThrough starts an audit through a base and waits for its end.
func (l *Load) auditThrough(ctx context.Context, base int) error {
	question := call{
		kind: Admin, method: http.MethodPost, path: "/api/admin/audit", admin: true, home: base, only: true, timeout: auditTimeout,
	}
	for {
		a, err := l.patient(ctx, question)
		if err != nil {
			return fmt.Errorf("audit: %w", err)
		}
		var body struct {
			ID    string
			Match *bool
		}
		switch err := json.Unmarshal(a.body, &body); {
		case err != nil || body.Match != nil && !*body.Match || body.Match == nil && body.ID == "":
			return fmt.Errorf("the audit does not match: %s", a)
		case body.Match != nil:
			return nil
		case !wait.For(ctx, time.Second):
			return fmt.Errorf("audit: %w", ctx.Err())
		}
		question.method, question.path = http.MethodGet, "/api/admin/audits/"+body.ID
	}
}
