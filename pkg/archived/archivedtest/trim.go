package archivedtest

import (
	"bytes"
	"testing"

	"github.com/nats-io/nats.go"

	"quire.dev/pkg/eventually"
	"quire.dev/pkg/journal"
)

// Trim has a journal begin at the message first, also one that refuses purges: its streams are deleted, and restored as one from that
// message on. Nothing may be appended meanwhile.
func Trim(t testing.TB, nc *nats.Conn, stream journal.Stream, partitions int, first uint64) {
	t.Helper()
	j := journal.Open(nc, stream.Name)
	_, created, err := j.Made(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	state, err := j.State(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var kept []journal.Message
	err = j.Replay(t.Context(), max(first, 1)-1, state.Last, func(m journal.Message) error {
		m.Data = bytes.Clone(m.Data)
		kept = append(kept, m)
		return nil
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	generations, err := journal.Streams(t.Context(), nc, stream)
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range generations {
		if _, err := nc.Request("$JS.API.STREAM.DELETE."+g.Config.Name, nil, nats.DefaultTimeout); err != nil {
			t.Fatal(err)
		}
	}
	// The server refuses while it still removes the old files.
	eventually.NoError(t, "the stream is restored", func() error {
		left := kept
		return journal.Restore(t.Context(), nc, stream, partitions, created, max(first, 1)-1, func() (m journal.Message, ok bool, err error) {
			if len(left) == 0 {
				return m, false, nil
			}
			m, left = left[0], left[1:]
			return m, true, nil
		})
	})
}
