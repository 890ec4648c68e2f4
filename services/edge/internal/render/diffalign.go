package render

import (
	"slices"

	"github.com/aymanbagabas/go-udiff/lcs"
)

// exactEdits is the number of changed lines after which the library stops searching for the shortest edit script.
const exactEdits = 100

// alignment finds the lines that two texts have in common. Equal lines have equal ids.
type alignment struct {
	before, after []rune
	check         func()
	changes       []lcs.Diff
	coarse        bool // a line is on both sides of a change
}

// align is the changes from one list of lines to another.
func align(before, after []rune, check func()) *alignment {
	m := &alignment{before: before, after: after, check: check}
	m.compare(0, len(before), 0, len(after), maxAnchoring)
	return m
}

// compare appends the changes between two ranges of lines. The library's time is bounded, and it looks at no more than
// exactEdits changes. Texts with more are split first at lines that either has once, which is quick and what a reader would
// do (Bram Cohen's patience diff).
func (m *alignment) compare(a, aEnd, b, bEnd, splits int) {
	m.check()
	for a < aEnd && b < bEnd && m.before[a] == m.after[b] {
		a++
		b++
	}
	for a < aEnd && b < bEnd && m.before[aEnd-1] == m.after[bEnd-1] {
		aEnd--
		bEnd--
	}
	if a == aEnd && b == bEnd {
		return
	}
	if a == aEnd || b == bEnd {
		m.changes = append(m.changes, lcs.Diff{Start: a, End: aEnd, ReplStart: b, ReplEnd: bEnd})
		return
	}
	changes := lcs.DiffRunes(m.before[a:aEnd], m.after[b:bEnd])
	edits := 0
	for _, c := range changes {
		edits += c.End - c.Start + c.ReplEnd - c.ReplStart
	}
	if edits > exactEdits && splits > 0 {
		if anchors := m.anchors(a, aEnd, b, bEnd); len(anchors) > 0 {
			for _, at := range anchors {
				m.compare(a, at[0], b, at[1], splits-1)
				a, b = at[0]+1, at[1]+1
			}
			m.compare(a, aEnd, b, bEnd, splits-1)
			return
		}
	}
	for _, c := range changes {
		c.Start, c.End, c.ReplStart, c.ReplEnd = c.Start+a, c.End+a, c.ReplStart+b, c.ReplEnd+b
		m.coarse = m.coarse || m.share(c)
		m.changes = append(m.changes, c)
	}
}

// share tells whether a line is on both sides of a change and could be shown as unchanged.
func (m *alignment) share(c lcs.Diff) bool {
	removed := make(map[rune]bool, c.End-c.Start)
	for _, id := range m.before[c.Start:c.End] {
		removed[id] = true
	}
	return slices.ContainsFunc(m.after[c.ReplStart:c.ReplEnd], func(id rune) bool { return removed[id] })
}

// anchors pairs the lines that occur exactly once in both ranges, as far as they are in the same order.
func (m *alignment) anchors(a, aEnd, b, bEnd int) [][2]int {
	type places struct{ before, after, timesBefore, timesAfter int }
	found := make(map[rune]*places)
	for i := a; i < aEnd; i++ {
		p := found[m.before[i]]
		if p == nil {
			p = &places{}
			found[m.before[i]] = p
		}
		p.before = i
		p.timesBefore++
	}
	for i := b; i < bEnd; i++ {
		if p := found[m.after[i]]; p != nil {
			p.after = i
			p.timesAfter++
		}
	}
	var pairs [][2]int
	for i := a; i < aEnd; i++ {
		if p := found[m.before[i]]; p.timesBefore == 1 && p.timesAfter == 1 {
			pairs = append(pairs, [2]int{p.before, p.after})
		}
	}
	return longestIncreasing(pairs)
}

// longestIncreasing is the longest subsequence of pairs, sorted by first, in which second increases too.
func longestIncreasing(pairs [][2]int) [][2]int {
	var ends []int // ends[n] is the pair with the least second that can end a sequence of length n+1
	previous := make([]int, len(pairs))
	for i, p := range pairs {
		n, _ := slices.BinarySearchFunc(ends, p[1], func(e, second int) int { return pairs[e][1] - second })
		previous[i] = -1
		if n > 0 {
			previous[i] = ends[n-1]
		}
		if n == len(ends) {
			ends = append(ends, i)
		} else {
			ends[n] = i
		}
	}
	if len(ends) == 0 {
		return nil
	}
	out := make([][2]int, len(ends))
	for i, at := len(ends)-1, ends[len(ends)-1]; at >= 0; i, at = i-1, previous[at] {
		out[i] = pairs[at]
	}
	return out
}
