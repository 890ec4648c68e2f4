package render

import (
	"fmt"
	"strings"
	"unicode"
)

// lineEnd is a kind of line end, or a set of them.
type lineEnd byte

const (
	endLF lineEnd = 1 << iota
	endCRLF
	endCR
)

func (e lineEnd) String() string {
	var out []string
	for i, name := range []string{"LF", "CR LF", "CR"} {
		if e&(1<<i) != 0 {
			out = append(out, name)
		}
	}
	return strings.Join(out, " and ")
}

// endAt is the line end at a place of a text, and its size. A place without one is 0, 0.
func endAt(text string, at int) (end lineEnd, size int) {
	switch {
	case at == len(text):
		return 0, 0
	case text[at] == '\n':
		return endLF, 1
	case text[at] != '\r':
		return 0, 0
	case at+1 < len(text) && text[at+1] == '\n':
		return endCRLF, 2
	}
	return endCR, 1
}

// onlyCRLF tells whether every LF follows a CR.
func onlyCRLF(text string) bool { return strings.Count(text, "\n") == strings.Count(text, "\r\n") }

// hiddenChanges are changes that are easy to miss in rows of text.
type hiddenChanges struct {
	bom, newline        int  // 1: added, -1: removed
	crlf                bool // every line of both texts ends in CR LF, so another CR is white space
	onlyEnds            bool // lines differ in their ends only
	ends                int  // lines with a different end
	endBefore, endAfter lineEnd
	spaces, alike       int // pairs of lines that differ in white space or look-alike characters only
}

// compareTexts finds differences of the texts as a whole.
func (h *hiddenChanges) compareTexts(before, after string) {
	h.bom = change(strings.HasPrefix(before, bom), strings.HasPrefix(after, bom))
	if before != "" && after != "" {
		h.newline = change(endsInLineEnd(before), endsInLineEnd(after))
	}
	only := *h
	if only.compareEnds(withoutBOM(before), withoutBOM(after)) && only.ends > 0 {
		*h = only
		h.onlyEnds = true
	}
}

func change(before, after bool) int {
	switch {
	case before == after:
		return 0
	case after:
		return 1
	}
	return -1
}

// compareEnds tells whether the texts differ in line ends only, and counts them. A missing final newline may differ as well.
func (h *hiddenChanges) compareEnds(before, after string) bool {
	i, j := 0, 0
	for i < len(before) && j < len(after) {
		endBefore, sizeBefore := endAt(before, i)
		endAfter, sizeAfter := endAt(after, j)
		switch {
		case endBefore != 0 && endAfter != 0:
			if endBefore != endAfter {
				h.endDiffers(endBefore, endAfter)
			}
			i, j = i+sizeBefore, j+sizeAfter
		case before[i] != after[j]:
			return false
		default:
			i, j = i+1, j+1
		}
	}
	_, restBefore := endAt(before, i)
	_, restAfter := endAt(after, j)
	if h.newline == 0 {
		return i == len(before) && j == len(after)
	}
	return i+restBefore == len(before) && j+restAfter == len(after)
}

func endsInLineEnd(text string) bool {
	return strings.HasSuffix(text, "\n") || strings.HasSuffix(text, "\r")
}

func (h *hiddenChanges) endDiffers(before, after lineEnd) {
	h.ends++
	h.endBefore |= before
	h.endAfter |= after
}

// comparePair records how a replaced line differs. alike means that all differing characters are easy to miss.
func (h *hiddenChanges) comparePair(before, after string, endBefore, endAfter lineEnd, alike bool) {
	if h.onlyEnds {
		return
	}
	before, after = withoutBOM(before), withoutBOM(after)
	if !h.crlf {
		if endBefore != endAfter && endBefore != 0 && endAfter != 0 {
			h.endDiffers(endBefore, endAfter)
		}
		before, after = strings.TrimSuffix(before, "\r"), strings.TrimSuffix(after, "\r")
	}
	switch {
	case before == after:
	case withoutSpace(before) == withoutSpace(after):
		h.spaces++
	case alike:
		h.alike++
	}
}

func withoutSpace(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) {
			return -1
		}
		return r
	}, text)
}

// notes describes the changes in sentences.
func (h *hiddenChanges) notes() []string {
	var out []string
	note := func(n int, format string, args ...any) {
		if n != 0 {
			out = append(out, fmt.Sprintf(format, args...))
		}
	}
	verb := func(change int) string {
		if change > 0 {
			return "added"
		}
		return "removed"
	}
	differ := "Line endings differ"
	if h.onlyEnds && h.bom == 0 {
		differ = "Only line endings differ"
	}
	note(h.ends, "%s, on %s: %s before, %s after.", differ, lineCount(h.ends), h.endBefore, h.endAfter)
	note(h.newline, "The newline at the end of the file was %s.", verb(h.newline))
	note(h.bom, "A byte order mark (BOM) was %s at the start.", verb(h.bom))
	note(h.spaces, "%s changed only in whitespace.", lineCount(h.spaces))
	note(h.alike, "%s changed only in characters that look alike or are invisible; their code points are shown.", lineCount(h.alike))
	return out
}

func lineCount(n int) string {
	if n == 1 {
		return "1 line"
	}
	return fmt.Sprintf("%d lines", n)
}
