// Package account is the billing fold: it turns one partition's journal into decisions and a state. It decides
// admissions, settles holds, keeps quotas, credits, keys and storage, and writes the ledger.
//
// It is pure: the same messages give the same decisions and the same state, on any machine and at any time. It reads no
// clock, draws no random number, does no I/O, and never ranges over a map where the order would show. All arithmetic is
// on integers.
package account

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"

	"quire.dev/pkg/event"
	"quire.dev/pkg/plan"
	"quire.dev/services/billing/internal/recent"
)

// Times of the rules, in milliseconds of journal time, and bounds.
const (
	HoldMillis     = 2 * 60 * 1000              // after which an unsettled hold is closed
	MemoryMillis   = 10 * 60 * 1000             // for which a closed hold is remembered if something may still need it
	CommandMillis  = 24 * 60 * 60 * 1000        // for which the outcomes of commands are kept
	FailureMillis  = 60 * 1000                  // window of too_many_failures
	MaxFailures    = 100                        // failed calls in that window after which more are refused
	MaxRepeats     = 10                         // of a metered read under its Idempotency-Key that are not charged; the next is a new read
	CloseMillis    = 24 * 60 * 60 * 1000        // after a month's end, when its statement is closed
	sourceMillis   = 60 * 60 * 1000             // after which an idle edge is forgotten
	maxOffset      = 3650 * 24 * 60 * 60 * 1000 // of a development clock, forwards or backwards
	aheadMillis    = 5 * 1000                   // that a stamp may be ahead of the journal's clock
	LateMillis     = 24 * 60 * 60 * 1000        // for which the service of a voided write may still say that it was served
	skewMillis     = 10 * 60 * 1000             // that a document journal's clock is believed to be ahead of this one's
	maxLate        = 10_000                     // voided writes of a principal that are remembered
	maxStreams     = 1 << 12                    // partitions of a domain
	maxReused      = 4096                       // admissions or settlements of a batch whose memory serves the next one
	maxGrants      = 4096                       // live grants an account may have
	maxBalance     = 1_000_000_000 * 1_000_000  // micro-credits an account may have
	sweepEvery     = 60 * 1000                  // between two looks for idle edges
	grantIndexBits = 12                         // a grant's id is sequence << 12 | index
)

// ErrGap means that a message does not follow the last one: the journal has lost some, or the message is of another
// journal.
var ErrGap = errors.New("journal sequence is not the next one")

// ErrUndecodable means that a message can't be decoded. Every fold of the journal skips it.
var ErrUndecodable = errors.New("message can't be decoded")

var errUnknownSubject = fmt.Errorf("%w: unknown subject", ErrUndecodable)

// ErrState means that the state contradicts itself: there is less of something than a message takes from it. No journal
// leads to that; memory that went bad or a mistake of this package does.
var ErrState = errors.New("state of the fold is wrong")

// take subtracts n, the amount of a hold or grant for example, from the counter that it was added to before. A counter
// that is smaller keeps its value, which would wrap round otherwise, and Apply fails.
func take[N int | int64 | uint32 | uint64](f *Fold, name string, counter *N, n N) {
	if *counter >= n {
		*counter -= n
		return
	}
	f.fault("%d %s, %d are taken", *counter, name, n)
}

// fault makes Apply fail with ErrState.
func (f *Fold) fault(format string, args ...any) {
	if f.broken == nil {
		f.broken = fmt.Errorf("fold message %d: %w: %s", f.sequence, ErrState, fmt.Sprintf(format, args...))
	}
}

// Kind is the kind of a message.
type Kind uint8

// The kinds, by the subject that a message was published to.
const (
	Unknown Kind = iota
	Usage
	Commands
	Prices
	// Settlements of the domains, each on a subject of its own.
	SettledPaste
	SettledLite
	SettledFile
)

