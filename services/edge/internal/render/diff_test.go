package render_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"

	"quire.dev/services/edge/internal/render"
)

// requireDiff compares two texts in both views, and requires of each that it can be applied: its rows, with the lines that
// it folds, are both texts.
func requireDiff(t testing.TB, r *render.Renderer, before, after, language string) *render.Diff {
	t.Helper()
	var out *render.Diff
	for _, split := range []bool{true, false} {
		if out = r.Diff(context.Background(), before, after, language, split); out == nil {
			t.Fatalf("%.100q and %.100q are not compared", before, after)
		}
		if out.Same != (before == after) || (out.HTML == "") != out.Same {
			t.Fatalf("%.100q and %.100q are the same: %v, %.100q", before, after, out.Same, out.HTML)
		}
		if out.Same {
			continue
		}
		rows := requireHarmless(t, string(out.HTML), atom.Table)[0]
		if !out.Cut {
			requireRows(t, rows, before, after, split)
		}
	}
	return out
}

// requireRows applies rows to the text before, line by line. The result must be the text after, byte for byte.
func requireRows(t testing.TB, body *html.Node, before, after string, split bool) {
	t.Helper()
	a, b := newPatch(before, after)
	for row := range body.ChildNodes() {
		if row.Type != html.ElementNode {
			continue
		}
		if attribute(row, "class") == "fold" {
			n, _ := strconv.Atoi(strings.Fields(textOf([]*html.Node{row}))[0])
			for range n {
				b.lines = append(b.lines, a.next(t))
			}
			continue
		}
		var cells []*html.Node
		for cell := range row.ChildNodes() {
			cells = append(cells, cell)
		}
		oldNumber, newNumber, oldCell, newCell := cells[0], cells[1], cells[3], cells[3]
		if split {
			newNumber, oldCell = cells[2], cells[1]
		}
		old, removed := a.cell(t, row, oldNumber, oldCell)
		line, added := b.cell(t, row, newNumber, newCell)
		switch {
		case removed && a.next(t) != old:
			t.Fatalf("line %d is %q, want %q", a.at, old, a.lines[a.at-1])
		case added:
			b.lines = append(b.lines, line)
		}
	}
	if a.at != len(a.lines) {
		t.Fatalf("%d of %d lines are shown", a.at, len(a.lines))
	}
	if got := b.text(); got != b.want {
		t.Fatalf("the diff of %.500q makes %.500q, want %.500q", before, got, b.want)
	}
}

// patch is one side of a diff, line by line.
type patch struct {
	lines []string // with their ends
	at    int
	want  string
	ends  string // of its lines
}

// newPatch is a text to apply rows to, and the one to make of it. Line ends that are the same everywhere in both texts are
// not shown, and neither is a byte order mark that both have.
func newPatch(before, after string) (a, b *patch) {
	if strings.HasPrefix(before, "\ufeff") && strings.HasPrefix(after, "\ufeff") {
		before, after = before[3:], after[3:]
	}
	ends := "\n"
	if crlf := func(s string) bool { return strings.Count(s, "\n") == strings.Count(s, "\r\n") }; crlf(before) && crlf(after) {
		ends = "\r\n"
	}
	a, b = &patch{want: visibleNUL(before), ends: ends}, &patch{want: visibleNUL(after), ends: ends}
	a.lines = strings.SplitAfter(a.want, "\n")
	if last := len(a.lines) - 1; a.lines[last] == "" {
		a.lines = a.lines[:last]
	}
	return a, b
}

func visibleNUL(s string) string { return strings.ReplaceAll(s, "\x00", "\uFFFD") }

func (p *patch) next(t testing.TB) string {
	t.Helper()
	if p.at == len(p.lines) {
		t.Fatalf("there are more than %d lines", p.at)
	}
	p.at++
	return p.lines[p.at-1]
}

