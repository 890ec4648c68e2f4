package render_test

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html/atom"

	"quire.dev/services/edge/internal/render"
)

func requireMarkdown(t testing.TB, r *render.Renderer, source string) string {
	t.Helper()
	doc := r.Markdown(context.Background(), source)
	if doc == nil {
		t.Fatalf("%.200q is not rendered", source)
	}
	requireHarmless(t, string(doc.HTML), atom.Div)
	return strings.TrimSpace(string(doc.HTML))
}

func TestMarkdown(t *testing.T) {
	const rel = ` rel="nofollow noopener noreferrer ugc"`
	r := patient()
	for _, c := range []struct{ name, source, html string }{
		{"paragraph", "a *b* **c** ~~d~~ `e`", "<p>a <em>b</em> <strong>c</strong> <del>d</del> <code>e</code></p>"},
		{"headings begin at 2", "# One\n\n###### Six", "<h2 id=\"md-one\">One</h2>\n<h6 id=\"md-six\">Six</h6>"},
		{"headings of one text", "# A b\n# A b\n# A b-1", "<h2 id=\"md-a-b\">A b</h2>\n<h2 id=\"md-a-b-1\">A b</h2>\n<h2 id=\"md-a-b-1-1\">A b-1</h2>"},
		{"headings in other scripts", "# Über “uns” 日本", "<h2 id=\"md-über-uns-日本\">Über “uns” 日本</h2>"},
		{"link to a heading", "[x](#one)", `<p><a href="#md-one">x</a></p>`},
		{"link", "[x](https://example.com/a?b=1&c=2 \"title\")", `<p><a href="https://example.com/a?b=1&amp;c=2"` + rel + `>x</a></p>`},
		{"mail", "[x](mailto:a@example.com)", `<p><a href="mailto:a@example.com"` + rel + `>x</a></p>`},
		{"bare links", "www.example.com and <https://example.com>", `<p><a href="http://www.example.com"` + rel + `>www.example.com</a> and <a href="https://example.com"` + rel + `>https://example.com</a></p>`},
		{"script link", "[x](javascript:alert(1)) [y](JaVaScRiPt:alert(1)) [z](java\nscript:x)", "<p>x y [z](java\nscript:x)</p>"},
		{"other schemes", "[a](data:text/html,x) [b](vbscript:x) [c](file:///etc/passwd) <ftp://x.example> <javascript:alert(1)>", "<p>a b c ftp://x.example javascript:alert(1)</p>"},
		{"escaped scheme", "[x](&#106;avascript:alert(1)) [y](%6aavascript:x) [z](\\javascript:x)", "<p>x y z</p>"},
		{"relative link", "[x](/console) [y](//evil.example) [z](other.md)", "<p>x y z</p>"},
		{"image", "![a *b*](https://example.com/x.png)", `<p><a href="https://example.com/x.png"` + rel + ` class="image">a b</a></p>`},
		{"image in a link", "[![a](https://e.example/x.png)](https://example.com)", `<p><a href="https://example.com"` + rel + `>a</a></p>`},
		{"image of a script", "![a](javascript:alert(1)) ![](data:image/png;base64,x)", "<p>a data:image/png;base64,x</p>"},
		{"table", "|a|b|\n|-|:-:|\n|1|2|", "<div class=\"scroll\" tabindex=\"0\"><table>\n<thead>\n<tr>\n<th>a</th>\n<th align=\"center\">b</th>\n</tr>\n</thead>\n<tbody>\n<tr>\n<td>1</td>\n<td align=\"center\">2</td>\n</tr>\n</tbody>\n</table></div>"},
		{"tasks", "- [x] a\n- [ ] b", "<ul>\n<li><span class=\"task\">☑</span> a</li>\n<li><span class=\"task\">☐</span> b</li>\n</ul>"},
		{"code", "```go\nif x { }\n```", "<pre class=\"code\" tabindex=\"0\"><code><span class=\"hk\">if</span> x { }\n</code></pre>"},
		{"code of no known language", "```x\" onload=y\n<b>\n```", "<pre class=\"code\" tabindex=\"0\"><code>&lt;b&gt;\n</code></pre>"},
		{"indented code", "    <b>\n", "<pre class=\"code\" tabindex=\"0\"><code>&lt;b&gt;\n</code></pre>"},
		{"HTML in a line", "a <b onclick=x>c</b> <img src=x>", "<p>a &lt;b onclick=x&gt;c&lt;/b&gt; &lt;img src=x&gt;</p>"},
		{"comment", "<!-- hidden -->\n\ntext", "<p>text</p>"},
		{"bidi", "a\u202eb `\u2066` &#x202e; [x\u202e](https://e.example/\u202e)", "<p>a<bdi class=\"ctl\" data-c=\"RLO\">\u202e</bdi>b <code><bdi class=\"ctl\" data-c=\"LRI\">\u2066</bdi></code> <bdi class=\"ctl\" data-c=\"RLO\">\u202e</bdi> " +
			`<a href="https://e.example/%E2%80%AE"` + rel + ">x<bdi class=\"ctl\" data-c=\"RLO\">\u202e</bdi></a></p>"},
		{"bidi in code", "```\n\u202ex\n```", "<pre class=\"code\" tabindex=\"0\"><code><bdi class=\"ctl\" data-c=\"RLO\">\u202e</bdi>x\n</code></pre>"},
	} {
		if got := requireMarkdown(t, r, c.source); got != c.html {
			t.Errorf("%s:\n%q is\n%s\nwant\n%s", c.name, c.source, got, c.html)
		}
	}
}

