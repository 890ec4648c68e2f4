package render_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"quire.dev/services/edge/internal/render"
)

func command() []string { return []string{os.Args[0], "render"} }

// apart is a Renderer with processes of its own.
func apart(t testing.TB, cfg render.Config) *render.Renderer {
	t.Helper()
	cfg.Command, cfg.Wait = command(), patience
	r := render.New(cfg)
	t.Cleanup(r.Close)
	return r
}

func TestAProcessRendersTheSame(t *testing.T) {
	here, there := patient(), apart(t, render.Config{Deadline: patience})
	for _, text := range []string{"", "\n", "x", sample, "# a\n\n|a|\n|-|\n\n```go\nx := 1\n```\n", "a,b\n1,2\n", "<!-- -->", "a\r\nb"} {
		for _, language := range []string{"go", "html", "markdown", ""} {
			if got, want := there.Text(t.Context(), text, language), here.Text(t.Context(), text, language); !reflect.DeepEqual(got, want) {
				t.Errorf("%q in %q: %+v, want %+v", text, language, got, want)
			}
		}
		if got, want := there.Markdown(t.Context(), text), here.Markdown(t.Context(), text); !reflect.DeepEqual(got, want) || want == nil {
			t.Errorf("Markdown %q: %+v, want %+v", text, got, want)
		}
		if got, want := there.Table(t.Context(), text), here.Table(t.Context(), text); !reflect.DeepEqual(got, want) {
			t.Errorf("table %q: %+v, want %+v", text, got, want)
		}
		for _, split := range []bool{true, false} {
			for _, after := range []string{text, text + "y", "z"} {
				if got, want := there.Diff(t.Context(), text, after, "go", split), here.Diff(t.Context(), text, after, "go", split); !reflect.DeepEqual(got, want) || want == nil {
					t.Errorf("diff of %q and %q: %+v, want %+v", text, after, got, want)
				}
			}
		}
	}
}

// largest are texts at the bounds, of the kinds that take most.
func largest() map[string]func(t *testing.T, r *render.Renderer) bool {
	lines := func(line string, count int) string { return strings.Repeat(line+"\n", count) }
	numbered := func(from, count int) string {
		var out strings.Builder
		for i := range count {
			fmt.Fprintf(&out, "line %d of %d\n", from+i, count)
		}
		return out.String()
	}
	text := func(language, content string) func(*testing.T, *render.Renderer) bool {
		return func(t *testing.T, r *render.Renderer) bool { return !r.Text(t.Context(), content, language).Plain }
	}
	markdown := func(content string) func(*testing.T, *render.Renderer) bool {
		return func(t *testing.T, r *render.Renderer) bool { return r.Markdown(t.Context(), content) != nil }
	}
	diff := func(before, after string, split bool) func(*testing.T, *render.Renderer) bool {
		return func(t *testing.T, r *render.Renderer) bool {
			return r.Diff(t.Context(), before, after, "go", split) != nil
		}
	}
	return map[string]func(*testing.T, *render.Renderer) bool{
		"Go":     text("go", lines("	if x := f(1, \"two\"); x != nil { return }", render.HighlightBytes/42)),
		"HTML":   text("html", lines("<p class=\"x\">a &amp; b</p>", render.HighlightBytes/28)),
		"JSON":   text("json", lines("{\"a\": [1, 2, true, null]},", render.HighlightBytes/28)),
		"words":  markdown(lines("some *words* and `code` with [a link](https://example.com)\n", render.MarkdownBytes/62)),
		"lists":  markdown(lines("- a", render.MaxLines)),
		"tables": markdown(strings.Repeat("|a", 50) + "|\n" + strings.Repeat("|-", 50) + "|\n" + lines("b", render.TableRows)),
		"values": func(t *testing.T, r *render.Renderer) bool {
			return r.Table(t.Context(), lines("a,b,c,d,e,f,g,h,i,j", 25_000)) != nil
		},
		"other lines":    diff(numbered(0, 19_000), numbered(100_000, 19_000), false),
		"some lines":     diff(numbered(0, 19_000), numbered(500, 19_000), true),
		"many marks":     diff(lines(strings.Repeat("\t", 999), 490), lines(strings.Repeat("\u00a0", 499), 490), false),
		"long marks":     diff(strings.Repeat("\r", 999_900)+"\n1\n", "\n1\n", true),
		"two large ones": diff(lines(strings.Repeat("word ", 20), 10_000), lines(strings.Repeat("word ", 19)+"ward ", 10_000), true),
	}
}

func TestTheLargestTextsFitIntoAProcess(t *testing.T) {
	if testing.Short() {
		t.Skip("the race detector, which -short is for, takes memory of its own")
	}
	r := apart(t, render.Config{Deadline: patience, Concurrent: 1, Bytes: render.JobBytes})
	for name, done := range largest() {
		if !done(t, r) {
			t.Errorf("%s: it was given up", name)
		}
	}
}

func TestAProcessThatFailsCostsOnePageAlone(t *testing.T) {
	for name, cfg := range map[string]render.Config{
		"too much memory":   {Bytes: 6 << 20, Deadline: patience},
		"it hangs":          {Command: []string{os.Args[0], "hang"}, Deadline: 50 * time.Millisecond}, // whose end is a minute away
		"it ends":           {Command: []string{os.Args[0], "end"}},
		"it does not exist": {Command: []string{"/nonexistent/quire"}},
		"it talks nonsense": {Command: []string{"/bin/echo", "hello"}},
	} {
		t.Run(name, func(t *testing.T) {
			var log bytes.Buffer
			if cfg.Command == nil {
				cfg.Command = command()
			}
			cfg.Concurrent, cfg.Logger = 1, slog.New(slog.NewTextHandler(&log, nil))
			r := render.New(cfg)
			content := strings.Repeat("<p class=\"x\">a &amp; b</p>\n", 9000)
			if text := r.Text(t.Context(), content, "html"); !text.Plain || len(text.Lines) != 9000 {
				t.Fatalf("plain %v, %d lines", text.Plain, len(text.Lines))
			}
			if name == "too much memory" && r.Text(t.Context(), "{}", "json").Plain {
				t.Error("the next text is plain too")
			}
			r.Close()
			if !strings.Contains(log.String(), "plainly") {
				t.Errorf("the log says %q", &log)
			}
		})
	}
}

func TestAProcessThatWasKilledIsReplaced(t *testing.T) {
	r := apart(t, render.Config{Deadline: patience, Concurrent: 1})
	for n := range 3 {
		if r.Text(t.Context(), fmt.Sprintf("x := %d", n), "go").Plain {
			t.Errorf("text %d is plain", n)
		}
		render.Kill(t, r)
	}
}

func TestAProcessThatHasGrownIsReplaced(t *testing.T) {
	var log bytes.Buffer
	r := apart(t, render.Config{Deadline: patience, Concurrent: 1, Bytes: render.JobBytes, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	for _, language := range r.Languages().All() {
		if text := r.Text(t.Context(), "x", language); text.Plain {
			t.Errorf("%s: the text is plain", language)
		}
	}
	if log.Len() > 0 {
		t.Errorf("the log says\n%s", &log)
	}
}