// cell is the line that a row has of a side, with its end.
func (p *patch) cell(t testing.TB, row, number, cell *html.Node) (line string, ok bool) {
	t.Helper()
	if attribute(number, "data-n") == "" {
		return "", false
	}
	end, class := p.ends, attribute(cell, "class")
	if next := row.NextSibling.NextSibling; next != nil && strings.Contains(attribute(next, "class"), "eof") {
		for below := range next.ChildNodes() {
			if attribute(below, "class") == class && textOf([]*html.Node{below}) == `\ No newline at end of file` {
				end = ""
			}
		}
	}
	return textOf([]*html.Node{cell}) + end, true
}

func (p *patch) text() string { return strings.Join(p.lines, "") }

func TestDiff(t *testing.T) {
	before := "one\ntwo\nthree\nfour\nfive\nsix\nseven\neight\nnine\nten\nx := \"old text\"\n"
	after := "one\ntwo\nthree\nfour\nfive\nsix\nseven\neight\nnine\nten\nx := \"new text\"\nlast"
	d := requireDiff(t, patient(), before, after, "go")
	want := `<tbody><tr class="fold"><td colspan="4">7 lines are the same</td></tr>
<tr><td class="n" data-n="8"></td><td class="n" data-n="8"></td><td class="sign"> </td><td class="text">eight</td></tr>
<tr><td class="n" data-n="9"></td><td class="n" data-n="9"></td><td class="sign"> </td><td class="text">nine</td></tr>
<tr><td class="n" data-n="10"></td><td class="n" data-n="10"></td><td class="sign"> </td><td class="text">ten</td></tr>
<tr class="gone"><td class="n" data-n="11"></td><td class="n"></td><td class="sign">-</td><td class="text">x := <span class="hs">&#34;</span><span class="hs mark">old</span><span class="hs"> text&#34;</span></td></tr>
<tr class="new"><td class="n"></td><td class="n" data-n="11"></td><td class="sign">+</td><td class="text">x := <span class="hs">&#34;</span><span class="hs mark">new</span><span class="hs"> text&#34;</span></td></tr>
<tr class="new"><td class="n"></td><td class="n" data-n="12"></td><td class="sign">+</td><td class="text">last</td></tr>
<tr class="new eof"><td class="n"></td><td class="n"></td><td class="sign"></td><td class="text">\ No newline at end of file</td></tr>
</tbody>`
	if string(d.HTML) != want {
		t.Errorf("the diff is\n%s\nwant\n%s", d.HTML, want)
	}
	if d.Added != 2 || d.Removed != 1 || d.Coarse || d.Cut {
		t.Errorf("%d added, %d removed, coarse %v, cut %v", d.Added, d.Removed, d.Coarse, d.Cut)
	}
}

func TestDiffsOfEdges(t *testing.T) {
	r := patient()
	many := strings.Repeat("line\n", 30)
	for _, c := range [][2]string{
		{"", ""},
		{"", "a"},
		{"a", ""},
		{"a", "a\n"},
		{"a\r\nb", "a\nb\n"},
		{"\n\n", "\n"},
		{"a", "b"},
		{many, many + "x"},
		{many, "x\n" + many},
		{many + "x\n" + many, many + "y\n" + many},
		{"a\nb\nc", "c\nb\na"},
		{"\u202e\x00", "\u202e\x01"},
		{"é世\n", "é界\n"},
		{"a b c d", "d c b a"},
	} {
		requireDiff(t, r, c[0], c[1], "")
	}
}

// The library stops to look after a hundred changes. Lines that are there once lead through a text with more.
func TestADiffOfManyChangesIsExact(t *testing.T) {
	var before, after strings.Builder
	for i := range 3000 {
		fmt.Fprintf(&before, "line %d\n", i)
		switch i % 10 {
		case 3:
			fmt.Fprintf(&after, "changed %d\n", i)
		case 7:
			fmt.Fprintf(&after, "line %d\n\n", i)
		default:
			fmt.Fprintf(&after, "line %d\n", i)
		}
	}
	d := requireDiff(t, patient(), before.String(), after.String(), "")
	if d.Coarse || d.Removed != 300 || d.Added != 600 {
		t.Errorf("%d added, %d removed, coarse %v", d.Added, d.Removed, d.Coarse)
	}
}

