package web

import (
	"path/filepath"
	"strings"

	"github.com/alecthomas/chroma/v2/lexers"

	"quire.dev/pkg/document/fold"
	"quire.dev/pkg/event"
)

// languages finds the language of a text by the name of its file, with the patterns that the highlighter knows. The
// highlighter's own search tries all of them for each name, which is slow; here they are sorted once.
type languages struct {
	names      map[string]named // by a file's whole name: "Makefile"
	extensions map[string]named // by the end of one: ".go"
	patterns   []pattern        // all other patterns: "Dockerfile.*"
}

type named struct {
	language string
	priority float32
}

type pattern struct {
	glob string
	named
}

func newLanguages() *languages {
	l := &languages{names: make(map[string]named), extensions: make(map[string]named)}
	for _, lexer := range lexers.GlobalLexerRegistry.Lexers {
		config := lexer.Config()
		n := named{language: languageName(config.Name, config.Aliases), priority: config.Priority}
		if n.language == "" {
			continue
		}
		if n.priority == 0 {
			n.priority = 1 // the highlighter's default
		}
		for _, glob := range config.Filenames {
			end, isEnd := strings.CutPrefix(glob, "*")
			switch {
			case strings.ContainsAny(end, "*?["):
				l.patterns = append(l.patterns, pattern{glob, n})
			case isEnd:
				l.extensions[end] = better(l.extensions[end], n)
			default:
				l.names[glob] = better(l.names[glob], n)
			}
		}
	}
	// Several languages claim these, and the highlighter does not say which is the most common.
	for end, language := range map[string]string{
		".fs": "fsharp", ".m": "objective-c", ".pp": "puppet", ".sql": "sql", ".xslt": "xml",
	} {
		l.extensions[end] = named{language: language}
	}
	return l
}

// better is the one with the higher priority. Of two with the same it is the first in the alphabet, so that the choice
// does not depend on an order that nobody keeps.
func better(a, b named) named {
	switch {
	case a.language == "" || b.priority > a.priority:
		return b
	case b.priority == a.priority && b.language < a.language:
		return b
	}
	return a
}

// languageName is a name of a language that a document may have; "" where it has none.
func languageName(name string, aliases []string) string {
	for _, n := range append([]string{strings.ToLower(name)}, aliases...) {
		if validLanguage(n) {
			return n
		}
	}
	return ""
}

// of is the language of a file's name, plaintext where it says nothing.
func (l *languages) of(name string) string {
	if n, ok := l.names[name]; ok {
		return n.language
	}
	for i := range len(name) { // the longest end first
		if name[i] != '.' {
			continue
		}
		if n, ok := l.extensions[name[i:]]; ok {
			return n.language
		}
		if n, ok := l.extensions[strings.ToLower(name[i:])]; ok {
			return n.language
		}
	}
	for _, p := range l.patterns {
		if matched, err := filepath.Match(p.glob, name); err == nil && matched {
			return p.language
		}
	}
	return fold.DefaultLanguage
}

// fileName is the name that a text is saved under: its title, with the end that its language's files commonly have.
func fileName(doc *event.Document) string {
	name := strings.Trim(strings.Map(func(r rune) rune {
		if strings.ContainsRune(`/\:*?"<>|`, r) || r < ' ' {
			return '-'
		}
		return r
	}, doc.Title), " .-")
	if name == "" {
		name = doc.Id
	}
	if filepath.Ext(name) != "" && !strings.Contains(filepath.Ext(name), " ") {
		return name
	}
	if lexer := lexers.Get(doc.Language); lexer != nil {
		for _, glob := range lexer.Config().Filenames {
			if end, ok := strings.CutPrefix(glob, "*."); ok && !strings.ContainsAny(end, "*?[") {
				return name + "." + end
			}
		}
	}
	return name + ".txt"
}
