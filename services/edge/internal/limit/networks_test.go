package limit

import (
	"encoding/binary"
	"net/netip"
	"testing"
	"time"

	"quire.dev/pkg/event"
)

// plainHash stands for a keyed one.
func plainHash(network []byte) event.AccountID {
	var b [8]byte
	copy(b[:], network)
	return event.AccountID(binary.BigEndian.Uint64(b[:])) + event.AccountID(len(network))
}

// address is of an IPv6 source of a /48.
func address(site, source byte) netip.Addr {
	return netip.AddrFrom16([16]byte{0x20, 1, 0xd, 0xb8, 0, site, 0, source})
}

const perMinute = 300

func newNetworks() *Networks { return NewNetworks(plainHash, perMinute/60.0, perMinute, perMinute) }

// admits makes calls, all of which must be let through but one more.
func admits(t *testing.T, n *Networks, calls int, now time.Time, source func(i int) netip.Addr) {
	t.Helper()
	for i := range calls {
		if _, seconds := n.Admit(source(i), now); seconds > 0 {
			t.Fatalf("call %d waits %d s", i+1, seconds)
		}
	}
	if limit, seconds := n.Admit(source(calls), now); seconds < 1 || limit != int64(calls) {
		t.Errorf("call %d: limit %d, wait %d s", calls+1, limit, seconds)
	}
}

func always(source netip.Addr) func(int) netip.Addr { return func(int) netip.Addr { return source } }

func TestCallsOfAnIPv6SiteAreLimited(t *testing.T) {
	n, now := newNetworks(), time.Now()
	admits(t, n, perMinute*sourcesOfSite, now, func(i int) netip.Addr { return address(1, byte(i%200)) })
	admits(t, n, perMinute, now, always(address(2, 1)))
	if _, seconds := n.Admit(address(2, 2), now); seconds > 0 {
		t.Errorf("another source of that site waits %d s", seconds)
	}
}

func TestCallsAreLimitedBySource(t *testing.T) {
	n, now := newNetworks(), time.Now()
	one, other := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")
	admits(t, n, perMinute, now, always(one))
	if _, seconds := n.Admit(other, now); seconds > 0 {
		t.Errorf("another source waits %d s", seconds)
	}
	admits(t, n, perMinute, now.Add(time.Minute), always(one))
}

// TestCallsAreLimitedOverAllEdges: three edges that notify each other answer no more than one alone does, once they are notified; what
// they answered before is made up for.
func TestCallsAreLimitedOverAllEdges(t *testing.T) {
	now, source := time.Now(), netip.MustParseAddr("2001:db8::1")
	edges := []*Networks{newNetworks(), newNetworks(), newNetworks()}
	notify := func() {
		for from, edge := range edges {
			sources, sites := edge.Sources.Drain(), edge.Sites.Drain()
			for to, other := range edges {
				if to != from {
					other.Sources.Merge(sources, now)
					other.Sites.Merge(sites, now)
				}
			}
		}
	}
	answered := 0
	for second := range 600 {
		for _, edge := range edges {
			for _, seconds := edge.Admit(source, now); seconds == 0; _, seconds = edge.Admit(source, now) {
				answered++
			}
		}
		if second == 0 && answered != len(edges)*perMinute {
			t.Errorf("%d calls before they are notified", answered)
		}
		notify()
		now = now.Add(time.Second)
	}
	if most := perMinute * (10 + len(edges)); answered > most {
		t.Errorf("%d calls in 10 minutes, want %d at most", answered, most)
	}
	if least := perMinute * 9; answered < least {
		t.Errorf("%d calls in 10 minutes, want %d", answered, least)
	}
	if sources, sites := edges[0].Sources.Drain(), edges[0].Sites.Drain(); len(sources)+len(sites) > 0 {
		t.Errorf("notified twice: %v, %v", sources, sites)
	}
}
