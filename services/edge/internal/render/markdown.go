package render

import (
	"bytes"
	"context"
	"html/template"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/renderer"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"
)

// Bounds of Markdown.
const (
	MarkdownBytes   = 256 << 10
	markdownNesting = 64      // of quotes and lists; deeper nesting is text
	delimiters      = 2000    // of emphasis in one block; the rest is text
	referenceLines  = 200     // of a paragraph that is searched for link references
	markdownNodes   = 100_000 // inline nodes, quotes, lists and list items
	idPrefix        = "md-"   // of heading ids, which then can't clash with ids of the page
)

// codeBlockTime is the time to highlight one code block: 100 ms of the default deadline.
func codeBlockTime(deadline time.Duration) time.Duration { return deadline / 10 }

// Document is rendered Markdown. Its headings start at <h2>.
type Document struct {
	HTML template.HTML
}

// Markdown renders CommonMark with GitHub's tables, strikethrough, task lists and bare links. HTML is shown as text. Links
// lead to http, https and mailto URLs, or to a heading. Images become links, since loading one would reveal the reader to
// its host.
//
// It returns nil if the text is larger than MarkdownBytes, has more than MaxLines, or takes too long.
func (r *Renderer) Markdown(ctx context.Context, source string) *Document {
	if len(source) > MarkdownBytes || countLines(source) > MaxLines || !utf8.ValidString(source) {
		return nil
	}
	source = withoutCR(withoutBOM(source))
	found := r.once(ctx, &job{Kind: jobMarkdown, Text: source})
	if found == nil {
		return nil
	}
	return found.Document
}

// markdown panics with gaveUp at the deadline.
func (w *worker) markdown(source []byte) []byte {
	m := goldmark.New(
		goldmark.WithExtensions(
			extension.Linkify,
			boundedTables{w},
		),
		goldmark.WithParser(parser.NewParser(
			parser.WithBlockParsers(w.blockParsers()...),
			parser.WithInlineParsers(w.inlineParsers()...),
			parser.WithParagraphTransformers(util.Prioritized(shortReferences{}, 100)),
		)),
	)
	n := &nodes{w: w, ids: make(headingIDs)}
	m.Renderer().AddOptions(n.option(), renderer.WithNodeRenderers(util.Prioritized(extension.NewStrikethroughHTMLRenderer(), 500)))
	var out bytes.Buffer
	root := m.Parser().Parse(checkedReader{text.NewReader(source), w.check})
	if err := n.ids.assign(root, source, w.check); err != nil {
		panic(gaveUp{})
	}
	if err := m.Renderer().Render(checkedWriter{&out, w.check}, source, root); err != nil {
		panic(gaveUp{})
	}
	return markInvisible(out.Bytes())
}

// checkedReader checks the deadline on each line.
type checkedReader struct {
	text.Reader
	check func()
}

func (r checkedReader) PeekLine() ([]byte, text.Segment) {
	r.check()
	return r.Reader.PeekLine()
}

// checkedWriter checks the deadline and the size on each write.
type checkedWriter struct {
	out   *bytes.Buffer
	check func()
}

func (w checkedWriter) Write(p []byte) (int, error) {
	w.check()
	if w.out.Len()+len(p) > maxHTMLBytes {
		panic(gaveUp{})
	}
	return w.out.Write(p)
}

func (w *worker) blockParsers() []util.PrioritizedValue {
	out := parser.DefaultBlockParsers()
	for i := range out {
		switch out[i].Priority {
		case 300, 800: // lists and quotes
			out[i].Value = &shallowParser{out[i].Value.(parser.BlockParser), w}
		}
	}
	return out
}

// shallowParser parses nested blocks to a bounded depth. Deep nesting would take quadratic time.
type shallowParser struct {
	parser.BlockParser
	w *worker
}

