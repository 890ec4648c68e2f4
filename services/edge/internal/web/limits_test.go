package web

import (
	"bytes"
	"net/netip"
	"testing"

	"quire.dev/services/edge/internal/limit"
)

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
