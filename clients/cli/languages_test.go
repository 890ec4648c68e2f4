package cli

import (
	"strings"
	"testing"
)

func TestLanguagesAreCheckedWithASuggestion(t *testing.T) {
	t.Parallel()
	for _, language := range []string{"", "auto", "go", "Go", "golang", "c++", "cpp", "rs", "plaintext", "text", "tsv", "go-html-template"} {
		if err := checkLanguage(language); err != nil {
			t.Errorf("%q: %v", language, err)
		}
	}
	for typed, want := range map[string]string{
		"pyhton": "python", "javascritp": "javascript", "TypeScrip": "typescript", "rusty": "rust", "yamll": "yaml", "objective": "objectivec", "kotl": "kotlin",
		"klingon": "", "x": "", "": "", strings.Repeat("python", 1000): "",
	} {
		if got := nearLanguage(strings.ToLower(typed)); got != want {
			t.Errorf("%q: did you mean %q, want %q", typed, got, want)
		}
	}
}

func TestTheLanguageOfAFileIsByItsName(t *testing.T) {
	t.Parallel()
	for file, want := range map[string]string{
		"main.go": "go", "src/APP.PY": "python", "a.h": "c", "x.tar.patch": "diff", "Dockerfile": "docker", "Makefile": "makefile", "a.tsv": "tsv", "a.jsx": "react",
		"a.log": "auto", "a.klingon": "auto", "README": "auto", "": "auto", "a.": "auto",
	} {
		if got := languageOf(file); got != want {
			t.Errorf("%q is %q, want %q", file, got, want)
		}
	}
}

func TestLanguagesAreListed(t *testing.T) {
	t.Parallel()
	if out, errs, status := run(t, nil, "paste", "languages", "Kotl"); out != "kotlin\tkt kts\n" || errs != "" || status != 0 {
		t.Errorf("%d %q %q", status, out, errs)
	}
	if out, _, _ := run(t, nil, "paste", "languages", "kotlin", "--json"); out != `{"language":"kotlin","aliases":["kt","kts"]}`+"\n" {
		t.Errorf("%q", out)
	}
	if out, _, _ := run(t, nil, "paste", "languages"); strings.Count(out, "\n") < 250 {
		t.Errorf("%q", out)
	}
}
