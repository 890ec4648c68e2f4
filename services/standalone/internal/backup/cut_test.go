package backup

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
)

// history is an installation whose every write is admitted, stored and settled, in this order but at any speed, in journals of three
// partitions each.
type history struct {
	random  *rand.Rand
	ends    map[string]uint64
	needs   map[string][]need
	journal []string // in which order messages were stored
	open    [2][]write
}

type write struct {
	billing, document string
	admitted, stored  uint64
}

func (h *history) append(stream string) uint64 {
	h.ends[stream]++
	h.journal = append(h.journal, stream)
	return h.ends[stream]
}

// step does one step of some write.
func (h *history) step() {
	switch n := h.random.IntN(3); {
	case n == 0:
		w := write{billing: fmt.Sprint("B", h.random.IntN(3)), document: fmt.Sprint("D", h.random.IntN(3))}
		w.admitted = h.append(w.billing)
		h.open[0] = append(h.open[0], w)
	case len(h.open[n-1]) == 0:
	default:
		i := h.random.IntN(len(h.open[n-1]))
		w := h.open[n-1][i]
		h.open[n-1] = slices.Delete(h.open[n-1], i, i+1)
		if n == 1 {
			h.need(w.document, w.billing, w.admitted)
			w.stored = h.ends[w.document]
			h.open[1] = append(h.open[1], w)
			return
		}
		h.need(w.billing, w.document, w.stored)
	}
}

func (h *history) need(stream, of string, at uint64) {
	h.needs[stream] = append(h.needs[stream], need{sequence: h.append(stream), stream: of, at: at})
}

// A cut is consistent, is never shorter than a moment between two readings of the ends, and no consistent one is longer.
func TestACutIsConsistentAndTheLongest(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, seed))
	cutBack := 0
	for range 2000 {
		h := &history{random: random, ends: map[string]uint64{}, needs: map[string][]need{}}
		for range random.IntN(200) {
			h.step()
		}
		moment := maps.Clone(h.ends)
		ends := map[string]uint64{}
		for _, name := range []string{"B0", "D0", "B1", "D1", "B2", "D2"} { // one after another, while it works
			for range random.IntN(20) {
				h.step()
			}
			ends[name] = h.ends[name]
		}
		got := maps.Clone(ends)
		cut(got, h.needs)
		if !maps.Equal(got, ends) {
			cutBack++
		}
		if fault := inconsistent(got, h.needs); fault != "" {
			t.Fatalf("%v of %v: %s", got, ends, fault)
		}
		for name, sequence := range moment {
			if got[name] < sequence {
				t.Fatalf("%s is cut at %d, before the moment, %d", name, got[name], sequence)
			}
		}
		// Whatever consistent cut is within the ends is within the result: the moments are such cuts.
		at := map[string]uint64{}
		for _, name := range h.journal {
			at[name]++
			within := true
			for name, sequence := range at {
				within = within && sequence <= ends[name]
			}
			if !within {
				break
			}
			for name, sequence := range at {
				if got[name] < sequence {
					t.Fatalf("%v is consistent and longer than %v", at, got)
				}
			}
		}
	}
	if cutBack == 0 {
		t.Error("no ends were inconsistent")
	}
}

func inconsistent(ends map[string]uint64, needs map[string][]need) string {
	for name, list := range needs {
		for _, n := range list {
			if n.sequence <= ends[name] && n.at > ends[n.stream] {
				return fmt.Sprintf("message %d of %s needs %d of %s", n.sequence, name, n.at, n.stream)
			}
		}
	}
	return ""
}
