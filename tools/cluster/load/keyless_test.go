package load

import (
	"math/rand/v2"
	"net/netip"
	"testing"
)

// TestNoTwoSourcesShareANetwork that has a limit: an IPv4 address, or an IPv6 /48.
func TestNoTwoSourcesShareANetwork(t *testing.T) {
	l := &Load{}
	random := rand.New(rand.NewPCG(1, 2))
	seen := map[netip.Prefix]bool{}
	for range 50_000 {
		address := netip.MustParseAddr(l.newSource(random))
		bits := 32
		if address.Is6() {
			bits = 48
		}
		network, err := address.Prefix(bits)
		if err != nil {
			t.Fatal(err)
		}
		if seen[network] {
			t.Fatalf("%s has two sources", network)
		}
		seen[network] = true
	}
}
