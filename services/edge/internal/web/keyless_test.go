package web

import (
	"net/netip"
	"testing"
	"time"

	"quire.dev/services/edge/internal/fault"
)

func TestKeylessCreationsOfAnIPv6SiteAreLimited(t *testing.T) {
	one, other, now := newKeylessLimit(plainHash), newKeylessLimit(plainHash), time.Now()
	address := func(site, source byte) netip.Addr {
		return netip.AddrFrom16([16]byte{0x20, 1, 0xd, 0xb8, 0, site, 0, source})
	}
	const limit = 10
	for n := range limit * sitesSources {
		source := address(1, byte(n%100))
		if err := one.refused(source, now); err != nil {
			t.Fatalf("creation %d: %v", n+1, err)
		}
		one.made(source, limit, now)
	}
	refused := address(1, 200)
	err := one.refused(refused, now)
	if fault.KindOf(err) != fault.AnonymousLimit {
		t.Errorf("one too many of a site: %v", err)
	}
	for name, source := range map[string]netip.Addr{"another site": address(2, 1), "IPv4": netip.MustParseAddr("192.0.2.1")} {
		if err := one.refused(source, now); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := one.refused(refused, now.Add(day)); err != nil {
		t.Errorf("a day later: %v", err)
	}

	other.made(address(2, 1), limit, now) // so that it knows the limit
	other.heard(one.untold(), now)
	if err := other.refused(refused, now); fault.KindOf(err) != fault.AnonymousLimit {
		t.Errorf("another edge, which has heard: %v", err)
	}
	if told := one.untold(); len(told) > 0 {
		t.Errorf("told twice: %v", told)
	}
}
