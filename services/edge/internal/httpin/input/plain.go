package input

import (
	"encoding/binary"
	"unicode/utf8"
)

// PlainRun is how many bytes at the beginning of b stand for themselves in a JSON string: ASCII without quotes, backslashes and
// control characters. It looks at eight at a time, since nearly all bytes of most texts are plain.
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

// allPlain tells whether the eight bytes of w are plain. A subtraction sets the highest bit of a byte that was too small: of one
// below a space, and of one that equals the quote or the backslash, which the exclusive or has turned into 0. A byte above such a one may be
// taken for special too, but never a special one for plain.
func allPlain(w uint64) bool {
	const each, highest = 0x0101010101010101, 0x8080808080808080
	special := w | (w - each*' ') | (w ^ each*'"' - each) | (w ^ each*'\\' - each)
	return special&highest == 0
}
