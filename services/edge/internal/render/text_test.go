package render_test

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/chroma/v2/lexers"
	"golang.org/x/net/html/atom"

	"quire.dev/services/edge/internal/render"
)

// sample has something for most lexers to get hold of.
const sample = "#!/bin/sh\n# comment\nfunc main() { /* x\n y */ a := \"str\\n\" + 'c' // y\n  if (x < 3 && y > 0x1F) { return 3.14; }\n}\r\n" +
	"<a href=\"x\">text</a>\n{{ foo }} <% bar %> <?php echo 1 ?>\n\n---\nkey: value\n- item [1]\n<script>alert(1)</script>\n" +
	"\tSELECT * FROM t WHERE a = 'b';\n```go\nx := `raw`\n```\n\"\"\"open\n\u202e\x00\x1b[0m\u00e9\u4e16"

func TestEveryLexerKeepsTheText(t *testing.T) {
	r := render.New(render.Config{Concurrent: 1, Wait: time.Minute, Deadline: time.Second})
	plain := 0
	for _, lexer := range lexers.GlobalLexerRegistry.Lexers {
		if requireText(t, r, sample, lexer.Config().Name).Plain {
			plain++
		}
	}
	if n := len(lexers.GlobalLexerRegistry.Lexers); n < 250 || plain > n/10 {
		t.Errorf("%d of %d lexers highlight nothing", plain, n)
	}
}

func TestTextIsHighlightedByNameAliasAndExtension(t *testing.T) {
	r := patient()
	for language, name := range map[string]string{
		"go": "Go", "Go": "Go", "GO": "Go", "golang": "Go", "main.go": "Go", "py": "Python", "python3": "Python", "js": "JavaScript",
		"ts": "TypeScript", "c++": "C++", "rs": "Rust", "yml": "YAML", "markdown": "Markdown", "md": "Markdown", "Dockerfile": "Docker",
		"sh": "Bash", "html": "HTML", "plaintext": "", "text": "", "txt": "", "klingon": "", "": "", strings.Repeat("x", 300): "",
	} {
		text := requireText(t, r, "if x == \"y\" { return 1 } # if\n", language)
		if text.Language != name {
			t.Errorf("%q is %q, want %q", language, text.Language, name)
		}
		if text.Plain != (name == "") {
			t.Errorf("%q: plain is %v", language, text.Plain)
		}
	}
}

func TestATokenOfManyLinesIsSplit(t *testing.T) {
	text := requireText(t, patient(), "a := `one\ntwo <b>\nthree`\n/* four\nfive */", "go")
	want := []string{
		`a := <span class="hs">` + "`one</span>", `<span class="hs">two &lt;b&gt;</span>`, `<span class="hs">three` + "`</span>",
		`<span class="hc">/* four</span>`, `<span class="hc">five */</span>`,
	}
	if got := strings.Join(text.Lines, "\n"); got != strings.Join(want, "\n") {
		t.Errorf("lines are\n%s\nwant\n%s", got, strings.Join(want, "\n"))
	}
}

func TestLinesHaveNumbersThatAreNotText(t *testing.T) {
	text := patient().Text(t.Context(), "one\n\nthree\n", "")
	if n := len(text.Lines); n != 3 {
		t.Fatalf("%d lines", n)
	}
	nodes := requireHarmless(t, string(text.HTML()), atom.Code)
	for i, n := range nodes {
		number := n.FirstChild
		want := "L" + strconv.Itoa(i+1)
		if attribute(n, "id") != want || attribute(number, "href") != "#"+want || number.FirstChild != nil {
			t.Errorf("line %d has id %s, and its number leads to %s and has text: %v",
				i+1, attribute(n, "id"), attribute(number, "href"), number.FirstChild != nil)
		}
	}
	if got := textOf(nodes); got != "one\n\nthree\n" {
		t.Errorf("the text is %q", got)
	}
}

