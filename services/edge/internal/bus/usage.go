package bus

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"quire.dev/pkg/event"
	"quire.dev/pkg/plan"
	"quire.dev/pkg/wait"
)

// Admission asks billing to count one request. A caller without a key has KeyVersion 0.
type Admission struct {
	RequestID      event.RequestID
	Account        event.AccountID // for a keyless caller, the pseudo-account of its network
	Key            plan.QuotaKey
	Anonymous      bool
	KeyNumber      uint32
	KeyVersion     uint32
	KeyFingerprint uint64
	Write          bool   // the document service that folds the write settles it; all others are settled by Served or Void
	IdempotencyID  []byte // empty without Idempotency-Key; must not be changed afterwards
	ReadHash       uint64 // of a read with an IdempotencyID: the path and query that it stands for, not 0
}

// isRepeatable tells whether this is a read that is not charged again under its IdempotencyID.
func (a *Admission) isRepeatable() bool { return a.ReadHash != 0 }

// Verdict is what billing decided on an admission. It may be shared and must not be changed.
type Verdict struct {
	*event.Verdict
	TimeMs int64 // fold time of the decision, Unix milliseconds
	at     place // of the admission in its journal; zero where billing does not settle by places
}

// place is where an admission stands in its journal.
type place struct {
	sequence uint64 // of the message
	index    uint32 // in its admissions
}

// Admitted reports whether the request may run.
func (v *Verdict) Admitted() bool { return v.Decision == event.Decision_ADMITTED }

// usage is one entry of a usage batch: an admission, or its settlement.
type usage struct {
	Admission
	result event.Result // unspecified: an admission
	failed bool
	at     place // of a settlement of Served; zero: not known
}

func (u *usage) isAdmission() bool { return u.result == event.Result_RESULT_UNSPECIFIED }

type usageItem = item[usage, Verdict]

// usageLane carries the admissions and settlements of one billing partition in the same batches.
type usageLane struct {
	*lane[usage, Verdict]
	tokens chan struct{} // one for each settlement of Served that is not stored yet
	// holders says that billing's rules are event.RulesDomains or newer. They never become older.
	holders atomic.Bool
}

// Bytes of an item in an encoded batch, rounded up.
const (
	admissionBytes  = 88
	settlementBytes = 48
	placeBytes      = 24
)

func (b *Bus) newUsageLane(partition int) (*usageLane, error) {
	u := &usageLane{tokens: make(chan struct{}, b.cfg.MaxWaiting)}
	source := b.source(partition)
	var err error
	u.lane, err = newLane(laneConfig[usage, Verdict]{
		bus: b, kind: usageKind, subject: event.UsageSubject(partition), timeout: b.cfg.AdmitTimeout, gated: true,
		queueBytes: 1 << 30, // never reached: items are small and counted
		linger:     b.cfg.Linger,
		encode: func(number uint64, items []*usageItem) ([]byte, error) {
			return b.encodeUsage(source, number, items, u.holders.Load())
		},
		size: func(v usage) int {
			switch {
			case v.isAdmission():
				return admissionBytes
			case v.at.sequence != 0:
				return placeBytes
			}
			return settlementBytes
		},
		orphan: u.giveBack,
	})
	return u, err
}

// encodeUsage makes the event of a batch. short says that billing takes a clock that is counted from the first admission.
func (b *Bus) encodeUsage(source string, number uint64, items []*usageItem, short bool) ([]byte, error) {
	batch := event.UsageBatch{
		Source: source, Number: number,
		StampMs: b.Now().UnixMilli(), OffsetMs: b.cfg.Offset.Milliseconds(),
	}
	admissions, settlements := 0, 0
	for _, it := range items {
		switch {
		case it.value.isAdmission():
			admissions++
		case it.value.at.sequence == 0:
			settlements++
		}
	}
	// Two allocations instead of one for each item.
	as, ss := make([]event.Admission, admissions), make([]event.Settlement, settlements)
	batch.Admissions = make([]*event.Admission, 0, len(as))
	batch.Settlements = make([]*event.Settlement, 0, len(ss))
	for _, it := range items {
		v := &it.value
		if v.at.sequence != 0 {
			batch.Served = withPlace(batch.Served, v.at)
			continue
		}
		if v.isAdmission() {
			a := &as[len(batch.Admissions)]
			a.RequestId, a.Account, a.QuotaKey = v.RequestID[:], uint64(v.Account), uint32(v.Key)
			a.Anonymous, a.KeyVersion, a.KeyFingerprint = v.Anonymous, v.KeyVersion, v.KeyFingerprint
			a.Write, a.Key = v.Write, v.KeyNumber
			if v.isRepeatable() {
				a.ReadId, a.ReadHash = v.IdempotencyID, v.ReadHash
			} else {
				a.IdempotencyId = v.IdempotencyID
			}
			batch.Admissions = append(batch.Admissions, a)
			continue
		}
		s := &ss[len(batch.Settlements)]
		s.RequestId, s.Account, s.QuotaKey = v.RequestID[:], uint64(v.Account), uint32(v.Key)
		s.Anonymous, s.Result, s.Failed = v.Anonymous, v.result, v.failed
		batch.Settlements = append(batch.Settlements, s)
	}
	if short && len(batch.Admissions) > 0 {
		batch.StampMs, batch.SinceMs = 0, batch.StampMs-event.RequestID(batch.Admissions[0].RequestId).UnixMilli()
	}
	return event.Encode(&batch)
}

