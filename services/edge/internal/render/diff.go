package render

import (
	"context"
	"html/template"
	"strings"
	"unicode/utf8"

	"github.com/aymanbagabas/go-udiff/lcs"

	"quire.dev/pkg/num"
)

// Bounds of a diff.
const (
	DiffBytes    = 1 << 20 // of either text
	diffContext  = 3       // lines around a change
	wordLine     = 1000    // longest line whose words are compared, in bytes
	wordPairs    = 500     // of such lines
	maxMarks     = 20_000  // parts of lines that are marked
	maxAnchoring = 16      // recursion depth of splitting
)

// Diff is a diff of two texts as the body of an HTML table.
type Diff struct {
	HTML           template.HTML // <tbody>; "" if the texts are equal
	Same           bool          // the texts are equal byte for byte
	Notes          []string      // sentences about differences that are easy to miss
	Added, Removed int           // lines
	Coarse         bool          // some unchanged lines are shown as changed
	Cut            bool          // HTML is only the beginning
}

// Diff compares two texts line by line. It shows every difference in their bytes: also line ends, a byte order mark,
// white space at the end of a line, and characters that look alike. A line whose last newline is missing has a row of the
// class "eof" below it. Unified rows have the line's number before, its number after, a sign and the line;
// split rows have the number and line of each side. It returns nil if a text is larger than DiffBytes, has more than
// MaxLines, or takes too long.
func (r *Renderer) Diff(ctx context.Context, before, after, language string, split bool) *Diff {
	if !Diffable(before) || !Diffable(after) {
		return nil
	}
	j := &job{Kind: jobUnified, Language: language, Text: before, After: after}
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
	d := newDiffer(w, j.Text, j.After, j.Language)
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

// differ is the state of a diff in progress.
type differ struct {
	w             *worker
	same          bool
	before, after side
	changes       []lcs.Diff
	coarse        bool
	pairs         int // lines whose words were compared
	marks         int // parts of lines that are marked
	hidden        hiddenChanges
	html          []byte
	cut           bool
}

// side is one of the two texts.
type side struct {
	text   []string // its lines without LF
	open   bool     // the last line has no LF
	lines  [][]piece
	marked map[int][]span
}

// endOf is the end of a line, whose CR is in its text; 0: none.
func (s *side) endOf(line int) lineEnd {
	cr := strings.HasSuffix(s.text[line], "\r")
	switch open := s.open && line == len(s.text)-1; {
	case open && cr:
		return endCR
	case open:
		return 0
	case cr:
		return endCRLF
	}
	return endLF
}

// span is a part of a line, in bytes.
type span struct {
	start, end int
	named      bool // one character, shown with its code point
}

func newDiffer(w *worker, before, after, language string) *differ {
	d := &differ{w: w, same: before == after}
	d.hidden.compareTexts(before, after)
	if strings.HasPrefix(before, bom) && strings.HasPrefix(after, bom) {
		before, after = withoutBOM(before), withoutBOM(after)
	}
	if d.hidden.crlf = onlyCRLF(before) && onlyCRLF(after); d.hidden.crlf {
		before, after = withoutCR(before), withoutCR(after)
	}
	d.before, d.after = newSide(w, before, language), newSide(w, after, language)
	exact, folded := make(lineIDs), make(lineIDs)
	first := align(exact.of(&d.before, exactLine), exact.of(&d.after, exactLine), w.check)
	d.coarse = first.coarse
	before2, after2 := folded.of(&d.before, foldedLine), folded.of(&d.after, foldedLine)
	for _, c := range first.changes {
		d.realign(c, first, before2, after2)
	}
	for _, c := range d.changes {
		d.comparePairs(c)
	}
	return d
}

// newSide splits a text into lines. CR and a byte order mark stay in their lines, where they are shown, but are not
// highlighted.
func newSide(w *worker, text, language string) side {
	s := side{marked: make(map[int][]span)}
	if text == "" {
		return s
	}
	s.text, s.open = strings.Split(strings.TrimSuffix(text, "\n"), "\n"), !strings.HasSuffix(text, "\n")
	if s.lines = w.codeBlock(withoutCR(withoutBOM(text)), language); len(s.lines) != len(s.text) {
		s.lines = make([][]piece, len(s.text))
		for i, line := range s.text {
			s.lines[i] = addPiece(nil, "", line)
		}
		return s
	}
	if strings.HasPrefix(text, bom) {
		s.lines[0] = append([]piece{{text: bom}}, s.lines[0]...)
	}
	for i, line := range s.text {
		if strings.HasSuffix(line, "\r") && (!s.open || i < len(s.text)-1) {
			s.lines[i] = addPiece(s.lines[i], "", "\r")
		}
	}
	return s
}

// ends tells whether a line is the last one of a side without a final newline.
func (s *side) ends(line int) bool { return s.open && line == len(s.text)-1 }

// lineIDs numbers lines. Equal ones have equal numbers.
type lineIDs map[string]rune

// of is the numbers of a side's lines, which are equal where name says so.
func (ids lineIDs) of(s *side, name func(s *side, line int) string) []rune {
	out := make([]rune, len(s.text))
	for i := range s.text {
		key := name(s, i)
		id, ok := ids[key]
		if !ok {
			id = num.Int32(len(ids))
			ids[key] = id
		}
		out[i] = id
	}
	return out
}

// exactLine is a line for comparison byte by byte. 0xFF, which is invalid in UTF-8, marks a missing final newline.
func exactLine(s *side, line int) string {
	if s.ends(line) {
		return s.text[line] + "\xff"
	}
	return s.text[line]
}

// foldedLine is a line without invisible differences.
func foldedLine(s *side, line int) string {
	text := s.text[line]
	if line == 0 {
		text = withoutBOM(text)
	}
	return foldLine(text)
}

// realign appends the parts of a change. It pairs lines that look the same but differ.
func (d *differ) realign(c lcs.Diff, exact *alignment, before, after []rune) {
	inside := align(before[c.Start:c.End], after[c.ReplStart:c.ReplEnd], d.w.check)
	a, b := c.Start, c.ReplStart
	alike := func(n int) {
		for ; n > 0; n, a, b = n-1, a+1, b+1 {
			if exact.before[a] != exact.after[b] {
				d.changed(lcs.Diff{Start: a, End: a + 1, ReplStart: b, ReplEnd: b + 1})
			}
		}
	}
	for _, part := range inside.changes {
		alike(part.Start + c.Start - a)
		a, b = part.End+c.Start, part.ReplEnd+c.ReplStart
		d.changes = append(d.changes, lcs.Diff{Start: part.Start + c.Start, End: a, ReplStart: part.ReplStart + c.ReplStart, ReplEnd: b})
	}
	alike(c.End - a)
}

// changed appends a pair of lines, joining the preceding pairs if any.
func (d *differ) changed(pair lcs.Diff) {
	if n := len(d.changes); n > 0 {
		last := &d.changes[n-1]
		if last.End == pair.Start && last.ReplEnd == pair.ReplStart && last.End-last.Start == last.ReplEnd-last.ReplStart {
			last.End, last.ReplEnd = pair.End, pair.ReplEnd
			return
		}
	}
	d.changes = append(d.changes, pair)
}
