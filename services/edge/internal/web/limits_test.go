package web

import (
	"bytes"
	"net/netip"
	"testing"

	"quire.dev/services/edge/internal/limit"
)

// TestEachKindOfPasswordHasTurnsOfItsOwn: who keeps one kind busy keeps nobody waiting for another.
func TestEachKindOfPasswordHasTurnsOfItsOwn(t *testing.T) {
	s, _ := startServer(t, Config{PasswordHashes: 1}, func(*Server) {})
	kinds := []*hasher{s.signInHashes, s.registrationHashes, s.documentHashes}
	for i, busy := range kinds {
		if !busy.turns.TryAcquire(1) {
			t.Fatalf("kind %d is busy already", i)
		}
		if busy.turns.TryAcquire(1) {
			t.Errorf("kind %d has more than one turn", i)
		}
		for j, other := range kinds {
			if i != j {
				if _, err := other.hash(t.Context(), "password"); err != nil {
					t.Errorf("kind %d waits for kind %d: %v", j, i, err)
				}
			}
		}
		busy.turns.Release(1)
	}
}

// TestAPeerWithoutAnAddressIsASource: connections through a Unix socket have none.
func TestAPeerWithoutAnAddressIsASource(t *testing.T) {
	for source, want := range map[netip.Addr][]byte{
		{}: {}, netip.MustParseAddr("192.0.2.7"): {192, 0, 2}, netip.MustParseAddr("2001:db8:7:8::"): {0x20, 1, 0x0d, 0xb8, 0, 7},
	} {
		if got := neighbourhoodBytes(source); !bytes.Equal(got, want) {
			t.Errorf("%v: %v", source, got)
		}
		if got := limit.Source(source); (len(got) == 0) != !source.IsValid() {
			t.Errorf("network of %v: %v", source, got)
		}
	}
}
