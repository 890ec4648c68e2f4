package web

import (
	"cmp"
	"path/filepath"
	"slices"
	"strings"

	"quire.dev/pkg/document/fold"
	"quire.dev/pkg/event"
)

// languageOf is the language of a file's name, plaintext where it says nothing.
func (s *Server) languageOf(name string) string {
	names := s.render.Languages().OfFile(name)
	if i := slices.IndexFunc(names, validLanguage); i >= 0 {
		return names[i]
	}
	return fold.DefaultLanguage
}

// fileName is the name that a text is saved under: its title, with the end that its language's files commonly have.
func (s *Server) fileName(doc *event.Document) string {
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
	return name + "." + cmp.Or(s.render.Languages().Extension(doc.Language), "txt")
}
