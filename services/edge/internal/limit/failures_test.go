package limit

import (
	"net/netip"
	"testing"
	"time"
)

func TestFailuresAreCountedForARollingMinute(t *testing.T) {
	const limit = 100
	f, now := NewFailures[netip.Addr](limit, time.Minute), time.UnixMilli(1_700_000_000_000)
	bad, good := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")
	for i := range limit + 1 {
		if f.Wait(bad, now) > 0 {
			t.Fatalf("refused after %d failures", i)
		}
		f.Add(bad, now)
		now = now.Add(100 * time.Millisecond)
	}
	wait := f.Wait(bad, now)
	if wait != 50 {
		t.Fatalf("wait %d s", wait)
	}
	if f.Wait(good, now) > 0 {
		t.Error("another source is refused too")
	}
	if again := f.Wait(bad, now.Add(time.Duration(wait)*time.Second)); again > 0 {
		t.Errorf("after the wait: another %d s", again)
	}
	for i := range 2 * maxFailureKeys {
		f.Add(netip.AddrFrom4([4]byte{byte(i >> 24), byte(i >> 16), byte(i >> 8), byte(i)}), now)
	}
	if len(f.sources) != maxFailureKeys || f.recent.Len() != maxFailureKeys {
		t.Errorf("%d sources, %d in order", len(f.sources), f.recent.Len())
	}
}