// withPlace adds a place. The reads that settle together are of a few messages.
func withPlace(served []*event.Served, at place) []*event.Served {
	for i := len(served) - 1; i >= 0; i-- {
		if s := served[i]; s.Sequence == at.sequence {
			if len(s.Places) == 0 {
				s.Places = append(s.Places, 0)
			}
			s.Places = append(s.Places, at.index)
			return served
		}
	}
	s := &event.Served{Sequence: at.sequence}
	if at.index != 0 {
		s.Places = append(s.Places, at.index)
	}
	return append(served, s)
}

func (b *Bus) usageOf(a event.AccountID) *usageLane {
	return b.usage[event.AccountPartition(a, b.cfg.Partitions)]
}

// PendingVerdict is an admission under way.
type PendingVerdict struct {
	refusal *Verdict // a remembered refusal; nil: the lane was asked
	lane    *usageLane
	item    usageItem
}

func (p *PendingVerdict) admission() *Admission { return &p.item.value.Admission }

// StartAdmit asks for an admission. It never blocks. Wait, which must be called for each StartAdmit,
// returns the verdict. A refusal that is remembered is there at once, but for an admission with an idempotency id: see
// PendingVerdict.repeat.
func (b *Bus) StartAdmit(a Admission) *PendingVerdict {
	p := &PendingVerdict{lane: b.usageOf(a.Account)}
	p.item.value.Admission = a
	if v := b.refusals.find(&a, b.Now()); v != nil {
		p.refusal = v
		return p
	}
	p.lane.start(&p.item)
	return p
}

// Refused tells whether the verdict is likely to be a refusal that is remembered, so that there is no need to prepare for
// anything else.
func (p *PendingVerdict) Refused() bool { return p.refusal != nil }

// Wait returns the verdict. It gives up when ctx ends, or after AdmitTimeout; the bus then gives the
// admission back by itself, as soon as it can. A refusal that open holds may still undo is asked again for
// up to heldWait, by a few calls of the account at a time.
func (p *PendingVerdict) Wait(ctx context.Context) (*Verdict, error) {
	if p.refusal != nil {
		if v, err := p.repeat(ctx); v != nil || err != nil {
			return v, err
		}
		p.lane.start(&p.item)
	}
	if err := p.lane.wait(ctx, &p.item); err != nil {
		return nil, err
	}
	if p.item.answer.Held {
		return p.askAgain(ctx)
	}
	return &p.item.answer, nil
}

// repeat returns the remembered refusal. It holds for a new request only: a repetition of one that is in flight, or was served,
// gets the verdict that billing would give it. Billing is asked for that with a query, since an admission of each call of a
// client that is refused would fill the journal. repeat returns nil where the refusal was of a request that is not in flight any more,
// and for a read that was served: billing counts how often it is repeated.
func (p *PendingVerdict) repeat(ctx context.Context) (*Verdict, error) {
	a, v := p.admission(), p.refusal
	b := p.lane.bus
	if len(a.IdempotencyID) == 0 || beforeIdempotency(v.Decision) {
		b.metrics.refusals.Inc()
		return v, nil
	}
	hold, err := b.hold(ctx, a.Account, &event.HoldQuery{IdempotencyId: a.IdempotencyID, OrServed: true})
	switch {
	case err != nil:
		return nil, err
	case hold == nil && isOfOneID(v.Decision):
		return nil, nil
	case hold == nil:
		b.metrics.refusals.Inc()
		return v, nil
	}
	decision := event.Decision_IDEMPOTENCY_IN_FLIGHT
	switch {
	case hold.ReadHash != a.ReadHash:
		decision = event.Decision_IDEMPOTENCY_OTHER
	case hold.Served && a.isRepeatable():
		return nil, nil
	case hold.Served:
		decision = event.Decision_IDEMPOTENCY_SERVED
	}
	return &Verdict{TimeMs: v.TimeMs, Verdict: &event.Verdict{
		Decision: decision, Tier: v.Tier, Limit: v.Limit, Remaining: v.Remaining, ResetSeconds: v.ResetSeconds,
	}}, nil
}

