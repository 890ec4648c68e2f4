package bus

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"quire.dev/pkg/event"
	"quire.dev/pkg/eventually"
	"quire.dev/pkg/journal"
	"quire.dev/pkg/journal/journaltest"
)

// fold is how a fake replica handles a message. It returns the answers to publish.
type fold func(m journal.Message) (answers []answer)

type answer struct {
	subject string
	data    []byte
}

// follow folds a stream until the test ends.
func follow(t testing.TB, nc *nats.Conn, stream string, f fold) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		ended <- journal.Open(nc, stream).Follow(ctx, 0, func(_ context.Context, m journal.Message) error {
			for _, a := range f(m) {
				if err := nc.Publish(a.subject, a.data); err != nil && !errors.Is(err, nats.ErrConnectionClosed) {
					return err
				}
			}
			return nil
		}, journal.FollowOptions{})
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil && !errors.Is(err, context.Canceled) && !errors.Is(err, journal.ErrClosed) {
			t.Errorf("follow %s: %v", stream, err)
		}
	})
}

// fakeBilling imitates the part of billing's fold that the bus sees. It keeps a watermark for each source, repeats the last
// answer to one, and limits accounts.
type fakeBilling struct {
	mu       sync.Mutex
	limits   map[event.AccountID]int64 // no entry: no limit
	used     map[event.AccountID]int64
	versions map[event.AccountID]uint32 // current key versions; no entry: any
	inFlight []byte                     // idempotency id of a request that is; may be nil
	final    bool
	held     int  // refusals that are still to be held
	lose     int  // answers that are still to be lost
	silent   bool // all answers are lost
	sources  map[string]*fakeSource
	offsets  map[string]event.RequestID // of admissions

	messages   int
	admissions int // decided; a repeated batch does not count
	served     map[event.RequestID]int
	voided     map[event.RequestID]int
	failures   int
	commands   int
}

type fakeSource struct {
	watermark, commandWatermark uint64
	last, lastCommand           answer
}

func newFakeBilling(t testing.TB, nc *nats.Conn, partitions int) *fakeBilling {
	f := &fakeBilling{
		limits: map[event.AccountID]int64{}, used: map[event.AccountID]int64{},
		versions: map[event.AccountID]uint32{}, sources: map[string]*fakeSource{}, final: true,
		offsets: map[string]event.RequestID{},
		served:  map[event.RequestID]int{}, voided: map[event.RequestID]int{},
	}
	for p := range partitions {
		follow(t, nc, event.Billing.Stream(p), func(m journal.Message) []answer { return f.fold(t, p, m) })
	}
	return f
}

func (f *fakeBilling) fold(t testing.TB, p int, m journal.Message) []answer {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.messages++
	var a []answer
	if m.Subject == event.UsageSubject(p) {
		a = f.usage(t, m)
	} else {
		a = f.account(t, m)
	}
	if f.silent {
		return nil
	}
	if f.lose > 0 {
		f.lose--
		return nil
	}
	return a
}

func (f *fakeBilling) source(name string) *fakeSource {
	if f.sources[name] == nil {
		f.sources[name] = &fakeSource{}
	}
	return f.sources[name]
}

func (f *fakeBilling) usage(t testing.TB, m journal.Message) []answer {
	var batch event.UsageBatch
	if err := event.Decode(m.Data, &batch); err != nil {
		t.Errorf("usage batch: %v", err)
		return nil
	}
	s := f.source(batch.Source)
	if batch.Number == s.watermark {
		return []answer{s.last}
	}
	if batch.Number != s.watermark+1 {
		t.Errorf("batch %d of %s after %d", batch.Number, batch.Source, s.watermark)
	}
	s.watermark = batch.Number
	stamp := batch.StampMs
	if stamp == 0 && len(batch.Admissions) > 0 {
		stamp = event.RequestID(batch.Admissions[0].RequestId).UnixMilli() + batch.SinceMs
	}
	if ahead := time.Now().UnixMilli() - stamp; ahead < -60_000 || ahead > 60_000 {
		t.Errorf("the batch's clock is %d ms from now", ahead)
	}
	verdicts := &event.VerdictBatch{
		Source: batch.Source, Number: batch.Number, Sequence: m.Sequence,
		TimeMs: stamp, Rules: 1,
	}
	for _, of := range batch.Served {
		offsets := of.Places
		if len(offsets) == 0 {
			offsets = []uint32{0}
		}
		for _, i := range offsets {
			id, known := f.offsets[fmt.Sprint(m.Subject, of.Sequence, i)]
			if !known {
				t.Errorf("served at %d of message %d, where there is no admission", i, of.Sequence)
			}
			f.served[id]++
		}
	}
	for i, a := range batch.Admissions {
		f.offsets[fmt.Sprint(m.Subject, m.Sequence, i)] = event.RequestID(a.RequestId)
		f.admissions++
		verdicts.Verdicts = append(verdicts.Verdicts, f.decide(a))
	}
	for _, settled := range batch.Settlements {
		id := event.RequestID(settled.RequestId)
		if settled.Result == event.Result_SERVED {
			f.served[id]++
		} else {
			f.voided[id]++
			if settled.Failed {
				f.failures++
			}
		}
	}
	data, err := event.Encode(verdicts)
	if err != nil {
		t.Errorf("verdicts: %v", err)
	}
	s.last = answer{event.VerdictSubject(batch.Source), data}
	return []answer{s.last}
}

