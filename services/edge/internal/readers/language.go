package readers

import (
	"cmp"
	"path/filepath"
	"strings"

	"quire.dev/pkg/event"
)

// fileName is the name for saving a text: its title, with the usual extension of its language.
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
