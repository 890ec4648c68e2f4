package report

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// Table compares systems, each of which has a column.
type Table struct {
	Columns []string `json:"columns"`
	Lines   []Line   `json:"lines"`
}

// Line has a figure for each column, or 0 where a system has none.
type Line struct {
	ID      string    `json:"id,omitempty"` // of a line that programs look up
	Title   string    `json:"title"`
	Figures []float64 `json:"figures"`
}

// negligible is the figure below which a line says nothing.
const negligible = 0.005

// Add adds a line, unless no system has a figure.
func (t *Table) Add(l Line) {
	if slices.ContainsFunc(l.Figures, func(f float64) bool { return f >= negligible }) {
		t.Lines = append(t.Lines, l)
	}
}

// Figure returns the figure of a line in a column, or 0 without one.
func (t Table) Figure(id, column string) float64 {
	line := slices.IndexFunc(t.Lines, func(l Line) bool { return l.ID == id })
	i := slices.Index(t.Columns, column)
	if line < 0 || i < 0 || i >= len(t.Lines[line].Figures) {
		return 0
	}
	return t.Lines[line].Figures[i]
}

func (t Table) markdown() string {
	lines := make([][]string, len(t.Lines))
	for i, l := range t.Lines {
		lines[i] = []string{l.Title}
		for _, f := range l.Figures {
			cell := ""
			if f >= negligible {
				cell = number(f)
			}
			lines[i] = append(lines[i], cell)
		}
	}
	return table(append([]string{""}, t.Columns...), "l"+strings.Repeat(">", len(t.Columns)), lines)
}

// table is a table of Markdown with columns of even width. align has a character for each column, and ">" aligns it right.
func table(head []string, align string, lines [][]string) string {
	widths := make([]int, len(head))
	for _, cells := range append([][]string{head}, lines...) {
		for i, c := range cells {
			widths[i] = max(widths[i], utf8.RuneCountInString(c), 3)
		}
	}
	var out strings.Builder
	write := func(cells []string) {
		for i, c := range cells {
			width := widths[i]
			if align[i] != '>' {
				width = -width
			}
			fmt.Fprintf(&out, "| %*s ", width, c)
		}
		out.WriteString("|\n")
	}
	rule := make([]string, len(head))
	for i, w := range widths {
		rule[i] = strings.Repeat("-", w)
		if align[i] == '>' {
			rule[i] = rule[i][1:] + ":"
		}
	}
	write(head)
	write(rule)
	for _, cells := range lines {
		write(cells)
	}
	return out.String()
}