func TestHTMLInMarkdownIsShownAsCode(t *testing.T) {
	got := requireMarkdown(t, patient(), "<script>\nalert(1)\n</script>\n\n<div onclick=\"x\">\n*a*\n</div>\n")
	if text := textOf(parse(t, got, atom.Div)); !strings.Contains(text, "<script>\nalert(1)\n</script>") || !strings.Contains(text, "<div onclick=\"x\">") {
		t.Errorf("the text is %q", text)
	}
}

// The corpus is what is usually tried against pages that show Markdown.
func TestNothingOfTheCorpusComesThrough(t *testing.T) {
	r := patient()
	corpus, err := os.ReadFile("testdata/xss.txt")
	if err != nil {
		t.Fatal(err)
	}
	vectors := strings.Split(strings.TrimSpace(string(corpus)), "\n%%\n")
	if len(vectors) < 40 {
		t.Fatalf("the corpus has only %d vectors", len(vectors))
	}
	for _, v := range vectors {
		requireMarkdown(t, r, v)
		requireMarkdown(t, r, "- > "+v)
		for _, language := range []string{"html", "markdown", "javascript", "svg", "php", ""} {
			requireText(t, r, v, language)
		}
		if table := r.Table(t.Context(), "a,b\n"+v); table != nil {
			requireHarmless(t, string(table.HTML), atom.Div)
		}
		requireDiff(t, r, v, strings.ToUpper(v), "html")
	}
}

func TestMarkdownIsBounded(t *testing.T) {
	r := patient()
	text := strings.Repeat(strings.Repeat("word ", 20)+"\n\n", render.MarkdownBytes/102)
	text += strings.Repeat("x", render.MarkdownBytes-len(text))
	requireMarkdown(t, r, text)
	if r.Markdown(t.Context(), text+"x") != nil {
		t.Error("a text of one byte more is rendered")
	}
	if requireMarkdown(t, r, strings.Repeat("x\n", render.MaxLines)); r.Markdown(t.Context(), strings.Repeat("x\n", render.MaxLines+1)) != nil {
		t.Error("a text of one line more is rendered")
	}
	if requireMarkdown(t, r, strings.Repeat("<a>", 50_000)+strings.Repeat("\n<b>", 100)); r.Markdown(t.Context(), strings.Repeat("`a`\n`b`", 25_000)) != nil {
		t.Error("a text of more nodes is rendered")
	}
	if got := requireMarkdown(t, r, strings.Repeat("> ", 1000)+"x"); strings.Count(got, "<blockquote>") > 70 {
		t.Errorf("%d quotes are in each other", strings.Count(got, "<blockquote>"))
	}
}