func TestTextBeyondABoundIsPlain(t *testing.T) {
	r := patient()
	line := "x := 1 // y\n"
	for _, c := range []struct {
		name    string
		content string
		plain   bool
		cut     bool
	}{
		{"bytes at the bound", strings.Repeat(strings.Repeat(" ", 127)+"\n", render.HighlightBytes/128), false, false},
		{"one byte more", strings.Repeat(strings.Repeat(" ", 127)+"\n", render.HighlightBytes/128) + "x", true, false},
		{"line at the bound", "//" + strings.Repeat("y", render.HighlightLine-2) + "\n", false, false},
		{"line of one byte more", "//" + strings.Repeat("y", render.HighlightLine-1) + "\n", true, false},
		{"lines at the bound", strings.Repeat("x\n", render.MaxLines), false, false},
		{"one line more", strings.Repeat("x\n", render.MaxLines) + "x", false, true},
		{"plain lines beyond the bound", strings.Repeat(line, 300_000), true, true},
	} {
		text := requireText(t, r, c.content, "go")
		if text.Plain != c.plain || text.Cut != c.cut {
			t.Errorf("%s: plain %v, cut %v", c.name, text.Plain, text.Cut)
		}
		if c.cut && len(text.Lines) != render.MaxLines {
			t.Errorf("%s: %d lines", c.name, len(text.Lines))
		}
	}
}

// A page of characters that each take a mark is cut: it would be a hundred times as large as the text.
func TestThePageOfATextIsBounded(t *testing.T) {
	for _, content := range []string{strings.Repeat(strings.Repeat("\x00", 99)+"\n", 5000), strings.Repeat("é\x00", 1<<20), strings.Repeat("<", 4<<20)} {
		text := requireText(t, patient(), content, "")
		if size := len(text.HTML()); !text.Cut || size > 6<<20 {
			t.Errorf("cut is %v, and the page takes %d bytes", text.Cut, size)
		}
	}
}

func TestALexerThatNeverEndsIsStopped(t *testing.T) {
	r := render.New(render.Config{Concurrent: 1, Wait: time.Minute, Deadline: 50 * time.Millisecond})
	// chroma's lexer of Jungle goes round in this text without a token.
	if !requireText(t, r, sample, "jungle").Plain {
		t.Skip("chroma's lexer of Jungle ends now: find another that does not")
	}
	// The worker is free again, which it is not while a lexer runs.
	requireFree(t, r)
}

func TestATextIsPlainWhileAllWorkersAreBusy(t *testing.T) {
	r := render.New(render.Config{Concurrent: 1, Wait: time.Millisecond, Deadline: patience})
	release := render.Occupy(r)
	if !requireText(t, r, "x := 1", "go").Plain {
		t.Error("it is highlighted without a worker")
	}
	release()
	if requireText(t, r, "x := 1", "go").Plain {
		t.Error("it is plain although there is a worker: the result of a busy time was kept")
	}
}

func TestAContextThatEndedGetsPlainText(t *testing.T) {
	r := render.New(render.Config{Concurrent: 1, Wait: time.Minute, Deadline: patience})
	defer render.Occupy(r)()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if !r.Text(ctx, "x := 1", "go").Plain {
		t.Error("it is highlighted without a worker")
	}
}

func FuzzText(f *testing.F) {
	for _, language := range []string{"go", "html", "markdown", "bash", "php", "python", "http", "diff", "jungle", "svelte", "erb", "perl", "x", ""} {
		f.Add(sample, language)
		f.Add("\r\r\n\n\x00\u2028\ufeff<!--\x85-->&amp;&#x202e;", language)
		f.Add("\xff\xfe<", language)
	}
	r := render.New(render.Config{Concurrent: 2, Wait: time.Minute, Deadline: 100 * time.Millisecond})
	f.Fuzz(func(t *testing.T, content, language string) { requireText(t, r, content, language) })
}