// isOfOneID tells whether a refusal is of requests with one idempotency id.
func isOfOneID(d event.Decision) bool {
	return d == event.Decision_IDEMPOTENCY_IN_FLIGHT || d == event.Decision_IDEMPOTENCY_OTHER
}

// beforeIdempotency tells whether billing comes to a decision before it looks at the idempotency id: it then applies to
// repetitions too.
func beforeIdempotency(d event.Decision) bool {
	switch d {
	case event.Decision_INVALID_KEY, event.Decision_ACCOUNT_SUSPENDED, event.Decision_KEY_SCOPE, event.Decision_TOO_MANY_FAILURES:
		return true
	}
	return false
}

const (
	heldWait  = time.Second
	heldFirst = 50 * time.Millisecond
	heldMost  = 400 * time.Millisecond
	// heldAskers is how many calls of an account under one quota key ask again at a time. Each asks some five times, and each
	// time is an admission in the journal.
	heldAskers = 16
)

// asker is whose refusals are asked again.
type asker struct {
	account event.AccountID
	key     plan.QuotaKey
}

// askers counts the calls that ask again, by whom they are.
type askers struct {
	mu     sync.Mutex
	asking map[asker]int
}

// enter tells whether a call may ask again. It has to leave afterwards.
func (a *askers) enter(who asker) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.asking[who] >= heldAskers {
		return false
	}
	a.asking[who]++
	return true
}

func (a *askers) leave(who asker) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.asking[who]--; a.asking[who] == 0 {
		delete(a.asking, who)
	}
}

// askAgain asks under the same request id until holds that stood in the way are settled. Billing remembers no refusal.
func (p *PendingVerdict) askAgain(ctx context.Context) (*Verdict, error) {
	who := asker{p.admission().Account, p.admission().Key}
	if !p.lane.bus.askers.enter(who) {
		return &p.item.answer, nil
	}
	defer p.lane.bus.askers.leave(who)
	until := p.lane.bus.elapsed() + heldWait
	pause := wait.Backoff{Initial: heldFirst, Max: heldMost}
	last := &p.item
	for last.answer.Held {
		d := pause.Next()
		if p.lane.bus.elapsed()+d > until || !wait.For(ctx, d) {
			break
		}
		next := &usageItem{value: usage{Admission: p.item.value.Admission}}
		if _, err := p.lane.do(ctx, next); err != nil {
			return nil, err
		}
		last = next
	}
	return &last.answer, nil
}

// giveBack voids an admission that nobody waits for. If its verdict is not known, billing may have
// refused it, or never seen it; to void such an admission has no effect.
func (u *usageLane) giveBack(v usage, verdict *Verdict) {
	if verdict != nil && !verdict.Admitted() {
		return
	}
	u.bus.metrics.orphans.Inc()
	it := &usageItem{value: usage{Admission: v.Admission, result: event.Result_VOID}, settlement: true}
	if err := u.appender.Add(it); err != nil {
		// This happens only while the bus stops. Billing closes the hold by itself after two minutes.
		u.bus.cfg.Logger.Warn("admission was not given back", "request", v.RequestID.String(), "error", err)
	}
}

// Served settles a read that v admitted and that was answered. The settlement goes into the partition's next batch, for which
// it waits up to Linger, and is kept until the journal has it. Served blocks while too many settlements wait. After
// Run's context has ended it only logs: billing counts an unsettled read as served in the end.
func (b *Bus) Served(a Admission, v *Verdict) {
	u := b.usageOf(a.Account)
	u.tokens <- struct{}{}
	it := &usageItem{value: usage{Admission: a, result: event.Result_SERVED, at: v.at}, settlement: true, tokens: u.tokens}
	if err := u.appender.AddLingering(it); err != nil {
		u.end(it, appendFault(err))
		b.cfg.Logger.Warn("settlement came too late", "request", a.RequestID.String(), "error", err)
	}
}

// Void gives an admission back and returns when that is stored in the journal. failed says that the
// call failed in its execution, which counts towards too_many_failures. After OutcomeUnknown the
// bus goes on trying; Unavailable is returned only when the bus is stopping.
func (b *Bus) Void(ctx context.Context, a Admission, failed bool) error {
	it := &usageItem{
		value:      usage{Admission: a, result: event.Result_VOID, failed: failed},
		settlement: true,
		done:       make(chan struct{}, 1),
	}
	if err := b.usageOf(a.Account).appender.Add(it); err != nil {
		return appendFault(err)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, b.cfg.AdmitTimeout, errExpired)
	defer cancel()
	select {
	case <-it.done:
		return it.err
	case <-ctx.Done():
		return ended(ctx, true)
	}
}
