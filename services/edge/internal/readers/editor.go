package readers

import (
	"cmp"

	"github.com/gofiber/fiber/v2"

	"quire.dev/services/edge/internal/endpoint"
	"quire.dev/services/edge/internal/httpin/httperr"
	"quire.dev/services/edge/internal/httpin/input"
	"quire.dev/services/edge/internal/kind"
	"quire.dev/services/edge/internal/pages"
)

// edited is an unsaved text in a pages.Editor.
type edited struct{ content, title, language string }

// readEdited reads the form around an editor. Its other fields are ignored.
func (s *Readers) readEdited(c *endpoint.Call) (*edited, error) {
	body, err := s.readPasteForm(c)
	if err != nil {
		return nil, err
	}
	if err := s.http.Reserve(c.Ctx, int64(2*len(body))); err != nil { // for its fields
		return nil, err
	}
	e := &edited{}
	err = input.ParseFormPart(body, input.Fields{
		"content": input.To(&e.content, input.StringField), "title": input.To(&e.title, input.StringField),
		"language": input.To(&e.language, input.StringField),
	})
	if err != nil {
		return nil, err
	}
	if limit := c.Row.Body.Limit(); int64(len(e.content)) > limit.Bytes {
		return nil, httperr.TooLarge(limit.Bytes, "The preview is limited to %s of text.", limit.Name)
	}
	e.content = ofTextarea(e.content)
	if e.language = cmp.Or(e.language, kind.AutoLanguage); e.language == kind.AutoLanguage {
		e.language = s.developer.DetectLanguage(e.title, []byte(e.content))
	}
	return e, nil
}

// languageName is the display name of a language.
func (s *Readers) languageName(language string) string {
	shown := pages.PreviewOf("", language)
	shown.LanguageName = s.render.Languages().Name(language)
	return shown.Language()
}

// detectLanguage answers with the language of an unsaved text, or of its beginning.
func (s *Readers) detectLanguage(c *endpoint.Call) error {
	e, err := s.readEdited(c)
	if err != nil {
		return err
	}
	return s.JSON(c.Ctx, fiber.StatusOK, struct {
		Success  bool   `json:"success"`
		Language string `json:"language"`
		Name     string `json:"name"`
	}{true, e.language, s.languageName(e.language)})
}

// preview shows an unsaved text as its page will, as a page or, to the editor's script, as a part of one. Nothing of it is kept.
func (s *Readers) preview(c *endpoint.Call) error {
	e, err := s.readEdited(c)
	if err != nil {
		return err
	}
	shown := pages.PreviewOf(e.title, e.language)
	shown.LanguageName = s.render.Languages().Name(e.language)
	return s.Rendered(len(e.content), func() error {
		if !s.renderView(s.forgetful, e.content, shown) {
			shown.Lines = s.forgetful.Text(s.ctx, e.content, e.language)
		}
		if pages.WantsHTML(c.Ctx) {
			return s.pages.Preview(c.Ctx, shown)
		}
		html, err := s.pages.PreviewHTML(shown)
		if err != nil {
			return err
		}
		return s.JSON(c.Ctx, fiber.StatusOK, struct {
			Success  bool   `json:"success"`
			Language string `json:"language"`
			Name     string `json:"name"`
			HTML     string `json:"html"`
		}{true, e.language, shown.Language(), string(html)})
	})
}
