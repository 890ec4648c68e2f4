package handlers

import (
	"crypto/rand"
	"slices"

	"github.com/gofiber/fiber/v2"

	"quire.dev/pkg/event"
	"quire.dev/pkg/plan"
	"quire.dev/services/edge/internal/accounts"
	"quire.dev/services/edge/internal/console"
	"quire.dev/services/edge/internal/developer"
	"quire.dev/services/edge/internal/endpoint"
	"quire.dev/services/edge/internal/fault"
	"quire.dev/services/edge/internal/httpin/httperr"
	"quire.dev/services/edge/internal/httpin/input"
	"quire.dev/services/edge/internal/kind"
	"quire.dev/services/edge/internal/pages"
)

// collection is the pastes, quick pastes or files of an account.
type collection struct {
	*console.Kind
	list *developer.Listing
}

func (s *Handlers) pasteContents() *collection {
	return &collection{console.Pastes(), s.developer.TextList(kind.Pastes())}
}

func (s *Handlers) quickContents() *collection {
	return &collection{console.QuickPastes(), s.developer.TextList(kind.QuickPastes())}
}

func (s *Handlers) fileContents() *collection {
	return &collection{console.Files(), s.developer.FileList()}
}

// maxBytes is the maximum size of a text.
func (k *collection) maxBytes() int64 {
	if k.Path == console.QuickPath {
		return endpoint.QuickText.Limit().Bytes
	}
	return endpoint.PasteText.Limit().Bytes
}

// contentPage is inConsole for a page of one kind. The receipt of a failure is for programs: the page states its cost in words.
func (s *Handlers) contentPage(k *collection, handle func(*endpoint.Call, *collection) error) func(*endpoint.Call) error {
	return s.inSession(func(c *endpoint.Call) error {
		if err := handle(c, k); err != nil {
			return endpoint.AsFault(err)
		}
		return nil
	}, func(c *endpoint.Call, err error) error {
		content := c.Row.Body != endpoint.NoBody && c.Row.Body != endpoint.Form
		switch {
		case fault.KindOf(err) != fault.SessionRequired || !content:
		case !pages.WantsHTML(c.Ctx): // the script that uploads files shows the error
			return err
		case k.Text:
			return s.keepText(c, k, err)
		}
		return s.signInFirst(c, err)
	})
}

// showContents shows a list, like list.
func (s *Handlers) showContents(c *endpoint.Call, k *collection) error {
	shown := &console.Contents{Kind: k.Kind, Filter: console.Filter(k.Kind), Done: doneQuery(c)}
	err := s.findContents(c, k, shown)
	status := fiber.StatusOK
	if e := endpoint.AsFault(err); err != nil {
		if e.Kind.Status() != fiber.StatusBadRequest {
			return err
		}
		s.Fail(c.Context(), c.Route().Path, err)
		refuse(shown.Filter, e)
		shown.List, status = nil, e.Kind.Status()
	}
	return s.showContentsWith(c, status, shown, nil)
}

// findContents parses the query and fetches the page of the list.
func (s *Handlers) findContents(c *endpoint.Call, k *collection, shown *console.Contents) error {
	q := &event.ListRequest{Account: uint64(c.Who.Account), Limit: console.ContentPage}
	var cursor string
	if err := readFilters(c, shown.Filter, developer.ListFields(q, &cursor)); err != nil {
		return err
	}
	if err := s.developer.ContinueList(q, k.list, &c.Who, cursor); err != nil {
		return err
	}
	page, err := s.bus.List(s.ctx, k.list.Domain, q)
	if err != nil {
		return err
	}
	shown.List, shown.Next, shown.Later = page.Documents, s.developer.NextCursor(k.list, &c.Who, q, page), cursor != ""
	return nil
}

// showContentsWith shows a list; for files, with a refused upload form, or a new one if nil.
func (s *Handlers) showContentsWith(c *endpoint.Call, status int, shown *console.Contents, upload *console.Form) (err error) {
	if shown.Holder, err = s.holder(c); err != nil {
		return err
	}
	if !shown.Kind.Text {
		if shown.Meter, err = s.meterOf(c, shown.Kind.Create, 1); err != nil {
			return err
		}
		if shown.Upload = upload; upload == nil {
			shown.Upload = console.UploadFile(shown.Holder.Account, rand.Text())
		}
	}
	return s.console.Contents(c.Ctx, status, shown)
}

