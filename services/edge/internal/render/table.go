package render

import (
	"context"
	"encoding/csv"
	"errors"
	"html/template"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Bounds of a table.
const (
	TableBytes   = 512 << 10
	TableRows    = 1000
	TableColumns = 50
	tableCell    = 2000 // bytes shown of a cell
)

// Table is CSV as an HTML table. The first line is the header.
type Table struct {
	HTML template.HTML
	Rows int  // without the header
	Cut  bool // not all of the text is shown
}

// Table reads values separated by commas, semicolons or tabs, whichever is most frequent in the first line. Of malformed text
// it shows what it could read. It returns nil if the first line has no separator, the text is larger than TableBytes, or it
// takes too long.
func (r *Renderer) Table(ctx context.Context, content string) *Table {
	if len(content) > TableBytes {
		return nil
	}
	found := r.once(ctx, &job{Kind: jobTable, Text: content})
	if found == nil {
		return nil
	}
	return found.Table
}

func (w *worker) table(content string) *Table {
	content = withoutBOM(content)
	first, _, _ := strings.Cut(content, "\n")
	reader := csv.NewReader(strings.NewReader(content))
	reader.Comma = separator(first)
	reader.LazyQuotes = true
	reader.FieldsPerRecord = -1
	reader.ReuseRecord = true
	head, err := reader.Read()
	if err != nil {
		return nil
	}
	out := &Table{}
	columns := min(len(head), TableColumns)
	html := append([]byte(nil), "<table><thead><tr>"...)
	html = out.appendRow(html, head, columns, "th")
	html = append(html, "</tr></thead>\n<tbody>\n"...)
	for {
		w.check()
		record, err := reader.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil || out.Rows == TableRows || len(html) > maxHTMLBytes {
			out.Cut = true
			break
		}
		out.Rows++
		html = append(html, "<tr>"...)
		html = out.appendRow(html, record, columns, "td")
		html = append(html, "</tr>\n"...)
	}
	out.HTML = template.HTML(append(html, "</tbody></table>"...)) //nolint:gosec // appendRow escapes
	return out
}

// separator is the character between the values of a line.
func separator(line string) rune {
	tabs, commas, semicolons := strings.Count(line, "\t"), strings.Count(line, ","), strings.Count(line, ";")
	switch {
	case tabs > 0 && tabs >= max(commas, semicolons):
		return '\t'
	case semicolons > commas:
		return ';'
	}
	return ','
}

// appendRow appends as many cells as the header has, at most TableColumns.
func (t *Table) appendRow(to []byte, cells []string, columns int, element string) []byte {
	if len(cells) > columns {
		t.Cut = true
		cells = cells[:columns]
	}
	for _, cell := range cells {
		to = append(append(to, '<'), element...)
		if element == "th" {
			to = append(to, ` scope="col"`...)
		} else if isNumber(cell) {
			to = append(to, ` class="number"`...)
		}
		to = append(to, '>')
		if len(cell) > tableCell {
			t.Cut = true
			cell = cell[:tableCell]
			for !utf8.ValidString(cell) && len(cell) > tableCell-utf8.UTFMax {
				cell = cell[:len(cell)-1]
			}
		}
		to = append(append(append(appendVisible(to, cell), "</"...), element...), '>')
	}
	for range columns - len(cells) {
		to = append(append(append(append(append(to, '<'), element...), "></"...), element...), '>')
	}
	return to
}

func isNumber(s string) bool {
	if s == "" || len(s) > 40 {
		return false
	}
	_, err := strconv.ParseFloat(strings.ReplaceAll(s, " ", ""), 64)
	return err == nil
}
