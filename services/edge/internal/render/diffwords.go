package render

import (
	"slices"
	"unicode"
	"unicode/utf8"

	"github.com/aymanbagabas/go-udiff/lcs"

	"quire.dev/pkg/num"
)

// comparePairs marks the differences between replaced lines.
func (d *differ) comparePairs(c lcs.Diff) {
	for i := range min(c.End-c.Start, c.ReplEnd-c.ReplStart) {
		d.w.check()
		before, after := d.before.text[c.Start+i], d.after.text[c.ReplStart+i]
		if before == after { // but for the newline at the end
			continue
		}
		var changes []partChange
		if d.marks > maxMarks {
			changes = nil // the lines are shown as changed, without marks
		} else if d.pairs < wordPairs && len(before) <= wordLine && len(after) <= wordLine {
			d.pairs++
			changes = changedWords(before, after)
		} else {
			changes = changedPart(before, after)
		}
		alike := len(changes) > 0
		var inBefore, inAfter []span
		for _, p := range changes {
			inBefore, inAfter = p.appendTo(inBefore, before, p.before), p.appendTo(inAfter, after, p.after)
			alike = alike && p.overlooked
		}
		d.before.marked[c.Start+i], d.after.marked[c.ReplStart+i] = inBefore, inAfter
		d.marks += len(inBefore) + len(inAfter)
		d.hidden.comparePair(before, after, d.before.endOf(c.Start+i), d.after.endOf(c.ReplStart+i), alike)
	}
}

// partChange is a change of a part of a line.
type partChange struct {
	before, after span
	overlooked    bool // easy to miss, unless the characters are named
}

func newPartChange(lineBefore, lineAfter string, before, after span) partChange {
	textBefore, textAfter := lineBefore[before.start:before.end], lineAfter[after.start:after.end]
	coreBefore, coreAfter := changedCore(textBefore, textAfter)
	if !isEasyToMiss(textBefore[coreBefore.start:coreBefore.end], textAfter[coreAfter.start:coreAfter.end]) {
		return partChange{before: before, after: after}
	}
	return partChange{
		before:     span{start: before.start + coreBefore.start, end: before.start + coreBefore.end},
		after:      span{start: after.start + coreAfter.start, end: after.start + coreAfter.end},
		overlooked: true,
	}
}

// appendTo appends the spans of one side.
func (p partChange) appendTo(spans []span, line string, part span) []span {
	switch {
	case p.overlooked:
		return appendNamed(spans, line, part)
	case part.end > part.start:
		return append(spans, part)
	}
	return spans
}

// changedWords finds the differing words of two lines. If the lines have too little in common, it returns only changes that
// are easy to miss.
func changedWords(before, after string) []partChange {
	ids := make(map[string]rune)
	a, b := words(before), words(after)
	var out []partChange
	common := 0
	end := 0
	for _, c := range lcs.DiffRunes(wordIDs(ids, before, a), wordIDs(ids, after, b)) {
		if c.Start > end {
			common += a[c.Start-1].end - a[end].start
		}
		end = c.End
		out = append(out, newPartChange(before, after, partOf(a, c.Start, c.End), partOf(b, c.ReplStart, c.ReplEnd)))
	}
	if end < len(a) {
		common += a[len(a)-1].end - a[end].start
	}
	if common*3 < max(len(before), len(after)) {
		out = slices.DeleteFunc(out, func(p partChange) bool { return !p.overlooked })
	}
	return out
}

// partOf is the part of a line from one word to before another.
func partOf(words []span, from, to int) span {
	if from == to {
		return span{}
	}
	return span{start: words[from].start, end: words[to-1].end}
}

// changedPart is the change of a line whose words are not compared, if it is easy to miss.
func changedPart(before, after string) []partChange {
	p := newPartChange(before, after, span{end: len(before)}, span{end: len(after)})
	if !p.overlooked {
		return nil
	}
	return []partChange{p}
}

// words splits a line into words and single other characters.
func words(line string) []span {
	var out []span
	within := false
	for i, r := range line {
		word := inWord(r)
		if word && within {
			out[len(out)-1].end = i + utf8.RuneLen(r)
		} else {
			out = append(out, span{start: i, end: i + utf8.RuneLen(r)})
		}
		within = word
	}
	return out
}

func inWord(r rune) bool {
	return r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.IsMark(r)
}

func wordIDs(ids map[string]rune, line string, parts []span) []rune {
	out := make([]rune, len(parts))
	for i, p := range parts {
		word := line[p.start:p.end]
		id, ok := ids[word]
		if !ok {
			id = num.Int32(len(ids))
			ids[word] = id
		}
		out[i] = id
	}
	return out
}
