package render

import (
	"bytes"
	"html"
	"strconv"
	"strings"
	"time"

	"github.com/yuin/goldmark/ast"
	extast "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/renderer"
	"github.com/yuin/goldmark/util"
)

// nodes renders the nodes of Markdown that goldmark would render unsafely for untrusted text, or against the page's policy.
type nodes struct {
	w   *worker
	ids headingIDs // of the document
}

func (n *nodes) option() renderer.Option {
	return renderer.WithNodeRenderers(util.Prioritized(n, 100)) // before goldmark's own
}

// RegisterFuncs implements renderer.NodeRenderer.
func (n *nodes) RegisterFuncs(to renderer.NodeRendererFuncRegisterer) {
	to.Register(ast.KindHeading, heading)
	to.Register(ast.KindLink, n.link)
	to.Register(ast.KindImage, n.image)
	to.Register(ast.KindAutoLink, n.autoLink)
	to.Register(ast.KindCodeBlock, n.code)
	to.Register(ast.KindFencedCodeBlock, n.code)
	to.Register(ast.KindHTMLBlock, n.html)
	to.Register(ast.KindRawHTML, rawHTML)
	to.Register(extast.KindTaskCheckBox, taskCheckBox)
	to.Register(extast.KindTable, n.table)
}

// put writes HTML. The writer is goldmark's, which keeps its first error for the end.
func put(w util.BufWriter, html string) { _, _ = w.WriteString(html) }

func heading(w util.BufWriter, _ []byte, node ast.Node, entering bool) (ast.WalkStatus, error) {
	level := strconv.Itoa(min(node.(*ast.Heading).Level+1, 6))
	if !entering {
		put(w, "</h"+level+">\n")
		return ast.WalkContinue, nil
	}
	put(w, "<h"+level)
	if id, ok := node.AttributeString("id"); ok {
		if id, ok := id.([]byte); ok {
			put(w, ` id="`+escapeID(string(id))+`"`)
		}
	}
	put(w, ">")
	return ast.WalkContinue, nil
}

// openLink writes <a> if the destination is allowed, and tells whether it did.
func (n *nodes) openLink(w util.BufWriter, destination []byte, class string) bool {
	address := string(util.URLEscape(destination, true))
	lower := strings.ToLower(address)
	switch {
	case strings.HasPrefix(address, "#") && len(address) > 1:
		put(w, `<a href="#`+idPrefix+html.EscapeString(fragment(n.ids.find(address[1:])))+`"`)
	case strings.HasPrefix(lower, "http://"), strings.HasPrefix(lower, "https://"), strings.HasPrefix(lower, "mailto:"):
		put(w, `<a href="`+html.EscapeString(address)+`" rel="nofollow noopener noreferrer ugc"`)
	default:
		return false
	}
	if class != "" {
		put(w, ` class="`+class+`"`)
	}
	put(w, ">")
	return true
}

// link renders a link, or just its text if the destination is not allowed.
func (n *nodes) link(w util.BufWriter, _ []byte, node ast.Node, entering bool) (ast.WalkStatus, error) {
	to := node.(*ast.Link)
	if entering {
		if !n.openLink(w, to.Destination, "") {
			to.Destination = nil
		}
	} else if to.Destination != nil {
		put(w, "</a>")
	}
	return ast.WalkContinue, nil
}

// image renders an image as a link, or as text within a link.
func (n *nodes) image(w util.BufWriter, source []byte, node ast.Node, entering bool) (ast.WalkStatus, error) {
	if !entering {
		return ast.WalkContinue, nil
	}
	img := node.(*ast.Image)
	label := plainText(node, source)
	if label == "" {
		label = string(img.Destination)
	}
	linked := !inLink(node) && !bytes.HasPrefix(img.Destination, []byte("#")) && n.openLink(w, img.Destination, "image")
	put(w, html.EscapeString(label))
	if linked {
		put(w, "</a>")
	}
	return ast.WalkSkipChildren, nil
}

func inLink(node ast.Node) bool {
	for n := node.Parent(); n != nil; n = n.Parent() {
		if n.Kind() == ast.KindLink {
			return true
		}
	}
	return false
}

