package snippets

import (
	"net/http"
	"strings"
	"testing"

	"golang.org/x/net/html"
)

// block is a <pre> of a page.
type block struct {
	language string // of the reference's snippets and the guides'
	snippet  string // operation of the reference's snippets
	text     string
}

// page gets a page of the documentation through the proxy.
func (i *instance) page(t *testing.T, path string) *html.Node {
	t.Helper()
	res, err := http.Get(i.direct + path)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	root, err := html.Parse(res.Body)
	if err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("%s: %d %v", path, res.StatusCode, err)
	}
	return root
}

// links are the paths below prefix that a page has links to, without their fragments, each once and in their order.
func links(root *html.Node, prefix string) []string {
	var out []string
	seen := make(map[string]bool)
	for n := range root.Descendants() {
		if n.Type != html.ElementNode || n.Data != "a" {
			continue
		}
		path, _, _ := strings.Cut(attribute(n, "href"), "#")
		if strings.HasPrefix(path, prefix) && !seen[path] {
			seen[path] = true
			out = append(out, path)
		}
	}
	return out
}

func blocks(root *html.Node) []block {
	var out []block
	for n := range root.Descendants() {
		if n.Type != html.ElementNode || n.Data != "pre" {
			continue
		}
		b := block{language: attribute(n, "data-language"), snippet: attribute(n, "data-snippet"), text: text(n)}
		if code := n.FirstChild; b.language == "" && code != nil && code.Data == "code" {
			b.language = strings.TrimPrefix(attribute(code, "class"), "language-")
		}
		out = append(out, b)
	}
	return out
}

func attribute(n *html.Node, name string) string {
	for _, a := range n.Attr {
		if a.Key == name {
			return a.Val
		}
	}
	return ""
}

func text(n *html.Node) string {
	var out strings.Builder
	for d := range n.Descendants() {
		if d.Type == html.TextNode {
			out.WriteString(d.Data)
		}
	}
	return out.String()
}