// Texts of few different lines in another order have no such lines, and their shortest diff takes a time that grows with
// their square.
func TestADiffThatWouldTakeLongIsCoarse(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	text := func() string {
		var out strings.Builder
		for range render.MaxLines {
			out.WriteString([]string{"}\n", "{\n", "\n", "return\n"}[random.IntN(4)])
		}
		return out.String()
	}
	if d := requireDiff(t, patient(), text(), text(), ""); !d.Coarse {
		t.Errorf("%d added, %d removed, and it is not coarse", d.Added, d.Removed)
	}
}

func TestADiffIsBounded(t *testing.T) {
	r := patient()
	line := strings.Repeat("x", 1023) + "\n"
	whole := strings.Repeat(line, render.DiffBytes/len(line))
	requireDiff(t, r, whole, "x", "")
	lines := strings.Repeat("\n", render.MaxLines)
	requireDiff(t, r, lines, "x", "")
	for name, text := range map[string]string{"bytes": whole + "x", "lines": lines + "x"} {
		if r.Diff(t.Context(), text, "x", "", false) != nil || r.Diff(t.Context(), "x", text, "", true) != nil {
			t.Errorf("a text with too many %s is compared", name)
		}
	}
	for _, text := range []string{strings.Repeat(strings.Repeat("\x00", 50)+"\n", 5000), strings.Repeat("\x00", render.DiffBytes)} {
		if d := requireDiff(t, r, "x", text, ""); !d.Cut || len(d.HTML) > 6<<20 {
			t.Errorf("cut is %v, and the page takes %d bytes", d.Cut, len(d.HTML))
		}
	}
}

func FuzzDiff(f *testing.F) {
	f.Add("a\nb\nc", "a\nc\nd", "go", uint16(0))
	f.Add(sample, strings.ReplaceAll(sample, "x", "y"), "html", uint16(3))
	f.Add("\ufeffa\r\nb \r\n", "a\nb\rcaf\u00e9", "", uint16(0))
	f.Add("\n\n\n", "\x00\r\n\u202e", "", uint16(300))
	r := render.New(render.Config{Concurrent: 2, Wait: patience, Deadline: patience})
	f.Fuzz(func(t *testing.T, before, after, language string, times uint16) {
		before, after = strings.ToValidUTF8(before, "?"), strings.ToValidUTF8(after, "?")
		n := int(times%400) + 1
		if n*len(before) > 1<<14 || n*len(after) > 1<<14 {
			n = 1
		}
		before, after = strings.Repeat(before, n), strings.Repeat(after, n)
		if len(before) < 1<<16 && len(after) < 1<<16 {
			requireDiff(t, r, before, after, language)
		}
	})
}

// Texts whose rows would take many times as much as they do.
func TestTheRowsOfADiffAreBounded(t *testing.T) {
	r := patient()
	for name, c := range map[string][2]string{
		"one line of CR":      {strings.Repeat("\r", 999_900) + "\n1\n", "\n1\n"},
		"one line of NEL":     {strings.Repeat("\u0085", 499_900) + "\n1\n", " \n1\n"},
		"many lines of CR":    {strings.Repeat("\r", 200_000), strings.Repeat("\n", 19_990)},
		"lines of tabs":       {strings.Repeat(strings.Repeat("\t", 999)+"\n", 490), strings.Repeat(strings.Repeat("\u00a0", 499)+"\n", 490)},
		"lines of long marks": {strings.Repeat(strings.Repeat("\t", 1990)+"\n", 490), strings.Repeat(strings.Repeat("\u00a0", 999)+"\n", 490)},
	} {
		for _, split := range []bool{true, false} {
			d := r.Diff(t.Context(), c[0], c[1], "", split)
			if d == nil || len(d.HTML) > 6<<20 {
				t.Errorf("%s, split %v: %v, %d bytes", name, split, d != nil, len(d.HTML))
			}
		}
	}
}
