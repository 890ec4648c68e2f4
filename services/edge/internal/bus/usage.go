package bus

import (
	"context"
	"sync"
	"time"

	"quire.dev/pkg/event"
	"quire.dev/pkg/plan"
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
	ReadHash       uint64 // event.ReadHash of a read with an IdempotencyID; otherwise 0
}

// isRepeatable tells whether this is a read that can be replayed under its IdempotencyID without a charge.
func (a *Admission) isRepeatable() bool { return a.ReadHash != 0 }

// Verdict is billing's decision on an admission. It may be shared and must not be changed.
type Verdict struct {
	*event.Verdict
	TimeMs int64         // fold time of the decision, Unix milliseconds
	at     journalOffset // of the admission in its journal; zero if billing does not settle by offset
}

// journalOffset is the position of an admission in its journal.
type journalOffset struct {
	sequence uint64 // of the message
	offset   uint32 // among the admissions of the message
}

// Admitted reports whether the request may run.
func (v *Verdict) Admitted() bool { return v.Decision == event.Decision_ADMITTED }

// usage is one entry of a usage batch: an admission, or its settlement.
type usage struct {
	Admission
	result event.Result // unspecified: an admission
	failed bool
	at     journalOffset // of a settlement of Served; zero: not known
}

func (u *usage) isAdmission() bool { return u.result == event.Result_RESULT_UNSPECIFIED }

type usageItem = item[usage, Verdict]

// usageLane carries the admissions and settlements of one billing partition in the same batches.
type usageLane struct {
	*lane[usage, Verdict]
	tokens chan struct{} // one for each settlement of Served that is not stored yet
}

// Bytes of an item in an encoded batch, rounded up.
const (
	admissionBytes  = 88
	settlementBytes = 48
	offsetBytes     = 24
)

func (b *Bus) newUsageLane(partition int, j *journalWatch) (*usageLane, error) {
	u := &usageLane{tokens: make(chan struct{}, b.cfg.MaxWaiting)}
	source := b.source(partition)
	var err error
	u.lane, err = newLane(laneConfig[usage, Verdict]{
		bus: b, journal: j, kind: usageKind, subject: event.UsageSubject(partition), timeout: b.cfg.AdmitTimeout, gated: true,
		queueBytes: 1 << 30, // never reached: items are small and their number is bounded
		linger:     b.cfg.Linger,
		encode: func(number uint64, items []*usageItem) ([]byte, error) {
			return b.encodeUsage(source, number, items)
		},
		size: func(v usage) int {
			switch {
			case v.isAdmission():
				return admissionBytes
			case v.at.sequence != 0:
				return offsetBytes
			}
			return settlementBytes
		},
		orphan: u.giveBack,
	})
	return u, err
}

