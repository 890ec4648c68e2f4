package readers

import (
	"cmp"
	"path/filepath"
	"strings"

	"quire.dev/pkg/event"
)

// fileName is the name that a text is saved under: its title, with the end that its language's files commonly have.
func (s *Readers) fileName(doc *event.Document) string {
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
