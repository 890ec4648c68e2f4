package render

import (
	"bytes"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/renderer"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"
)

// tableCells bounds the cells of all tables of a text: goldmark pads short rows, so that a few bytes can make many cells.
const tableCells = TableRows * TableColumns

// boundedTables is goldmark's table extension. Tables wider than TableColumns, or beyond tableCells in all, stay text.
type boundedTables struct{ w *worker }

// Extend implements goldmark.Extender.
func (b boundedTables) Extend(m goldmark.Markdown) {
	m.Parser().AddOptions(
		parser.WithParagraphTransformers(util.Prioritized(b, 200)),
		parser.WithASTTransformers(util.Prioritized(extension.NewTableASTTransformer(), 0)),
	)
	m.Renderer().AddOptions(renderer.WithNodeRenderers(util.Prioritized(
		extension.NewTableHTMLRenderer(extension.WithTableCellAlignMethod(extension.TableCellAlignAttribute)), 500, // the policy forbids style=
	)))
}

// Transform implements parser.ParagraphTransformer.
func (b boundedTables) Transform(node *ast.Paragraph, reader text.Reader, pc parser.Context) {
	b.w.check()
	lines, columns := node.Lines(), 0
	for i := 1; i < lines.Len(); i++ {
		line := lines.At(i)
		columns = max(columns, delimiterColumns(line.Value(reader.Source())))
	}
	cells := columns * lines.Len()
	if columns > TableColumns || b.w.cells+cells > tableCells+2*TableColumns { // two lines have no rows
		return
	}
	b.w.cells += cells
	extension.NewTableParagraphTransformer().Transform(node, reader, pc)
}

// delimiterColumns counts the columns of a table's delimiter line, 0 for any other line.
func delimiterColumns(line []byte) int {
	line = bytes.TrimSpace(line)
	if len(bytes.Trim(line, "|-: \t\v\f\r\n")) > 0 {
		return 0
	}
	line = bytes.TrimSuffix(bytes.TrimPrefix(line, []byte("|")), []byte("|"))
	return bytes.Count(line, []byte("|")) + 1
}
