package load

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"quire.dev/docs"
	"quire.dev/pkg/eventually"
)

const testSeed = 11

// newTestLoad makes a Load with short paces: the fake has no limits of failures.
func newTestLoad(t *testing.T, bases []string, groups ...Group) *Load {
	t.Helper()
	l, err := newLoad(Config{Bases: bases, AdminToken: fakeToken, Seed: testSeed, Workers: 4, Groups: groups, Pace: time.Millisecond, Sources: true})
	if err != nil {
		t.Fatal(err)
	}
	l.pace = paces{
		refused: time.Millisecond, failing: time.Millisecond, rotate: 5 * time.Millisecond, old: time.Millisecond,
		user: time.Millisecond, burn: time.Millisecond, keyless: time.Millisecond, admin: time.Millisecond, rare: time.Millisecond, retry: time.Millisecond,
	}
	if err := l.prepare(t.Context()); err != nil {
		t.Fatal(err)
	}
	return l
}

// runUntil runs the load until enough says so.
func runUntil(t *testing.T, l *Load, enough func() bool) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); l.Run(ctx) }()
	defer func() { cancel(); <-done }()
	eventually.NoError(t, "enough happens", func() error {
		if !enough() {
			return fmt.Errorf("so far:\n%s", l.Gaps())
		}
		return nil
	})
}

func noHolds(context.Context) (int64, error) { return 0, nil }

func (f *fake) served(requests, lies int) func() bool {
	return func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		return f.requests >= requests && f.lied >= lies
	}
}

func TestAnHonestQuireIsFoundHonest(t *testing.T) {
	t.Parallel()
	for _, faults := range []bool{false, true} {
		t.Run(fmt.Sprintf("faults %t", faults), func(t *testing.T) {
			t.Parallel()
			f, bases := newFake(t, "", false)
			l := newTestLoad(t, bases)
			f.mu.Lock()
			f.faults = faults
			f.mu.Unlock()
			for round := range 3 {
				runUntil(t, l, f.served((round+1)*1500, 0))
				if err := errors.Join(l.Verify(t.Context()), l.Audit(t.Context())); err != nil {
					t.Fatalf("seed %d: %v", testSeed, err)
				}
			}
			for _, kind := range kinds() {
				if l.Acked(kind) == 0 {
					t.Errorf("no %s was acknowledged", kind)
				}
			}
			if err := l.Settled(t.Context(), noHolds); err != nil {
				t.Fatal(err)
			}
			if err := l.Verify(t.Context()); err != nil {
				t.Fatalf("settled, seed %d: %v", testSeed, err)
			}
			if b := l.exact.bills["pastes.create"]; b.paid == 0 || b.open != 0 || faults && b.replayed == 0 {
				t.Errorf("hardly any payments: %+v", *b)
			}
			if len(l.rotating.retired) == 0 {
				t.Error("no key was retired")
			}
			if b := l.exact.bills["files.delete"]; b.quota+b.paid == 0 || l.exact.owner.stored.least.Load() <= 0 {
				t.Errorf("no file was deleted: %+v", *b)
			}
		})
	}
}

func TestEachLieIsFound(t *testing.T) {
	t.Parallel()
	tests := []struct {
		lie   lie
		group Group
		found string
	}{
		{"lost write", Crowd, "lost: "},
		{"lost write", Exact, "lost: "},
		{"lost update", Crowd, "wrong content: "},
		{"wrong content", Crowd, "wrong content: "},
		{"double charge", Crowd, "wrong counts: "},
		{"uncounted", Crowd, "wrong counts: "},
		{"deleted is there", Crowd, "deleted and still there: "},
		{"done twice", Exact, "done twice: "},
		{"done twice", Exact, "wrong counts: "},
		{"one micro-credit", Exact, "wrong charges: "},
		{"balance", Exact, "wrong charges: "},
		{"named price", Exact, "wrong charges: "},
		{"wrong ledger", Exact, "wrong ledger: "},
		{"refused call charged", Refused, "wrong counts: "},
		{"beyond the limit", Refused, "admitted beyond the limit: "},
		{"failed call charged", Refused, "wrong counts: "},
		{"old key", Rotating, "an old key is admitted: "},
		{"old key is listed", Rotating, "an old key is admitted: "},
		{"old key is repeated", Rotating, "an old key is admitted: "},
		{"storage", Crowd, "wrong storage: "},
		{"storage", Exact, "wrong storage: "},
		{"statement", Exact, "wrong statement: "},
		{"burns twice", Burning, "read again after it burned: "},
		{"burns unseen", Burning, "lost: "},
		{"burns for its owner", Burning, "lost: "},
		{"keyless beyond the limit", Keyless, "admitted beyond the limit: "},
		{"keyless refused", Keyless, "refused below the limit: "},
		{"lost write", Keyless, "lost: "},
	}
	for _, test := range tests {
		t.Run(string(test.lie)+" "+string(test.group), func(t *testing.T) {
			t.Parallel()
			f, bases := newFake(t, test.lie, false)
			l := newTestLoad(t, bases, test.group)
			atWork := 5
			if test.lie == "statement" || test.lie == "storage" {
				atWork = 0 // only Verify asks for these
			}
			runUntil(t, l, f.served(600, atWork))
			err := l.Verify(t.Context())
			if test.lie == "statement" {
				err = errors.Join(err, l.Settled(t.Context(), noHolds), l.Verify(t.Context()))
			}
			if err == nil || !strings.Contains(err.Error(), test.found) {
				t.Errorf("seed %d: of %d lies it says %v", testSeed, f.lied, err)
			}
		})
	}
}

