package render_test

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// idsOf are the ids of headings, in order.
func idsOf(t testing.TB, markup string) []string {
	t.Helper()
	var out []string
	for _, root := range parse(t, markup, atom.Div) {
		for n := range descendants(root) {
			if id := attribute(n, "id"); id != "" {
				out = append(out, id)
			}
		}
	}
	return out
}

// hrefOf is where the first link leads.
func hrefOf(t testing.TB, markup string) string {
	t.Helper()
	for _, root := range parse(t, markup, atom.Div) {
		for n := range descendants(root) {
			if n.Type == html.ElementNode && n.Data == "a" {
				return attribute(n, "href")
			}
		}
	}
	return ""
}

// requireIDs fails unless ids are unique.
func requireIDs(t testing.TB, markup string) {
	t.Helper()
	ids := idsOf(t, markup)
	slices.Sort(ids)
	if n := len(ids); n != len(slices.Compact(ids)) {
		t.Fatalf("%d ids are not unique", n)
	}
}

func TestHeadingsHaveTheIDsOfGitHub(t *testing.T) {
	long := strings.Repeat("long ", 60) + "end"
	for _, c := range []struct {
		source string
		ids    []string
	}{
		{"# Hello World", []string{"hello-world"}},
		{"# a  b", []string{"a--b"}},
		{"# Q & A", []string{"q--a"}},
		{"# a - b", []string{"a---b"}},
		{"# C++ / C# (1.0)", []string{"c--c-10"}},
		{"# snake_case-and‿tie", []string{"snake_case-and‿tie"}},
		{"# -a-", []string{"-a-"}},
		{"# 🎉 Party", []string{"-party"}},
		{"# ❤️ heart", []string{"\ufe0f-heart"}},
		{"# :tada: x", []string{"tada-x"}},
		{"# en–dash a\u00a0b\tc", []string{"endash-abc"}},
		{"# हिन्दी में", []string{"हिन्दी-में"}},
		{"# தமிழ் மொழி", []string{"தமிழ்-மொழி"}},
		{"# ภาษาไทย", []string{"ภาษาไทย"}},
		{"# cafe\u0301 CAF\u00c9", []string{"cafe\u0301-caf\u00e9"}},
		{"# ПРИВЕТ Ⅷ x² ½ ①", []string{"привет-ⅷ-x--"}},
		{"# İstanbul", []string{"i\u0307stanbul"}},
		{"# [the link](https://example.com/x_y)", []string{"the-link"}},
		{"# [the ref][r]\n\n[r]: https://example.com", []string{"the-ref"}},
		{"# <https://example.com>", []string{"httpsexamplecom"}},
		{"# *a* __b__ ~~c~~ `d_e`", []string{"a-b-c-d_e"}},
		{"# `a  <b> &amp; \\*`", []string{"a--b-amp-"}},
		{"# a &amp; &#98; \\* \\&amp; \\_", []string{"a--b--amp-_"}},
		{"# ![logo](https://example.com/x.png) Title", []string{"-title"}},
		{"# <a name=\"x\"></a>Title", []string{"title"}},
		{"# Title ##", []string{"title"}},
		{"# " + long, []string{strings.ReplaceAll(long, " ", "-")}},
		{"First *line*\nsecond\n===", []string{"first-line-second"}},
		{"First line  \nsecond\\\nthird\n---", []string{"first-line-second-third"}},
		{"# a\n# a\n# a 1\n# a-1\n# a", []string{"a", "a-1", "a-1-1", "a-1-2", "a-2"}},
		{"# a-1\n# a\n# a", []string{"a-1", "a", "a-2"}},
		{"#\n# !\n# ?", []string{"", "-1", "-2"}},
		{"> # a\n\n- # a", []string{"a", "a-1"}},
		{"# __proto__\n# A\n# a", []string{"proto", "a", "a-1"}},
		{"# md-a\n# a", []string{"md-a", "a"}},
	} {
		got := idsOf(t, requireMarkdown(t, patient(), c.source))
		for i := range got {
			got[i] = strings.TrimPrefix(got[i], "md-")
		}
		if !slices.Equal(got, c.ids) {
			t.Errorf("%q has the ids %q, want %q", c.source, got, c.ids)
		}
	}
}

