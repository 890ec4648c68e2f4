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
	server := journaltest.Start(t, journaltest.WithListener())
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
