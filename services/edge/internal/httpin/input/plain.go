package input

import (
	"encoding/binary"
	"unicode/utf8"
)

// PlainRun is the length of the prefix of b that needs no escape in a JSON string: ASCII without quotes, backslashes and
// control characters. It checks eight bytes at a time, since nearly all bytes of most texts are plain.
func PlainRun(b []byte) int {
	n := 0
	for len(b)-n >= 8 && allPlain(binary.LittleEndian.Uint64(b[n:])) {
		n += 8
	}
	for n < len(b) && b[n] >= ' ' && b[n] < utf8.RuneSelf && b[n] != '"' && b[n] != '\\' {
		n++
	}
	return n
}

// allPlain reports whether the eight bytes of w are plain. A subtraction sets the highest bit of each byte that was too
// small: one below a space, or one equal to the quote or the backslash, which the exclusive or has turned into 0. A byte
// above such a one may count as special by mistake, but never a special one as plain.
func allPlain(w uint64) bool {
	const each, highest = 0x0101010101010101, 0x8080808080808080
	special := w | (w - each*' ') | (w ^ each*'"' - each) | (w ^ each*'\\' - each)
	return special&highest == 0
}
