package limit

import (
	"net/netip"
	"testing"
	"time"
)

func TestKeylessCreationsOfAnIPv6SiteAreLimited(t *testing.T) {
	one, other, now := NewKeyless(plainHash), NewKeyless(plainHash), time.Now()
	const limit = 10
	for n := range limit * sourcesOfSite {
		source := address(1, byte(n%100))
		if _, wait := one.Wait(source, now); wait > 0 {
			t.Fatalf("creation %d waits %d s", n+1, wait)
		}
		one.Count(source, limit, now)
	}
	refused := address(1, 200)
	if reached, wait := one.Wait(refused, now); wait < 1 || reached != limit*sourcesOfSite {
		t.Errorf("one too many of a site: limit %d, wait %d s", reached, wait)
	}
	for name, source := range map[string]netip.Addr{"another site": address(2, 1), "IPv4": netip.MustParseAddr("192.0.2.1")} {
		if _, wait := one.Wait(source, now); wait > 0 {
			t.Errorf("%s waits %d s", name, wait)
		}
	}
	if _, wait := one.Wait(refused, now.Add(keylessWindow)); wait > 0 {
		t.Errorf("a day later: wait %d s", wait)
	}

	other.Count(address(2, 1), limit, now) // so that it knows the limit
	other.Merge(one.Drain(), now)
	if _, wait := other.Wait(refused, now); wait < 1 {
		t.Error("another edge, which was notified, lets it through")
	}
	if again := one.Drain(); len(again) > 0 {
		t.Errorf("notified twice: %v", again)
	}
}
