package journaltest

import (
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Fill has a stream refuse all writes, as if its disk was full, until empty is called.
func Fill(t testing.TB, nc *nats.Conn, stream string) (empty func()) {
	t.Helper()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	bound := func(change func(*jetstream.StreamConfig)) (before jetstream.StreamConfig) {
		t.Helper()
		s, err := js.Stream(t.Context(), stream)
		if err != nil {
			t.Fatal(err)
		}
		before = s.CachedInfo().Config
		config := before
		change(&config)
		if _, err := js.UpdateStream(t.Context(), config); err != nil {
			t.Fatal(err)
		}
		return before
	}
	before := bound(func(c *jetstream.StreamConfig) { c.MaxBytes = 1 })
	return func() {
		t.Helper()
		bound(func(c *jetstream.StreamConfig) { c.MaxBytes = before.MaxBytes })
	}
}
