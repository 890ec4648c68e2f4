package bus

import (
	"bytes"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"quire.dev/pkg/event"
	"quire.dev/pkg/eventually"
	"quire.dev/pkg/plan"
	"quire.dev/pkg/rpc"
	"quire.dev/services/edge/internal/fault"
)

// decided asks once more and reports whether billing was asked.
func decided(t *testing.T, b *running, f *fakeBilling, a Admission) (v *Verdict, asked bool) {
	t.Helper()
	var before int
	f.with(func() { before = f.admissions })
	a.RequestID = event.NewRequestID()
	v, err := b.StartAdmit(a, nil).Wait(t.Context())
	if err != nil {
		t.Fatalf("admit: %v", err)
	}
	f.with(func() { asked = f.admissions > before })
	return v, asked
}

func TestFinalRefusalIsRememberedForItsOwnKindOnly(t *testing.T) {
	w := newWorld(t, 1)
	f := newFakeBilling(t, w.nc, 1)
	f.with(func() { f.limits[9] = 0 })
	b := w.bus(t, nil)
	a := admission(9)
	fresh, asked := decided(t, b, f, a)
	if !asked || fresh.Decision != event.Decision_QUOTA_EXHAUSTED {
		t.Fatalf("first refusal: %v, asked %v", fresh, asked)
	}
	kept, asked := decided(t, b, f, a)
	if asked {
		t.Fatal("billing was asked again")
	}
	if !proto.Equal(fresh.Verdict, kept.Verdict) || fresh.TimeMs != kept.TimeMs || fresh.at != kept.at {
		t.Errorf("refusal from memory %v differs from the fresh one %v", kept, fresh)
	}
	for name, change := range map[string]func(*Admission){
		"other quota key":   func(a *Admission) { a.Key = plan.FilesGet },
		"other key version": func(a *Admission) { a.KeyVersion++ },
		"other fingerprint": func(a *Admission) { a.KeyFingerprint++ },
		"other account":     func(a *Admission) { a.Account++ },
	} {
		other := a
		change(&other)
		if _, asked := decided(t, b, f, other); !asked {
			t.Errorf("%s: not asked", name)
		}
	}
}

// TestARememberedRefusalIsForNewRequestsOnly: what an Idempotency-Key stands for already is found by a query, which fills no
// journal.
func TestARememberedRefusalIsForNewRequestsOnly(t *testing.T) {
	w := newWorld(t, 1)
	f := newFakeBilling(t, w.nc, 1)
	f.with(func() { f.limits[9], f.versions[8] = 0, 4 })
	fresh, open, served := []byte("an id not seen .."), []byte("an id of a hold .."), []byte("an id once served.")
	var queries atomic.Int32
	var away atomic.Bool
	w.serve(t, event.QuerySubject(0), func(payload []byte) (event.Message, error) {
		queries.Add(1)
		var q event.Query
		if err := event.Decode(payload, &q); err != nil {
			return nil, err
		}
		if away.Load() {
			return nil, &rpc.Error{Code: rpc.CodeUnavailable, Message: "away"}
		}
		request := event.NewRequestID()
		hold := &event.HoldAnswer{RequestId: request[:]}
		switch id := q.GetHold().GetIdempotencyId(); {
		case q.Account != 9 || !q.GetHold().GetOrServed():
			return nil, &rpc.Error{Code: "malformed", Message: "not the question"}
		case bytes.Equal(id, fresh):
			return &event.QueryAnswer{Status: event.QueryStatus_QUERY_NOT_FOUND}, nil
		case bytes.Equal(id, served):
			hold.Served = true
		}
		return &event.QueryAnswer{Status: event.QueryStatus_QUERY_OK, Answer: &event.QueryAnswer_Hold{Hold: hold}}, nil
	})
	b := w.bus(t, func(c *Config) {
		c.RefusalThreshold, c.QueryTimeout, c.ReadTimeout = 1, time.Second, 100*time.Millisecond
	})
	a := admission(9)
	a.IdempotencyID = fresh
	refuse := func() {
		t.Helper()
		eventually.True(t, "the refusal is remembered", func() bool { // it lasts a second
			_, asked := decided(t, b, f, admission(9))
			return !asked
		})
	}
	if v, asked := decided(t, b, f, a); !asked || v.Decision != event.Decision_QUOTA_EXHAUSTED || queries.Load() != 0 {
		t.Fatalf("first refusal: %v, asked %v", v, asked)
	}
	for _, c := range []struct {
		id   []byte
		want event.Decision
	}{
		{fresh, event.Decision_QUOTA_EXHAUSTED}, {open, event.Decision_IDEMPOTENCY_IN_FLIGHT}, {served, event.Decision_IDEMPOTENCY_SERVED},
	} {
		refuse()
		a.IdempotencyID = c.id
		if v, asked := decided(t, b, f, a); asked || v.Decision != c.want {
			t.Errorf("%s: %v, billing was asked %v", c.id, v.Decision, asked)
		}
	}
	refuse()
	away.Store(true)
	a.RequestID, a.IdempotencyID = event.NewRequestID(), fresh
	if _, err := b.StartAdmit(a, nil).Wait(t.Context()); fault.KindOf(err) != fault.Unavailable {
		t.Errorf("while billing can't tell: %v", err)
	}
	old := admission(8)
	old.KeyVersion, old.IdempotencyID = 3, served
	decided(t, b, f, old)
	before := queries.Load()
	if v, asked := decided(t, b, f, old); asked || v.Decision != event.Decision_INVALID_KEY || queries.Load() != before {
		t.Errorf("an old key: %v, asked %v, %d queries", v, asked, queries.Load()-before)
	}
}