// SettledBy is the kind of a domain's settlements.
func SettledBy(d event.Domain) Kind {
	switch d {
	case event.Paste:
		return SettledPaste
	case event.Lite:
		return SettledLite
	case event.File:
		return SettledFile
	}
	return Unknown
}

// domain is the domain whose settlements are of that kind; empty where there is none.
func (k Kind) domain() event.Domain {
	for _, d := range event.Documents() {
		if SettledBy(d) == k {
			return d
		}
	}
	return ""
}

// Message is one message of the journal.
type Message struct {
	Sequence   uint64
	TimeMillis int64 // the journal's clock
	Kind       Kind
	Data       []byte // not kept
}

// AnswerKind is the kind of an answer.
type AnswerKind uint8

// The kinds of answers.
const (
	Verdicts AnswerKind = iota
	Outcomes
)

// Answer is an answer to the source of a batch.
type Answer struct {
	Source string
	Kind   AnswerKind
	Data   []byte // an encoded VerdictBatch or CommandOutcomeBatch; not to be changed
}

// Closed is the statement of a month that has left an account's state.
type Closed struct {
	Account   event.AccountID
	Statement *event.StatementAnswer
}

// Effects are what the caller has to do after a message. The slices belong to the fold and are overwritten by the next
// Apply. The values that they point to are not.
type Effects struct {
	Answers []Answer
	Ledger  []*event.LedgerEntry // in order
	Closed  []Closed
	Changed []event.AccountID // accounts whose refusals, as edges remember them, may be wrong now
	Anew    []Anew
	Admin   []*event.AdminEntry // in order; without ids
	Alerts  []*event.Alert      // in order
	Usage   []UsageDelta        // in order
	Refused []Refused
	Rules   uint32 // that decided the message
}

// Fold is the state of one partition. It is not safe for concurrent use.
type Fold struct {
	sequence uint64
	time     int64             // of the journal: it decides months, time-outs and expiries
	peak     int64             // the latest that time ever was
	offset   int64             // the largest development clock offset of the price books
	chain    [sha256.Size]byte // over all messages folded
	digest   [sha256.Size]byte // of the last message
	entries  uint64
	rules    uint32 // version that decides the next message
	terms    uint64 // sequence of the last message that changed prices or rules
	books    []bookFrom
	book     *plan.Book // the last of books, nil before the first
	month    month      // of time

	accounts map[uint64]*account
	networks map[uint64]*network
	sources  map[string]*source

	byRequest     map[event.RequestID]*hold // open or remembered
	byPlace       map[uint64]*batchHolds    // reads that an edge may settle, by the sequence of their message
	spareBatches  []*batchHolds
	byIdempotency map[event.IdempotencyID]*hold
	open          holdList // in the order of admission, which is that of time-outs
	closed        holdList // remembered, in the order of closing
	free          *hold
	expiries      expiryHeap
	warnings      warnings

	admitted fifo[networkTime]
	failures fifo[principalTime]
	late     fifo[principalTime]
	kept     map[event.IdempotencyID]*keptCommand
	keptFifo fifo[*keptCommand]

	dirty []*principal
	total hash128

	newest uint32 // newest rules that the program knows
	broken error  // ErrState, ErrRules or a CoupledError; nothing can be folded after it

	keep func(id uint64) bool // of a part: the principals that it decides about; nil: all
	most int                  // principals that a part may have; 0: no bound

	batch    event.UsageBatch  // of this message
	ordinal  uint32            // of the next ledger entry of this message
	alerted  map[uint64]uint32 // alerts of this message, by account
	effects  Effects
	answered []event.Verdict
	pointers []*event.Verdict
	later    []*event.Settlement
	trace    *Trace
	recent   *recent.Log // nil: nothing is recorded
	decided  [Decisions]uint64
}

type bookFrom struct {
	fromMillis int64
	book       *plan.Book
	event      *event.PriceBook
}

