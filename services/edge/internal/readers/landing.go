package readers

import (
	"cmp"
	"crypto/rand"
	"strconv"
	"strings"

	"github.com/gofiber/fiber/v2"

	"quire.dev/pkg/document/fold"
	"quire.dev/pkg/event"
	"quire.dev/pkg/plan"
	"quire.dev/services/edge/internal/developer"
	"quire.dev/services/edge/internal/endpoint"
	"quire.dev/services/edge/internal/httpin/headers"
	"quire.dev/services/edge/internal/httpin/httperr"
	"quire.dev/services/edge/internal/httpin/input"
	"quire.dev/services/edge/internal/pages"
)

// landing shows the first page with an empty form.
func (s *Readers) landing(c *endpoint.Call) error {
	return s.showLanding(c, fiber.StatusOK, pages.Draft{Language: fold.DefaultLanguage, Visibility: fold.DefaultVisibility.String(), ExpiresIn: "30d"})
}

// showLanding shows the first page. It is of use without what billing knows. A form that was refused keeps its Once: the
// paste may exist where the answer says that it is not known, and sending the same again must not make another.
func (s *Readers) showLanding(c *endpoint.Call, status int, draft pages.Draft) error {
	book, err := s.Prices()
	shown := &pages.Landing{URL: s.URL(""), Checks: s.checks, Draft: draft, Prices: book, Ready: err == nil && len(s.health.Failing()) == 0}
	shown.Draft.Once = cmp.Or(draft.Once, rand.Text())
	if err == nil { // else each reader would wait for billing again
		shown.Allowance = s.Allowance(c)
	}
	return s.pages.Landing(c.Ctx, status, shown)
}

// createFromPage makes a quick paste of the landing page's form. A form that is refused is shown again, with what was
// written and why it can't be taken.
func (s *Readers) createFromPage(c *endpoint.Call) error {
	body, err := s.readPasteForm(c)
	if err != nil {
		return err
	}
	form, err := parsePasteForm(body)
	if err != nil {
		return err
	}
	if form.APIKey != "" { // a page that shows a new key sends it along
		if err := s.UseKey(c, form.APIKey); err != nil {
			return err
		}
	}
	n := s.developer.NewCreation(c, developer.QuickKind())
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
		Protected: n.Draft.Password != nil && *n.Draft.Password != "", URL: s.URL(""),
		Path: developer.QuickKind().Page + done.Outcome.Item, Remaining: plan.Unlimited,
	}
	if !c.Who.Anonymous {
		shown.Account, shown.Remaining = true, done.Remaining
	} else {
		shown.Remaining = done.Remaining
		shown.ManageToken = s.developer.ManageToken(developer.QuickKind().Domain, done)
	}
	c.Set(fiber.HeaderLocation, shown.Path)
	return s.pages.Created(c.Ctx, shown)
}

// createOfForm creates what the form says. A form that is sent again, as a browser does when its reader goes back and
// forth, gets the first answer again.
func (s *Readers) createOfForm(n *developer.Creation, form *pages.Draft, hash uint64) (*developer.Written, error) {
	if err := n.Draft.Fill(&n.Rules, form); err != nil {
		return nil, err
	}
	c := n.Call
	if form.Once != "" && c.Idem == nil {
		key := form.Once + " " + strconv.FormatUint(hash, 16)
		id := event.NewIdempotencyID(c.Who.Payer().Bytes(), c.Method(), c.Path(), key)
		c.Idem = id[:]
	}
	n.Received(hash)
	return s.developer.Create(n)
}

// readPasteForm reads the body. A form writes a line end in six bytes, and other characters in three for each of theirs.
func (s *Readers) readPasteForm(c *endpoint.Call) ([]byte, error) {
	if name, charset, _ := headers.MediaType(c.Ctx); name != fiber.MIMEApplicationForm || !headers.UTF8(charset) {
		return nil, httperr.UnsupportedMediaType("Content-Type must be application/x-www-form-urlencoded, in UTF-8.")
	}
	limit := c.Row.Body.Limit()
	return s.developer.ReadContent(c, developer.JSONBytes(limit), limit)
}

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
	// A browser writes each line end of a text as CR LF.
	out.Content = strings.ReplaceAll(out.Content, "\r\n", "\n")
	out.BurnAfterRead = burn == "true"
	return out, nil
}

// refusePasteForm shows the form again. The error stands beside its field.
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

// fieldLabels are the names of the form's fields for people.
func fieldLabels() map[string]string {
	return map[string]string{
		"content": "The text", "title": "The title", "language": "The language", "visibility": "This", "expiresIn": "This",
		"password": "The password",
	}
}
