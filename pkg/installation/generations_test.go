package installation

import (
	"log/slog"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"quire.dev/pkg/event"
	"quire.dev/pkg/journal"
	"quire.dev/pkg/journal/journaltest"
)

// TestAGenerationIsDue from its size or age on, unless it is empty.
func TestAGenerationIsDue(t *testing.T) {
	opened := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	open := journal.Generation{First: 5, Last: 5, Bytes: 1000, Oldest: opened}
	empty := open
	empty.Last = 4
	for name, c := range map[string]struct {
		cfg  Generations
		of   journal.Generation
		age  time.Duration
		want bool
	}{
		"off":           {Generations{}, open, 1e6 * time.Hour, false},
		"large":         {Generations{Bytes: 1000}, open, 0, true},
		"small":         {Generations{Bytes: 1001}, open, 1e6 * time.Hour, false},
		"old":           {Generations{Age: time.Hour}, open, time.Hour, true},
		"young":         {Generations{Age: time.Hour}, open, time.Hour - 1, false},
		"small and old": {Generations{Bytes: 1001, Age: time.Hour}, open, time.Hour, true},
		"empty":         {Generations{Bytes: 1, Age: 1}, empty, time.Hour, false},
		"one message":   {Generations{Bytes: 1, Age: 1}, open, time.Hour, true},
	} {
		if got := c.cfg.due(c.of, opened.Add(c.age)); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// TestGenerationsAreClosedWhenDue, in the partition that is due, and not again before the closed one is deleted. Provisioning, also of journals without
// metadata of generations, goes on with what it finds.
func TestGenerationsAreClosedWhenDue(t *testing.T) {
	nc := journaltest.Start(t).Conn(t)
	provision := func() {
		t.Helper()
		if err := Provision(t.Context(), nc, Config{Partitions: 2}); err != nil {
			t.Fatal(err)
		}
	}
	provision()
	owner, err := Journals(nc, event.Billing.Stream(1)).Owner(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	cfg := Generations{Bytes: 1, Age: 1}
	closeDue := func() {
		t.Helper()
		if err := CloseGenerations(t.Context(), nc, Config{Partitions: 2}, cfg, slog.New(slog.DiscardHandler)); err != nil {
			t.Fatal(err)
		}
		provision()
	}
	closeDue()
	generations(t, nc, 1, 0) // an empty one
	publish(t, nc, event.UsageSubject(1))
	bytes := generations(t, nc, 1, 0)[0].Bytes
	cfg = Generations{Bytes: int64(bytes) + 1}
	closeDue()
	generations(t, nc, 1, 0)
	cfg.Bytes--
	closeDue()
	generations(t, nc, 0, 0)
	closed := generations(t, nc, 1, 0, 1)
	publish(t, nc, event.UsageSubject(1))
	closeDue()
	generations(t, nc, 1, 0, 1)
	if err := journal.DeleteGeneration(t.Context(), nc, nc, closed[0]); err != nil {
		t.Fatal(err)
	}
	provision() // makes no BILLING_1 anew
	generations(t, nc, 1, 1)
	closeDue()
	generations(t, nc, 1, 1, 2)
	if got, err := Journals(nc, event.Billing.Stream(1)).Owner(t.Context()); err != nil || got != owner {
		t.Errorf("the owner is %s, was %s: %v", got, owner, err)
	}
	if err := journal.Await(t.Context(), nc, Streams(event.Billing, 2), 2, nil); err != nil {
		t.Error(err)
	}
}

// TestANameIsUsedAgainLater than the generation that had it was found to be gone.
func TestANameIsUsedAgainLater(t *testing.T) {
	nc := journaltest.Start(t).Conn(t)
	if err := Provision(t.Context(), nc, Config{Partitions: 1}); err != nil {
		t.Fatal(err)
	}
	round := func(apart time.Duration) {
		t.Helper()
		publish(t, nc, event.UsageSubject(0))
		err := CloseGenerations(t.Context(), nc, Config{Partitions: 1}, Generations{Bytes: 1, Apart: apart}, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
	}
	round(time.Hour) // the first one follows none
	closed := generations(t, nc, 0, 0, 1)[0]
	if err := journal.DeleteGeneration(t.Context(), nc, nc, closed); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		round(time.Hour)
		generations(t, nc, 0, 1)
	}
	alone := generations(t, nc, 0, 1)[0].Alone
	if alone.IsZero() || time.Since(alone) < 0 {
		t.Errorf("it was found alone at %s", alone)
	}
	round(time.Since(alone))
	generations(t, nc, 0, 1, 2)
}

func publish(t *testing.T, nc *nats.Conn, subject string) {
	t.Helper()
	if err := journal.Publish(t.Context(), nc, subject, []byte("message")); err != nil {
		t.Fatal(err)
	}
}

// generations returns those of a partition, which must have these numbers.
func generations(t *testing.T, nc *nats.Conn, partition int, numbers ...int) []journal.Generation {
	t.Helper()
	list, err := journal.Generations(t.Context(), nc, Stream(event.Billing, partition))
	if err != nil || len(list) != len(numbers) {
		t.Fatalf("%d generations, want %v: %v", len(list), numbers, err)
	}
	for i, g := range list {
		if g.Number != numbers[i] {
			t.Fatalf("number %d, want %d", g.Number, numbers[i])
		}
	}
	return list
}
