package document

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"quire.dev/pkg/event"
	"quire.dev/pkg/journal"
	"quire.dev/pkg/wait"
)

const (
	// leaseLength is how long a reader answers without asking the journal, counted from before the lease was sent. It is short,
	// since after a crash the next reader waits for its end.
	leaseLength = 1500 * time.Millisecond
	// leaseWait is how long other replicas take a lease for valid, counted from when they fold it. It allows for clocks that
	// differ by 5 % in speed.
	leaseWait = leaseLength * 21 / 20
	// renewWithin is the remaining time below which a read renews the lease.
	renewWithin = leaseLength / 2
	// confirmQueue bounds the batches of reads waiting for the journal.
	confirmQueue = 4096
)

// errLate: the journal did not report its end in time, so an answer might be older than an acknowledged write.
var errLate = errors.New("the journal does not confirm that this replica is up to date")

// errBarred: another replica answers the partition's reads.
var errBarred = errors.New("another replica answers the reads")

// lease keeps reads from going back while several replicas of a partition live, one of which may be late, cut off or paused. It
// enforces two rules (docs/adr/0009-read-leases-in-the-journal.md):
//
//   - A replica reads its state for a request after the request has come, and only once it has folded a message that it
//     appended to the journal after that. Such a message is a lease: it serves all reads of leaseLength.
//   - A replica shows a decision, in the answer to a write or to a read, only once no other replica's lease from before
//     that decision can be valid. A reader whose lease comes later in the journal knows the decision.
//
// The journal orders the leases. The fold grants one only to the reader who had the last one, or who knew of it and has waited
// for its end.
//
// The goroutine that follows the journal calls opened and entered. The other methods are safe for concurrent use.
type lease struct {
	*scope
	alone    bool // no other replica exists, so the lease is never needed
	reader   reading
	elapsed  func() time.Duration // monotonic
	appender *journal.Appender[*confirmation]

	until    atomic.Int64 // elapsed time until which the lease is valid
	barred   atomic.Int64 // elapsed time until which other readers' leases may be valid
	moved    wait.Changes // of barred
	renewing atomic.Bool  // a renewal is in progress

	mu     sync.Mutex
	ended  bool
	last   *event.DomainLease        // last lease known to the fold
	sent   map[uint64]time.Duration  // creation times of leases not folded yet, by number
	others map[reading]time.Duration // elapsed time until which their leases may be valid
}

// reading identifies a reader: one run of a partition.
type reading struct {
	instance string
	run      uint64
}

// confirmation is a request for a journal position after everything stored before it.
type confirmation struct {
	stored func(sequence uint64)
	failed func(error)
	ends   bool // ends the lease
}

func newLease(s *scope, reader reading, alone bool) (*lease, error) {
	begun := time.Now()
	l := &lease{
		scope: s, alone: alone, reader: reader, elapsed: func() time.Duration { return time.Since(begun) },
		sent: map[uint64]time.Duration{}, others: map[reading]time.Duration{},
	}
	var err error
	l.appender, err = journal.NewAppender(s.deps.NC, journal.Config[*confirmation]{
		Subject:   s.cfg.Policy.Domain.RequestSubject(s.number),
		MaxItems:  confirmQueue,
		MaxQueue:  confirmQueue,
		MaxWait:   s.cfg.Bounds.ReadWait,
		DrainWait: drainWait,
		Size:      func(*confirmation) int { return 1 },
		Encode: func(number uint64, asked []*confirmation) ([]byte, error) {
			return event.Encode(l.message(number, asked))
		},
		Acked: func(asked []*confirmation, _, sequence uint64) {
			for _, c := range asked {
				c.stored(sequence)
			}
		},
		Failed: func(asked []*confirmation, number uint64, err error) {
			l.forget(number)
			for _, c := range asked {
				c.failed(fmt.Errorf("%w: %w", errLate, err))
			}
		},
		Files:   s.deps.Shared.Files,
		Metrics: s.metrics.journals,
		Logger:  s.log,
	})
	return l, err
}

// message builds the journal message for some confirmations: a lease, unless another reader may have one, or this one's last
// lease is not folded yet. A replica that no longer folds so lets others go on.
func (l *lease) message(number uint64, asked []*confirmation) *event.RequestBatch {
	l.metrics.leases.Inc()
	now := l.elapsed()
	l.mu.Lock()
	defer l.mu.Unlock()
	ends := slices.ContainsFunc(asked, func(c *confirmation) bool { return c.ends })
	if !ends && (l.ended || len(l.sent) > 0 || now < time.Duration(l.barred.Load())) {
		return &event.RequestBatch{}
	}
	l.ended = ends
	if !ends {
		l.sent[number] = now
	}
	return &event.RequestBatch{Lease: &event.ReadLease{
		Instance: l.reader.instance, Run: l.reader.run, Number: number, After: l.last.GetSequence(), End: ends,
	}}
}

func (l *lease) forget(number uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.sent, number)
}

