package compare

import (
	"bytes"
	"maps"
	"testing"
)

// TestWhatAnAuditKnows differs with each account whose rows are aged, how far they are, and each that is erased.
func TestWhatAnAuditKnows(t *testing.T) {
	t.Parallel()
	known := func(aged map[uint64]string, erased ...uint64) []byte {
		c := &Comparison{aged: aged, erased: map[uint64]bool{}}
		for _, id := range erased {
			c.erased[id] = true
		}
		return c.Known()
	}
	one := map[uint64]string{1: "2026-09", 2: "2026-10"}
	for name, other := range map[string][]byte{
		"nothing": known(nil), "another month": known(map[uint64]string{1: "2026-09", 2: "2026-11"}), "one less": known(map[uint64]string{1: "2026-09"}),
		"another account": known(map[uint64]string{1: "2026-09", 3: "2026-10"}), "an erased account": known(one, 3),
	} {
		if bytes.Equal(known(one), other) {
			t.Errorf("%s is the same", name)
		}
	}
	if !bytes.Equal(known(one, 3, 4), known(maps.Clone(one), 4, 3)) || bytes.Equal(known(nil, 3), known(nil, 4)) {
		t.Error("erased accounts")
	}
}
