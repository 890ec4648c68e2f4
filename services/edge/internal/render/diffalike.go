package render

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// foldLine normalizes a line to its appearance: no trailing white space, and one form of each character.
func foldLine(line string) string {
	return norm.NFKD.String(strings.TrimRightFunc(line, func(r rune) bool { return unicode.IsSpace(r) || r == 0x2800 }))
}

// isEasyToMiss reports whether a change within a line is easy to miss: white space, invisible characters, another normal form of
// the same characters, or look-alike characters.
func isEasyToMiss(before, after string) bool {
	if isSpace(before) && isSpace(after) {
		return true
	}
	if isASCII(before) && isASCII(after) {
		return false
	}
	before, after = foldSeen(before), foldSeen(after)
	for before != "" && after != "" {
		x, sizeX := utf8.DecodeRuneInString(before)
		y, sizeY := utf8.DecodeRuneInString(after)
		if x != y && !lookAlike(x, y) {
			return false
		}
		before, after = before[sizeX:], after[sizeY:]
	}
	return before == after
}

// foldSeen normalizes a text to its appearance, with one form of each character.
func foldSeen(text string) string {
	return norm.NFKD.String(strings.Map(func(r rune) rune {
		if mayBeInvisible(r) {
			return -1
		}
		return r
	}, text))
}

// lookAlikes are groups of characters that look like the first of their group in common fonts, after NFKD: the pairs of
// Unicode's confusables.txt (UTS 39) that are used to deceive or are commonly mistyped.
const lookAlikes = "a\u0430\u03b1\u0251 b\u0184\u042c c\u0441\u03f2\u1d04 d\u0501 e\u0435\u04bd g\u0261 h\u04bb\u0570 i\u0456\u0131\u03b9 j\u0458\u03f3 k\u03ba\u043a l\u04cf\u01c0\u0049\u006c\u05c0 m\u043c n\u0578\u057c " +
	"o\u043e\u03bf\u0585\u1d0f p\u0440\u03c1 q\u051b r\u0433 s\u0455 t\u0442\u03c4 u\u057d\u03c5 v\u03bd\u0475 w\u051d\u0461 x\u0445\u03c7 y\u0443\u03b3 z\u1d22 A\u0410\u0391\u13aa B\u0412\u0392\u13f4 C\u0421\u03f9\u13df D\u13a0 E\u0415\u0395\u13ac " +
	"G\u050c\u13c0 H\u041d\u0397\u13bb I\u0406\u0399\u04c0 J\u0408\u13ab K\u041a\u039a\u13e6 L\u13de M\u041c\u039c\u13b7 N\u039d O\u041e\u039f\u0555 P\u0420\u03a1\u13e2 Q\u051a R\u13a1 S\u0405\u054f\u13da T\u0422\u03a4\u13a2 V\u0474\u13d9 W\u051c\u13b3 " +
	"X\u0425\u03a7 Y\u04ae\u03a5 Z\u0396\u13c3 0Oo\u041e\u043e\u039f\u03bf 3\u0417\u04e0 6\u0431 \u0259\u01dd\u04d9 \u00f0\u0111 \u00df\u03b2 \u00b5\u03bc \u03a3\u2211 \u03a0\u220f " +
	"-\u2010\u2011\u2012\u2013\u2014\u2015\u2212\u00ad\u2043\u30fc\u4e00 '\u2018\u2019\u201b\u2032\u00b4`\u02b9\u02bc\u02bb \"\u201c\u201d\u201f\u2033\u02ba \u00ab\u226a \u00bb\u226b ,\u201a .\u2024\u00b7\u22c5\u2219\u2027 :\u0589\u05c3\u2236\ua789 ;\u037e " +
	"!\u01c3 *\u2217\u204e ~\u223c\u02dc |\u2223\u01c0\u05c0 /\u2044\u2215\u29f8 \\\u2216 <\u2039 >\u203a ^\u02c4 \u4e8c\u30cb \u53e3\u30ed \u529b\u30ab \u5de5\u30a8 \u5915\u30bf \u535c\u30c8 \u516b\u30cf " +
	"\u0660\u06f0 \u0661\u06f1 \u0662\u06f2 \u0663\u06f3 \u0667\u06f7 \u0668\u06f8 \u0669\u06f9 \u0643\u06a9 \u0649\u064a\u06cc"

func lookAlike(x, y rune) bool {
	for group := range strings.SplitSeq(lookAlikes, " ") {
		if strings.ContainsRune(group, x) && strings.ContainsRune(group, y) {
			return true
		}
	}
	return false
}

func isSpace(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsSpace(r) && r != '\uFEFF' && r != 0x2800 })
}

func isASCII(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r >= utf8.RuneSelf })
}

// changedCore is the part in which two texts differ, without their common prefix and suffix.
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
		if r != '\t' && invisible(-1, r, "") {
			to = appendMark(to, r)
			continue
		}
		to = append(append(append(to, `<bdi class="cp" data-c="`...), nameOf(r)...), `">`...)
		to = append(appendVisible(to, char), "</bdi>"...)
	}
	return to
}
