package doctor

import "testing"

func TestAVolumeNeedsRoom(t *testing.T) {
	for used, result := range map[uint64]Result{0: OK, 599: OK, 600: Warn, 749: Warn, 750: Fail, 1000: Fail} {
		if f := room("a volume", used, 1000, "make room"); f.Result != result {
			t.Errorf("%d of 1000: %+v", used, f)
		}
	}
}

func TestVersionsAreComparedByNumber(t *testing.T) {
	for _, c := range []struct {
		has    string
		result Result
	}{{"2.9.25", Fail}, {"2.10.29", Fail}, {"2.11.0", OK}, {"2.15.2", OK}, {"3.0.0", OK}, {"unknown", Fail}} {
		if f := version("NATS", c.has); f.Result != c.result {
			t.Errorf("%s: %+v", c.has, f)
		}
	}
}