func TestTablesInMarkdownAreBounded(t *testing.T) {
	r := patient()
	table := func(columns, rows int) string {
		return strings.Repeat("|a", columns) + "|\n" + strings.Repeat("|-", columns) + "|\n" + strings.Repeat("b\n", rows) + "\n"
	}
	for name, c := range map[string]struct {
		source string
		tables int
	}{
		"as wide as may be":           {table(render.TableColumns, 1), 1},
		"one column more":             {table(render.TableColumns+1, 1), 0},
		"as many cells as may be":     {table(render.TableColumns, render.TableRows), 1},
		"one row more":                {table(render.TableColumns, render.TableRows+1), 0},
		"long and narrow":             {table(2, 10*render.TableRows), 1},
		"some beside those too large": {table(2, 3) + table(render.TableColumns, render.TableRows) + table(2, 3), 2},
		"many small ones":             {strings.Repeat(table(render.TableColumns, 3), 1000), 200},
		"without outer bars":          {strings.TrimSuffix(strings.Repeat("a|", 51), "|") + "\n" + strings.TrimSuffix(strings.Repeat("-|", 51), "|") + "\nb\n", 0},
		"in quotes and lists":         {"> - " + strings.ReplaceAll(table(60, 2), "\n", "\n>   "), 0},
	} {
		got := requireMarkdown(t, r, c.source)
		if n := strings.Count(got, "<table>"); n != c.tables || strings.Count(got, "<td>") > 50_100 {
			t.Errorf("%s: %d tables with %d cells, want %d tables", name, n, strings.Count(got, "<td>"), c.tables)
		}
	}
}

// Texts whose parsing takes a time that grows with their square, in one library or another. They end by the deadline.
func TestSlowMarkdownIsGivenUp(t *testing.T) {
	r := render.New(render.Config{Concurrent: 1, Wait: patience, Deadline: 50 * time.Millisecond})
	for _, unit := range []string{
		"> ", "- ", "**a *b ", "_*", "[", "![", "[](", "a`", "a|b\n-|-\n", "[a]: b\n", "[^", "# \n", "a\n=\n", "* a\n  ", "~~a *b ", "*a_ ", "<a b='c' ",
	} {
		for _, source := range []string{strings.Repeat(unit, render.MarkdownBytes/len(unit)), strings.Repeat(unit, 20_000) + strings.Repeat("]", 20_000)} {
			if doc := r.Markdown(t.Context(), source); doc != nil {
				requireHarmless(t, string(doc.HTML), atom.Div)
			}
		}
		requireFree(t, r)
	}
}

func FuzzMarkdown(f *testing.F) {
	corpus, err := os.ReadFile("testdata/xss.txt")
	if err != nil {
		f.Fatal(err)
	}
	for v := range strings.SplitSeq(string(corpus), "\n%%\n") {
		f.Add(v)
	}
	f.Add("# a\n\n|a|\n|-|\n\n- [ ] x\n\n```go\n\u202e\n```\n[x](#a) ![y](http://z) <b>\n")
	r := render.New(render.Config{Concurrent: 2, Wait: time.Minute, Deadline: time.Second})
	f.Fuzz(func(t *testing.T, source string) {
		if doc := r.Markdown(context.Background(), source); doc != nil {
			requireHarmless(t, string(doc.HTML), atom.Div)
			requireIDs(t, string(doc.HTML))
		}
	})
}
