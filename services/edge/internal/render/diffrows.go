package render

import (
	"html/template"
	"strconv"
	"strings"

	"github.com/aymanbagabas/go-udiff/lcs"
)

func (d *differ) result() *Diff {
	out := &Diff{Same: d.same, Notes: d.hidden.notes(), Coarse: d.coarse, Cut: d.cut}
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
func (d *differ) rows(same func(before, after int), change func(lcs.Diff), fold func(lines int)) {
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

// full tells whether the page is full, and records that it is.
func (d *differ) full() bool {
	d.w.check()
	d.cut = d.cut || len(d.html) > maxHTMLBytes
	return d.cut
}

func (d *differ) unified() {
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

func (d *differ) row(class string, before, after int, sign string, s *side, line int) {
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
	if s.ends(line) {
		d.html = append(append(append(d.html, `<tr class="`...), strings.TrimSpace(class+" eof")...), `"><td class="n"></td><td class="n"></td><td class="sign"></td>`...)
		d.html = append(append(append(d.html, `<td class="text">`...), noNewline...), "</td></tr>\n"...)
	}
}

// noNewline is the notice of diff and git below a last line without newline.
const noNewline = `\ No newline at end of file`

func (d *differ) split() {
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

// splitRow appends a row. -1 means no line.
func (d *differ) splitRow(before, after int, changed bool) {
	d.html = append(d.html, "<tr>"...)
	d.splitCell(&d.before, before, "gone", changed)
	d.splitCell(&d.after, after, "new", changed)
	d.html = append(d.html, "</tr>\n"...)
	endBefore, endAfter := before >= 0 && d.before.ends(before), after >= 0 && d.after.ends(after)
	if !endBefore && !endAfter {
		return
	}
	d.html = append(d.html, `<tr class="eof">`...)
	d.endCell(endBefore, "gone", changed)
	d.endCell(endAfter, "new", changed)
	d.html = append(d.html, "</tr>\n"...)
}

func (d *differ) splitCell(s *side, line int, class string, changed bool) {
	d.number(line)
	d.textCell(line >= 0, class, changed)
	if line >= 0 {
		d.line(s, line)
	}
	d.html = append(d.html, "</td>"...)
}

// endCell says that the line above has no newline.
func (d *differ) endCell(missing bool, class string, changed bool) {
	d.number(-1)
	d.textCell(missing, class, changed)
	if missing {
		d.html = append(d.html, noNewline...)
	}
	d.html = append(d.html, "</td>"...)
}

// textCell opens a cell of one side, which may have no line in this row.
func (d *differ) textCell(some bool, class string, changed bool) {
	d.html = append(d.html, `<td class="text`...)
	switch {
	case !some:
		d.html = append(d.html, " none"...)
	case changed:
		d.html = append(append(d.html, ' '), class...)
	}
	d.html = append(d.html, `">`...)
}

// number appends a cell with the line number as an attribute, so that selections don't include it.
func (d *differ) number(line int) {
	d.html = append(d.html, `<td class="n"`...)
	if line >= 0 {
		d.html = append(strconv.AppendInt(append(d.html, ` data-n="`...), int64(line+1), 10), '"')
	}
	d.html = append(d.html, "></td>"...)
}

func (d *differ) line(s *side, line int) {
	for _, p := range markPieces(s.lines[line], s.marked[line]) {
		if d.full() {
			return
		}
		if len(p.text) <= wordLine {
			d.html = appendPieces(d.html, []piece{p})
			continue
		}
		if p.class != "" {
			d.html = append(append(append(d.html, `<span class="`...), p.class...), `">`...)
		}
		var whole bool
		d.html, whole = appendBounded(d.html, p.text)
		d.cut = d.cut || !whole
		if p.class != "" {
			d.html = append(d.html, "</span>"...)
		}
	}
}

func (d *differ) fold(lines, columns int) {
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
			n, class, named := len(p.text), p.class, false
			if len(spans) > 0 {
				if start := spans[0].start - at; start > 0 {
					n = min(n, start)
				} else {
					n = min(n, spans[0].end-at)
					class, named = strings.TrimSpace(class+" mark"), spans[0].named
				}
			}
			out = append(out, piece{class: class, text: p.text[:n], named: named})
			p.text = p.text[n:]
			at += n
		}
	}
	return out
}
