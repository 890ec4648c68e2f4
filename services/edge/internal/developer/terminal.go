package developer

import (
	"bytes"
	"io"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/gofiber/fiber/v2"

	"quire.dev/pkg/event"
	"quire.dev/services/edge/internal/endpoint"
	"quire.dev/services/edge/internal/httpin/headers"
	"quire.dev/services/edge/internal/httpin/httperr"
	"quire.dev/services/edge/internal/httpin/input"
	"quire.dev/services/edge/internal/kind"
)

// createFromTerminal creates a quick paste from what curl sends, and answers with the address of its page: docs/api.md, From
// a terminal.
func (s *API) createFromTerminal(c *endpoint.Call) error {
	k := kind.QuickPastes()
	n := s.NewCreation(c, k)
	if err := n.openFromTerminal(); err != nil {
		return err
	}
	done, err := s.Create(n)
	if err != nil {
		return err
	}
	done.Receipt.SetHeaders(&c.Response().Header)
	address := s.URL(k.Page + done.Outcome.Item)
	c.Set(fiber.HeaderLocation, address)
	done.Receipt.SetRemaining(c.Ctx)
	if c.Who.Anonymous {
		c.Set(endpoint.HeaderManageToken, s.ManageToken(k.Domain, done))
	}
	return SendLines(c.Ctx, fiber.StatusCreated, address+"\n")
}

// SendLines answers with text for a terminal.
func SendLines(c *fiber.Ctx, status int, text string) error {
	c.Set(fiber.HeaderContentType, fiber.MIMETextPlainCharsetUTF8)
	c.Set(fiber.HeaderCacheControl, "no-store")
	c.Set(fiber.HeaderXContentTypeOptions, "nosniff")
	c.Status(status)
	c.Response().SetBodyString(text)
	return nil
}

// openFromTerminal checks the header and query of a new quick paste, whose content is the body, or a part of a form from curl
// -F. The query has the other fields. The file name supplies a missing title or language.
func (n *Creation) openFromTerminal() error {
	c := n.Call
	if err := n.draft.setQuery(c, &n.rules); err != nil {
		return err
	}
	media, charset, params := headers.MediaType(c.Ctx)
	switch {
	case media == fiber.MIMEMultipartForm && c.Row.Method == fiber.MethodPost:
		n.body, n.boundary = bodyForm, params["boundary"]
		return input.CheckBoundary(n.boundary)
	case media == fiber.MIMEMultipartForm: // nobody means to keep the bytes of the envelope
		return httperr.UnsupportedMediaType("Send a form with POST, or the bytes themselves with PUT.")
	case !headers.UTF8(charset):
		return n.s.notText()
	}
	name, err := nameOfPath(c.Path())
	n.body, n.name = bodyBytes, name
	return err
}

// finishFromTerminal checks the content of a draft, and sets its title and language.
func (t *textWriting) finishFromTerminal(name string) error {
	if name == "-" { // curl's name of standard input
		name = ""
	}
	d := &t.draft
	switch {
	case !utf8.Valid(d.text):
		return t.s.notText()
	case len(d.text) == 0:
		d.text = nil // check then fails
	default:
		if err := checkContent(d.text, t.rules.content); err != nil {
			return err
		}
	}
	if err := nameDraft(d, name); err != nil {
		return err
	}
	if d.Language == nil {
		d.Language = new(kind.AutoLanguage)
	}
	return t.check(name)
}

// notText is the error for content that is not text. Files may be anything.
func (s *API) notText() error {
	return httperr.UnsupportedMediaType("The content is not UTF-8 text. With an API key, you can upload files of any kind to " +
		s.URL("/api/dev/files/upload") + ".")
}

// nameOfPath decodes the file name in a path of one segment.
func nameOfPath(path string) (string, error) {
	name, err := url.PathUnescape(strings.TrimPrefix(path, "/"))
	if err != nil || !utf8.ValidString(name) {
		return "", httperr.InvalidField("name", "must be UTF-8, with % as %25")
	}
	return name, nil
}

// nameDraft sets the draft's title from a file name, unless the client sent one. A name that can't be a title is rejected even
// if another title was sent.
func nameDraft(d *draft, name string) error {
	if name == "" {
		return nil
	}
	title, err := input.LineField("name", input.Value{Kind: input.Query, Text: []byte(name)}, titleChars)
	if err != nil {
		return err
	}
	if d.Title == nil {
		d.Title = &title
	}
	return nil
}

// parseTerminalForm parses a form from curl -F. Its hash ignores the encoding: curl draws a new boundary each time.
func (t *textWriting) parseTerminalForm(body []byte) error {
	form, err := input.NewForm(bytes.NewReader(body), t.boundary)
	if err != nil {
		return err
	}
	name, hash, err := readTerminalForm(t.Call, &t.rules, &t.draft, form)
	if err != nil {
		return err
	}
	t.hash = hash
	return t.finishFromTerminal(name)
}

// readTerminalForm takes the content from the first part that is a file or is named f. Other parts set the paste's fields of
// their names; unknown ones are ignored.
func readTerminalForm(c *endpoint.Call, r *draftRules, d *draft, form *input.Form) (name string, hash uint64, err error) {
	said := [][]byte{nil, nil, endpoint.CanonicalQuery(c.Ctx)} // content, name, query, fields
	found := false
	var given []string // fields
	for {
		part, field, file, err := form.Next()
		if input.FormEnded(err) {
			if !found {
				return "", 0, httperr.Malformed("The form has no file and no part named f. Use curl -F 'f=<-' or curl -F f=@name.")
			}
			said[0], said[1] = d.text, []byte(name)
			return name, event.BodyHash(said...), nil
		}
		if err != nil {
			return "", 0, formFailure(err)
		}
		text, err := io.ReadAll(part)
		if err != nil {
			return "", 0, formFailure(err)
		}
		switch {
		case !found && (file != "" || field == "f"):
			found, d.text, name = true, text, file
		case file == "":
			if slices.Contains(given, field) && field != "tags" {
				return "", 0, givenOnce(field)
			}
			taken, err := d.setPart(c, r, field, text)
			if err != nil {
				return "", 0, err
			}
			if taken {
				given = append(given, field)
				said = append(said, []byte(field), text)
			}
		}
	}
}

// setPart sets a field from a part of a form. It returns false for a part that is no field.
func (d *draft) setPart(c *endpoint.Call, r *draftRules, name string, text []byte) (taken bool, err error) {
	if !slices.Contains(draftFields()[1:], name) { // the content is another part
		return false, nil
	}
	if c.Context().QueryArgs().Has(name) {
		return true, givenOnce(name)
	}
	if len(text) > partFieldBytes || !utf8.Valid(text) {
		return true, httperr.InvalidField(name, "must be short text in UTF-8")
	}
	return true, d.set(r, name, input.Value{Kind: input.Query, Text: text})
}

func givenOnce(field string) error { return httperr.InvalidField(field, "must be sent only once") }
