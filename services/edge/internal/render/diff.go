package render

import (
	"context"
	"html/template"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/aymanbagabas/go-udiff/lcs"
)

// Bounds of a diff.
const (
	DiffBytes    = 1 << 20 // of either text
	diffContext  = 3       // lines around a change
	wordLine     = 1000    // bytes of a line whose words are compared
	wordPairs    = 500     // of such lines
	maxAnchoring = 16      // times that a part is split
)

// Diff is the difference of two texts as the body of an HTML table.
type Diff struct {
	HTML           template.HTML // <tbody>; "" where the texts are equal
	Added, Removed int           // lines
	Coarse         bool          // some lines are shown as changed although both texts have them
	Cut            bool          // HTML is only the beginning
}

// Diff compares two texts line by line. Unified rows have the line's number before, its number after, a sign and the line;
// split rows have number and line of either side. It returns nil where a text is larger than DiffBytes or has more than
// MaxLines, or the work can't be done in time.
func (r *Renderer) Diff(ctx context.Context, before, after, language string, split bool) *Diff {
	if !Diffable(before) || !Diffable(after) {
		return nil
	}
	j := &job{Kind: jobUnified, Language: language, Text: withoutCR(before), After: withoutCR(after)}
	if split {
		j.Kind = jobSplit
	}
	found := r.once(ctx, j)
	if found == nil {
		return nil
	}
	return found.Diff
}

func (w *worker) diff(j *job) *Diff {
	d := newDiffing(w, j.Text, j.After, j.Language)
	if j.Kind == jobSplit {
		d.split()
	} else {
		d.unified()
	}
	return d.result()
}

// Diffable tells whether a text is within the bounds of Diff.
func Diffable(text string) bool {
	return len(text) <= DiffBytes && utf8.ValidString(text) && countLines(text) <= MaxLines
}

// diffing is a diff in the making.
type diffing struct {
	w             *worker
	before, after side
	changes       []lcs.Diff
	coarse        bool
	pairs         int // lines whose words were compared
	html          []byte
	cut           bool
}

// side is one of the two texts.
type side struct {
	text   []string
	lines  [][]piece
	ids    []rune // equal lines have equal ids
	marked map[int][]span
}

// span is a part of a line, in bytes.
type span struct{ start, end int }

func newDiffing(w *worker, before, after, language string) *diffing {
	d := &diffing{w: w}
	ids := make(map[string]rune)
	for _, s := range []struct {
		side *side
		text string
	}{{&d.before, before}, {&d.after, after}} {
		*s.side = side{marked: make(map[int][]span)}
		if s.text != "" {
			s.side.text = strings.Split(strings.TrimSuffix(s.text, "\n"), "\n")
		}
		for _, line := range s.side.text {
			id, ok := ids[line]
			if !ok {
				id = rune(len(ids))
				ids[line] = id
			}
			s.side.ids = append(s.side.ids, id)
		}
		if s.side.lines = w.codeBlock(s.text, language); len(s.side.lines) != len(s.side.text) {
			s.side.lines = make([][]piece, len(s.side.text))
			for i, line := range s.side.text {
				s.side.lines[i] = addPiece(nil, "", line)
			}
		}
	}
	d.compare(0, len(d.before.ids), 0, len(d.after.ids), maxAnchoring)
	for _, c := range d.changes {
		d.compareWords(c)
	}
	return d
}

// exactEdits is how many lines the library finds to be changed at least before it stops to look for the shortest way.
const exactEdits = 100

// compare appends the changes between two ranges of lines. The library's time is bounded, and it looks at no more than
// exactEdits changes. Texts with more are split first at lines that either has once, which is quick and what a reader would
// do (Bram Cohen's patience diff).
func (d *diffing) compare(a, aEnd, b, bEnd, splits int) {
	d.w.check()
	for a < aEnd && b < bEnd && d.before.ids[a] == d.after.ids[b] {
		a++
		b++
	}
	for a < aEnd && b < bEnd && d.before.ids[aEnd-1] == d.after.ids[bEnd-1] {
		aEnd--
		bEnd--
	}
	if a == aEnd && b == bEnd {
		return
	}
	if a == aEnd || b == bEnd {
		d.changes = append(d.changes, lcs.Diff{Start: a, End: aEnd, ReplStart: b, ReplEnd: bEnd})
		return
	}
	changes := lcs.DiffRunes(d.before.ids[a:aEnd], d.after.ids[b:bEnd])
	edits := 0
	for _, c := range changes {
		edits += c.End - c.Start + c.ReplEnd - c.ReplStart
	}
	if edits > exactEdits && splits > 0 {
		if anchors := d.anchors(a, aEnd, b, bEnd); len(anchors) > 0 {
			for _, at := range anchors {
				d.compare(a, at[0], b, at[1], splits-1)
				a, b = at[0]+1, at[1]+1
			}
			d.compare(a, aEnd, b, bEnd, splits-1)
			return
		}
	}
	for _, c := range changes {
		c.Start, c.End, c.ReplStart, c.ReplEnd = c.Start+a, c.End+a, c.ReplStart+b, c.ReplEnd+b
		d.coarse = d.coarse || d.share(c)
		d.changes = append(d.changes, c)
	}
}

