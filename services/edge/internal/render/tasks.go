package render

import (
	"github.com/yuin/goldmark/ast"
	extast "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"
)

// taskMarkers parses [ ] and [x] at the beginning of a list item. White space and then text must follow: [x](url) is a link.
type taskMarkers struct{}

// Trigger implements parser.InlineParser.
func (taskMarkers) Trigger() []byte { return []byte{'['} }

// Parse implements parser.InlineParser.
func (taskMarkers) Parse(parent ast.Node, block text.Reader, _ parser.Context) ast.Node {
	item := parent.Parent()
	if item == nil || item.Kind() != ast.KindListItem || item.FirstChild() != parent || parent.HasChildren() {
		return nil
	}
	if k := parent.Kind(); k != ast.KindParagraph && k != ast.KindTextBlock {
		return nil
	}
	line, segment := block.PeekLine()
	if len(line) < 4 || line[0] != '[' || line[2] != ']' || !util.IsSpace(line[3]) {
		return nil
	}
	mark := line[1]
	if mark != 'x' && mark != 'X' && mark != ' ' && mark != '\t' {
		return nil
	}
	lines := parent.Lines()
	if last := lines.At(lines.Len() - 1); util.IsBlank(line[3:]) && last.Stop <= segment.Stop {
		return nil
	}
	block.Advance(3 + util.TrimLeftSpaceLength(line[3:]))
	return extast.NewTaskCheckBox(mark == 'x' || mark == 'X')
}
