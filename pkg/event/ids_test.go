package event_test

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"quire.dev/pkg/event"
)

func TestAccountIDRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		id := event.AccountID(rapid.Uint64Min(1).Draw(t, "id"))
		back, err := event.ParseAccountID(id.String())
		if err != nil || back != id {
			t.Fatalf("%d is %q, read as %d, %v", uint64(id), id, back, err)
		}
	})
	for _, bad := range []string{"", "0", "00000000000", "zzzzzzzzzzz", "LygHa16AHYG", "0000000000!", "000000000001"} {
		if id, err := event.ParseAccountID(bad); err == nil {
			t.Errorf("%q was read as %d", bad, uint64(id))
		}
	}
	if got := event.AccountID(math.MaxUint64).String(); got != "LygHa16AHYF" {
		t.Errorf("the largest id is %q", got)
	}
}

func TestRequestIDHoldsItsTime(t *testing.T) {
	before := time.Now().UnixMilli()
	id := event.NewRequestID()
	after := time.Now().UnixMilli()
	if ms := id.UnixMilli(); ms < before || ms > after {
		t.Errorf("made between %d and %d, says %d", before, after, ms)
	}
	back, err := event.ParseRequestID(id.String())
	if err != nil || back != id {
		t.Errorf("%s read as %s, %v", id, back, err)
	}
	for _, bad := range []string{"", "x", "{" + id.String() + "}", "urn:uuid:" + id.String()} {
		if _, err := event.ParseRequestID(bad); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
}

func TestItemIDsAreValidAndDiffer(t *testing.T) {
	seen := map[string]bool{}
	for range 1000 {
		id := event.NewItemID()
		if !event.ValidItemID(id) || seen[id] {
			t.Fatalf("%q is not valid or came twice", id)
		}
		seen[id] = true
	}
	for _, bad := range []string{"", "short", "0123456789a-", "0123456789abc"} {
		if event.ValidItemID(bad) {
			t.Errorf("%q is taken for an id", bad)
		}
	}
}

// TestPartitionsNeverMove holds partitions to the values of version 1: another hash would send an
// account's events to a journal that does not know it.
func TestPartitionsNeverMove(t *testing.T) {
	for _, c := range []struct {
		account event.AccountID
		count   int
		want    int
	}{{1, 1, 0}, {1, 16, 10}, {2, 16, 0}, {math.MaxUint64, 16, 9}} {
		if got := event.AccountPartition(c.account, c.count); got != c.want {
			t.Errorf("account %d of %d partitions: %d, want %d", uint64(c.account), c.count, got, c.want)
		}
	}
	if got := event.ItemPartition("0123456789ab", 16); got != 12 {
		t.Errorf("item partition %d", got)
	}
}

func TestIdempotencyIDDependsOnEveryPart(t *testing.T) {
	base := event.NewIdempotencyID([]byte("scope"), "POST", "/path", "key")
	for _, other := range []event.IdempotencyID{
		event.NewIdempotencyID([]byte("scopf"), "POST", "/path", "key"),
		event.NewIdempotencyID([]byte("scope"), "PUT", "/path", "key"),
		event.NewIdempotencyID([]byte("scope"), "POST", "/paths", "key"),
		event.NewIdempotencyID([]byte("scope"), "POST", "/path", "kez"),
	} {
		if other == base {
			t.Error("two different requests share an id")
		}
	}
	if event.BodyHash([]byte("ab"), []byte("c")) == event.BodyHash([]byte("a"), []byte("bc")) {
		t.Error("the body hash does not tell parts apart")
	}
}

func TestStreamsAndSubjects(t *testing.T) {
	if got := event.Billing.Stream(3); got != "BILLING_3" {
		t.Errorf("stream %q", got)
	}
	if got := event.Lite.Subjects(1); len(got) != 1 || got[0] != "lite.1.request" {
		t.Errorf("subjects %q", got)
	}
	if got := event.Billing.Subjects(0); len(got) != 6 || got[3] != "billing.0.settle.paste" || got[4] != "billing.0.settle.lite" || got[5] != "billing.0.settle.file" || got[0] != "billing.0.usage" || got[1] != "billing.0.account" || got[2] != "billing.0.prices" {
		t.Errorf("subjects %q", got)
	}
}

// TestBodyHashTakesNoAllocation: each write has one.
func TestBodyHashTakesNoAllocation(t *testing.T) {
	body, query := make([]byte, 1024), []byte("a=b")
	if each := testing.AllocsPerRun(100, func() { event.BodyHash(body, query) }); each != 0 {
		t.Errorf("%v allocations", each)
	}
}