// TestARefusalThatComesBeforeTheIdempotencyKeyIsForRepetitionsToo: docs/api.md has the order.
func TestARefusalThatComesBeforeTheIdempotencyKeyIsForRepetitionsToo(t *testing.T) {
	for d, want := range map[event.Decision]bool{
		event.Decision_INVALID_KEY: true, event.Decision_ACCOUNT_SUSPENDED: true, event.Decision_ACCOUNT_QUARANTINED: true, event.Decision_KEY_SCOPE: true,
		event.Decision_TOO_MANY_FAILURES: true, event.Decision_KEY_QUOTA_EXHAUSTED: false, event.Decision_SPENDING_CAP_REACHED: false,
		event.Decision_QUOTA_EXHAUSTED: false, event.Decision_PLAN_UPGRADE_REQUIRED: false,
	} {
		if beforeIdempotency(d) != want {
			t.Errorf("%v: before the Idempotency-Key %v, want %v", d, !want, want)
		}
	}
}

// TestWhatIsInFlightIsRememberedUntilItEnds: a client that repeats itself while its first call runs fills no journal, and gets
// through as soon as that call has ended.
func TestWhatIsInFlightIsRememberedUntilItEnds(t *testing.T) {
	w := newWorld(t, 1)
	f := newFakeBilling(t, w.nc, 1)
	id, request := []byte("0123456789abcdef"), event.NewRequestID()
	f.with(func() { f.inFlight = id })
	var ended atomic.Bool
	w.serve(t, event.QuerySubject(0), func([]byte) (event.Message, error) {
		if ended.Load() {
			return &event.QueryAnswer{Status: event.QueryStatus_QUERY_NOT_FOUND}, nil
		}
		return &event.QueryAnswer{Status: event.QueryStatus_QUERY_OK, Answer: &event.QueryAnswer_Hold{Hold: &event.HoldAnswer{RequestId: request[:]}}}, nil
	})
	b := w.bus(t, nil)
	a := admission(9)
	a.IdempotencyID = id
	eventually.True(t, "it is remembered", func() bool { // for a second each time
		v, asked := decided(t, b, f, a)
		if v.Decision != event.Decision_IDEMPOTENCY_IN_FLIGHT {
			t.Fatalf("in flight: %v", v)
		}
		return !asked
	})
	for name, change := range map[string]func(*Admission){
		"without an id": func(a *Admission) { a.IdempotencyID = nil }, "another id": func(a *Admission) { a.IdempotencyID = []byte("fedcba9876543210") },
	} {
		other := a
		change(&other)
		if v, asked := decided(t, b, f, other); !asked || !v.Admitted() {
			t.Errorf("%s: %v, asked %v", name, v, asked)
		}
	}
	f.with(func() { f.inFlight = nil })
	ended.Store(true)
	if v, asked := decided(t, b, f, a); !asked || !v.Admitted() {
		t.Errorf("once it has ended: %v, asked %v", v, asked)
	}
}