// held reports whether a request that has arrived may be answered from the state as of now. Otherwise call confirm.
func (l *lease) held() bool {
	if l.alone {
		return true
	}
	now := int64(l.elapsed())
	until := l.until.Load()
	if now >= until || now < l.barred.Load() {
		return false
	}
	if until-now < int64(renewWithin) && l.renewing.CompareAndSwap(false, true) {
		l.renew()
	}
	return true
}

func (l *lease) renew() {
	done := func() { l.renewing.Store(false) }
	if l.appender.Add(&confirmation{stored: func(uint64) { done() }, failed: func(error) { done() }}) != nil {
		done() // the next read asks for a confirmation
	}
}

// confirm asks the journal for its end. A state that has reached the sequence passed to stored may answer all requests that
// came before the call. failed is called instead if the journal does not respond in time. Both run on the lease's goroutine and
// must not block.
func (l *lease) confirm(stored func(sequence uint64), failed func(error)) {
	if err := l.appender.Add(&confirmation{stored: stored, failed: failed}); err != nil {
		failed(fmt.Errorf("%w: %w", errLate, err))
	}
}

// wait waits for the sequence from which a request that has arrived may be answered; 0 means now.
func (l *lease) wait(ctx context.Context) (sequence uint64, err error) {
	if l.held() {
		return 0, nil
	}
	type result struct {
		sequence uint64
		err      error
	}
	results := make(chan result, 1)
	l.confirm(func(sequence uint64) { results <- result{sequence: sequence} }, func(err error) { results <- result{err: err} })
	select {
	case r := <-results:
		return r.sequence, r.err
	case <-ctx.Done():
		return 0, fmt.Errorf("%w: %w", errLate, ctx.Err())
	}
}

// isBarred reports whether another reader's lease may be valid. Call it after reading the state and before showing it.
func (l *lease) isBarred() bool {
	return !l.alone && int64(l.elapsed()) < l.barred.Load()
}

// untilFree waits until no other reader's lease can be valid. It returns false if ctx ends first.
func (l *lease) untilFree(ctx context.Context) bool {
	for {
		moved := l.moved.Next()
		left := time.Duration(l.barred.Load()) - l.elapsed()
		if l.alone || left <= 0 {
			return ctx.Err() == nil
		}
		timer := time.NewTimer(left)
		select {
		case <-timer.C:
		case <-moved:
		case <-ctx.Done():
		}
		timer.Stop()
		if ctx.Err() != nil {
			return false
		}
	}
}

// untilBarred waits until another reader has a lease, or ctx ends.
func (l *lease) untilBarred(ctx context.Context) {
	_ = l.moved.Until(ctx, l.isBarred) // the only error is ctx's
}

// restore sets the state that the partition begins with. The age of its lease is unknown.
func (l *lease) restore(last *event.DomainLease) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last = last
	if last != nil {
		l.bar(reading{last.Instance, last.Run})
	}
}

// apply handles a folded lease. granted and last are the fold's result.
func (l *lease) apply(e *event.ReadLease, granted bool, last *event.DomainLease) {
	if l.alone {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last = last
	reader := reading{e.Instance, e.Run}
	switch {
	case reader == l.reader:
		if made, ok := l.sent[e.Number]; ok && granted {
			l.until.Store(max(l.until.Load(), int64(made+leaseLength)))
		}
		maps.DeleteFunc(l.sent, func(number uint64, _ time.Duration) bool { return number <= e.Number })
	case e.End:
		delete(l.others, reader)
		l.lift()
	case granted:
		l.bar(reader)
	}
}

// bar records another reader's lease. An earlier run of this process has ended with its reads. mu is held.
func (l *lease) bar(reader reading) {
	if reader.instance != l.reader.instance {
		l.others[reader] = l.elapsed() + leaseWait
	}
	l.lift()
}

// lift recomputes barred. mu is held.
func (l *lease) lift() {
	now, barred := l.elapsed(), time.Duration(0)
	maps.DeleteFunc(l.others, func(_ reading, until time.Duration) bool { return until <= now })
	for _, until := range l.others {
		barred = max(barred, until)
	}
	l.barred.Store(int64(barred))
	l.moved.Notify()
}

// run appends until ctx ends.
func (l *lease) run(ctx context.Context) {
	if l.alone {
		return
	}
	if err := l.appender.Run(ctx); err != nil {
		l.log.Debug("confirmations could not be written", "error", err) // the waiting callers got the error
	}
}

// release returns the lease after the last answer, so that the next reader need not wait for its end.
func (l *lease) release() {
	l.mu.Lock()
	has := l.last != nil && l.reader == reading{l.last.Instance, l.last.Run} || len(l.sent) > 0
	l.mu.Unlock()
	if l.alone || !has {
		return
	}
	done := make(chan error, 1)
	err := l.appender.Add(&confirmation{ends: true, stored: func(uint64) { done <- nil }, failed: func(err error) { done <- err }})
	if err == nil {
		timer := time.NewTimer(drainWait)
		defer timer.Stop()
		select {
		case err = <-done:
		case <-timer.C:
			err = errLate
		}
	}
	if err != nil {
		l.log.Warn("the read lease could not be released; the next reader waits for its end", "error", err)
	}
}
