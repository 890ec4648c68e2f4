package web

import (
	"strings"
	"testing"

	"github.com/alecthomas/chroma/v2/lexers"

	"quire.dev/pkg/event"
)

func TestTheNameOfAFileSaysItsLanguage(t *testing.T) {
	known := newLanguages()
	for name, want := range map[string]string{
		"main.go": "go", "a.py": "python", "a.rs": "rust", "a.js": "javascript", "a.ts": "typescript", "a.c": "c", "a.h": "c",
		"a.cpp": "c++", "a.cs": "c#", "a.fs": "fsharp", "a.java": "java", "a.rb": "ruby", "a.sh": "bash", "a.sql": "sql",
		"a.md": "markdown", "README.md": "markdown", "a.json": "json", "a.yaml": "yaml", "a.yml": "yaml", "a.toml": "toml",
		"a.html": "html", "a.css": "css", "a.xml": "xml", "a.csv": "csv", "a.diff": "diff", "a.m": "objective-c",
		"Makefile": "makefile", "Dockerfile": "docker", "Dockerfile.dev": "docker", ".bashrc": "bash", "a.tar.go": "go",
		"A.GO": "go", "a.txt": "plaintext", "a": "plaintext", "a.": "plaintext", "go": "plaintext", "": "plaintext", "....": "plaintext",
	} {
		if got := known.of(name); got != want {
			t.Errorf("%q is %s, want %s", name, got, want)
		}
	}
}

// TestEveryLanguageOfANameIsKnown: a document may have the language, and the highlighter knows it.
func TestEveryLanguageOfANameIsKnown(t *testing.T) {
	known := newLanguages()
	check := func(name, language string) {
		if !validLanguage(language) || len(language) > languageChars {
			t.Errorf("%s: %q is no language of a document", name, language)
		}
		if lexers.Get(language) == nil {
			t.Errorf("%s: the highlighter does not know %q", name, language)
		}
	}
	for name, n := range known.names {
		check(name, n.language)
	}
	for end, n := range known.extensions {
		check("*"+end, n.language)
	}
	for _, p := range known.patterns {
		check(p.glob, p.language)
	}
	if len(known.extensions) < 300 {
		t.Errorf("only %d extensions", len(known.extensions))
	}
}

func TestTheUsageTextFitsATerminal(t *testing.T) {
	const day = 24 * 60 * 60
	for _, test := range []struct {
		allowance *event.AllowanceAnswer
		says      string
	}{
		{nil, "is not known at the moment"},
		{&event.AllowanceAnswer{WindowMs: day * 1000}, "with an API key only"},
		{&event.AllowanceAnswer{WindowMs: day * 1000, Limit: 10, Remaining: 10}, "10 in any 24 hours, each kept for 30 days at most.\n  You have 10 left.\n"},
		{&event.AllowanceAnswer{WindowMs: day * 1000, Limit: 10, ResetSeconds: 61}, "You have 0 left. There is one more in 2 min.\n"},
		{&event.AllowanceAnswer{WindowMs: day * 1000, Limit: 10, Remaining: 3, ResetSeconds: 23*3600 + 1}, "You have 3 left. There is one more in 23 h 1 min.\n"},
	} {
		text := usageText("https://quire.example", test.allowance)
		if !strings.Contains(text, test.says) {
			t.Errorf("%q is not in\n%s", test.says, text)
		}
		lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
		if len(lines) > 24 {
			t.Errorf("%d lines", len(lines))
		}
		for _, line := range lines {
			if len(line) > 80 {
				t.Errorf("%d characters: %s", len(line), line)
			}
		}
	}
}

// TestTheUsageTextComesWithoutBilling: nobody answers on the bus.
func TestTheUsageTextComesWithoutBilling(t *testing.T) {
	_, addr := startServer(t, Config{}, func(*Server) {})
	a := exchange(t, addr, "GET / HTTP/1.1\r\nHost: a\r\n\r\n", 1)[0]
	if a.status != 200 || !strings.Contains(a.body, "curl -T") || !strings.Contains(a.body, "not known at the moment") {
		t.Errorf("%d %s", a.status, a.body)
	}
}
