package render

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// foldLine is a line as it looks: without white space at its end, and with one form of each character.
func foldLine(line string) string {
	return norm.NFKD.String(strings.TrimRightFunc(line, unicode.IsSpace))
}

// overlooked tells whether a reader is likely not to see the change from one part of a line to another: white space, the
// same characters in another normal form, or as many characters that each may look like the other's.
func overlooked(before, after string) bool {
	if isSpace(before) && isSpace(after) {
		return true
	}
	if before == "" || after == "" || isASCII(before) && isASCII(after) {
		return false
	}
	if norm.NFKD.String(before) == norm.NFKD.String(after) {
		return true
	}
	for before != "" && after != "" {
		x, sizeX := utf8.DecodeRuneInString(before)
		y, sizeY := utf8.DecodeRuneInString(after)
		if x != y && !mayLookAlike(x, y) {
			return false
		}
		before, after = before[sizeX:], after[sizeY:]
	}
	return before == after
}

// mayLookAlike tells whether a character is of another script than one in its place, or a variant of an ASCII one. What
// looks alike within a script is what its readers tell apart, or don't: they see that the line has changed.
func mayLookAlike(x, y rune) bool {
	if x > y {
		x, y = y, x
	}
	if y < utf8.RuneSelf {
		return false
	}
	inWordX, inWordY := inWord(x), inWord(y)
	switch {
	case inWordX != inWordY:
		return true
	case !inWordX: // dashes, quotes, spaces; a reader sees that an emoji is another
		return !unicode.Is(unicode.So, x) && !unicode.Is(unicode.So, y)
	case script(x) != script(y):
		return true
	}
	return x < utf8.RuneSelf && norm.NFD.PropertiesString(string(y)).Decomposition() == nil // ɑ, ı; but é is seen
}

// script is one of those whose letters are like those of another.
func script(r rune) *unicode.RangeTable {
	if r < utf8.RuneSelf {
		return unicode.Latin
	}
	for _, t := range []*unicode.RangeTable{
		unicode.Latin, unicode.Cyrillic, unicode.Greek, unicode.Armenian, unicode.Cherokee, unicode.Han, unicode.Katakana,
	} {
		if unicode.Is(t, r) {
			return t
		}
	}
	return nil
}

func isSpace(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsSpace(r) && r != '\uFEFF' })
}

func isASCII(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r >= utf8.RuneSelf })
}

// changedCore is where two texts are different: what their beginning and their end have not in common.
func changedCore(before, after string) (inBefore, inAfter span) {
	start := 0
	for start < len(before) && start < len(after) && before[start] == after[start] {
		start++
	}
	for start > 0 && (!runeStart(before, start) || !runeStart(after, start)) {
		start--
	}
	endBefore, endAfter := len(before), len(after)
	for endBefore > start && endAfter > start && before[endBefore-1] == after[endAfter-1] {
		endBefore--
		endAfter--
	}
	for !runeStart(before, endBefore) || !runeStart(after, endAfter) {
		endBefore++
		endAfter++
	}
	return span{start: start, end: endBefore}, span{start: start, end: endAfter}
}

func runeStart(s string, i int) bool { return i == len(s) || utf8.RuneStart(s[i]) }

// appendNamed appends to spans a part of a line in which a change is easily overlooked: its characters beyond ASCII, and
// tabs, are spans of their own. Their number is bounded, so that a line's marks are.
func appendNamed(spans []span, line string, part span) []span {
	at := part.start
	for i, r := range line[part.start:min(part.end, part.start+wordLine)] {
		if r < utf8.RuneSelf && r != '\t' || r == utf8.RuneError {
			continue
		}
		if i += part.start; i > at {
			spans = append(spans, span{start: at, end: i})
		}
		at = i + utf8.RuneLen(r)
		spans = append(spans, span{start: i, end: at, named: true})
	}
	if part.end > at {
		spans = append(spans, span{start: at, end: part.end})
	}
	return spans
}

// appendCodePoints appends s as HTML, with each character in an element that names it.
func appendCodePoints(to []byte, s string) []byte {
	for i, r := range s {
		char := s[i : i+utf8.RuneLen(r)]
		if r != '\t' && invisible(-1, r, -1) {
			to = appendMark(to, r)
			continue
		}
		to = append(append(append(to, `<bdi class="cp" data-c="`...), nameOf(r)...), `">`...)
		to = append(appendVisible(to, char), "</bdi>"...)
	}
	return to
}