// Open implements parser.BlockParser.
func (s *shallowParser) Open(parent ast.Node, reader text.Reader, pc parser.Context) (ast.Node, parser.State) {
	depth := 0
	for n := parent; n != nil; n = n.Parent() {
		if depth++; depth > markdownNesting {
			return nil, parser.NoChildren
		}
	}
	node, state := s.BlockParser.Open(parent, reader, pc)
	if node != nil {
		s.w.count()
	}
	return node, state
}

// shortReferences finds link references in short paragraphs: goldmark takes quadratic time in the number of lines.
type shortReferences struct{}

// Transform implements parser.ParagraphTransformer.
func (shortReferences) Transform(node *ast.Paragraph, reader text.Reader, pc parser.Context) {
	if node.Lines().Len() <= referenceLines {
		parser.LinkReferenceParagraphTransformer.Transform(node, reader, pc)
	}
}

func (w *worker) inlineParsers() []util.PrioritizedValue {
	const emphasis = 500 // the priority of its parser
	out := append(parser.DefaultInlineParsers(), util.Prioritized(extension.NewStrikethroughParser(), emphasis),
		util.Prioritized(taskMarkers{}, 0)) // before links
	for i := range out {
		p := checkedParser{out[i].Value.(parser.InlineParser), w}
		if out[i].Priority == emphasis {
			out[i].Value = &fewDelimiters{checkedParser: p}
		} else if closer, ok := out[i].Value.(parser.CloseBlocker); ok {
			out[i].Value = checkedCloser{p, closer}
		} else {
			out[i].Value = p
		}
	}
	return out
}

// fewDelimiters bounds the delimiters in a block: goldmark matches them in quadratic time, without calling a parser that
// could check the deadline.
type fewDelimiters struct {
	checkedParser
	block ast.Node
	found int
}

// Parse implements parser.InlineParser.
func (p *fewDelimiters) Parse(parent ast.Node, block text.Reader, pc parser.Context) ast.Node {
	if parent != p.block {
		p.block, p.found = parent, 0
	}
	if p.found == delimiters {
		return nil
	}
	node := p.checkedParser.Parse(parent, block, pc)
	if node != nil {
		p.found++
	}
	return node
}

// checkedParser checks the deadline on each attempt and counts what it finds.
type checkedParser struct {
	parser.InlineParser
	w *worker
}

// Parse implements parser.InlineParser.
func (p checkedParser) Parse(parent ast.Node, block text.Reader, pc parser.Context) ast.Node {
	p.w.check()
	node := p.InlineParser.Parse(parent, block, pc)
	if node != nil {
		p.w.count()
	}
	return node
}

type checkedCloser struct {
	checkedParser
	parser.CloseBlocker
}

// markInvisible marks the invisible characters between the tags of HTML. It skips attributes and existing marks.
func markInvisible(html []byte) []byte {
	s := string(html)
	if !hasInvisible(strings.ReplaceAll(s, "\n", "")) {
		return html
	}
	var out []byte
	for s != "" {
		tag := strings.IndexByte(s, '<')
		if tag < 0 {
			tag = len(s)
		}
		out = appendMarks(out, s[:tag])
		s = s[tag:]
		end := strings.IndexByte(s, '>') + 1
		if strings.HasPrefix(s, "<bdi ") {
			end = strings.Index(s, "</bdi>") + len("</bdi>")
		} else if strings.HasPrefix(s, "<") {
			out = append(out, visibleAttributes(s[:end])...)
			s = s[end:]
			continue
		}
		out = append(out, s[:end]...)
		s = s[end:]
	}
	return out
}

// appendMarks is appendVisible for escaped text.
func appendMarks(to []byte, s string) []byte {
	before := rune(-1)
	for i, r := range s {
		if r != '\t' && r != '\n' && invisible(before, r, s[min(i+utf8.RuneLen(r), len(s)):]) {
			to = appendMark(to, r)
			r = marked
		} else {
			to = utf8.AppendRune(to, r)
		}
		before = r
	}
	return to
}

func visibleAttributes(tag string) string {
	if !hasInvisible(tag) {
		return tag
	}
	return VisibleText(tag)
}
