package render

import (
	"bufio"
	"html"
	"net/url"
	"strconv"
	"strings"
	"unicode"

	"github.com/yuin/goldmark/ast"
	renderhtml "github.com/yuin/goldmark/renderer/html"
	"github.com/yuin/goldmark/util"
)

// headingIDs generates ids of headings by GitHub's rules, so that links that work there work here. It maps the ids in use,
// without idPrefix, to the last number appended to each.
type headingIDs map[string]int

// assign gives each heading of a document its id.
func (ids headingIDs) assign(root ast.Node, source []byte, check func()) error {
	return ast.Walk(root, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering || n.Kind() != ast.KindHeading {
			return ast.WalkContinue, nil
		}
		check()
		n.SetAttributeString("id", []byte(idPrefix+ids.add(slug(headingText(n, source)))))
		return ast.WalkSkipChildren, nil
	})
}

// add generates a unique id. Numbers only grow, so that all ids take linear time.
func (ids headingIDs) add(id string) string {
	out := id
	for {
		if _, taken := ids[out]; !taken {
			ids[out] = 0
			return out
		}
		ids[id]++
		out = id + "-" + strconv.Itoa(ids[id])
	}
}

// find resolves a fragment to an id without prefix: the fragment itself, without idPrefix, or in lower case, since GitHub
// ignores case. It returns the fragment if no heading matches.
func (ids headingIDs) find(fragment string) string {
	decoded, err := url.PathUnescape(fragment)
	if err != nil {
		decoded = fragment
	}
	short := strings.TrimPrefix(decoded, idPrefix)
	for _, id := range []string{decoded, short, lower(decoded), lower(short)} {
		if _, ok := ids[id]; ok {
			return id
		}
	}
	return strings.TrimPrefix(fragment, idPrefix)
}

// slug is the id of a text: in lower case, without what is no letter, mark, number, connector, hyphen or space, and with a
// hyphen for each space. A line end in a heading counts as a space.
func slug(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ', r == '-':
			return '-'
		case unicode.In(r, unicode.Letter, unicode.Mark, unicode.Nd, unicode.Nl, unicode.Other_Alphabetic, unicode.Pc):
			return r
		}
		return -1
	}, lower(text))
}

// lower is a text in lower case. İ becomes two characters, as on GitHub, where Go's mapping has one for each.
func lower(text string) string {
	return strings.ToLower(strings.ReplaceAll(text, "İ", "i\u0307"))
}

// headingText is the text of a heading on one line, without images and HTML.
func headingText(heading ast.Node, source []byte) string {
	var out strings.Builder
	writeText(&out, heading, source, func(n ast.Node) bool { return n.Kind() == ast.KindImage })
	return out.String()
}

// plainText is the text in a node, on one line.
func plainText(node ast.Node, source []byte) string {
	var out strings.Builder
	writeText(&out, node, source, func(ast.Node) bool { return false })
	return out.String()
}

func writeText(out *strings.Builder, node ast.Node, source []byte, skip func(ast.Node) bool) {
	_ = ast.Walk(node, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		if skip(n) {
			return ast.WalkSkipChildren, nil
		}
		switch n := n.(type) {
		case *ast.Text:
			value := n.Segment.Value(source)
			if n.IsRaw() {
				out.WriteString(strings.ReplaceAll(string(value), "\n", " "))
			} else {
				out.WriteString(unescaped(value))
			}
			if n.SoftLineBreak() || n.HardLineBreak() {
				out.WriteByte(' ')
			}
		case *ast.String:
			out.Write(n.Value)
		case *ast.AutoLink:
			out.Write(n.Label(source))
		}
		return ast.WalkContinue, nil
	})
}

// unescaped is a text without the escapes and references of Markdown, as it is rendered.
func unescaped(text []byte) string {
	var out strings.Builder
	w := bufio.NewWriterSize(&out, len(text)+1)
	renderhtml.DefaultWriter.Write(w, text)
	_ = w.Flush()
	return html.UnescapeString(out.String())
}

// escapeID escapes an id for an attribute. It writes invisible characters as references, since the elements that mark them
// can't be in an id.
func escapeID(id string) string {
	if !hasInvisible(id) {
		return html.EscapeString(id)
	}
	var out strings.Builder
	for _, r := range id {
		if mayBeInvisible(r) {
			out.WriteString("&#" + strconv.Itoa(int(r)) + ";")
		} else {
			out.WriteString(html.EscapeString(string(r)))
		}
	}
	return out.String()
}

// fragment is the part after # in a link to an id.
func fragment(id string) string { return string(util.URLEscape([]byte(id), false)) }