// encodeUsage makes the event of a batch, whose clock counts from the first admission where there is one.
func (b *Bus) encodeUsage(source string, number uint64, items []*usageItem) ([]byte, error) {
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
	// Two allocations instead of one per item.
	as, ss := make([]event.Admission, admissions), make([]event.Settlement, settlements)
	batch.Admissions = make([]*event.Admission, 0, len(as))
	batch.Settlements = make([]*event.Settlement, 0, len(ss))
	for _, it := range items {
		v := &it.value
		if v.at.sequence != 0 {
			batch.Served = withOffset(batch.Served, v.at)
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
	if len(batch.Admissions) > 0 {
		batch.StampMs, batch.SinceMs = 0, batch.StampMs-event.RequestID(batch.Admissions[0].RequestId).UnixMilli()
	}
	return event.Encode(&batch)
}

// withOffset adds the offset of a served admission. Reads that settle together are in few messages.
func withOffset(served []*event.Served, at journalOffset) []*event.Served {
	for i := len(served) - 1; i >= 0; i-- {
		if s := served[i]; s.Sequence == at.sequence {
			if len(s.Places) == 0 {
				s.Places = append(s.Places, 0)
			}
			s.Places = append(s.Places, at.offset)
			return served
		}
	}
	s := &event.Served{Sequence: at.sequence}
	if at.offset != 0 {
		s.Places = append(s.Places, at.offset)
	}
	return append(served, s)
}

func (b *Bus) usageOf(a event.AccountID) *usageLane {
	return b.usage[event.AccountPartition(a, b.cfg.Partitions)]
}

// PendingVerdict is an admission in progress.
type PendingVerdict struct {
	refusal *Verdict // a cached refusal; nil if the lane was asked
	timing  *Timing
	lane    *usageLane
	item    usageItem
}

func (p *PendingVerdict) admission() *Admission { return &p.item.value.Admission }

// StartAdmit asks for an admission. It never blocks. Wait, which must be called for each StartAdmit, returns the verdict. A
// cached refusal is available at once, except for an admission with an idempotency id: see PendingVerdict.checkCached. timing may
// be nil.
func (b *Bus) StartAdmit(a Admission, timing *Timing) *PendingVerdict {
	p := &PendingVerdict{lane: b.usageOf(a.Account), timing: timing}
	if timing == nil {
		p.timing = new(Timing)
	}
	p.item.span = p.timing.child("admit")
	p.item.value.Admission = a
	if v := b.refusals.find(&a, b.Now()); v != nil {
		p.refusal = v
		return p
	}
	p.lane.start(&p.item)
	return p
}

// Refused tells whether the verdict is likely to be a cached refusal, so that the caller need not start the request.
func (p *PendingVerdict) Refused() bool { return p.refusal != nil }

// Wait returns the verdict. It gives up when ctx ends, or when billing has not answered an attempt within AdmitTimeout; the bus
// then voids the admission as soon as it can. Attempts are repeated as the package comment says. RetryAfterSeconds of
// IDEMPOTENCY_IN_FLIGHT is how long the first request has run, as a guess how long it will, or until its hold expires; 0 if
// that is not known.
func (p *PendingVerdict) Wait(ctx context.Context) (*Verdict, error) {
	if p.refusal != nil {
		if v, err := p.checkCached(ctx); v != nil || err != nil {
			return v, err
		}
		p.lane.start(&p.item)
	}
	err := p.lane.wait(ctx, &p.item)
	p.lane.waited(&p.item, &p.timing.Admit)
	if err != nil {
		return nil, err
	}
	if v := &p.item.answer; afterVerdict(p.admission(), v) == stands {
		return v, nil
	}
	return p.pursue(ctx)
}

// checkCached returns the cached refusal. It applies to new requests only: a repetition of a request in flight, or served, gets
// billing's own verdict. A query asks for it, since admissions of every call of a refused client would fill the journal.
// checkCached returns nil if billing has to decide.
func (p *PendingVerdict) checkCached(ctx context.Context) (v *Verdict, err error) {
	v = p.refusal
	b, a := p.lane.bus, p.admission()
	if len(a.IdempotencyID) > 0 && !beforeIdempotency(v.Decision) {
		v, err = b.underID(ctx, a, v)
	}
	if v == p.refusal {
		b.metrics.refusals.Inc()
	}
	return v, err
}

// pursue repeats a refused admission until a verdict stands or the time for it is over. All repetitions have the same request
// id: billing remembers no refusal.
func (p *PendingVerdict) pursue(ctx context.Context) (*Verdict, error) {
	b, a, v := p.lane.bus, p.admission(), &p.item.answer
	who, entered := asker{a.Account, a.Key}, false
	defer func() {
		if entered {
			b.askers.leave(who)
		}
	}()
	now := time.Now()
	budget := b.newBudget(now, now.Add(freedWithin))
	for {
		why := held
		switch afterVerdict(a, v) {
		case stands:
			return v, nil
		case askID:
			limited, cancel := context.WithDeadline(ctx, budget.end)
			decided, err := b.underID(limited, a, v)
			cancel()
			switch {
			case err != nil: // then the request counts as still in flight
				return v, nil
			case decided != nil:
				return decided, nil
			}
			why = freed
		case askAgain:
			if !entered && !b.askers.enter(who) {
				return v, nil
			}
			entered = true
		}
		if !budget.spend(ctx, why) {
			return v, nil
		}
		next := &usageItem{value: usage{Admission: *a}, span: p.timing.child("admit")}
		_, err := p.lane.do(ctx, next)
		p.lane.waited(next, &p.timing.Admit)
		if err != nil {
			return nil, err
		}
		v = &next.answer
	}
}

// underID returns the verdict on a, refused with v, once billing has said what is under its idempotency id; nil if billing has
// to decide again. If the edge of the request in flight was killed, nobody settles its hold, and underID voids it.
func (b *Bus) underID(ctx context.Context, a *Admission, v *Verdict) (*Verdict, error) {
	known, err := b.hold(ctx, a.Account, a.IdempotencyID)
	if err != nil {
		return nil, err
	}
	decided := afterHold(a, v, known)
	if decided != nil && decided.Decision == event.Decision_IDEMPOTENCY_IN_FLIGHT && known.GetAbandoned() {
		other := *a // requests under one idempotency id have the same payer and quota key
		other.RequestID = event.RequestID(known.RequestId)
		if b.Void(ctx, other, false) == nil {
			return nil, nil
		}
	}
	return decided, nil
}

// heldAskers is the number of concurrent requests per account and quota key that are repeated while holds last. Each is
// repeated some five times, and each time is an admission in the journal.
const heldAskers = 16

// asker identifies requests that are repeated together.
type asker struct {
	account event.AccountID
	key     plan.QuotaKey
}

// askers counts the requests that are repeated, per asker.
type askers struct {
	mu     sync.Mutex
	asking map[asker]int
}

// enter tells whether a request may be repeated. It must leave afterwards.
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

// giveBack voids an admission that nobody waits for. Without a known verdict, billing may have refused or never seen it;
// voiding it then has no effect.
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

// Served settles an answered read that v admitted. The settlement joins the partition's next batch, waiting up to Linger
// for one, and is kept until the journal has it. Served blocks while too many settlements are queued. After Run's context
// has ended it only logs: billing eventually counts an unsettled read as served.
func (b *Bus) Served(a Admission, v *Verdict) {
	u := b.usageOf(a.Account)
	u.tokens <- struct{}{}
	it := &usageItem{value: usage{Admission: a, result: event.Result_SERVED, at: v.at}, settlement: true, tokens: u.tokens}
	if err := u.appender.AddLingering(it); err != nil {
		u.end(it, appendFault(err))
		b.cfg.Logger.Warn("settlement came too late", "request", a.RequestID.String(), "error", err)
	}
}

// Void refunds an admission and returns once that is stored in the journal. failed means that the call failed while it was
// executed, which counts toward too_many_failures. After OutcomeUnknown the bus keeps trying; Unavailable is returned only
// while the bus is stopping.
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
		return contextFault(ctx, true)
	}
}
