package render_test

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"

	"quire.dev/services/edge/internal/render"
)

// patience is a deadline for what must be rendered, however busy the machine is.
const patience = 5 * time.Minute

// patient is a Renderer that gives up only what never ends.
func patient() *render.Renderer {
	return render.New(render.Config{Concurrent: 2, Wait: patience, Deadline: patience})
}

// requireFree waits until the Renderer highlights a text again: one worker is free, and the machine lets it keep its deadline.
func requireFree(t testing.TB, r *render.Renderer) {
	t.Helper()
	end := time.Now().Add(patience)
	for n := 0; r.Text(t.Context(), fmt.Sprintf("x := %d", n), "go").Plain; n++ {
		if time.Now().After(end) {
			t.Fatal("the texts after it are plain")
		}
	}
}

// parse is HTML as a browser would have it inside of an element.
func parse(t testing.TB, markup string, in atom.Atom) []*html.Node {
	t.Helper()
	nodes, err := html.ParseFragment(strings.NewReader(markup), &html.Node{Type: html.ElementNode, Data: in.String(), DataAtom: in})
	if err != nil {
		t.Fatalf("parse %.200q: %v", markup, err)
	}
	return nodes
}

// textOf is the text that a reader can select.
func textOf(nodes []*html.Node) string {
	var out strings.Builder
	for _, n := range nodes {
		for d := range descendants(n) {
			if d.Type == html.TextNode {
				io.WriteString(&out, d.Data)
			}
		}
	}
	return out.String()
}

func descendants(n *html.Node) func(func(*html.Node) bool) {
	return func(yield func(*html.Node) bool) {
		if !yield(n) {
			return
		}
		for d := range n.Descendants() {
			if !yield(d) {
				return
			}
		}
	}
}

// allowed has the attributes of each element that the package may make.
func allowed() map[string][]string {
	return map[string][]string{
		"span": {"class", "id"}, "bdi": {"class", "data-c"}, "a": {"href", "rel", "class", "title", "data-n", "tabindex", "aria-hidden"},
		"h2": {"id"}, "h3": {"id"}, "h4": {"id"}, "h5": {"id"}, "h6": {"id"},
		"p": nil, "em": nil, "strong": nil, "del": nil, "br": nil, "hr": nil, "ul": nil, "ol": {"start"}, "li": nil, "blockquote": nil,
		"pre": {"class", "tabindex"}, "code": nil, "div": {"class", "tabindex"},
		"table": nil, "thead": nil, "tbody": nil, "tr": {"class"}, "th": {"align", "scope"}, "td": {"align", "class", "colspan", "data-n"},
	}
}

// requireHarmless fails for an element, attribute or address that the package must never make.
func requireHarmless(t testing.TB, markup string, in atom.Atom) []*html.Node {
	t.Helper()
	nodes, list := parse(t, markup, in), allowed()
	for _, root := range nodes {
		for n := range descendants(root) {
			switch n.Type {
			case html.TextNode:
				continue
			case html.ElementNode:
			default:
				t.Fatalf("a node of type %d in %.2000q", n.Type, markup)
			}
			attributes, ok := list[n.Data]
			if !ok {
				t.Fatalf("element %s in %.2000q", n.Data, markup)
			}
			for _, a := range n.Attr {
				if !slices.Contains(attributes, a.Key) {
					t.Fatalf("attribute %s=%q of %s in %.2000q", a.Key, a.Val, n.Data, markup)
				}
				checkValue(t, a)
			}
		}
	}
	return nodes
}

func checkValue(t testing.TB, a html.Attribute) {
	t.Helper()
	switch a.Key {
	case "href":
		if !strings.HasPrefix(a.Val, "#") && !hasScheme(a.Val, "http://", "https://", "mailto:") {
			t.Fatalf("a link leads to %q", a.Val)
		}
	case "id":
		if !strings.HasPrefix(a.Val, "md-") && !isLine(a.Val) {
			t.Fatalf("an id is %q", a.Val)
		}
	}
}

func attribute(n *html.Node, key string) string {
	for _, a := range n.Attr {
		if a.Key == key {
			return a.Val
		}
	}
	return ""
}

func hasScheme(address string, schemes ...string) bool {
	return slices.ContainsFunc(schemes, func(s string) bool { return strings.HasPrefix(strings.ToLower(address), s) })
}

func isLine(id string) bool {
	return strings.HasPrefix(id, "L") && strings.Trim(id[1:], "0123456789") == ""
}

// shown is what a browser shows of a text: it has no NUL and no byte order mark, and every line end is LF.
func shown(content string) string {
	content = strings.ReplaceAll(strings.TrimPrefix(strings.ToValidUTF8(content, "\uFFFD"), "\ufeff"), "\r\n", "\n")
	return strings.ReplaceAll(strings.TrimSuffix(content, "\n"), "\x00", "\uFFFD")
}

func requireText(t testing.TB, r *render.Renderer, content, language string) *render.Text {
	t.Helper()
	text := r.Text(context.Background(), content, language)
	nodes := requireHarmless(t, string(text.HTML()), atom.Code)
	if got, want := strings.TrimSuffix(textOf(nodes), "\n"), shown(content); !text.Cut && got != want {
		t.Fatalf("in %q the text is %.500q, want %.500q", language, got, want)
	}
	if !strings.HasPrefix(shown(content), strings.TrimSuffix(textOf(nodes), "\n")) {
		t.Fatalf("in %q the beginning is another text", language)
	}
	return text
}
