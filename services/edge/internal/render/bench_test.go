package render_test

import (
	"context"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"quire.dev/services/edge/internal/render"
)

// bench is a Renderer that gives up nothing. Each text is another one, so that the cache answers none.
func bench() *render.Renderer {
	return render.New(render.Config{Concurrent: 1, Wait: time.Minute, Deadline: time.Minute, CacheBytes: 1 << 20})
}

func BenchmarkHighlight(b *testing.B) {
	source, err := os.ReadFile("diff.go")
	if err != nil {
		b.Fatal(err)
	}
	for _, c := range []struct{ name, language, text string }{
		{"go", "go", string(source)},
		{"plain", "", string(source)},
		{"plain-512KiB", "", strings.Repeat(strings.Repeat("x", 63)+"\n", 8<<10)},
		{"one-line-512KiB", "go", strings.Repeat("x", 512<<10)},
	} {
		b.Run(c.name, func(b *testing.B) {
			r := bench()
			r.Text(b.Context(), "x", c.language) // compiles the lexer
			b.SetBytes(int64(len(c.text)))
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if text := r.Text(b.Context(), c.text+strconv.Itoa(i), c.language); len(text.HTML()) < len(c.text) {
					b.Fatal("a part of the text is missing")
				}
			}
		})
	}
}

func BenchmarkHighlightCached(b *testing.B) {
	r := bench()
	text := strings.Repeat("func main() { return }\n", 500)
	r.Text(b.Context(), text, "go")
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		if r.Text(b.Context(), text, "go").Plain {
			b.Fatal("it is plain")
		}
	}
}

func BenchmarkMarkdown(b *testing.B) {
	r := bench()
	text := strings.Repeat("# Heading\n\nA *paragraph* with [a link](https://example.com) and `code`.\n\n- one\n- two\n\n|a|b|\n|-|-|\n|1|2|\n\n", 100)
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if r.Markdown(b.Context(), text+strconv.Itoa(i)) == nil {
			b.Fatal("it is not rendered")
		}
	}
}

func BenchmarkDiff(b *testing.B) {
	var before, after strings.Builder
	for i := range 2000 {
		before.WriteString("line " + strconv.Itoa(i) + " of the text\n")
		if i%20 == 0 {
			after.WriteString("line " + strconv.Itoa(i) + " of the other text\n")
		} else {
			after.WriteString("line " + strconv.Itoa(i) + " of the text\n")
		}
	}
	for name, texts := range map[string][2]string{
		"lines": {before.String(), after.String()},
		"worst": {strings.Repeat("a\nb\n", 10_000), strings.Repeat("b\na\na\n", 6_000)},
	} {
		b.Run(name, func(b *testing.B) {
			r := bench()
			b.SetBytes(int64(len(texts[0]) + len(texts[1])))
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if r.Diff(context.Background(), texts[0], texts[1]+strconv.Itoa(i), "", false) == nil {
					b.Fatal("they are not compared")
				}
			}
		})
	}
}
