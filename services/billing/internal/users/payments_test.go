package users

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"quire.dev/pkg/event"
	"quire.dev/pkg/rpc"
)

const leaseMillis = 60_000

// claims claims the lease of payments; nil: another worker has it.
func claims(t *testing.T, u *Users, c *event.ClaimPayments) *event.PaymentsLease {
	t.Helper()
	a, err := u.Answer(t.Context(), &event.UserRequest{Action: &event.UserRequest_ClaimPayments{ClaimPayments: c}})
	if err != nil || a.Status != event.UserStatus_USER_OK && a.Status != event.UserStatus_USER_CHANGED {
		t.Fatalf("%v, %v", a, err)
	}
	if (a.Status == event.UserStatus_USER_OK) != (a.Payments != nil) {
		t.Fatalf("%v", a)
	}
	return a.Payments
}

func TestThePaymentsAreOneWorkersAtATime(t *testing.T) {
	u := open(t)
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	u.clock = func() time.Time { return now }
	claim := func(worker string, lease, compared int64) *event.PaymentsLease {
		t.Helper()
		return claims(t, u, &event.ClaimPayments{Worker: worker, LeaseMs: lease, ComparedMs: compared})
	}
	if l := claim("a", leaseMillis, 0); l.GetWorker() != "a" || l.UntilMs != now.UnixMilli()+leaseMillis || l.ComparedMs != 0 {
		t.Fatalf("%v", l)
	}
	if claim("b", leaseMillis, 99) != nil || claim("b", 0, 99) != nil {
		t.Fatal("two have the lease")
	}
	now = now.Add(30 * time.Second)
	if l := claim("a", leaseMillis, 7); l.GetUntilMs() != now.UnixMilli()+leaseMillis || l.ComparedMs != 7 {
		t.Fatalf("renewed: %v", l)
	}
	now = now.Add(time.Minute - time.Millisecond)
	if claim("b", leaseMillis, 0) != nil {
		t.Fatal("the lease has ended early")
	}
	now = now.Add(time.Millisecond)
	if l := claim("b", leaseMillis, 3); l.GetWorker() != "b" || l.ComparedMs != 7 { // of another worker, and no step back
		t.Fatalf("expired: %v", l)
	}
	if claim("a", leaseMillis, 9) != nil {
		t.Fatal("the first worker has it again")
	}
	if l := claim("b", 0, 12); l.GetComparedMs() != 12 {
		t.Fatalf("given back: %v", l)
	}
	if l := claim("a", leaseMillis, 0); l.GetWorker() != "a" || l.ComparedMs != 12 {
		t.Fatalf("after it was given back: %v", l)
	}
	for _, c := range []*event.ClaimPayments{
		nil, {LeaseMs: 1}, {Worker: strings.Repeat("x", 65), LeaseMs: 1}, {Worker: "a", LeaseMs: -1}, {Worker: "a", LeaseMs: maxPaymentLease.Milliseconds() + 1},
	} {
		_, err := u.claimPayments(t.Context(), c)
		if refused, ok := errors.AsType[*rpc.Error](err); !ok || refused.Code != "malformed" {
			t.Errorf("%v: %v", c, err)
		}
	}
	if claim("a", maxPaymentLease.Milliseconds(), 0) == nil {
		t.Error("10 minutes are too long")
	}
}

// TestOneOfManyGetsTheLease: those who ask at the same time.
func TestOneOfManyGetsTheLease(t *testing.T) {
	u := open(t)
	got := make([]bool, 8)
	var all errgroup.Group
	for i := range got {
		all.Go(func() error {
			a, err := u.claimPayments(t.Context(), &event.ClaimPayments{Worker: fmt.Sprint("worker ", i), LeaseMs: leaseMillis})
			got[i] = a.GetStatus() == event.UserStatus_USER_OK
			return err
		})
	}
	if err := all.Wait(); err != nil {
		t.Fatal(err)
	}
	have := 0
	for _, ok := range got {
		if ok {
			have++
		}
	}
	if have != 1 {
		t.Errorf("%d workers have the lease", have)
	}
}
