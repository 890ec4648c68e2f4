package partition

import (
	"testing"

	"quire.dev/pkg/event"
)

// TestFewLooksWaitForAnAccountAndInAll: each takes a worker.
func TestFewLooksWaitForAnAccountAndInAll(t *testing.T) {
	l := looks{byAccount: map[event.AccountID]int{}}
	for n := range maxLooks {
		if !l.enter(event.AccountID(n / maxAccountLooks)) {
			t.Fatalf("look %d may not wait", n)
		}
	}
	const other = event.AccountID(maxLooks)
	if l.enter(other) {
		t.Fatal("one more may wait")
	}
	l.leave(0)
	if l.enter(1) {
		t.Fatal("one more of an account may wait")
	}
	if !l.enter(other) || l.enter(0) {
		t.Fatal("there is room for one")
	}
	for n := range maxLooks {
		if id := event.AccountID(n / maxAccountLooks); n > 0 {
			l.leave(id)
		}
	}
	if l.leave(other); l.total != 0 || len(l.byAccount) != 0 {
		t.Errorf("%d looks remain, of %v", l.total, l.byAccount)
	}
}
