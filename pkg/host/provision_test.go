package host

import (
	"testing"

	"quire.dev/pkg/event"
	"quire.dev/pkg/installation"
	"quire.dev/pkg/journal"
	"quire.dev/pkg/journal/journaltest"
)

// TestTheJobMakesTheJournalsAndEnds: run twice, it changes nothing the second time.
func TestTheJobMakesTheJournalsAndEnds(t *testing.T) {
	server := journaltest.Start(t, journaltest.WithListener(t))
	t.Setenv("QUIRE_NATS_URL", server.URL())
	t.Setenv("QUIRE_PARTITIONS", "2")
	t.Setenv("QUIRE_REPLICAS", "1")
	t.Setenv("QUIRE_LOG_LEVEL", "error")
	for range 2 {
		if code := MainProvision(); code != 0 {
			t.Fatalf("it ended with status %d", code)
		}
	}
	nc := server.Conn(t)
	for _, domain := range append(event.Documents(), event.Billing) {
		if err := journal.Await(t.Context(), nc, installation.Streams(domain, 2), 2, nil); err != nil {
			t.Errorf("journals of %s: %v", domain, err)
		}
	}
	t.Setenv("QUIRE_PARTITIONS", "3")
	if code := MainProvision(); code == 0 {
		t.Error("another number of partitions is taken")
	}
}

// TestTheJobClosesDueGenerationsAndEnds: none without a setting, and each partition with messages once.
func TestTheJobClosesDueGenerationsAndEnds(t *testing.T) {
	server := journaltest.Start(t, journaltest.WithListener(t))
	t.Setenv("QUIRE_NATS_URL", server.URL())
	t.Setenv("QUIRE_PARTITIONS", "2")
	t.Setenv("QUIRE_REPLICAS", "1")
	t.Setenv("QUIRE_LOG_LEVEL", "error")
	nc := server.Conn(t)
	if code := MainProvision(); code != 0 {
		t.Fatalf("it ended with status %d", code)
	}
	if err := journal.Publish(t.Context(), nc, event.UsageSubject(1), []byte("message")); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		bytes string
		want  int
	}{{"0", 1}, {"1", 2}, {"1", 2}} {
		t.Setenv("QUIRE_GENERATION_BYTES", c.bytes)
		if code := MainGenerations(); code != 0 {
			t.Fatalf("it ended with status %d", code)
		}
		for p, want := range []int{1, c.want} {
			list, err := journal.Generations(t.Context(), nc, installation.Stream(event.Billing, p))
			if err != nil || len(list) != want {
				t.Errorf("with %s bytes partition %d has %d generations, want %d: %v", c.bytes, p, len(list), want, err)
			}
		}
	}
}
