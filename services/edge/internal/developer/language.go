package developer

import (
	"slices"
	"strings"

	"quire.dev/pkg/document/fold"
	"quire.dev/services/edge/internal/httpin/httperr"
	"quire.dev/services/edge/internal/kind"
	"quire.dev/services/edge/internal/render"
)

// DetectLanguage is the language of a text by the name of its file, which may be empty or any title, and by its content;
// plaintext if unknown. It reads no more than render.DetectBytes of the content.
func (s *API) DetectLanguage(file string, content []byte) string {
	file = file[strings.LastIndexByte(file, '/')+1:]
	names := s.render.Languages().Detect(file, string(content[:min(len(content), render.DetectBytes+1)]))
	if i := slices.IndexFunc(names, ValidLanguage); i >= 0 {
		return names[i]
	}
	return fold.DefaultLanguage
}

// resolveLanguage replaces kind.AutoLanguage in a draft. file is the name of the file with its content; empty for the title.
func (s *API) resolveLanguage(d *draft, file string) error {
	if d.Language == nil || *d.Language != kind.AutoLanguage {
		return nil
	}
	if d.text == nil {
		return httperr.InvalidField("language", "must not be auto without content to detect it from")
	}
	if file == "" && d.Title != nil {
		file = *d.Title
	}
	d.Language = new(s.DetectLanguage(file, d.text))
	return nil
}