// share tells whether a line is on both sides of a change, so that it could have been shown as unchanged.
func (d *diffing) share(c lcs.Diff) bool {
	removed := make(map[rune]bool, c.End-c.Start)
	for _, id := range d.before.ids[c.Start:c.End] {
		removed[id] = true
	}
	return slices.ContainsFunc(d.after.ids[c.ReplStart:c.ReplEnd], func(id rune) bool { return removed[id] })
}

// anchors are the lines that either range has exactly once, as far as they are in the same order: pairs of places.
func (d *diffing) anchors(a, aEnd, b, bEnd int) [][2]int {
	type places struct{ before, after, timesBefore, timesAfter int }
	found := make(map[rune]*places)
	for i := a; i < aEnd; i++ {
		p := found[d.before.ids[i]]
		if p == nil {
			p = &places{}
			found[d.before.ids[i]] = p
		}
		p.before = i
		p.timesBefore++
	}
	for i := b; i < bEnd; i++ {
		if p := found[d.after.ids[i]]; p != nil {
			p.after = i
			p.timesAfter++
		}
	}
	var pairs [][2]int
	for i := a; i < aEnd; i++ {
		if p := found[d.before.ids[i]]; p.timesBefore == 1 && p.timesAfter == 1 {
			pairs = append(pairs, [2]int{p.before, p.after})
		}
	}
	return longestIncreasing(pairs)
}