// A browser finds an id by the fragment of a link without its percent-encoding.
func TestLinksLeadToHeadings(t *testing.T) {
	for _, c := range []struct{ headings, link, id string }{
		{"# One two", "#one-two", "one-two"},
		{"# One two", "#One-Two", "one-two"},
		{"# One two", "#md-one-two", "one-two"},
		{"# md one\n# one", "#md-one", "md-one"},
		{"# Über uns", "#über-uns", "über-uns"},
		{"# Über uns", "#%C3%BCber-uns", "über-uns"},
		{"# Über uns", "#%C3%9Cber-uns", "über-uns"},
		{"# हिन्दी में", "#हिन्दी-में", "हिन्दी-में"},
		{"# 日本語", "#%e6%97%a5本語", "日本語"},
		{"# ❤️ heart", "#\ufe0f-heart", "\ufe0f-heart"},
		{"# a\n# a", "#a-1", "a-1"},
		{"# a", "#nothing", "nothing"},
		{"# a", "#%", "%"},
		{"# a", "#%FF", "\xff"},
	} {
		r := patient()
		href := hrefOf(t, requireMarkdown(t, r, "[x]("+c.link+")\n\n"+c.headings))
		got, err := url.PathUnescape(strings.TrimPrefix(href, "#md-"))
		if err != nil {
			got = strings.TrimPrefix(href, "#md-")
		}
		if got != c.id || !strings.HasPrefix(href, "#md-") {
			t.Errorf("%q leads to %q, want %q", c.link, href, c.id)
		}
	}
}

// The ids of many headings of one text, and of headings that say what others get, take a time that grows with the text.
func TestIDsOfManyHeadingsAreUnique(t *testing.T) {
	var same, taken strings.Builder
	for i := range 20_000 {
		same.WriteString("# a\n")
		if i%2 == 0 {
			fmt.Fprintf(&taken, "# a-%d\n", i/2)
		} else {
			taken.WriteString("# a\n")
		}
	}
	for _, source := range []string{same.String(), taken.String(), strings.Repeat("#\n", 20_000)} {
		got := requireMarkdown(t, patient(), source)
		requireIDs(t, got)
		if n := len(idsOf(t, got)); n < 20_000 {
			t.Errorf("%d ids", n)
		}
	}
}

func TestTaskMarkersNeedWhiteSpaceAndText(t *testing.T) {
	const open, done = `<li><span class="task">☐</span> `, `<li><span class="task">☑</span> `
	for _, c := range []struct{ source, has string }{
		{"- [ ] a", open + "a"},
		{"- [x] a", done + "a"},
		{"- [X] a", done + "a"},
		{"1. [x] a", done + "a"},
		{"* [x]\ta", done + "a"},
		{"- [x]   a", done + "a"},
		{"- [\t] a", open + "a"},
		{"- [x]\n  a", done + "a"},
		{"- [x] [a](https://e.example)", done + "<a "},
		{"- [x] (a)", done + "(a)"},
		{"- [x] a\n\n- b", `<p><span class="task">☑</span> a</p>`},
		{"- [x] a\n\n[x]: https://e.example", done + "a"},
		{"- [ ] *a*", open + "<em>a</em>"},
		{"- - [x] a", done + "a"},
		{"- [x](https://e.example)", `<li><a href="https://e.example"`},
		{"- [x][a]\n\n[a]: https://e.example", `<li><a href="https://e.example"`},
		{"- [x]\n\n[x]: https://e.example", `<li><a href="https://e.example"`},
		{"- [x](#a)", `<li><a href="#md-a"`},
		{"- [ ](#a)", `<li><a href="#md-a"`},
		{"- [x]a", "<li>[x]a"},
		{"- [ ]a", "<li>[ ]a"},
		{"- [x]", "<li>[x]<"},
		{"- [ ]  ", "<li>[ ]<"},
		{"- [x]\u00a0a", "<li>[x]\u00a0a"},
		{"- []  a", "<li>[]  a"},
		{"- [y] a", "<li>[y] a"},
		{"- [xx] a", "<li>[xx] a"},
		{"- [ x] a", "<li>[ x] a"},
		{"- a [x] b", "<li>a [x] b"},
		{"- \\[x] a", "<li>[x] a"},
		{"[x] a", "<p>[x] a</p>"},
		{"- > [x] a", "<p>[x] a</p>"},
		{"- # [x] a", "[x] a</h2>"},
		{"- a\n\n  [x] b", "<p>[x] b</p>"},
	} {
		got := requireMarkdown(t, patient(), c.source)
		if !strings.Contains(got, c.has) || strings.Contains(got, `class="task"`) != strings.Contains(c.has, `class="task"`) {
			t.Errorf("%q is\n%s\nwant\n%s", c.source, got, c.has)
		}
	}
}
