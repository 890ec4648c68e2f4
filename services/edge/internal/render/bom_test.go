package render_test

import (
	"context"
	"strings"
	"testing"
)

// A byte order mark at the beginning is no part of a text in any view. Elsewhere it is an invisible character.
func TestAByteOrderMarkIsSkippedInEachView(t *testing.T) {
	r := patient()
	for _, language := range []string{"json", "go", "html", "markdown", "yaml", "diff", "csv", ""} {
		for _, content := range []string{"{\"a\": 1}\n", "# a\n", "", "a,b\r\n1,2\r\n", "x\ufeffy"} {
			with, without := r.Text(context.Background(), "\ufeff"+content, language), r.Text(context.Background(), content, language)
			if with.HTML() != without.HTML() || with.Plain != without.Plain {
				t.Errorf("%q in %s is\n%s\nwant\n%s", content, language, with.HTML(), without.HTML())
			}
		}
	}
	for _, source := range []string{"# a", "---", "- [x] a", "```\nx\n```", "|a|\n|-|\n|b|", "    code"} {
		if got, want := requireMarkdown(t, r, "\ufeff"+source), requireMarkdown(t, r, source); got != want {
			t.Errorf("%q is\n%s\nwant\n%s", source, got, want)
		}
	}
	for _, content := range []string{"\"a,b\",c\n1,2\n", "a;b\n1;2\n", "a\tb\n"} {
		if got, want := r.Table(t.Context(), "\ufeff"+content), r.Table(t.Context(), content); got == nil || *got != *want {
			t.Errorf("%q is another table", content)
		}
	}
	for _, content := range []string{"a\ufeff", "\ufeff\ufeffa"} {
		if got := string(r.Text(context.Background(), content, "").HTML()); strings.Count(got, `data-c="BOM"`) != 1 {
			t.Errorf("%q is\n%s", content, got)
		}
	}
}
