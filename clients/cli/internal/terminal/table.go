package terminal

import (
	"io"
	"os"
	"strings"
)

// Column is a column of a Table.
type Column struct {
	Name    string
	Right   bool // numbers
	Drop    int  // where the terminal is narrow, columns with a higher number are left out first; 0: never
	Shorten bool // its texts may be shortened, before columns are left out
}

// shortest is the number of columns to which a shortened text is cut at most, before others are left out.
const shortest = 12

// Table writes rows below each other. To a file that is no terminal it writes them whole, with a tab between two cells and
// without a head, for other programs.
type Table struct {
	columns []Column
	rows    [][]Cell
}

// Cell is a text of a table.
type Cell struct {
	Text   string
	Colour Colour // empty: none
}

// NewTable makes an empty table.
func NewTable(columns ...Column) *Table { return &Table{columns: columns} }

// Add adds a row, with a cell for each column. Control characters of its texts are shown as such.
func (t *Table) Add(cells ...Cell) {
	for i := range cells {
		cells[i].Text = Visible(cells[i].Text, false)
	}
	t.rows = append(t.rows, cells)
}

// Write writes the table.
func (t *Table) Write(term *Terminal, f *os.File) error {
	var b strings.Builder
	if !IsTerminal(f) {
		for _, row := range t.rows {
			for i, c := range row {
				if i > 0 {
					b.WriteByte('\t')
				}
				b.WriteString(c.Text)
			}
			b.WriteByte('\n')
		}
		_, err := io.WriteString(f, b.String())
		return err
	}
	paint := func(c Colour, text string) string { return term.Paint(f, c, text) }
	t.render(&b, Width(f), paint)
	_, err := io.WriteString(f, b.String())
	return err
}

// render lays the table out in a number of columns.
func (t *Table) render(b *strings.Builder, width int, paint func(Colour, string) string) {
	widths := t.fit(width)
	head := make([]Cell, len(t.columns))
	for i, c := range t.columns {
		head[i] = Cell{Text: c.Name, Colour: Bold}
	}
	last := 0
	for i, w := range widths {
		if w > 0 {
			last = i
		}
	}
	for _, row := range append([][]Cell{head}, t.rows...) {
		for i, c := range row {
			if widths[i] == 0 {
				continue
			}
			text := Cut(c.Text, widths[i])
			if i < last || t.columns[i].Right {
				text = pad(text, widths[i], t.columns[i].Right)
			}
			b.WriteString(paint(c.Colour, text))
			if i < last {
				b.WriteString(strings.Repeat(" ", gap))
			}
		}
		b.WriteByte('\n')
	}
}

const gap = 2 // blanks between two columns

// fit gives the width of each column; 0 for one that is left out.
func (t *Table) fit(width int) []int {
	widths := make([]int, len(t.columns))
	for i, c := range t.columns {
		widths[i] = Columns(c.Name)
		for _, row := range t.rows {
			widths[i] = max(widths[i], Columns(row[i].Text))
		}
	}
	for {
		excess := -gap - width
		for _, w := range widths {
			if w > 0 {
				excess += w + gap
			}
		}
		if excess <= 0 {
			return widths
		}
		if i := t.longest(widths); i >= 0 {
			widths[i] = max(shortest, widths[i]-excess)
			continue
		}
		drop := -1
		for i, c := range t.columns {
			if widths[i] > 0 && c.Drop > 0 && (drop < 0 || c.Drop > t.columns[drop].Drop) {
				drop = i
			}
		}
		if drop < 0 {
			return widths // what is left is needed, however narrow the terminal is
		}
		widths[drop] = 0
	}
}

// longest is the widest column that can be shortened further; -1: none.
func (t *Table) longest(widths []int) int {
	found := -1
	for i, c := range t.columns {
		if c.Shorten && widths[i] > shortest && (found < 0 || widths[i] > widths[found]) {
			found = i
		}
	}
	return found
}
