package handlers

import (
	"crypto/rand"
	"strings"
	"time"

	"github.com/gofiber/fiber/v2"

	"quire.dev/pkg/event"
	"quire.dev/pkg/plan"
	"quire.dev/services/edge/internal/accounts"
	"quire.dev/services/edge/internal/console"
	"quire.dev/services/edge/internal/endpoint"
	"quire.dev/services/edge/internal/fault"
	"quire.dev/services/edge/internal/httpin/httperr"
)

// doneQuery returns the notice named in a page's address.
func doneQuery(c *endpoint.Call) string { return strings.Clone(c.Query("done")) }

// showOverview shows the overview of the account.
func (s *Handlers) showOverview(c *endpoint.Call) error {
	return s.showOverviewWith(c, fiber.StatusOK, nil)
}

// showOverviewWith shows the overview with a refused form; nil: a new one.
func (s *Handlers) showOverviewWith(c *endpoint.Call, status int, key *console.Form) error {
	shown, err := s.overview(c)
	if err != nil {
		return err
	}
	if shown.Holder, err = s.holder(c); err != nil {
		return err
	}
	shown.Done, shown.Key = doneQuery(c), key
	if key == nil && shown.Usage.KeyVersion == 0 {
		shown.Key = console.FirstKey(shown.Holder.Account, rand.Text())
	}
	return s.console.Overview(c.Ctx, status, shown)
}

// showUsage answers with the live part of the overview. It tells the page if the session has ended.
func (s *Handlers) showUsage(c *endpoint.Call) error {
	shown, err := s.overview(c)
	if err != nil {
		return err
	}
	return s.console.Usage(c.Ctx, shown)
}

// overview fetches the overview's data: the answers of dev-usage, the list of keys and the usage by day.
func (s *Handlers) overview(c *endpoint.Call) (*console.Overview, error) {
	u, err := s.LookAtUsage(c, &event.UsageQuery{Keys: true})
	if err != nil {
		return nil, err
	}
	shown := &console.Overview{Usage: u, View: console.DefaultView(), Now: s.Now(), UpgradeURL: s.upgradePath(plan.KeyUnspecified)}
	for _, name := range console.ViewNames() {
		text := c.Query(name)
		if text == "" {
			continue
		}
		if problem := shown.View.Set(name, text); problem != "" {
			return nil, httperr.InvalidField(name, problem)
		}
	}
	first, last := shown.View.Span(shown.Now)
	if shown.Days, err = s.daysOf(c, first, last); err != nil {
		return nil, err
	}
	burnFrom, today := console.BurnFrom(shown.Now), shown.Now
	if !first.After(burnFrom) && !last.Before(today.Truncate(endpoint.Day)) {
		shown.Recent = shown.Days
		return shown, nil
	}
	shown.Recent, err = s.daysOf(c, burnFrom, today)
	return shown, err
}

func (s *Handlers) daysOf(c *endpoint.Call, first, last time.Time) (*event.UsageDaysAnswer, error) {
	return s.accounts.DaysOf(c.Who.Account, accounts.DayNumber(first), accounts.DayNumber(last))
}

// makeKeyFromPage creates the first API key of an account, as regenerateKey does, and shows it once. If the account has a key
// by now, it is kept.
func (s *Handlers) makeKeyFromPage(c *endpoint.Call) error {
	form := console.FirstKey(c.Who.Account.String(), "")
	return s.submit(c, form, submission{
		do: func() error {
			if err := s.hasNoOtherKey(c); err != nil {
				return err
			}
			made, err := s.accounts.MakeKey(c, c.Who.Account)
			if err != nil {
				return err
			}
			return s.showNewKey(c, &console.NewKey{APIKey: made.APIKey}, nil)
		},
		show: func(status int) error { return s.showOverviewWith(c, status, form) },
	})
}

// hasNoOtherKey fails if the account has a default key that another call created.
func (s *Handlers) hasNoOtherKey(c *endpoint.Call) error {
	u, err := s.UsageOf(c, c.Who.Account, &event.UsageQuery{})
	if err != nil || u.KeyVersion == 0 {
		return err
	}
	key := s.accounts.NewKey(c, c.Who.Account)
	key.Version = u.KeyVersion
	same, err := s.accounts.CurrentKey(key)
	if err == nil && !same {
		err = fault.New(fault.InvalidField, "The account already has an API key. Rotate it on the API keys page.")
	}
	return err
}