// longestIncreasing is the longest sequence of pairs, which are in order of their first, in which the second grows too.
func longestIncreasing(pairs [][2]int) [][2]int {
	var ends []int // ends[n] is the pair with the least second that a sequence of n+1 can end with
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

// compareWords marks what is different in lines that replace each other.
func (d *diffing) compareWords(c lcs.Diff) {
	for i := range min(c.End-c.Start, c.ReplEnd-c.ReplStart) {
		if d.pairs == wordPairs {
			return
		}
		before, after := d.before.text[c.Start+i], d.after.text[c.ReplStart+i]
		if len(before) > wordLine || len(after) > wordLine {
			continue
		}
		d.pairs++
		d.before.marked[c.Start+i], d.after.marked[c.ReplStart+i] = changedWords(before, after)
	}
}

// changedWords is where two lines are different; nothing where they have too little in common.
func changedWords(before, after string) (inBefore, inAfter []span) {
	ids := make(map[string]rune)
	a, b := words(before), words(after)
	common := 0
	end := 0
	for _, c := range lcs.DiffRunes(wordIDs(ids, before, a), wordIDs(ids, after, b)) {
		if c.Start > end {
			common += a[c.Start-1].end - a[end].start
		}
		end = c.End
		if c.End > c.Start {
			inBefore = append(inBefore, span{a[c.Start].start, a[c.End-1].end})
		}
		if c.ReplEnd > c.ReplStart {
			inAfter = append(inAfter, span{b[c.ReplStart].start, b[c.ReplEnd-1].end})
		}
	}
	if end < len(a) {
		common += a[len(a)-1].end - a[end].start
	}
	if common*3 < max(len(before), len(after)) {
		return nil, nil
	}
	return inBefore, inAfter
}

// words are the words and the single other characters of a line.
func words(line string) []span {
	var out []span
	inWord := false
	for i, r := range line {
		word := r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.IsMark(r)
		if word && inWord {
			out[len(out)-1].end = i + utf8.RuneLen(r)
		} else {
			out = append(out, span{i, i + utf8.RuneLen(r)})
		}
		inWord = word
	}
	return out
}

func wordIDs(ids map[string]rune, line string, parts []span) []rune {
	out := make([]rune, len(parts))
	for i, p := range parts {
		word := line[p.start:p.end]
		id, ok := ids[word]
		if !ok {
			id = rune(len(ids))
			ids[word] = id
		}
		out[i] = id
	}
	return out
}

func (d *diffing) result() *Diff {
	out := &Diff{Coarse: d.coarse, Cut: d.cut}
	for _, c := range d.changes {
		out.Removed += c.End - c.Start
		out.Added += c.ReplEnd - c.ReplStart
	}
	if len(d.changes) > 0 {
		out.HTML = template.HTML("<tbody>" + string(d.html) + "</tbody>") //nolint:gosec // the lines are escaped
	}
	return out
}

// rows calls row for each line to show, in order: same lines, removed ones and added ones. -1 is no line. Same lines that
// are far from every change are folded into one call of fold.
func (d *diffing) rows(same func(before, after int), change func(lcs.Diff), fold func(lines int)) {
	before, after := 0, 0
	for i, c := range d.changes {
		gap := c.Start - before
		head, tail := diffContext, diffContext
		if i == 0 {
			head = 0
		}
		if gap > head+tail+1 {
			for n := range head {
				same(before+n, after+n)
			}
			fold(gap - head - tail)
			before, after = c.Start-tail, c.ReplStart-tail
		}
		for ; before < c.Start; before, after = before+1, after+1 {
			same(before, after)
		}
		if d.full() {
			return
		}
		change(c)
		before, after = c.End, c.ReplEnd
	}
	rest := len(d.before.text) - before
	shown := rest
	if rest > diffContext+1 {
		shown = diffContext
	}
	for n := range shown {
		same(before+n, after+n)
	}
	if rest > shown {
		fold(rest - shown)
	}
}

// full tells, and notes, that a page takes no more.
func (d *diffing) full() bool {
	d.w.check()
	d.cut = d.cut || len(d.html) > maxHTMLBytes
	return d.cut
}

func (d *diffing) unified() {
	d.rows(
		func(before, after int) { d.row("", before, after, " ", &d.after, after) },
		func(c lcs.Diff) {
			for i := c.Start; i < c.End && !d.full(); i++ {
				d.row("gone", i, -1, "-", &d.before, i)
			}
			for i := c.ReplStart; i < c.ReplEnd && !d.full(); i++ {
				d.row("new", -1, i, "+", &d.after, i)
			}
		},
		func(lines int) { d.fold(lines, 4) },
	)
}

func (d *diffing) row(class string, before, after int, sign string, s *side, line int) {
	d.html = append(d.html, "<tr"...)
	if class != "" {
		d.html = append(append(append(d.html, ` class="`...), class...), '"')
	}
	d.html = append(d.html, '>')
	d.number(before)
	d.number(after)
	d.html = append(append(append(d.html, `<td class="sign">`...), sign...), `</td><td class="text">`...)
	d.line(s, line)
	d.html = append(d.html, "</td></tr>\n"...)
}

func (d *diffing) split() {
	d.rows(
		func(before, after int) { d.splitRow(before, after, false) },
		func(c lcs.Diff) {
			for i := range max(c.End-c.Start, c.ReplEnd-c.ReplStart) {
				if d.full() {
					return
				}
				before, after := c.Start+i, c.ReplStart+i
				if before >= c.End {
					before = -1
				}
				if after >= c.ReplEnd {
					after = -1
				}
				d.splitRow(before, after, true)
			}
		},
		func(lines int) { d.fold(lines, 4) },
	)
}

func (d *diffing) splitRow(before, after int, changed bool) {
	d.html = append(d.html, "<tr>"...)
	for _, cell := range []struct {
		side  *side
		line  int
		class string
	}{{&d.before, before, "gone"}, {&d.after, after, "new"}} {
		d.number(cell.line)
		d.html = append(d.html, `<td class="text`...)
		switch {
		case cell.line < 0:
			d.html = append(d.html, " none"...)
		case changed:
			d.html = append(append(d.html, ' '), cell.class...)
		}
		d.html = append(d.html, `">`...)
		if cell.line >= 0 {
			d.line(cell.side, cell.line)
		}
		d.html = append(d.html, "</td>"...)
	}
	d.html = append(d.html, "</tr>\n"...)
}

// number appends a cell with a line's number as an attribute, so that no selection has it.
func (d *diffing) number(line int) {
	d.html = append(d.html, `<td class="n"`...)
	if line >= 0 {
		d.html = append(strconv.AppendInt(append(d.html, ` data-n="`...), int64(line+1), 10), '"')
	}
	d.html = append(d.html, "></td>"...)
}

func (d *diffing) line(s *side, line int) {
	for _, p := range markPieces(s.lines[line], s.marked[line]) {
		if p.class != "" || len(p.text) <= wordLine {
			d.html = appendPieces(d.html, []piece{p})
			continue
		}
		var whole bool
		d.html, whole = appendBounded(d.html, p.text)
		d.cut = d.cut || !whole
	}
}

func (d *diffing) fold(lines, columns int) {
	d.html = append(strconv.AppendInt(append(d.html, `<tr class="fold"><td colspan="`...), int64(columns), 10), `">`...)
	d.html = append(strconv.AppendInt(d.html, int64(lines), 10), " lines are the same</td></tr>\n"...)
}

// markPieces adds the class "mark" to the parts of a line that are in spans, which are in order.
func markPieces(line []piece, spans []span) []piece {
	if len(spans) == 0 {
		return line
	}
	var out []piece
	at := 0
	for _, p := range line {
		for p.text != "" {
			for len(spans) > 0 && spans[0].end <= at {
				spans = spans[1:]
			}
			n, class := len(p.text), p.class
			if len(spans) > 0 {
				if start := spans[0].start - at; start > 0 {
					n = min(n, start)
				} else {
					n = min(n, spans[0].end-at)
					class = strings.TrimSpace(class + " mark")
				}
			}
			out = append(out, piece{class, p.text[:n]})
			p.text = p.text[n:]
			at += n
		}
	}
	return out
}
