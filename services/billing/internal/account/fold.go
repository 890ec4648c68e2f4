// Package account is the billing fold: it turns one partition's journal into decisions and a state. It decides admissions,
// settles holds, keeps quotas, credits, keys and storage, and writes the ledger.
//
// It is pure: the same messages give the same decisions and the same state, on any machine and at any time. It reads no clock,
// draws no random number, does no I/O, and never ranges over a map where the order matters. All arithmetic is on integers.
package account

import (
	"errors"
	"fmt"

	"quire.dev/pkg/event"
	"quire.dev/pkg/plan"
)

// Durations of the rules, in milliseconds of journal time, and bounds.
const (
	HoldMillis     = 2 * 60 * 1000              // after which an unsettled hold is closed
	MemoryMillis   = 10 * 60 * 1000             // how long a closed hold is remembered if something may still need it
	CommandMillis  = 24 * 60 * 60 * 1000        // how long outcomes of commands are kept
	FailureMillis  = 60 * 1000                  // window of too_many_failures
	MaxFailures    = 100                        // failed calls in that window after which more are refused
	MaxRepeats     = 2                          // free repeats of a metered read under its Idempotency-Key; the next is a new read
	RepeatMillis   = 60 * 1000                  // how long after the admission of such a read repeats are free
	CloseMillis    = 24 * 60 * 60 * 1000        // after a month's end, when its statement is closed
	sourceMillis   = 60 * 60 * 1000             // after which an idle edge is forgotten
	maxOffset      = 3650 * 24 * 60 * 60 * 1000 // of a development clock, in either direction
	stampMillis    = 5 * 1000                   // how far a stamp may be ahead of or behind the journal's clock
	LateMillis     = 24 * 60 * 60 * 1000        // how long the service of a voided write may still report that it was served
	skewMillis     = 10 * 60 * 1000             // how far a document journal's clock may be ahead of this one's
	maxLate        = 10_000                     // voided writes remembered per principal
	maxStreams     = 1 << 12                    // partitions of a domain
	maxReused      = 4096                       // admissions or settlements of a batch whose memory is reused
	maxGrants      = 4096                       // live grants per account
	maxBalance     = plan.MaxBalance            // micro-credits per account
	sweepEvery     = 60 * 1000                  // interval between sweeps of idle edges
	grantIndexBits = 12                         // a grant's id is sequence << 12 | index
)

// ErrGap means that a message does not follow the last one: the journal has lost some, or the message belongs to another
// journal.
var ErrGap = errors.New("journal sequence is not the next one")

// ErrUndecodable means that a message can't be decoded. Every fold of the journal skips it.
var ErrUndecodable = errors.New("message can't be decoded")

var errUnknownSubject = fmt.Errorf("%w: unknown subject", ErrUndecodable)

// Fold is the state of one partition. It joins the parts: each decides about its own state, and knows only the parts that it needs. Not
// safe for concurrent use.
type Fold struct {
	base
	entries uint64

	// Parts with exported methods are embedded.
	principals
	holds
	prices
	topUps
	losses
	sources
	records
	reader
	credits credits
	alerts  notifier
	kept    keptCommands

	keep          selection
	maxPrincipals int    // in a part; 0: no bound
	newest        uint32 // newest version of the rules known to the program
	decidesOnly   bool   // as DecideOnly

	scratch scratch
	later   []*event.Settlement
	decided [Decisions]uint64
}

// New returns the state before the first message.
func New() *Fold {
	f := &Fold{base: base{month: monthOf(0), rules: Rules1}, newest: NewestRules, sources: sources{}}
	f.principals = newPrincipals(&f.base)
	f.holds = newHolds(&f.base)
	f.credits = credits{base: &f.base, alerts: &f.alerts}
	f.alerts = notifier{base: &f.base, alerted: map[uint64]uint32{}}
	f.topUps = newTopUps(&f.base, &f.alerts)
	f.prices = prices{base: &f.base}
	f.reader = reader{base: &f.base, principals: &f.principals, prices: &f.prices}
	f.losses = losses{base: &f.base}
	f.records = records{base: &f.base}
	f.kept = keptCommands{byID: map[event.IdempotencyID]*keptCommand{}}
	return f
}

// Entries is the number of admissions, settlements and commands folded so far.
func (f *Fold) Entries() uint64 { return f.entries }

// Accounts is the number of accounts.
func (s *principals) Accounts() int { return len(s.accounts) }

// Decided counts the admissions decided since this Fold was created, by event.Decision. It is not part of the state.
func (f *Fold) Decided() [Decisions]uint64 { return f.decided }