// meterOf says what so many requests cost, and which keys can make them.
func (s *Handlers) meterOf(c *endpoint.Call, key plan.QuotaKey, count int) (*console.Meter, error) {
	u, err := s.UsageOf(c, c.Who.Account, &event.UsageQuery{Keys: true})
	if err != nil {
		return nil, err
	}
	m := &console.Meter{
		Key: key, Count: count, Keys: s.chargeable(u, key), BalanceMicros: uint64(max(0, u.BalanceMicros)), Tier: plan.Tier(u.Tier).Title(u.Plan), UpgradeURL: s.upgradePath(key),
	}
	if i := slices.IndexFunc(u.Usage, func(k *event.KeyUsage) bool { return plan.QuotaKey(k.QuotaKey) == key }); i >= 0 {
		m.Known, m.Left, m.Limit = true, u.Usage[i].Remaining, u.Usage[i].Limit
	}
	book, err := s.Prices()
	if err != nil && book == nil {
		m.Known = false
		return m, nil
	}
	for _, t := range book.Tiers {
		for _, term := range t.Terms {
			if t.Tier == u.Tier && plan.QuotaKey(term.QuotaKey) == key {
				m.Sold, m.PriceMicros = term.Overage, term.PriceMicros
			}
		}
	}
	return m, nil
}

// chargeable returns the keys that a request of the console can be counted for, the default one first.
func (s *Handlers) chargeable(u *event.UsageAnswer, key plan.QuotaKey) []console.Key {
	return slices.DeleteFunc(s.consoleKeys(u), func(k console.Key) bool {
		return !k.Live() || k.Replaced || len(k.Scopes) > 0 && !slices.Contains(k.Scopes, uint32(key))
	})
}

// charge makes the call with one of the account's keys: the one with this id, or the first that is allowed to. All content
// is counted for a key, so that the key's limits, its usage and the log of requests cover it.
func (s *Handlers) charge(c *endpoint.Call, id string) error {
	u, err := s.UsageOf(c, c.Who.Account, &event.UsageQuery{Keys: true})
	if err != nil {
		return err
	}
	keys := s.chargeable(u, c.Row.Key)
	if id != "" {
		keys = slices.DeleteFunc(keys, func(k console.Key) bool { return k.ID != id })
	}
	if len(keys) == 0 {
		err := httperr.InvalidField(console.KeyField, "must be an active API key of yours whose scopes allow this")
		if id == "" {
			err = err.InForm("None of your active API keys may do this. Create one, or change the scopes of one.")
		}
		return err
	}
	k := keys[0]
	if k.Fingerprint == 0 {
		return endpoint.Unavailable(accounts.ErrOldRules)
	}
	c.Who.Key.Account, c.Who.Key.Number, c.Who.Key.Version = c.Who.Account, k.Number, k.Version
	c.Who.Fingerprint = k.Fingerprint
	return nil
}

// uploadFromPage stores a file, as uploadFile does. The page's script gets the API's answer.
func (s *Handlers) uploadFromPage(c *endpoint.Call, k *collection) error {
	form, u := console.UploadFile(c.Who.Account.String(), ""), s.developer.NewUpload(c)
	var account, key string
	u.Sent, u.Also = form.Values, input.Fields{
		"account": input.To(&account, input.StringField), "once": input.To(&form.Once, input.StringField), console.KeyField: input.To(&key, input.StringField),
	}
	err := u.Open()
	if err == nil && account != "" && account != c.Who.Account.String() {
		err = otherAccount()
	}
	if err == nil {
		err = s.readOnce(c, form.Once)
	}
	if err == nil {
		err = s.charge(c, key)
	}
	var done *developer.Written
	if err == nil {
		done, err = u.Write()
	}
	switch {
	case !pages.WantsHTML(c.Ctx) && err == nil:
		return u.Answer(done)
	case err == nil:
		return redirect(c.Ctx, console.Done(k.Page+done.Outcome.Item, "uploaded"))
	case !pages.WantsHTML(c.Ctx):
		return err
	}
	e := endpoint.AsFault(err)
	s.Fail(c.Context(), c.Route().Path, e)
	form.Once = onceAfter(form.Once, e.Kind)
	refuse(form, e)
	shown := &console.Contents{Kind: k.Kind, Filter: console.Filter(k.Kind)}
	if err := s.findContents(c, k, shown); err != nil {
		return err
	}
	return s.showContentsWith(c, e.Kind.Status(), shown, form)
}
