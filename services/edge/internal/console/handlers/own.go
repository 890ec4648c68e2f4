package handlers

import (
	"crypto/rand"
	"html/template"

	"github.com/gofiber/fiber/v2"

	"quire.dev/pkg/event"
	"quire.dev/services/edge/internal/console"
	"quire.dev/services/edge/internal/endpoint"
	"quire.dev/services/edge/internal/httpin/input"
	"quire.dev/services/edge/internal/kind"
	"quire.dev/services/edge/internal/pages"
)

// showHome shows the landing page, or usage instructions in a terminal. A user with a session gets a form for all kinds of texts
// that their plan allows. While the session or the plan can't be read, everybody gets the form for visitors.
func (s *Handlers) showHome(c *endpoint.Call) error {
	c.Vary(fiber.HeaderAccept)
	if !pages.WantsHTML(c.Ctx) {
		return s.readers.Usage(c)
	}
	var form template.HTML
	if s.ReadSession(c) == nil {
		form, _ = s.homeForm(c)
	}
	return s.readers.Landing(c, form)
}

// homeForm renders the form of a user with a session. The first kind that the plan allows comes first.
func (s *Handlers) homeForm(c *endpoint.Call) (template.HTML, error) {
	shown := &console.OneText{Kind: console.Pastes()}
	for _, k := range []*console.Kind{console.Pastes(), console.QuickPastes()} {
		m, err := s.meterOf(c, k.Create, 1)
		if err != nil {
			return "", err
		}
		shown.Home = append(shown.Home, console.Choice{Kind: k, Label: "Create " + k.One, Action: k.Path, Meter: m})
		if shown.Meter == nil || shown.Meter.Blocked() {
			shown.Kind, shown.Meter = k, m
		}
	}
	shown.Form = console.CreateText(shown.Kind, c.Who.Account.String(), rand.Text())
	return s.console.HomeForm(shown)
}

// createFromHome creates a quick paste from the landing page's form for visitors. If they have signed in meanwhile, it is one of
// their account's.
func (s *Handlers) createFromHome(c *endpoint.Call) error {
	return s.readers.CreateFromPage(c, func() error { return s.charge(c, "") })
}

// OwnPart is what the page of a document has for its owner: the link, and links and forms to change the document. Without
// billing's data, there is no form.
func (s *Handlers) OwnPart(c *endpoint.Call, k *kind.Kind, doc *event.Document) (*pages.Own, error) {
	shown := &console.Own{Kind: consoleKind(k), Document: doc}
	if k.Text {
		if m, err := s.meterOf(c, k.Update, 1); err == nil {
			shown.Access, shown.Meter = console.AccessOfText(shown.Kind, c.Who.Account.String(), rand.Text(), doc), m
		}
	}
	manage, err := s.console.Own(shown)
	if err != nil {
		return nil, err
	}
	done := doneQuery(c)
	return &pages.Own{
		Share: pages.Share{URL: s.URL(k.Page + doc.Id), Selected: done == "created" || done == "uploaded"}, Notice: console.Notice(done), Manage: manage,
	}, nil
}

func consoleKind(k *kind.Kind) *console.Kind {
	for _, known := range []*console.Kind{console.Pastes(), console.QuickPastes()} {
		if known.Page == k.Page {
			return known
		}
	}
	return console.Files()
}

// changeAccessFromPage changes the visibility and expiry of a text, as updateText does with these fields. A refused form comes
// back as the form to edit the text.
func (s *Handlers) changeAccessFromPage(c *endpoint.Call, k *collection) error {
	form := console.AccessOfText(k.Kind, c.Who.Account.String(), "", &event.Document{Id: c.Param("ref")})
	return s.submit(c, form, submission{
		unlimited: true,
		do: func() error {
			fields := []input.Member{textField("visibility", form.Values["visibility"])}
			if expires := form.Values["expiresIn"]; expires != console.KeepExpiry {
				fields = append(fields, textField("expiresIn", expires))
			}
			if err := s.charge(c, form.Values[console.KeyField]); err != nil {
				return err
			}
			u := s.developer.NewUpdate(c, k.Kind.Kind)
			if err := u.Fill(input.List(fields...), c.Hash); err != nil {
				return err
			}
			done, err := s.developer.Update(u)
			if err != nil {
				return err
			}
			return redirect(c.Ctx, console.Done(k.Page+done.Outcome.Item, "changed"))
		},
		show: func(status int) error { return s.showOwnTextWith(c, k, shownText{status: status, refused: form}) },
	})
}