func TestAnAuditThatDoesNotMatchThroughOneBaseIsFound(t *testing.T) {
	t.Parallel()
	_, bases := newFake(t, "audit", false)
	l := newTestLoad(t, bases, Crowd)
	if err := l.Audit(t.Context()); err == nil || !strings.Contains(err.Error(), "does not match") {
		t.Errorf("got %v", err)
	}
}

func TestSettledWaitsForHolds(t *testing.T) {
	t.Parallel()
	_, bases := newFake(t, "", false)
	l := newTestLoad(t, bases, Crowd)
	asked := 0
	err := l.Settled(t.Context(), func(context.Context) (int64, error) {
		asked++
		return int64(max(0, 3-asked)), nil
	})
	if err != nil || asked < 3 {
		t.Errorf("settled after %d looks, %v", asked, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	err = l.Settled(ctx, func(context.Context) (int64, error) { cancel(); return 9, nil })
	if err == nil || !strings.Contains(err.Error(), "9 holds are open") {
		t.Errorf("got %v", err)
	}
}

func TestClientsMoveToABaseThatAnswersAndTheReportShowsWhichDoesNot(t *testing.T) {
	t.Parallel()
	f, bases := newFake(t, "", false)
	l := newTestLoad(t, bases)
	dead := httptest.NewServer(http.NotFoundHandler())
	dead.Close()
	l.Move(bases[0], dead.URL)
	l.Mark()
	runUntil(t, l, func() bool {
		r := l.Gaps()
		return f.served(600, 0)() && r.Of(Lite, 0).Acked > 100 && r.Of(Lite, 1).Unavailable > 0
	})
	r := l.Gaps()
	for _, kind := range kinds() {
		if s := r.Of(kind, 1); s.Acked != 0 {
			t.Errorf("%d of %s were acknowledged by nobody", s.Acked, kind)
		}
		if r.Of(kind, 0).Acked == 0 || r.Of(kind, AllBases).Acked != r.Of(kind, 0).Acked {
			t.Errorf("%s: %+v", kind, r.Of(kind, AllBases))
		}
	}
	if all, cut := r.Of(Lite, AllBases).Gap, r.Of(Lite, 1).Gap; all <= 0 || cut < all {
		t.Errorf("gaps %s and %s", all, cut)
	}
	l.Move(bases...)
	if err := l.Verify(t.Context()); err != nil {
		t.Error(err)
	}
	l.Mark()
	if s := l.Gaps().Of(Lite, 0); s.Acked != 0 || s.Gap != 0 {
		t.Errorf("after the mark: %+v", s)
	}
}

func TestAShelfForgetsOnlyWhatItMust(t *testing.T) {
	w := &client{random: rand.New(rand.NewPCG(testSeed, 0))}
	var s shelf
	for n := range int64(remembered) {
		s.put(w.random, fmt.Sprint(n), n)
	}
	for _, i := range s.toCheck(w.random, 0) {
		s.checked(i)
	}
	s.put(w.random, "new", -1)
	if len(s.items) != remembered {
		t.Errorf("%d items", len(s.items))
	}
	if again := s.toCheck(w.random, 0); len(again) != 1 || again[0].id != "new" {
		t.Errorf("%d items are new", len(again))
	}
	for place, i := range s.items {
		if i.place != place {
			t.Fatalf("item %s is at %d and says %d", i.id, place, i.place)
		}
	}
	i := s.lease(w.random, true)
	s.forget(i, true)
	if len(s.items) != remembered-1 || len(s.gone) != 1 || s.unchanged(i, *i) {
		t.Errorf("%d items, %d gone", len(s.items), len(s.gone))
	}
}

func TestAmountsAreReadAsIntegers(t *testing.T) {
	for text, want := range map[string]int64{"0.000500": 500, "1000000.000000": 1e12, "-1.000001": -1000001, "-0.000001": -1} {
		if got, err := micros(text); err != nil || got != want {
			t.Errorf("%s is %d, %v", text, got, err)
		}
		if back := formatMicros(want); back != text {
			t.Errorf("%d is %s, want %s", want, back, text)
		}
	}
	for _, text := range []string{"", "1", "1.5", ".000000", "1.0000000", "x.000000", "1e3.000000"} {
		if v, err := micros(text); err == nil {
			t.Errorf("%q is %d", text, v)
		}
	}
}

// TestEndpointsAreTheDescribedOnes: those that take an API key, metered or not, and no other.
func TestEndpointsAreTheDescribedOnes(t *testing.T) {
	t.Parallel()
	all, err := endpoints(docs.API())
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range []endpoint{
		{http.MethodPost, "/api/dev/pastes/create", "pastes.create"},
		{http.MethodGet, "/api/dev/pastes/versions/{ref}", ""},
		{http.MethodPut, "/{name}", "pasteLite.create"},
	} {
		if !slices.Contains(all, e) {
			t.Errorf("%v is not tried", e)
		}
	}
	for _, e := range all {
		if strings.HasPrefix(e.path, "/api/admin/") || e.path == "/api/users/login" {
			t.Errorf("%v takes no API key", e)
		}
	}
}