// source publishes batches. An edge instance numbers its batches. A domain's stream does not, but each of its
// settlements carries that stream's sequence.
type source struct {
	name          string
	mark          uint64 // edges: number of the last usage batch; domains: sequence
	markMillis    int64  // domains: latest time of a request that was settled, by the clock of their journal
	floorMillis   int64  // domains: markMillis of the stream that was there before
	answer        []byte // to that batch
	commandMark   uint64
	commandAnswer []byte
	seen          int64
	numbered      bool // an edge: it is forgotten when it is idle
}

// New returns the state before the first message.
func New() *Fold {
	return &Fold{
		rules: Rules1, newest: NewestRules,
		month:         monthOf(0),
		accounts:      map[uint64]*account{},
		networks:      map[uint64]*network{},
		sources:       map[string]*source{},
		byRequest:     map[event.RequestID]*hold{},
		byPlace:       map[uint64]*batchHolds{},
		byIdempotency: map[event.IdempotencyID]*hold{},
		kept:          map[event.IdempotencyID]*keptCommand{},
		alerted:       map[uint64]uint32{},
		open:          holdList{kind: linkGlobal},
		closed:        holdList{kind: linkGlobal},
	}
}

// Sequence is the sequence of the last message folded.
func (f *Fold) Sequence() uint64 { return f.sequence }

// Entries is the number of admissions, settlements and commands folded so far.
func (f *Fold) Entries() uint64 { return f.entries }

// LastDigest is the Digest of the last message folded, zero before the first one.
func (f *Fold) LastDigest() [sha256.Size]byte { return f.digest }

// Accounts is the number of accounts.
func (f *Fold) Accounts() int { return len(f.accounts) }

// OpenHolds is the number of admissions that wait for their settlement.
func (f *Fold) OpenHolds() int { return f.open.count }

// Decided counts the admissions decided since this Fold was made, by event.Decision. It is not part of the state.
func (f *Fold) Decided() [Decisions]uint64 { return f.decided }

// Decisions is one more than the largest event.Decision.
const Decisions = int(event.Decision_IDEMPOTENCY_OTHER) + 1

// Prices is the current price book as it was published, nil before the first one. It must not be changed.
func (f *Fold) Prices() *event.PriceBook {
	if len(f.books) == 0 {
		return nil
	}
	return f.books[len(f.books)-1].event
}

// NextDueMillis is the next time at which a hold times out, a grant expires, webhooks are warned of a key's expiry, or a month is
// closed. 0: there is none.
func (f *Fold) NextDueMillis() int64 {
	var due int64
	if h := f.open.head; h != nil {
		due = h.time + HoldMillis
	}
	if len(f.expiries) > 0 && (due == 0 || f.expiries[0].expires < due) {
		due = f.expiries[0].expires
	}
	if len(f.warnings) > 0 && (due == 0 || f.warnings[0].due < due) {
		due = f.warnings[0].due
	}
	if f.book != nil {
		if closes := f.nextClose(); due == 0 || closes < due {
			due = closes
		}
	}
	return due
}

// Apply folds the next message. A message that was folded before changes nothing. One that can't be decoded counts in
// the chain and is skipped with ErrUndecodable: every fold of this journal does the same, so the caller reports it and
// goes on. After any other error it must not go on. ErrGap has changed nothing. After ErrState and ErrRules the fold is of
// no use: this call has no effects, and each later one returns the error again.
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
	f.sequence = m.Sequence
	f.digest = Digest(m)
	f.chain = nextChain(f.chain, f.digest)
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
	return f.effects, err
}

func (f *Fold) resetEffects() {
	e := &f.effects
	clear(e.Answers)
	clear(e.Ledger)
	clear(e.Closed)
	clear(e.Admin)
	clear(e.Alerts)
	e.Answers, e.Ledger, e.Closed, e.Changed, e.Anew = e.Answers[:0], e.Ledger[:0], e.Closed[:0], e.Changed[:0], e.Anew[:0]
	e.Admin, e.Alerts, e.Usage, e.Refused = e.Admin[:0], e.Alerts[:0], e.Usage[:0], e.Refused[:0]
	e.Rules = f.rules
	f.ordinal = 0
	clear(f.alerted)
}

