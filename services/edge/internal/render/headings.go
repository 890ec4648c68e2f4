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

// headingIDs makes the ids of headings by GitHub's rule, so that links which work there work here. It has the ids that are
// taken, without idPrefix, each with the last number that was appended to it.
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

// add is an id that no other heading has. The numbers of an id only grow, so that the work for all ids is linear.
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

// find is the id, without its prefix, that a fragment means: itself, without idPrefix, or in lower case, since GitHub's pages
// don't tell cases apart. It is the fragment where no heading has such an id.
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

// headingText is what a heading says, on one line. Images and HTML are not text.
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

// escapeID is an id in an attribute. What can't be seen in it is a reference: the marks for such characters have no place
// in an id.
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

// fragment is what a link to an id has behind #.
func fragment(id string) string { return string(util.URLEscape([]byte(id), false)) }