func TestRefusalThatIsNotFinalIsNotRemembered(t *testing.T) {
	w := newWorld(t, 1)
	f := newFakeBilling(t, w.nc, 1)
	f.with(func() { f.limits[9], f.final = 0, false })
	b := w.bus(t, nil)
	for range 3 {
		if _, asked := decided(t, b, f, admission(9)); !asked {
			t.Fatal("billing was not asked")
		}
	}
}

func TestRefusalIsRememberedOnlyIfTheClientGoesOnTrying(t *testing.T) {
	const first = 4
	w := newWorld(t, 1)
	f := newFakeBilling(t, w.nc, 1)
	f.with(func() { f.limits[9] = 0 })
	b := w.bus(t, func(c *Config) { c.RefusalThreshold, c.RefusalTTL = first, time.Second })
	for n := range first {
		if _, asked := decided(t, b, f, admission(9)); !asked {
			t.Fatalf("refusal %d: billing was not asked", n+1)
		}
	}
	if _, asked := decided(t, b, f, admission(9)); asked {
		t.Errorf("billing was asked after %d refusals", first)
	}
	eventually.True(t, "a pause ends it", func() bool {
		_, asked := decided(t, b, f, admission(9))
		return asked
	})
	if _, asked := decided(t, b, f, admission(9)); !asked {
		t.Error("the refusals before the pause are counted")
	}
}

func TestRefusalIsForgottenInTime(t *testing.T) {
	w := newWorld(t, 1)
	f := newFakeBilling(t, w.nc, 1)
	f.with(func() { f.limits[9] = 0 })
	b := w.bus(t, func(c *Config) { c.RefusalTTL = time.Hour }) // cut to what is allowed
	if b.cfg.RefusalTTL != time.Second {
		t.Fatalf("refusals are remembered for %v", b.cfg.RefusalTTL)
	}
	a := admission(9)
	decided(t, b, f, a)
	eventually.True(t, "asked again", func() bool {
		_, asked := decided(t, b, f, a)
		return asked
	})
}

func TestRefusalIsGoneWhenTheChangeIsAnswered(t *testing.T) {
	w := newWorld(t, 2)
	f := newFakeBilling(t, w.nc, 2)
	b := w.bus(t, nil)
	account := event.NewAccountID()
	f.with(func() { f.limits[account] = 0 })
	for i := range 30 {
		a := admission(account)
		if v, _ := decided(t, b, f, a); v.Admitted() {
			t.Fatalf("round %d: admitted before the grant", i)
		}
		if _, asked := decided(t, b, f, a); asked {
			t.Fatalf("round %d: refusal not remembered", i)
		}
		o, err := b.Command(t.Context(), &event.Command{
			Account: uint64(account), Action: &event.Command_Grant{Grant: &event.Grant{AmountMicros: 1}},
		})
		if err != nil || o.Status != event.CommandStatus_COMMAND_OK {
			t.Fatalf("grant: %v, %v", o, err)
		}
		if v, _ := decided(t, b, f, a); !v.Admitted() {
			t.Fatalf("round %d: refused after the grant was answered", i)
		}
	}
}

func TestRefusalIsNotRememberedIntoTheNextMonth(t *testing.T) {
	r := newRefusals(time.Second, 1)
	now := time.Date(2026, 11, 30, 23, 59, 59, 999e6, time.UTC)
	a := admission(9)
	r.remember(&a, &Verdict{
		Verdict: &event.Verdict{Decision: event.Decision_QUOTA_EXHAUSTED, Final: true, ResetSeconds: 3600}, TimeMs: now.UnixMilli(),
	}, now)
	if r.find(&a, now) == nil {
		t.Fatal("refusal not remembered within the month")
	}
	if r.find(&a, now.Add(time.Millisecond)) != nil {
		t.Fatal("refusal remembered into the next month")
	}
}

