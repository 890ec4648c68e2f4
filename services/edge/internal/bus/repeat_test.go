package bus

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"quire.dev/pkg/event"
	"quire.dev/pkg/rpc"
)

func TestAQuestionIsRepeatedForTheseErrorsOnly(t *testing.T) {
	cfg := Config{ReadTimeout: 3 * time.Second}
	for _, c := range []struct {
		err    error
		want   cause
		within time.Duration
	}{
		{errReadModel, moving, 3 * time.Second},
		{&rpc.Error{Code: rpc.CodeUnavailable}, moving, 3 * time.Second},
		{&rpc.Error{Code: rpc.CodeBusy}, moving, 3 * time.Second},
		{&rpc.Error{Code: rpc.CodeInternal}, none, 0},
		{&rpc.Error{Code: "malformed"}, none, 0},
		{rpc.ErrUnavailable, silent, 0},
		{rpc.ErrTimeout, silent, 0},
		{rpc.ErrTooLarge, none, 0},
		{rpc.ErrBusy, none, 0},
		{errUnseen, unseen, time.Second},
		{errAnswer, none, 0},
		{context.Canceled, none, 0},
	} {
		if got := causeOf(fmt.Errorf("ask: %w", c.err)); got != c.want || cfg.within(got) != c.within {
			t.Errorf("%v: cause %d within %v, want %d within %v", c.err, got, cfg.within(got), c.want, c.within)
		}
	}
}

func TestAnAdmissionIsRepeatedAfterTheseVerdictsOnly(t *testing.T) {
	plain, write := &Admission{}, &Admission{Write: true, IdempotencyID: []byte("id")}
	for d := range event.Decision(len(event.Decision_name)) {
		v := &Verdict{Verdict: &event.Verdict{Decision: d}}
		want := stands
		if d == event.Decision_IDEMPOTENCY_IN_FLIGHT {
			want = askID
		}
		if got := afterVerdict(write, v); got != want {
			t.Errorf("%v of a write: step %d, want %d", d, got, want)
		}
		if got := afterVerdict(plain, v); got != stands {
			t.Errorf("%v without an idempotency id: step %d", d, got)
		}
	}
	for _, d := range []event.Decision{event.Decision_QUOTA_EXHAUSTED, event.Decision_KEY_QUOTA_EXHAUSTED, event.Decision_SPENDING_CAP_REACHED} {
		for _, a := range []*Admission{plain, write} {
			if got := afterVerdict(a, &Verdict{Verdict: &event.Verdict{Decision: d, Held: true}}); got != askAgain {
				t.Errorf("%v, held: step %d", d, got)
			}
		}
	}
}

func TestWhatIsUnderAnIdempotencyIDDecides(t *testing.T) {
	const (
		exhausted = event.Decision_QUOTA_EXHAUSTED
		inFlight  = event.Decision_IDEMPOTENCY_IN_FLIGHT
		other     = event.Decision_IDEMPOTENCY_OTHER
		served    = event.Decision_IDEMPOTENCY_SERVED
		askBack   = event.Decision(-1) // billing decides again
	)
	write := &Admission{Write: true, IdempotencyID: []byte("id")}
	read := &Admission{IdempotencyID: []byte("id"), ReadHash: event.ReadHash([]byte("/x"), nil, 1)}
	open := func(hash uint64, age, closes uint32) *event.HoldAnswer {
		return &event.HoldAnswer{ReadHash: hash, AgeSeconds: age, ClosesInSeconds: closes}
	}
	for _, c := range []struct {
		name  string
		a     *Admission
		was   event.Decision
		known *event.HoldAnswer
		want  event.Decision
		retry uint32
	}{
		{"nothing, and the quota is used up", write, exhausted, nil, exhausted, 0},
		{"nothing any more", write, inFlight, nil, askBack, 0},
		{"nothing any more of another read", read, other, nil, askBack, 0},
		{"an open hold, just begun", write, inFlight, open(0, 0, 120), inFlight, 1},
		{"an open hold for a while", write, exhausted, open(0, 7, 113), inFlight, 7},
		{"an open hold that soon expires", write, inFlight, open(0, 118, 2), inFlight, 2},
		{"an open hold of this read", read, inFlight, open(read.ReadHash, 3, 117), inFlight, 3},
		{"an open hold of another read", read, exhausted, open(event.ReadHash([]byte("/y"), nil, 1), 3, 117), other, 0},
		{"a served write", write, exhausted, &event.HoldAnswer{Served: true}, served, 0},
		{"a write served meanwhile", write, inFlight, &event.HoldAnswer{Served: true}, served, 0},
		{"a served read", read, inFlight, &event.HoldAnswer{Served: true, ReadHash: read.ReadHash}, askBack, 0},
	} {
		v := &Verdict{TimeMs: 7, Verdict: &event.Verdict{Decision: c.was, Limit: 9, ResetSeconds: 60}}
		got := afterHold(c.a, v, c.known)
		switch {
		case got == nil && c.want == askBack:
		case got == nil || got.Decision != c.want || got.RetryAfterSeconds != c.retry || got.Limit != 9 || got.ResetSeconds != 60 || got.TimeMs != 7:
			t.Errorf("%s: %v, want %v after %d s", c.name, got, c.want, c.retry)
		}
		if v.Decision != c.was || v.RetryAfterSeconds != 0 {
			t.Errorf("%s: the shared verdict was changed: %v", c.name, v)
		}
	}
}

