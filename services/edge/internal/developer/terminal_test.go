package developer

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/alecthomas/chroma/v2/lexers"

	"quire.dev/pkg/document/fold"
	"quire.dev/services/edge/internal/httpin/httperr"
	"quire.dev/services/edge/internal/render"
)

func TestTheNameOfAFileSaysItsLanguage(t *testing.T) {
	s := &API{render: render.New(render.Config{})}
	for name, want := range map[string]string{
		"main.go": "go", "a.py": "python", "a.rs": "rust", "a.js": "javascript", "a.ts": "typescript", "a.c": "c", "a.h": "c",
		"a.cpp": "c++", "a.cs": "c#", "a.fs": "fsharp", "a.java": "java", "a.rb": "ruby", "a.sh": "bash", "a.sql": "sql",
		"a.md": "markdown", "README.md": "markdown", "a.json": "json", "a.yaml": "yaml", "a.yml": "yaml", "a.toml": "toml",
		"a.html": "html", "a.css": "css", "a.xml": "xml", "a.csv": "csv", "a.diff": "diff", "a.m": "objective-c",
		"Makefile": "makefile", "Dockerfile": "docker", "Dockerfile.dev": "docker", ".bashrc": "bash", "a.tar.go": "go",
		"a.tsv": "tsv", "src/a.py": "python", "nginx.conf": "nginx", "a.proto": "protobuf", "a.org": "org",
		"go.mod": "go", "go.work": "go", "go.sum": "plaintext", "Cargo.lock": "toml", "x.mod": "ampl",
		"A.GO": "go", "a.txt": "plaintext", "a": "plaintext", "a.": "plaintext", "go": "plaintext", "": "plaintext", "....": "plaintext",
	} {
		if got := s.DetectLanguage(name, nil); got != want {
			t.Errorf("%q is %s, want %s", name, got, want)
		}
	}
}

// TestEveryLanguageOfANameIsKnown: it is valid for a document, and the highlighter knows it.
func TestEveryLanguageOfANameIsKnown(t *testing.T) {
	s := &API{render: render.New(render.Config{})}
	names := 0
	for _, lexer := range lexers.GlobalLexerRegistry.Lexers {
		for _, glob := range lexer.Config().Filenames {
			name := strings.Replace(glob, "*", "x", 1)
			if strings.ContainsAny(name, "*?[") {
				continue
			}
			names++
			language := s.DetectLanguage(name, nil)
			if !ValidLanguage(language) || len(language) > languageChars || lexers.Get(language) == nil {
				t.Errorf("%s: %q is no language of a document", name, language)
			}
			if language == fold.DefaultLanguage && filepath.Ext(name) != ".txt" {
				t.Errorf("the language of %s is not known", name)
			}
		}
	}
	if names < 300 {
		t.Errorf("only %d names", names)
	}
}

func TestANameIsNoLongerThanATitle(t *testing.T) {
	for _, given := range []*string{nil, new("a title")} {
		for chars, fits := range map[int]bool{titleChars: true, titleChars + 1: false} {
			d := &draft{}
			d.Title = given
			err := nameDraft(d, strings.Repeat("ü", chars-3)+".go")
			if !fits {
				if e, ok := errors.AsType[*httperr.Error](err); !ok || e.Field != "name" {
					t.Errorf("%d characters: %v", chars, err)
				}
			} else if err != nil || given != nil && *d.Title != "a title" {
				t.Errorf("%d characters: %v, %+v", chars, err, d)
			}
		}
	}
}