func TestRefusalNeverOutlivesItsReset(t *testing.T) {
	r := newRefusals(time.Second, 1)
	now := time.UnixMilli(1_800_000_000_000)
	a := admission(1)
	for _, test := range []struct {
		reset      uint32
		remembered bool
	}{{1, false}, {2, true}, {0, true}} {
		v := &Verdict{
			Verdict: &event.Verdict{Decision: event.Decision_QUOTA_EXHAUSTED, Final: true, ResetSeconds: test.reset},
			TimeMs:  now.UnixMilli(),
		}
		r.forget(a.Account)
		r.remember(&a, v, now)
		if got := r.find(&a, now) != nil; got != test.remembered {
			t.Errorf("reset in %d s: remembered %v, want %v", test.reset, got, test.remembered)
		}
	}
}

func TestOldKeyVersionsStayRefused(t *testing.T) {
	w := newWorld(t, 1)
	f := newFakeBilling(t, w.nc, 1)
	f.with(func() { f.versions[9] = 4 })
	b := w.bus(t, nil)
	a := admission(9)
	a.KeyVersion = 3
	if v, asked := decided(t, b, f, a); !asked || v.Decision != event.Decision_INVALID_KEY {
		t.Fatalf("verdict %v, asked %v", v, asked)
	}
	b.refusals.forget(9) // as an announcement would
	for version := range uint32(4) {
		if version == 0 {
			continue // a caller without a key
		}
		a.KeyVersion = version
		if v, asked := decided(t, b, f, a); asked || v.Decision != event.Decision_INVALID_KEY || v.CurrentKeyVersion != 4 {
			t.Errorf("version %d: %v, asked %v", version, v, asked)
		}
	}
	a.KeyVersion = 4
	if v, asked := decided(t, b, f, a); !asked || !v.Admitted() {
		t.Errorf("current version: %v, asked %v", v, asked)
	}
	a.KeyVersion = 5
	if _, asked := decided(t, b, f, a); !asked {
		t.Errorf("a newer version was not asked for")
	}
}

func TestMemoryOfRefusalsIsBounded(t *testing.T) {
	r := newRefusals(time.Second, 1)
	now := time.UnixMilli(1_800_000_000_000)
	v := &Verdict{
		Verdict: &event.Verdict{Decision: event.Decision_INVALID_KEY, CurrentKeyVersion: 9, Final: true},
		TimeMs:  now.UnixMilli(),
	}
	for i := range 2 * refusalAccounts {
		a := admission(event.AccountID(i))
		r.remember(&a, v, now)
	}
	r.accounts.CleanUp()
	if n := r.accounts.EstimatedSize(); n > refusalAccounts {
		t.Errorf("%d accounts kept, %d allowed", n, refusalAccounts)
	}
	r = newRefusals(time.Second, 1)
	a := admission(1)
	for i := range 1000 {
		a.KeyFingerprint = uint64(i)
		final := &Verdict{Verdict: &event.Verdict{Final: true}, TimeMs: now.UnixMilli()}
		r.remember(&a, final, now)
	}
	if known, _ := r.accounts.GetIfPresent(1); len(known.final) != refusalsPerAccount {
		t.Errorf("%d refusals of one account kept, want %d", len(known.final), refusalsPerAccount)
	}
}

// TestRefusalKeepsNoOtherVerdicts: the verdicts of a batch are one piece of memory.
func TestRefusalKeepsNoOtherVerdicts(t *testing.T) {
	r := newRefusals(time.Second, 1)
	now := time.UnixMilli(1_800_000_000_000)
	a := admission(9)
	decided := &event.Verdict{Decision: event.Decision_QUOTA_EXHAUSTED, Final: true, Limit: 7}
	r.remember(&a, &Verdict{Verdict: decided, TimeMs: now.UnixMilli()}, now)
	if v := r.find(&a, now); v == nil || v.Verdict == decided || v.Limit != 7 {
		t.Errorf("remembered as %v", v)
	}
}
