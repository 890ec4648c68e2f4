package render_test

import (
	"strings"
	"testing"

	"github.com/alecthomas/chroma/v2/lexers"

	"quire.dev/services/edge/internal/render"
)

// TestLanguagesAreThoseOfChroma holds the table to what chroma's own, slow, search finds.
func TestLanguagesAreThoseOfChroma(t *testing.T) {
	known := patient().Languages()
	same := func(language string) {
		lexer := lexers.Get(language)
		if lexer == nil {
			t.Errorf("chroma does not know %q", language)
			return
		}
		want := lexer.Config().Name
		switch want {
		case "plaintext":
			want = ""
		case "markdown":
			want = "Markdown"
		}
		if got := known.Name(language); got != want {
			t.Errorf("%q is %q, want %q", language, got, want)
		}
	}
	for _, lexer := range lexers.GlobalLexerRegistry.Lexers {
		same(lexer.Config().Name)
		for _, alias := range lexer.Config().Aliases {
			same(alias)
			if upper := strings.ToUpper(alias); strings.ToLower(upper) == alias { // not of a micro sign
				same(upper)
			}
		}
	}
	for _, name := range []string{"main.go", "x.py", "Dockerfile.dev", "Gemfile", ".bashrc", "php5", "x.php5", "CMakeLists.txt", "klingon.txt"} {
		same(name)
	}
}

// TestALanguageThatNobodyKnowsIsCheap: a page asks several times, outside of the bounds on highlighting.
func TestALanguageThatNobodyKnowsIsCheap(t *testing.T) {
	if n := render.Patterns(patient().Languages()); n == 0 || n > 20 {
		t.Errorf("its name is compared with %d patterns", n)
	}
}

func TestTheNameOfALanguageIsBounded(t *testing.T) {
	known := patient().Languages()
	name := strings.Repeat(".x", render.MaxLanguageBytes/2-1) // two bytes less than the bound
	if known.Name(name[1:]+".go") != "Go" || known.Detect(name[1:]+".go", "")[0] != "go" {
		t.Error("a name at the bound is not known")
	}
	if known.Name(name+".go") != "" || known.Detect(name+".go", "") != nil {
		t.Error("a name beyond the bound is known")
	}
}

func TestALanguageHasAnExtension(t *testing.T) {
	known := patient().Languages()
	for language, want := range map[string]string{
		"go": "go", "GoLang": "go", "python": "py", "plaintext": "txt", "klingon": "", "": "",
	} {
		if got := known.Extension(language); got != want {
			t.Errorf("%q: %q, want %q", language, got, want)
		}
	}
}

func TestAnUncachedTextIsForgotten(t *testing.T) {
	r := render.New(render.Config{Concurrent: 1, Wait: 1, Deadline: patience})
	source := map[bool]string{true: "x := 1", false: "y := 2"}
	for _, keep := range []bool{true, false} {
		with := r
		if !keep {
			with = r.Uncached()
		}
		if with.Text(t.Context(), source[keep], "go").Plain || with.Markdown(t.Context(), source[keep]) == nil ||
			with.Diff(t.Context(), source[keep], "", "go", false) == nil {
			t.Fatal("a text was not rendered")
		}
	}
	defer render.Occupy(r)() // only the cache can answer now
	for _, keep := range []bool{true, false} {
		text := !r.Text(t.Context(), source[keep], "go").Plain
		markdown := r.Markdown(t.Context(), source[keep]) != nil
		diff := r.Diff(t.Context(), source[keep], "", "go", false) != nil
		if text != keep || markdown != keep || diff != keep {
			t.Errorf("cached: text %v, Markdown %v, diff %v; want %v", text, markdown, diff, keep)
		}
	}
}
