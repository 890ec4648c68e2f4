package segment_test

import (
	"encoding/binary"
	"slices"
	"testing"
	"time"

	"quire.dev/pkg/segment"
)

// TestFindNeverMissesAMessage that a scan finds: for drawn messages and queries.
func TestFindNeverMissesAMessage(t *testing.T) {
	r := draw(t)
	a := newArchive(t, newStore(t))
	a.Small(900, 6000)
	all := drawn(r, 1, 1500)
	writeAll(t, a, all)
	frames, read := 0, 0
	for _, err := range a.Find(t.Context(), stream, segment.Query{}) {
		if frames++; err != nil {
			t.Fatal(err)
		}
	}
	const queries = 300
	for range queries {
		var q segment.Query
		m := all[r.IntN(len(all))]
		n := decode(m.Data)
		if r.IntN(2) == 0 {
			width := r.Int64N(200_000_000)
			q.Times = &segment.Between{Lowest: m.TimeNanos - width, Highest: m.TimeNanos + r.Int64N(width+1)}
		}
		if r.IntN(2) == 0 && len(n.requests) > 0 {
			var id [16]byte
			binary.BigEndian.PutUint64(id[:], uint64(n.requests[0])<<16|r.Uint64N(1<<16))
			q.Requests = segment.Around(id, time.Duration(r.IntN(50))*time.Millisecond)
		}
		if r.IntN(2) == 0 && len(n.accounts) > 0 {
			q.Account = n.accounts[r.IntN(len(n.accounts))]
		}
		if r.IntN(4) == 0 {
			q.Network = 1 + r.Uint64N(22)
		}
		if r.IntN(4) == 0 {
			q.Sequences = &segment.Range{First: m.Sequence - r.Uint64N(m.Sequence), Last: m.Sequence + r.Uint64N(100)}
		}
		found := map[uint64]bool{}
		for m, err := range a.Messages(t.Context(), a.Find(t.Context(), stream, q)) {
			if err != nil {
				t.Fatal(err)
			}
			if !same(m, all[m.Sequence-1]) {
				t.Fatalf("message %d is another one", m.Sequence)
			}
			found[m.Sequence] = true
		}
		for _, m := range all {
			if selects(q, m) && !found[m.Sequence] {
				t.Fatalf("%+v misses message %d", q, m.Sequence)
			}
		}
		for _, err := range a.Find(t.Context(), stream, q) {
			if read++; err != nil {
				t.Fatal(err)
			}
		}
	}
	if read > frames*queries/2 {
		t.Errorf("%d of %d frames are found for a query: too many", read/queries, frames)
	}
}

// selects reports whether a query selects a message, by its content.
func selects(q segment.Query, m segment.Message) bool {
	n := decode(m.Data)
	in := func(b *segment.Between, v int64) bool { return v >= b.Lowest && v <= b.Highest }
	return (q.Times == nil || in(q.Times, m.TimeNanos)) &&
		(q.Requests == nil || slices.ContainsFunc(n.requests, func(ms int64) bool { return in(q.Requests, ms) })) &&
		(q.Account == 0 || slices.Contains(n.accounts, q.Account)) &&
		(q.Network == 0 || slices.Contains(n.networks, q.Network)) &&
		(q.Sequences == nil || m.Sequence >= q.Sequences.First && m.Sequence <= q.Sequences.Last)
}

// TestFindStopsWhenItsCallerDoes.
func TestFindStopsWhenItsCallerDoes(t *testing.T) {
	a := newArchive(t, newStore(t))
	a.Small(900, 6000)
	writeAll(t, a, drawn(draw(t), 1, 200))
	for m, err := range a.Messages(t.Context(), a.Find(t.Context(), stream, segment.Query{})) {
		if err != nil {
			t.Fatal(err)
		}
		if m.Sequence == 3 {
			break
		}
	}
}
