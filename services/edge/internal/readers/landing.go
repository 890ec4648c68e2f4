package readers

import (
	"cmp"
	"crypto/rand"
	"html/template"
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

// Landing shows the landing page, with the form of an account, or with an empty one for visitors if own is empty.
func (s *Readers) Landing(c *endpoint.Call, own template.HTML) error {
	return s.showLanding(c, fiber.StatusOK, own, pages.Draft{Language: kind.AutoLanguage, Visibility: fold.DefaultVisibility.String(), ExpiresIn: "30d"})
}

// showLanding shows the landing page, even without billing's data. A refused form keeps its Once: the paste may exist if its
// outcome is unknown, and resending the form must not create another.
func (s *Readers) showLanding(c *endpoint.Call, status int, own template.HTML, draft pages.Draft) error {
	book, err := s.Prices()
	shown := &pages.Landing{URL: s.URL(""), Checks: s.checks, Own: own, Draft: draft, Prices: book, Ready: err == nil && len(s.health.Failing()) == 0}
	shown.Draft.Once = cmp.Or(draft.Once, rand.Text())
	shown.MaxBytes = endpoint.QuickText.Limit().Bytes
	if c.Who.Account != 0 {
		shown.Account = c.Who.Account.String()
	}
	if err == nil && own == "" && shown.Account == "" { // otherwise each reader would wait for billing again
		shown.Allowance = s.Allowance(c)
	}
	return s.pages.Landing(c.Ctx, status, shown)
}

// CreateFromPage creates a quick paste from the landing page's form. A refused form is shown again, with its input and the
// error. charge makes the call of a session use one of its account's keys. A form without a key that was open while its reader
// signed in thus creates a paste of their account, whose page shows the link.
func (s *Readers) CreateFromPage(c *endpoint.Call, charge func() error) error {
	var signedIn event.AccountID
	if c.Who.Key.Version == 0 {
		signedIn = c.Who.Account
	}
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
	done, err := s.createOfForm(c, form, endpoint.BodyHash(c.Ctx, body), charge)
	if err != nil {
		if !pages.WantsHTML(c.Ctx) {
			return err
		}
		return s.refusePasteForm(c, form, err)
	}
	if signedIn != 0 && c.Who.Account == signedIn {
		c.Set(fiber.HeaderCacheControl, "no-store")
		c.Set(fiber.HeaderLocation, kind.QuickPastes().Page+done.Outcome.Item+"?done=created")
		c.Status(fiber.StatusSeeOther)
		return nil
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
func (s *Readers) createOfForm(c *endpoint.Call, form *pages.Draft, hash uint64, charge func() error) (*developer.Written, error) {
	if c.Who.Account != 0 && c.Who.Key.Version == 0 {
		if err := charge(); err != nil {
			return nil, err
		}
	}
	n := s.developer.NewCreation(c, kind.QuickPastes())
	if err := n.Fill(fieldsOf(form), hash); err != nil {
		return nil, err
	}
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
	message := cmp.Or(e.FormText, e.Message)
	if label, known := fieldLabels()[e.Field]; !known {
		e.Field = ""
	} else if why, ok := strings.CutPrefix(message, e.Field+" "); ok {
		message = label + " " + why
	}
	if e.Suggestion != "" {
		message += " " + e.Suggestion
	}
	shown := *form
	shown.Errors = map[string]string{e.Field: message}
	return s.showLanding(c, e.Kind.Status(), "", shown)
}

// fieldLabels are the display names of the form's fields.
func fieldLabels() map[string]string {
	return map[string]string{
		"content": "The text", "title": "The title", "language": "The language", "visibility": "The visibility", "expiresIn": "The expiry",
		"password": "The password",
	}
}