// fingerprintOf goes into a verdict, so that a test can tell which request it is for.
func fingerprintOf(requestID []byte) uint64 { return binary.BigEndian.Uint64(requestID[8:]) }

func (f *fakeBilling) decide(a *event.Admission) *event.Verdict {
	account := event.AccountID(a.Account)
	v := &event.Verdict{Decision: event.Decision_ADMITTED, Charge: event.ChargeSource_CHARGE_QUOTA, BalanceMicros: fingerprintOf(a.RequestId), ResetSeconds: 3600}
	if current, ok := f.versions[account]; ok && a.KeyVersion != current {
		v.Decision, v.CurrentKeyVersion = event.Decision_INVALID_KEY, current
		return v
	}
	if len(f.inFlight) > 0 && bytes.Equal(a.IdempotencyId, f.inFlight) {
		v.Decision, v.Charge = event.Decision_IDEMPOTENCY_IN_FLIGHT, event.ChargeSource_CHARGE_NONE
		return v
	}
	limit, limited := f.limits[account]
	if f.held > 0 {
		f.held--
		v.Decision, v.Charge, v.Limit, v.Held, v.RetryAfterSeconds = event.Decision_QUOTA_EXHAUSTED, event.ChargeSource_CHARGE_NONE, limit, true, 1
		return v
	}
	if limited && f.used[account] >= limit {
		v.Decision, v.Charge, v.Limit, v.Final = event.Decision_QUOTA_EXHAUSTED, event.ChargeSource_CHARGE_NONE, limit, f.final
		return v
	}
	f.used[account]++
	v.Limit, v.Remaining = limit, limit-f.used[account]
	return v
}

// account folds commands. A grant raises the limit by its micro-credits, and is announced.
func (f *fakeBilling) account(t testing.TB, m journal.Message) []answer {
	var batch event.CommandBatch
	if err := event.Decode(m.Data, &batch); err != nil {
		t.Errorf("command batch: %v", err)
		return nil
	}
	s := f.source(batch.Source)
	if batch.Number == s.commandWatermark {
		return []answer{s.lastCommand}
	}
	s.commandWatermark = batch.Number
	outcomes := &event.CommandOutcomeBatch{Source: batch.Source, Number: batch.Number, Sequence: m.Sequence}
	announcement := &event.Announcement{}
	for _, c := range batch.Commands {
		f.commands++
		f.limits[event.AccountID(c.Account)] += c.GetGrant().GetAmountMicros()
		announcement.Accounts = append(announcement.Accounts, c.Account)
		outcomes.Outcomes = append(outcomes.Outcomes, &event.CommandOutcome{
			Status: event.CommandStatus_COMMAND_OK, BalanceMicros: f.limits[event.AccountID(c.Account)],
		})
	}
	announced, err1 := event.Encode(announcement)
	data, err2 := event.Encode(outcomes)
	if err := errors.Join(err1, err2); err != nil {
		t.Errorf("outcomes: %v", err)
	}
	s.lastCommand = answer{event.CommandOutcomeSubject(batch.Source), data}
	return []answer{{event.AnnounceSubject, announced}, s.lastCommand}
}

// with reads or changes the fake under its lock.
func (f *fakeBilling) with(do func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	do()
}

func (f *fakeBilling) is(condition func() bool) func() bool {
	return func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		return condition()
	}
}

// countedOnce waits until this many requests are served, and holds each to one admission and one settlement.
func (f *fakeBilling) countedOnce(t testing.TB, requests int) {
	t.Helper()
	eventually.True(t, "all settlements folded", f.is(func() bool { return len(f.served) == requests }))
	f.with(func() {
		if f.admissions != requests {
			t.Errorf("%d admissions decided, want %d", f.admissions, requests)
		}
		for id, n := range f.served {
			if n != 1 {
				t.Errorf("request %v served %d times", id, n)
			}
		}
	})
}

// fakeDomain applies each request once. It answers each in its own message, the last one first.
type fakeDomain struct {
	mu      sync.Mutex
	lose    int
	silent  bool
	onApply func() // may be nil
	applied map[event.RequestID]int
	kept    map[event.RequestID]*event.Outcome
}

func newFakeDomain(t testing.TB, nc *nats.Conn, d event.Domain, partitions int) *fakeDomain {
	f := &fakeDomain{applied: map[event.RequestID]int{}, kept: map[event.RequestID]*event.Outcome{}}
	for p := range partitions {
		follow(t, nc, d.Stream(p), func(m journal.Message) []answer { return f.fold(t, d, m) })
	}
	return f
}

