package apikey

import (
	"math"
	"testing"
)

func TestTheIDOfAKeyIsReadAsItIsWritten(t *testing.T) {
	t.Parallel()
	for number, want := range map[uint32]string{0: "default", 1: "k1", 10: "k10", math.MaxUint32: "k4294967295"} {
		if got := ID(number); got != want {
			t.Errorf("%d is %q, want %q", number, got, want)
		}
		if got, ok := ParseID(want); !ok || got != number {
			t.Errorf("%q is %d, %v", want, got, ok)
		}
	}
	for _, text := range []string{"", "k", "k0", "k01", "K1", "1", "k-1", "k+1", "kk1", "k1 ", "Default", "k4294967296"} {
		if got, ok := ParseID(text); ok {
			t.Errorf("%q is read as %d", text, got)
		}
	}
}
