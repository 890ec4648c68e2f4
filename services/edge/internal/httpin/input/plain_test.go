package input

import (
	"bytes"
	"testing"
)

func TestAPlainRunEndsAtTheFirstSpecialByte(t *testing.T) {
	for length := range 40 {
		text := bytes.Repeat([]byte{'x'}, length)
		if got := PlainRun(text); got != length {
			t.Errorf("%d plain bytes: %d", length, got)
		}
		for at := range length {
			for c := range 256 {
				text[at] = byte(c)
				want := length
				if c < ' ' || c >= 0x80 || c == '"' || c == '\\' {
					want = at
				}
				if got := PlainRun(text); got != want {
					t.Fatalf("byte %#x at %d of %d: %d plain bytes, want %d", c, at, length, got, want)
				}
			}
			text[at] = 'x'
		}
	}
}