func (f *fakeDomain) fold(t testing.TB, d event.Domain, m journal.Message) (answers []answer) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var batch event.RequestBatch
	if err := event.Decode(m.Data, &batch); err != nil {
		t.Errorf("request batch: %v", err)
		return nil
	}
	for i := len(batch.Requests) - 1; i >= 0; i-- {
		r := batch.Requests[i]
		id := event.RequestID(r.RequestId)
		if r.DeadlineMs <= batch.StampMs {
			t.Errorf("deadline %d at %d", r.DeadlineMs, batch.StampMs)
		}
		if f.kept[id] == nil {
			f.applied[id]++
			if f.onApply != nil {
				f.onApply()
			}
			f.kept[id] = &event.Outcome{Index: uint32(i), Status: event.OutcomeStatus_OK, Item: r.Item, RequestId: r.RequestId}
		}
		data, err := event.Encode(&event.OutcomeBatch{
			Source: batch.Source, Number: batch.Number, Sequence: m.Sequence, Outcomes: []*event.Outcome{f.kept[id]},
		})
		if err != nil {
			t.Errorf("outcome: %v", err)
		}
		answers = append(answers, answer{d.OutcomeSubject(batch.Source), data})
	}
	if f.silent {
		return nil
	}
	if f.lose > 0 {
		f.lose--
		return nil
	}
	return answers
}

// world is a server with its streams.
type world struct {
	server     *journaltest.Server
	partitions int
	nc         *nats.Conn // of the services
}

// newBareWorld makes a server without streams.
func newBareWorld(t testing.TB, partitions int) *world {
	t.Helper()
	s := journaltest.Start(t)
	return &world{server: s, partitions: partitions, nc: s.Conn(t)}
}

func newWorld(t testing.TB, partitions int) *world {
	t.Helper()
	w := newBareWorld(t, partitions)
	for _, d := range []event.Domain{event.Billing, event.Paste, event.Lite, event.File} {
		w.ensure(t, d, 0)
	}
	return w
}

func (w *world) ensure(t testing.TB, d event.Domain, maxBytes int64) {
	t.Helper()
	var streams []journal.Stream
	for p := range w.partitions {
		streams = append(streams, journal.Stream{
			Domain: string(d), Partition: p, Name: d.Stream(p), Subjects: d.Subjects(p),
			KeepForever: d == event.Billing, MaxBytes: maxBytes,
		})
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if err := journal.Ensure(ctx, w.nc, streams, w.partitions); err != nil {
		t.Fatalf("ensure streams: %v", err)
	}
}

// running is a bus that runs until stop, or the end of the test.
type running struct {
	*Bus
	stop func() error // waits for Run
}

func (w *world) bus(t testing.TB, change func(*Config)) *running {
	t.Helper()
	b := w.idle(t, change)
	r := start(t, b)
	<-b.Ready()
	return r
}

func (w *world) idle(t testing.TB, change func(*Config)) *Bus {
	t.Helper()
	cfg := Config{Partitions: w.partitions, RefusalThreshold: 1}
	if change != nil {
		change(&cfg)
	}
	b, err := New(w.server.Conn(t), cfg)
	if err != nil {
		t.Fatalf("new bus: %v", err)
	}
	return b
}

func start(t testing.TB, b *Bus) *running {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- b.Run(ctx) }()
	stop := sync.OnceValue(func() error {
		cancel()
		return <-ended
	})
	t.Cleanup(func() { _ = stop() }) // a test for which the error matters has called stop itself
	return &running{Bus: b, stop: stop}
}

// usageBatches reads what the billing journal holds.
func (w *world) usageBatches(t testing.TB) (all []*event.UsageBatch) {
	t.Helper()
	for p := range w.partitions {
		j := journal.Open(w.nc, event.Billing.Stream(p))
		last, err := j.LastSequence(t.Context())
		if err != nil {
			t.Fatalf("last sequence: %v", err)
		}
		err = j.Replay(t.Context(), 0, last, func(m journal.Message) error {
			if m.Subject != event.UsageSubject(p) {
				return nil
			}
			batch := &event.UsageBatch{}
			all = append(all, batch)
			return event.Decode(m.Data, batch)
		}, nil)
		if err != nil {
			t.Fatalf("replay: %v", err)
		}
	}
	return all
}

func admission(account event.AccountID) Admission {
	return Admission{RequestID: event.NewRequestID(), Account: account, Key: 1, KeyVersion: 1, KeyFingerprint: 7}
}

// settled counts the settlements of a request in the journal. A batch that is stored twice counts once.
func (w *world) settled(t testing.TB, id event.RequestID) (served, voided int) {
	t.Helper()
	type batch struct {
		source string
		number uint64
	}
	seen := map[batch]bool{}
	for _, b := range w.usageBatches(t) {
		if seen[batch{b.Source, b.Number}] {
			continue
		}
		seen[batch{b.Source, b.Number}] = true
		for _, s := range b.Settlements {
			if !bytes.Equal(s.RequestId, id[:]) {
				continue
			}
			if s.Result == event.Result_SERVED {
				served++
			} else {
				voided++
			}
		}
	}
	return served, voided
}
