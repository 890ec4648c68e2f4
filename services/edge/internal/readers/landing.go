package readers

import (
	"cmp"
	"crypto/rand"
	"strconv"
	"strings"

	"github.com/gofiber/fiber/v2"

	"quire.dev/pkg/document/fold"
	"quire.dev/pkg/event"
	"quire.dev/services/edge/internal/developer"
	"quire.dev/services/edge/internal/endpoint"
	"quire.dev/services/edge/internal/httpin/headers"
	"quire.dev/services/edge/internal/httpin/httperr"
	"quire.dev/services/edge/internal/httpin/input"
	"quire.dev/services/edge/internal/kind"
	"quire.dev/services/edge/internal/pages"
)

// landing shows the landing page with an empty form.
func (s *Readers) landing(c *endpoint.Call) error {
	return s.showLanding(c, fiber.StatusOK, pages.Draft{Language: kind.AutoLanguage, Visibility: fold.DefaultVisibility.String(), ExpiresIn: "30d"})
}

// showLanding shows the landing page, even without billing's data. A refused form keeps its Once: the paste may exist if its
// outcome is unknown, and resending the form must not create another.
func (s *Readers) showLanding(c *endpoint.Call, status int, draft pages.Draft) error {
	book, err := s.Prices()
	shown := &pages.Landing{URL: s.URL(""), Checks: s.checks, Draft: draft, Prices: book, Ready: err == nil && len(s.health.Failing()) == 0}
	shown.Draft.Once = cmp.Or(draft.Once, rand.Text())
	shown.MaxBytes = endpoint.QuickText.Limit().Bytes
	if account, err := s.SessionAccount(c.Ctx); err == nil && account != 0 { // otherwise the page works without it
		shown.Account = account.String()
	}
	if err == nil { // otherwise each reader would wait for billing again
		shown.Allowance = s.Allowance(c)
	}
	return s.pages.Landing(c.Ctx, status, shown)
}

// createFromPage creates a quick paste from the landing page's form. A refused form is shown again, with its input and the
// error.
func (s *Readers) createFromPage(c *endpoint.Call) error {
	body, err := s.readPasteForm(c)
	if err != nil {
		return err
	}
	form, err := parsePasteForm(body)
	if err != nil {
		return err
	}
	if form.APIKey != "" { // a page that shows a new key includes it
		if err := s.UseKey(c, form.APIKey); err != nil {
			return err
		}
	}
	n := s.developer.NewCreation(c, kind.QuickPastes())
	done, err := s.createOfForm(n, form, endpoint.BodyHash(c.Ctx, body))
	if err != nil {
		if !pages.WantsHTML(c.Ctx) {
			return err
		}
		return s.refusePasteForm(c, form, err)
	}
	shown := &pages.Created{
		Document: &event.Document{
			Id: done.Outcome.Item, ExpiresMs: done.Outcome.ExpiresMs, BurnAfterRead: form.BurnAfterRead,
		},
		Protected: form.Password != "", URL: s.URL(""),
		Path: kind.QuickPastes().Page + done.Outcome.Item, Remaining: done.Receipt.Remaining,
	}
	if !c.Who.Anonymous {
		shown.Account = true
	} else {
		shown.ManageToken = s.developer.ManageToken(kind.QuickPastes().Domain, done)
	}
	done.Receipt.SetHeaders(&c.Response().Header)
	c.Set(fiber.HeaderLocation, shown.Path)
	return s.pages.Created(c.Ctx, shown)
}

// createOfForm creates the paste. A form that is resent, as browsers do when going back and forth, gets the first answer
// again.
func (s *Readers) createOfForm(n *developer.Creation, form *pages.Draft, hash uint64) (*developer.Written, error) {
	if err := n.Fill(fieldsOf(form), hash); err != nil {
		return nil, err
	}
	c := n.Call
	if form.Once != "" && c.Idem == nil {
		key := form.Once + " " + strconv.FormatUint(hash, 16)
		id := event.NewIdempotencyID(c.Who.Payer().Bytes(), c.Method(), c.Path(), key)
		c.Idem = id[:]
	}
	return s.developer.Create(n)
}

// fieldsOf are the form's fields for the API. Empty ones are left out, since browsers always send all.
func fieldsOf(form *pages.Draft) input.Source {
	var out []input.Member
	burn := ""
	if form.BurnAfterRead {
		burn = "true"
	}
	for _, field := range [][2]string{
		{"title", form.Title},
		{"language", form.Language},
		{"visibility", form.Visibility},
		{"expiresIn", form.ExpiresIn},
		{"password", form.Password},
		{"burnAfterRead", burn},
	} {
		if field[1] != "" {
			out = append(out, input.Member{Name: field[0], Value: input.Value{Kind: input.Query, Text: []byte(field[1])}})
		}
	}
	return input.List(append(out, input.Member{Name: "content", Value: input.Text(form.Content)})...)
}

// readPasteForm reads the body. Form encoding takes six bytes for a line end, and three for each byte of some characters.
func (s *Readers) readPasteForm(c *endpoint.Call) ([]byte, error) {
	if name, charset, _ := headers.MediaType(c.Ctx); name != fiber.MIMEApplicationForm || !headers.UTF8(charset) {
		return nil, httperr.UnsupportedMediaType("Content-Type must be application/x-www-form-urlencoded, in UTF-8.")
	}
	limit := c.Row.Body.Limit()
	return s.developer.ReadContent(c, developer.JSONBytes(limit), limit)
}

// ofTextarea restores the line ends of a text, each of which browsers send as CR LF.
func ofTextarea(text string) string { return strings.ReplaceAll(text, "\r\n", "\n") }

func parsePasteForm(body []byte) (*pages.Draft, error) {
	out := &pages.Draft{}
	var burn string
	fields := make(input.Fields)
	for name, to := range map[string]*string{
		"content": &out.Content, "title": &out.Title, "language": &out.Language, "visibility": &out.Visibility,
		"expiresIn": &out.ExpiresIn, "password": &out.Password, "once": &out.Once, "burnAfterRead": &burn, "apiKey": &out.APIKey,
	} {
		fields[name] = input.To(to, input.StringField)
	}
	if err := input.ParseForm(body, fields); err != nil {
		return nil, err
	}
	if len(out.Once) > endpoint.MaxOnceBytes {
		return nil, httperr.InvalidField("once", "must be what the page has")
	}
	out.Content = ofTextarea(out.Content)
	out.BurnAfterRead = burn == "true"
	return out, nil
}

// refusePasteForm shows the form again, with the error beside its field.
func (s *Readers) refusePasteForm(c *endpoint.Call, form *pages.Draft, err error) error {
	s.Fail(c.Context(), c.Route().Path, err)
	e := endpoint.AsFault(err)
	name, known := fieldLabels()[e.Field]
	message := e.Message
	if known {
		if why, ok := strings.CutPrefix(message, e.Field+" "); ok {
			message = name + " " + strings.TrimSuffix(why, ".") + "."
		}
	} else {
		e.Field = ""
	}
	shown := *form
	shown.Errors = map[string]string{e.Field: message}
	return s.showLanding(c, e.Kind.Status(), shown)
}

// fieldLabels are the display names of the form's fields.
func fieldLabels() map[string]string {
	return map[string]string{
		"content": "The text", "title": "The title", "language": "The language", "visibility": "This", "expiresIn": "This",
		"password": "The password",
	}
}