func TestABudgetEndsRepetitions(t *testing.T) {
	b := &Bus{cfg: Config{ReadTimeout: time.Minute}}
	now := time.Now()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for _, c := range []struct {
		name         string
		ctx          context.Context
		started, end time.Time
		why          cause
		want         bool
	}{
		{"no cause", t.Context(), now, now.Add(time.Hour), none, false},
		{"within both", t.Context(), now, now.Add(time.Hour), moving, true},
		{"the cause has lasted too long", t.Context(), now.Add(-2 * time.Minute), now.Add(time.Hour), moving, false},
		{"the cause lasts as long as the budget", t.Context(), now.Add(-2 * time.Minute), now.Add(time.Hour), silent, true},
		{"the budget is spent", t.Context(), now.Add(-time.Second), now, moving, false},
		{"without a deadline", t.Context(), now, time.Time{}, silent, false},
		{"the caller has gone", ended, now, now.Add(time.Hour), moving, false},
	} {
		budget := b.newBudget(c.started, c.end)
		if got := budget.spend(c.ctx, c.why); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// serveHold answers every query with the hold, or that there is none if it is nil.
func (w *world) serveHold(t *testing.T, hold func() *event.HoldAnswer) {
	t.Helper()
	w.serve(t, event.QuerySubject(0), func([]byte) (event.Message, error) {
		h := hold()
		if h == nil {
			return &event.QueryAnswer{Status: event.QueryStatus_QUERY_NOT_FOUND}, nil
		}
		return &event.QueryAnswer{Status: event.QueryStatus_QUERY_OK, Answer: &event.QueryAnswer_Hold{Hold: h}}, nil
	})
}

// TestARequestIsAdmittedOnceTheOneInFlightHasEnded: by itself, or because its edge was killed; then its hold is voided. A live
// one stays in flight, and its age is when to retry.
func TestARequestIsAdmittedOnceTheOneInFlightHasEnded(t *testing.T) {
	id := []byte("0123456789abcdef")
	first := event.NewRequestID()
	for name, c := range map[string]struct {
		hold     func(f *fakeBilling) *event.HoldAnswer
		admitted bool
		retry    uint32
		voided   int
	}{
		"ended": {hold: func(f *fakeBilling) *event.HoldAnswer {
			f.with(func() { f.inFlight = nil })
			return nil
		}, admitted: true},
		"abandoned": {hold: func(f *fakeBilling) *event.HoldAnswer {
			f.with(func() { f.inFlight = nil })
			return &event.HoldAnswer{RequestId: first[:], Abandoned: true, ClosesInSeconds: 120}
		}, admitted: true, voided: 1},
		"running": {hold: func(*fakeBilling) *event.HoldAnswer {
			return &event.HoldAnswer{RequestId: first[:], AgeSeconds: 5, ClosesInSeconds: 115}
		}, retry: 5},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 1)
			f := newFakeBilling(t, w.nc, 1)
			f.with(func() { f.inFlight = bytes.Clone(id) })
			w.serveHold(t, func() *event.HoldAnswer { return c.hold(f) })
			b := w.bus(t, nil)
			a := admission(9)
			a.IdempotencyID = id
			v, err := b.StartAdmit(a, nil).Wait(t.Context())
			if err != nil || v.Admitted() != c.admitted || v.RetryAfterSeconds != c.retry {
				t.Errorf("%v, %v", v, err)
			}
			f.with(func() {
				if f.voided[first] != c.voided || f.used[9] > 1 {
					t.Errorf("voided %d times, counted %d times", f.voided[first], f.used[9])
				}
			})
		})
	}
}

// TestARequestInFlightThatNobodyExplainsStaysInFlight: the refusal is the answer where billing says neither yes nor no.
func TestARequestInFlightThatNobodyExplainsStaysInFlight(t *testing.T) {
	w := newWorld(t, 1)
	f := newFakeBilling(t, w.nc, 1)
	f.with(func() { f.inFlight = []byte("0123456789abcdef") })
	w.serve(t, event.QuerySubject(0), func([]byte) (event.Message, error) { return nil, errors.New("broken") })
	b := w.bus(t, nil)
	a := admission(9)
	a.IdempotencyID = f.inFlight
	if v, err := b.StartAdmit(a, nil).Wait(t.Context()); err != nil || v.Decision != event.Decision_IDEMPOTENCY_IN_FLIGHT {
		t.Errorf("%v, %v", v, err)
	}
}

// TestAStoredOutcomeIsWaitedFor: its service may show it later than billing has counted it, but not for long.
func TestAStoredOutcomeIsWaitedFor(t *testing.T) {
	w := newBareWorld(t, 1)
	var asked atomic.Int64
	shown := int64(3)
	w.serveReads(t, 1, func(int, *event.Read) *event.ReadAnswer {
		if asked.Add(1) < atomic.LoadInt64(&shown) {
			return &event.ReadAnswer{Status: event.OutcomeStatus_NOT_FOUND}
		}
		return &event.ReadAnswer{Status: event.OutcomeStatus_OK, Outcome: &event.Outcome{BodyHash: 7}}
	})
	b := w.bus(t, nil)
	read := func() *event.Read { return &event.Read{IdempotencyId: []byte("0123456789abcdef")} }
	if o, err := b.StartRead(event.Lite, read(), nil).WaitStored(t.Context()); err != nil || o.GetBodyHash() != 7 {
		t.Errorf("%v, %v after %d reads", o, err, asked.Load())
	}
	atomic.StoreInt64(&shown, 1<<40)
	if o, err := b.StartRead(event.Lite, read(), nil).WaitStored(t.Context()); err != nil || o != nil {
		t.Errorf("never shown: %v, %v", o, err)
	}
	asked.Store(0)
	if found, err := b.StartRead(event.Lite, read(), nil).Wait(t.Context()); err != nil || found.Outcome != nil || asked.Load() != 1 {
		t.Errorf("without billing's word: %v, %v after %d reads", found, err, asked.Load())
	}
}
