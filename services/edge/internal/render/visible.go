package render

import (
	"fmt"
	"html/template"
	"strings"
	"unicode"
	"unicode/utf8"
)

// VisibleText writes each invisible or control character of s as its code point, ⟨U+202E⟩: for page titles and link
// previews, which can't contain elements.
func VisibleText(s string) string {
	if !hasInvisible(s) {
		return s
	}
	var out strings.Builder
	before := rune(-1)
	for i, r := range s {
		if r == '\t' || r == '\n' {
			out.WriteByte(' ')
		} else if invisible(before, r, s[min(i+utf8.RuneLen(r), len(s)):]) {
			fmt.Fprintf(&out, "⟨U+%04X⟩", r)
			r = marked
		} else {
			out.WriteRune(r)
		}
		before = r
	}
	return out.String()
}

// Visible is s as HTML. Each invisible or control character is in a <bdi class="ctl"> whose data-c names it, so that copies
// include it but it has no effect outside the element.
func Visible(s string) template.HTML {
	return template.HTML(appendVisible(nil, s)) //nolint:gosec // appendVisible escapes
}

// appendVisible appends s as HTML, as Visible does.
func appendVisible(to []byte, s string) []byte {
	start := 0
	before := rune(-1)
	for i := 0; i < len(s); {
		r, size := rune(s[i]), 1
		if r >= utf8.RuneSelf {
			r, size = utf8.DecodeRuneInString(s[i:])
		}
		if escaped := escapedRune(r); escaped != "" {
			to = append(append(to, s[start:i]...), escaped...)
			start = i + size
		} else if r < ' ' || r >= 0x7f && invisible(before, r, s[i+size:]) {
			if r != '\t' && r != '\n' {
				to = appendMark(append(to, s[start:i]...), r)
				start = i + size
				r = marked
			}
		}
		before = r
		i += size
	}
	return append(to, s[start:]...)
}

func escapedRune(r rune) string {
	switch r {
	case '<':
		return "&lt;"
	case '>':
		return "&gt;"
	case '&':
		return "&amp;"
	case '"':
		return "&#34;"
	case '\'':
		return "&#39;"
	}
	return ""
}

// appendMark appends the element of an invisible character. A browser drops NUL, and makes a line end of CR unless it is
// written as a reference.
func appendMark(to []byte, r rune) []byte {
	to = append(to, `<bdi class="ctl" data-c="`...)
	to = append(to, nameOf(r)...)
	to = append(to, `">`...)
	switch r {
	case 0:
		to = append(to, "\uFFFD"...)
	case '\r':
		to = append(to, "&#13;"...)
	default:
		to = utf8.AppendRune(to, r)
	}
	return append(to, "</bdi>"...)
}

// nameOf is the common abbreviation of an invisible character, or its code point.
func nameOf(r rune) string {
	const c0 = "NULSOHSTXETXEOTENQACKBELBS HT LF VT FF CR SO SI DLEDC1DC2DC3DC4NAKSYNETBCANEM SUBESCFS GS RS US "
	switch {
	case r < ' ':
		return strings.TrimSpace(c0[3*r : 3*r+3])
	case r == 0x7f:
		return "DEL"
	case r == 0x85:
		return "NEL"
	case r == 0xad:
		return "SHY"
	case r == 0x61c:
		return "ALM"
	case r >= 0x200b && r <= 0x200f:
		return strings.Fields("ZWSP ZWNJ ZWJ LRM RLM")[r-0x200b]
	case r >= 0x2028 && r <= 0x202e:
		return strings.Fields("LS PS LRE RLE PDF LRO RLO")[r-0x2028]
	case r == 0x2060:
		return "WJ"
	case r >= 0x2066 && r <= 0x2069:
		return strings.Fields("LRI RLI FSI PDI")[r-0x2066]
	case r == 0xfeff:
		return "BOM"
	}
	return fmt.Sprintf("U+%04X", r)
}

func hasInvisible(s string) bool {
	return strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r >= 0x7f && mayBeInvisible(r) })
}

// first returns the first character of s, or -1.
func first(s string) rune {
	if s == "" {
		return -1
	}
	r, _ := utf8.DecodeRuneInString(s)
	return r
}

// invisible reports whether a reader can't see r between the character before and the text after it, where it may change
// the text's meaning or hide something. Tab and line end are not looked at here. Joiners, variation selectors and tags belong to
// scripts and emoji: they are invisible only where those are not.
func invisible(before, r rune, after string) bool {
	if !mayBeInvisible(r) {
		return false
	}
	switch {
	case r == 0x200c || r == 0x200d: // ZWNJ, ZWJ
		return !joins(before) || after != "" && !joins(first(after))
	case r >= 0xfe00 && r <= 0xfe0f, r >= 0xe0100 && r <= 0xe01ef: // variation selectors
		return !varies(before) && (r < 0xfe0e || r > 0xfe0f || !isKeycap(before))
	case r >= 0xe0020 && r <= cancelTag: // tags, as in the flags of Scotland and Wales
		return before == cancelTag || !isTag(before) && (before != blackFlag || !endsFlag(r, after))
	}
	return true
}

const (
	blackFlag = 0x1f3f4
	cancelTag = 0xe007f
)

// isTag reports whether r is the tag form of a letter or digit.
func isTag(r rune) bool {
	r -= 0xe0000
	return r >= '0' && r <= '9' || r >= 'a' && r <= 'z'
}

// endsFlag reports whether the tag r and the text after it are the code of a region, which ends with a cancel tag.
func endsFlag(r rune, after string) bool {
	const shortest, longest = 3, 6
	for n := 1; isTag(r) && n <= longest; n++ {
		next, size := utf8.DecodeRuneInString(after)
		if next == cancelTag {
			return n >= shortest
		}
		r, after = next, after[size:]
	}
	return false
}

// marked stands for a marked character, which ends the sequence that the next one may belong to.
const marked = -2

func joins(r rune) bool {
	return r > 0x2ff && (unicode.IsLetter(r) || unicode.IsMark(r) || unicode.IsSymbol(r)) || r == 0x200d
}

func varies(r rune) bool {
	return r > 0xff && (unicode.IsLetter(r) || unicode.IsSymbol(r) || unicode.IsPunct(r))
}

func isKeycap(r rune) bool {
	return r == '#' || r == '*' || r >= '0' && r <= '9' || r == 0xa9 || r == 0xae
}

// mayBeInvisible tells whether r is a control or format character, or is shown as nothing.
func mayBeInvisible(r rune) bool {
	if r < 0x7f {
		return r < ' '
	}
	switch {
	case r == 0x115f, r == 0x1160, r == 0x3164, r == 0xffa0: // fillers of Hangul
		return true
	case r == 0x34f, r == 0x17b4, r == 0x17b5, r >= 0x180b && r <= 0x180f: // joiner and vowels without a shape
		return true
	case r == 0x2028, r == 0x2029, r == 0x2065:
		return true
	case r >= 0xfe00 && r <= 0xfe0f, r >= 0xe0000 && r <= 0xe0fff:
		return true
	case r&0xfffe == 0xfffe, r >= 0xfdd0 && r <= 0xfdef: // not characters
		return true
	}
	return unicode.In(r, unicode.Cc, unicode.Cf) && !unicode.In(r, unicode.Prepended_Concatenation_Mark)
}
