package reference

import (
	"bytes"
	"fmt"
	"html/template"
	"path"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/renderer"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"
)

// markdown renders the documentation's Markdown, without HTML. It is safe for concurrent use.
type markdown struct{ goldmark.Markdown }

func newMarkdown(h Highlight) markdown {
	return markdown{goldmark.New(
		goldmark.WithRendererOptions(renderer.WithNodeRenderers(util.Prioritized(codeRenderer{h}, 100))),
		goldmark.WithExtensions(extension.Table),
		goldmark.WithParserOptions(parser.WithAutoHeadingID(), parser.WithASTTransformers(util.Prioritized(linkMover{}, 100))),
	)}
}

// Highlight returns the lines of a text in a language as HTML. Without one, code stays plain.
type Highlight func(text, language string) []string

// code is a text as the inside of <pre>.
func (h Highlight) code(source, language string) template.HTML {
	inside := template.HTMLEscapeString(source)
	if h != nil {
		inside = strings.Join(h(source, language), "\n")
	}
	return template.HTML(`<code class="language-` + template.HTMLEscapeString(language) + `">` + inside + "</code>") //nolint:gosec // escaped
}

// codeRenderer renders code blocks that can be scrolled by keyboard.
type codeRenderer struct{ highlight Highlight }

// RegisterFuncs implements renderer.NodeRenderer.
func (c codeRenderer) RegisterFuncs(r renderer.NodeRendererFuncRegisterer) {
	r.Register(ast.KindFencedCodeBlock, func(w util.BufWriter, source []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		block := n.(*ast.FencedCodeBlock)
		var text strings.Builder
		for i := range block.Lines().Len() {
			line := block.Lines().At(i)
			text.Write(line.Value(source))
		}
		language := string(block.Language(source))
		_, err := w.WriteString(`<pre tabindex="0">` + string(c.highlight.code(strings.TrimSuffix(text.String(), "\n"), language)) + "</pre>\n")
		return ast.WalkContinue, err
	})
}

// block renders paragraphs.
func (m markdown) block(source string) template.HTML {
	var out bytes.Buffer
	if err := m.Convert([]byte(source), &out); err != nil {
		panic(fmt.Errorf("render Markdown: %w", err)) // writes to a buffer don't fail
	}
	return template.HTML(out.String()) //nolint:gosec // goldmark leaves HTML out
}

// inline renders a text without the <p> around a single paragraph.
func (m markdown) inline(source string) template.HTML {
	out := strings.TrimSpace(string(m.block(source)))
	if strings.Count(out, "<p>") == 1 && strings.HasPrefix(out, "<p>") && strings.HasSuffix(out, "</p>") {
		out = strings.TrimSuffix(strings.TrimPrefix(out, "<p>"), "</p>")
	}
	return template.HTML(out) //nolint:gosec // as in block
}

// heading is a heading of a text.
type heading struct {
	Level     int
	ID, Title string
	Text      string // below it, up to the next one
}

// headings are the headings of a text.
func (m markdown) headings(source string) []heading {
	src := []byte(source)
	var out []heading
	root := m.Parser().Parse(text.NewReader(src))
	for n := root.FirstChild(); n != nil; n = n.NextSibling() {
		h, ok := n.(*ast.Heading)
		if !ok {
			if len(out) > 0 {
				out[len(out)-1].Text += " " + plainText(n, src)
			}
			continue
		}
		id, _ := h.AttributeString("id")
		name, _ := id.([]byte)
		out = append(out, heading{Level: h.Level, ID: string(name), Title: plainText(h, src)})
	}
	return out
}

// plainText is a node's text without its markup.
func plainText(n ast.Node, src []byte) string {
	var out strings.Builder
	_ = ast.Walk(n, func(n ast.Node, entering bool) (ast.WalkStatus, error) { // its only errors are the function's
		if entering {
			switch n := n.(type) {
			case *ast.Text:
				out.Write(n.Segment.Value(src))
				if n.SoftLineBreak() || n.HardLineBreak() {
					out.WriteByte(' ')
				}
			case *ast.FencedCodeBlock:
				for i := range n.Lines().Len() {
					line := n.Lines().At(i)
					out.Write(line.Value(src))
				}
			}
			if n.Type() == ast.TypeBlock {
				out.WriteByte(' ')
			}
		}
		return ast.WalkContinue, nil
	})
	return strings.TrimSpace(out.String())
}

// linkMover rewrites links between files of the folder docs, which work in the repository, to the paths of their pages.
type linkMover struct{}

// Transform implements parser.ASTTransformer.
func (linkMover) Transform(doc *ast.Document, _ text.Reader, _ parser.Context) {
	_ = ast.Walk(doc, func(n ast.Node, entering bool) (ast.WalkStatus, error) { // as in plainText
		if link, ok := n.(*ast.Link); ok && entering {
			link.Destination = []byte(guideLink(string(link.Destination)))
		}
		return ast.WalkContinue, nil
	})
}

func guideLink(link string) string {
	if strings.Contains(link, ":") || strings.HasPrefix(link, "/") || strings.HasPrefix(link, "#") {
		return link
	}
	file, fragment, found := strings.Cut(link, "#")
	if found {
		fragment = "#" + fragment
	}
	switch name := path.Base(file); {
	case name == "errors.md":
		return errorsPath + fragment
	case path.Ext(name) == ".md":
		return guidesPath + strings.TrimSuffix(name, ".md") + fragment
	default:
		return docsPath + "/" + name + fragment
	}
}