// Digest is the SHA-256 of a message. The chain is made of digests.
func Digest(m Message) [sha256.Size]byte {
	var head [17]byte
	binary.BigEndian.PutUint64(head[:], m.Sequence)
	binary.BigEndian.PutUint64(head[8:], uint64(m.TimeMillis))
	head[16] = byte(m.Kind)
	h := sha256.New()
	h.Write(head[:])
	h.Write(m.Data)
	var sum [sha256.Size]byte
	return [sha256.Size]byte(h.Sum(sum[:0]))
}

func nextChain(chain, digest [sha256.Size]byte) [sha256.Size]byte {
	var both [2 * sha256.Size]byte
	copy(both[:], chain[:])
	copy(both[sha256.Size:], digest[:])
	return sha256.Sum256(both[:])
}

// decode reads a batch into the memory of the one before. Ids in it are bytes of that memory: whatever outlives the message has
// them as arrays.
func (f *Fold) decode(data []byte) (*event.UsageBatch, error) {
	b := &f.batch
	if cap(b.Admissions) > maxReused || cap(b.Settlements) > maxReused {
		f.batch = event.UsageBatch{}
	}
	b.ResetVT()
	if err := b.UnmarshalVT(data); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUndecodable, err)
	}
	return b, nil
}

func (f *Fold) applyUsage(m Message) error {
	b, err := f.decode(m.Data)
	if err != nil {
		return err
	}
	f.advance(f.timeOf(m, stampOf(b), f.offset))
	if b.Number == 0 { // a tick
		f.refuse(b.Source, RefusedSource, len(b.Settlements))
		return nil
	}
	s := f.source(b.Source)
	s.numbered = true
	if b.Number <= s.mark {
		if b.Number == s.mark {
			f.answer(b.Source, Verdicts, s.answer)
		}
		return nil
	}
	verdicts := f.verdicts(len(b.Admissions))
	f.entries += f.serveBatches(b.Served)
	// Settlements come first: what they give back is there for the admissions of the same batch. Settlements of unknown
	// holds come last: they may be of admissions in the same batch whose callers have given up.
	f.later = f.later[:0]
	for _, item := range b.Settlements {
		if len(item.RequestId) == 16 && f.byRequest[event.RequestID(item.RequestId)] == nil {
			f.later = append(f.later, item)
			continue
		}
		if !f.passes(item.Account, item.RequestId, nil) {
			f.settle(item)
		}
	}
	for i, item := range b.Admissions {
		if f.passes(item.Account, item.RequestId, idempotencyOf(item)) {
			continue
		}
		f.admit(item, uint32(i), verdicts[i])
		f.decided[verdicts[i].Decision]++
	}
	for _, item := range f.later {
		if !f.passes(item.Account, item.RequestId, nil) {
			f.settle(item)
		}
	}
	clear(f.later)
	f.entries += uint64(len(b.Admissions) + len(b.Settlements))
	answer := event.VerdictBatch{
		Source: b.Source, Number: b.Number, Sequence: m.Sequence, TimeMs: f.time, Verdicts: verdicts, Rules: f.rules,
	}
	data, err := answer.MarshalVT()
	if err != nil {
		return err
	}
	s.mark, s.answer = b.Number, data
	f.answer(b.Source, Verdicts, data)
	return nil
}

// stampOf is the source's clock. An edge shortens it where the batch has an admission.
func stampOf(b *event.UsageBatch) int64 {
	if b.StampMs != 0 || len(b.Admissions) == 0 || len(b.Admissions[0].RequestId) != 16 {
		return b.StampMs
	}
	return event.RequestID(b.Admissions[0].RequestId).UnixMilli() + b.SinceMs
}