// Decisions is one more than the largest event.Decision.
const Decisions = int(event.Decision_ACCOUNT_QUARANTINED) + 1

// NextDueMillis is the next time at which a hold times out, a grant expires, a price book comes into force, a key's expiry
// warning is due, a top-up may become due, or a month is closed. 0: none.
func (f *Fold) NextDueMillis() int64 {
	due := min(f.prices.due(), f.credits.due(), f.holds.due(), f.alerts.due(), f.topUps.due())
	if f.prices.current != nil {
		due = min(due, f.nextClose())
	}
	if due == never {
		return 0
	}
	return due
}

// Apply folds the next message. A message folded before changes nothing. An undecodable one counts in the chain and is skipped
// with ErrUndecodable: every fold of this journal does the same, so the caller reports it and continues. After any other error
// it must not continue. ErrGap has changed nothing. Any other one makes the fold unusable: this call has no effects, and each later
// one returns the error again.
func (f *Fold) Apply(m Message) (Effects, error) {
	f.resetEffects()
	if f.broken == nil && f.rules > f.newest { // restored from the snapshot of a newer program
		f.broken = f.unknown(f.rules)
	}
	if f.broken != nil {
		return f.effects, f.broken
	}
	if m.Sequence <= f.sequence {
		return f.effects, nil
	}
	if m.Sequence != f.sequence+1 {
		return f.effects, fmt.Errorf("%w: %d after %d", ErrGap, m.Sequence, f.sequence)
	}
	f.sequence, f.changing = m.Sequence, nil
	if !f.decidesOnly {
		f.digest = Digest(m)
		f.chain = nextChain(f.chain, f.digest)
	}
	f.effects.Head = f.Head()
	var err error
	switch m.Kind {
	case Usage:
		err = f.applyUsage(m)
	case Commands:
		err = f.applyCommands(m)
	case Prices:
		err = f.applyPrices(m)
	case SettledPaste, SettledLite, SettledFile:
		err = f.applyDomain(m)
	case Unknown:
		err = errUnknownSubject
	}
	f.isolateFaulty()
	f.topUps.decide()
	if f.crowded() && f.broken == nil {
		f.broken = errCrowded
	}
	if f.broken != nil {
		f.resetEffects()
		return f.effects, f.broken
	}
	if err != nil {
		err = fmt.Errorf("fold message %d: %w", m.Sequence, err)
	}
	f.effects.TimeMillis = f.time
	return f.effects, err
}

// DecideOnly makes the fold leave out what no decision depends on: the digests of the messages and their chain, and the answers to
// batches of usage.
// From then on its head, its hash and the ids of its alerts are wrong.
func (f *Fold) DecideOnly() { f.decidesOnly = true }

func (f *Fold) resetEffects() {
	e := &f.effects
	clear(e.Answers)
	clear(e.Ledger)
	clear(e.Closed)
	clear(e.Admin)
	clear(e.Alerts)
	clear(e.Quarantined)
	e.Answers, e.Ledger, e.Closed, e.Changed, e.Recreated = e.Answers[:0], e.Ledger[:0], e.Closed[:0], e.Changed[:0], e.Recreated[:0]
	e.Admin, e.Alerts, e.Usage, e.Refused, e.Quarantined = e.Admin[:0], e.Alerts[:0], e.Usage[:0], e.Refused[:0], e.Quarantined[:0]
	e.Requests, e.Entries = e.Requests[:0], e.Entries[:0]
	e.TimeMillis, e.Rules, e.Head, e.Seal = f.time, f.rules, Head{}, nil
	f.credits.ordinal = 0
	f.watched = f.watched[:0]
	clear(f.alerts.alerted)
}

func (f *Fold) applyUsage(m Message) error {
	b, err := f.scratch.decode(m.Data)
	if err != nil {
		return err
	}
	f.advance(f.timeOf(m, stampOf(b), f.offset))
	if b.Number == 0 { // a tick
		f.effects.Seal = b.Seal
		f.refuse(b.Source, RefusedSource, len(b.Settlements))
		return nil
	}
	s := f.sources.get(b.Source, f.time)
	s.numbered = true
	if b.Number <= s.watermark {
		if b.Number == s.watermark {
			f.answer(b.Source, Verdicts, s.answer)
		}
		return nil
	}
	f.entries += f.serveBatches(b.Served)
	// Settlements come first: what they refund is available to admissions of the same batch. Settlements of unknown holds come
	// last: they may belong to admissions of the same batch whose callers have given up.
	f.later = f.later[:0]
	for _, item := range b.Settlements {
		if len(item.RequestId) == 16 && f.holds.byRequest[event.RequestID(item.RequestId)] == nil {
			f.later = append(f.later, item)
			continue
		}
		if !f.passes(item.Account, item.RequestId, nil) {
			f.settle(item)
		}
	}
	verdicts := f.admitAll(b.Admissions)
	for _, item := range f.later {
		if !f.passes(item.Account, item.RequestId, nil) {
			f.settle(item)
		}
	}
	clear(f.later)
	f.entries += uint64(len(b.Admissions) + len(b.Settlements))
	s.watermark = b.Number
	if f.decidesOnly {
		return nil
	}
	answer := event.VerdictBatch{
		Source: b.Source, Number: b.Number, Sequence: m.Sequence, TimeMs: f.time, Verdicts: verdicts, Rules: f.rules,
	}
	if s.answer, err = answer.MarshalVT(); err != nil {
		return err
	}
	f.answer(b.Source, Verdicts, s.answer)
	return nil
}