func (n *nodes) autoLink(w util.BufWriter, source []byte, node ast.Node, entering bool) (ast.WalkStatus, error) {
	if !entering {
		return ast.WalkContinue, nil
	}
	to := node.(*ast.AutoLink)
	address := to.URL(source)
	if to.AutoLinkType == ast.AutoLinkEmail && !bytes.HasPrefix(bytes.ToLower(address), []byte("mailto:")) {
		address = append([]byte("mailto:"), address...)
	}
	linked := n.openLink(w, address, "")
	put(w, html.EscapeString(string(to.Label(source))))
	if linked {
		put(w, "</a>")
	}
	return ast.WalkContinue, nil
}

func (n *nodes) code(w util.BufWriter, source []byte, node ast.Node, entering bool) (ast.WalkStatus, error) {
	if !entering {
		return ast.WalkContinue, nil
	}
	language := ""
	if fenced, ok := node.(*ast.FencedCodeBlock); ok {
		language = string(fenced.Language(source))
	}
	n.writeCode(w, blockText(node, source), language)
	return ast.WalkSkipChildren, nil
}

func blockText(node ast.Node, source []byte) string {
	var out strings.Builder
	lines := node.Lines()
	for i := range lines.Len() {
		line := lines.At(i)
		out.Write(line.Value(source))
	}
	return out.String()
}

func (n *nodes) writeCode(w util.BufWriter, code, language string) {
	put(w, `<pre class="code" tabindex="0"><code>`)
	if lines := n.w.codeBlock(code, language); lines != nil {
		for _, line := range lines {
			put(w, string(append(appendPieces(nil, line), '\n')))
		}
	} else {
		put(w, string(appendVisible(nil, code)))
	}
	put(w, "</code></pre>\n")
}

// codeBlock is the highlighted lines of a code block, nil if it stays plain. Its time counts toward the document's.
func (w *worker) codeBlock(code, language string) (lines [][]piece) {
	if code == "" || !highlightable(code) {
		return nil
	}
	lexer := w.languages.lexer(language)
	if lexer == "" {
		return nil
	}
	until := w.deadline
	defer func() {
		if recover() != nil {
			lines = nil
		}
		w.deadline = until
	}()
	lines, err := w.tokens(lexer, code, min(codeBlockTime(w.limit), time.Until(until)))
	if err != nil {
		return nil
	}
	return lines
}

// html shows a block of HTML as code, without comments.
func (n *nodes) html(w util.BufWriter, source []byte, node ast.Node, entering bool) (ast.WalkStatus, error) {
	if !entering {
		return ast.WalkContinue, nil
	}
	block := node.(*ast.HTMLBlock)
	code := blockText(block, source)
	if block.HasClosure() {
		code += string(block.ClosureLine.Value(source))
	}
	if block.HTMLBlockType != ast.HTMLBlockType2 {
		n.writeCode(w, code, "html")
	}
	return ast.WalkContinue, nil
}

func rawHTML(w util.BufWriter, source []byte, node ast.Node, entering bool) (ast.WalkStatus, error) {
	if entering {
		segments := node.(*ast.RawHTML).Segments
		for i := range segments.Len() {
			segment := segments.At(i)
			put(w, html.EscapeString(string(segment.Value(source))))
		}
	}
	return ast.WalkSkipChildren, nil
}

// taskCheckBox is not an <input>, since it can't be changed.
func taskCheckBox(w util.BufWriter, _ []byte, node ast.Node, entering bool) (ast.WalkStatus, error) {
	if entering {
		box := "☐"
		if node.(*extast.TaskCheckBox).IsChecked {
			box = "☑"
		}
		put(w, `<span class="task">`+box+"</span> ")
	}
	return ast.WalkContinue, nil
}

// table wraps a table so that it can be scrolled by keyboard.
func (n *nodes) table(w util.BufWriter, _ []byte, _ ast.Node, entering bool) (ast.WalkStatus, error) {
	if entering {
		put(w, `<div class="scroll" tabindex="0"><table>`+"\n")
	} else {
		put(w, "</table></div>\n")
	}
	return ast.WalkContinue, nil
}