// verdicts gives n empty verdicts. Every batch uses the same memory.
func (f *Fold) verdicts(n int) []*event.Verdict {
	if cap(f.answered) < n {
		f.answered = make([]event.Verdict, n)
		f.pointers = make([]*event.Verdict, n)
		for i := range f.answered {
			f.pointers[i] = &f.answered[i]
		}
	}
	f.answered = f.answered[:cap(f.answered)]
	f.pointers = f.pointers[:cap(f.answered)]
	for i := range n {
		f.answered[i].Reset()
	}
	return f.pointers[:n]
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
	f.setBook(book)
	return nil
}

// bookAt is the price book in force at that time, or the oldest one if the time is before all of them.
func (f *Fold) bookAt(millis int64) *plan.Book {
	for i := len(f.books) - 1; i > 0; i-- {
		if f.books[i].fromMillis <= millis {
			return f.books[i].book
		}
	}
	if len(f.books) > 0 {
		return f.books[0].book
	}
	return &plan.Book{}
}

// timeOf is the fold's time from this message on: the source's stamp. It goes back with the journal's own clock only, and a
// stamp is cut to a little ahead of that clock, so that one bad clock can't carry all accounts into the next month.
//
// The offset of a development clock is that of the price books: only billing publishes them.
func (f *Fold) timeOf(m Message, stamp, offset int64) int64 {
	f.offset = max(f.offset, offset)
	f.follow(m.TimeMillis)
	return max(f.time, min(stamp, m.TimeMillis+offset+aheadMillis))
}

func boundOffset(millis int64) int64 { return max(-maxOffset, min(millis, maxOffset)) }

// Offset is that of the development clock, in milliseconds.
func (f *Fold) Offset() int64 { return f.offset }

// advance moves the time, and does what is due by then, in order.
func (f *Fold) advance(now int64) {
	if now <= f.time {
		return
	}
	before := f.time
	for {
		h := f.open.head
		switch {
		case len(f.expiries) > 0 && f.expiries[0].expires <= now && (h == nil || f.expiries[0].expires <= h.time+HoldMillis):
			f.expire(f.expiries[0])
			continue
		case h != nil && h.time+HoldMillis <= now:
			f.timeOut(h)
			continue
		}
		break
	}
	for len(f.warnings) > 0 && f.warnings[0].due <= now {
		f.warn(now)
	}
	f.time, f.peak = now, max(f.peak, now)
	f.month = f.month.at(now)
	for h := f.closed.head; h != nil && h.closedAt+MemoryMillis <= now; h = f.closed.head {
		f.forget(h)
	}
	f.trimAdmitted()
	for f.failures.len() > 0 && f.failures.first().time+FailureMillis <= now {
		f.trimFailures(f.failures.pop())
	}
	for f.late.len() > 0 && f.late.first().time+LateMillis <= now {
		f.trimLate(f.late.pop())
	}
	for f.keptFifo.len() > 0 && f.keptFifo.first().time+CommandMillis <= now {
		delete(f.kept, f.keptFifo.pop().id)
	}
	if before/sweepEvery != now/sweepEvery {
		for name, s := range f.sources { // the order does not show: each is kept or deleted by itself
			if s.numbered && s.seen+sourceMillis <= now {
				delete(f.sources, name)
			}
		}
	}
}

func (f *Fold) source(name string) *source {
	s := f.sources[name]
	if s == nil {
		s = &source{name: name}
		f.sources[name] = s
	}
	s.seen = f.time
	return s
}

func (f *Fold) answer(source string, kind AnswerKind, data []byte) {
	f.effects.Answers = append(f.effects.Answers, Answer{Source: source, Kind: kind, Data: data})
}

func (f *Fold) changed(id uint64) {
	f.effects.Changed = append(f.effects.Changed, event.AccountID(id))
}