// admitAll decides about the admissions of a batch. Those of other parts are left empty.
func (f *Fold) admitAll(list []*event.Admission) []*event.Verdict {
	verdicts := f.scratch.verdicts(len(list))
	for i, item := range list {
		if f.passes(item.Account, item.RequestId, idempotencyOf(item)) {
			continue
		}
		f.admit(item, uint32(i), verdicts[i])
		f.decided[verdicts[i].Decision]++
	}
	return verdicts
}

// stampOf is the source's clock. In a batch with an admission an edge sends it relative to the first request id.
func stampOf(b *event.UsageBatch) int64 {
	if b.StampMs != 0 || len(b.Admissions) == 0 || len(b.Admissions[0].RequestId) != 16 {
		return b.StampMs
	}
	return event.RequestID(b.Admissions[0].RequestId).UnixMilli() + b.SinceMs
}

func (f *Fold) applyPrices(m Message) error {
	book := &event.PriceBook{}
	if err := book.UnmarshalVT(m.Data); err != nil {
		return fmt.Errorf("%w: %w", ErrUndecodable, err)
	}
	if book.Rules > f.newest {
		f.broken = fmt.Errorf("fold message %d: %w", f.sequence, f.unknown(book.Rules))
		return nil
	}
	f.advance(f.timeOf(m, book.StampMs, boundOffset(book.OffsetMs)))
	rules := f.rules
	if f.prices.set(book) {
		f.trimAdmitted()
	}
	if f.rules > rules {
		f.kept.forgetInvalid()
	}
	return nil
}

// timeOf is the fold's time from this message on: the source's stamp, cut to within stampMillis of the journal's clock. So one
// bad clock can neither carry all accounts into the next month nor leave calls in the last one. The time goes back with the
// journal's own clock only.
//
// The offset of a development clock comes from the price books, since only billing publishes them.
func (f *Fold) timeOf(m Message, stamp, offset int64) int64 {
	f.offset = max(f.offset, offset)
	f.follow(m.millis())
	clock := m.millis() + offset
	return max(f.time, clock-stampMillis, min(stamp, clock+stampMillis))
}

func boundOffset(millis int64) int64 { return max(-maxOffset, min(millis, maxOffset)) }

// advance moves the time, and does everything due by then, in order.
func (f *Fold) advance(now int64) {
	if now <= f.time {
		return
	}
	before := f.time
	for f.step(now) {
	}
	for f.alerts.due() <= now {
		f.alerts.warn(now)
	}
	f.time, f.peak = now, max(f.peak, now)
	f.month = f.month.at(now)
	for h := f.holds.closed.head; h != nil && h.closedAt+MemoryMillis <= now; h = f.holds.closed.head {
		f.forget(h)
	}
	f.trimAdmitted()
	f.principals.trim()
	f.kept.trim(now)
	if before/sweepEvery != now/sweepEvery {
		f.sources.sweep(now)
	}
}

// trimAdmitted drops the admissions that have left the price book's window.
func (f *Fold) trimAdmitted() {
	if book := f.prices.current; book != nil {
		f.principals.trimAdmitted(book.AnonymousWindowMillis)
	}
}

// step runs the earliest event that is due by now, and reports whether there was one. At equal times, price books come first, then
// expiries, then time-outs.
func (f *Fold) step(now int64) bool {
	book, expiry, timeOut := f.prices.due(), f.credits.due(), f.holds.due()
	switch due := min(book, expiry, timeOut); {
	case due > now:
		return false
	case due == book:
		if f.prices.next() {
			f.trimAdmitted()
		}
	case due == expiry:
		f.expire(f.credits.expiries[0])
	default:
		f.timeOut(f.holds.open.head)
	}
	return true
}
