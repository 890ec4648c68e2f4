package handlers

import (
	"crypto/rand"
	"strings"

	"github.com/gofiber/fiber/v2"

	"quire.dev/pkg/alert"
	"quire.dev/pkg/event"
	"quire.dev/services/edge/internal/accounts"
	"quire.dev/services/edge/internal/console"
	"quire.dev/services/edge/internal/endpoint"
	"quire.dev/services/edge/internal/httpin/input"
)

func (s *Handlers) showWebhooksPage(c *endpoint.Call) error {
	return s.showWebhooksWith(c, fiber.StatusOK, nil)
}

// showWebhooksWith shows the webhooks with a refused form; nil: a new one.
func (s *Handlers) showWebhooksWith(c *endpoint.Call, status int, create *console.Form) error {
	holder, err := s.holder(c)
	if err != nil {
		return err
	}
	list, err := s.accounts.WebhooksOf(c)
	if err != nil {
		return err
	}
	shown := &console.Webhooks{Holder: holder, Most: accounts.MaxWebhooks, Create: create, Done: doneQuery(c)}
	for _, w := range list {
		shown.List = append(shown.List, consoleWebhook(w))
	}
	if create == nil {
		shown.Create = console.CreateWebhook(holder.Account, rand.Text())
	}
	return s.console.Webhooks(c.Ctx, status, shown)
}

func consoleWebhook(w accounts.Webhook) console.Webhook {
	return console.Webhook{WebhookRules: w.Rules, URL: w.URL}
}

// createWebhookFromPage creates a webhook, as createWebhook does, and shows its secret once.
func (s *Handlers) createWebhookFromPage(c *endpoint.Call) error {
	form := console.CreateWebhook(c.Who.Account.String(), "")
	return s.submit(c, form, submission{
		do: func() error {
			d, err := accounts.ReadWebhook(webhookOf(form))
			if err != nil {
				return err
			}
			w, secret, err := s.accounts.CreatedWebhook(c, d)
			if err != nil {
				return err
			}
			return s.showSecret(c, &console.NewSecret{Webhook: consoleWebhook(w), Secret: secret})
		},
		show: func(status int) error { return s.showWebhooksWith(c, status, form) },
	})
}

// showSecret shows a new secret, even if the rest of the page fails, since it can't be shown again.
func (s *Handlers) showSecret(c *endpoint.Call, shown *console.NewSecret) error {
	shown.Holder, _ = s.holder(c) // without the email if that is unknown
	return s.console.NewSecret(c.Ctx, shown)
}

// webhookOf are the form's fields for a webhook of the API.
func webhookOf(f *console.Form) input.Source {
	events := input.Value{Kind: input.Array}
	for _, t := range alert.Types() {
		if name := t.Name; f.Values["events."+name] != "" {
			events.Items = append(events.Items, input.Text(name))
		}
	}
	var below, thresholds input.Value // null: none, and the default
	if amount := strings.TrimSpace(f.Values["balanceBelow"]); amount != "" {
		below = input.Text(amount)
	}
	for text := range strings.FieldsFuncSeq(f.Values["thresholds"], func(r rune) bool { return r == ',' || r == ' ' || r == '%' }) {
		thresholds.Kind = input.Array
		thresholds.Items = append(thresholds.Items, number(text))
	}
	return input.List(
		input.Member{Name: "balanceBelow", Value: below}, input.Member{Name: "events", Value: events},
		input.Member{Name: "thresholds", Value: thresholds}, textField("url", strings.TrimSpace(f.Values["url"])),
	)
}

func (s *Handlers) showWebhookPage(c *endpoint.Call) error {
	w, err := s.accounts.WebhookOf(c)
	if err != nil {
		return err
	}
	return s.showWebhookWith(c, fiber.StatusOK, &console.OneWebhook{Webhook: consoleWebhook(w)})
}

// showWebhookWith shows a webhook with a refused form; nil forms are new ones.
func (s *Handlers) showWebhookWith(c *endpoint.Call, status int, shown *console.OneWebhook) (err error) {
	if shown.Holder, err = s.holder(c); err != nil {
		return err
	}
	shown.Cursor = strings.Clone(c.Query("cursor"))
	if err := s.fillDeliveries(c, shown); err != nil {
		return err
	}
	account := shown.Holder.Account
	if shown.Change == nil {
		shown.Change = console.ChangeWebhook(account, rand.Text(), shown.Webhook)
	}
	if shown.Rotate == nil {
		shown.Rotate = console.ActOnWebhook(account, rand.Text(), shown.Webhook, console.RotateSecret)
	}
	if shown.Test == nil {
		shown.Test = console.ActOnWebhook(account, rand.Text(), shown.Webhook, console.TestWebhook)
	}
	if shown.Delete == nil {
		shown.Delete = console.DeleteWebhook(account, rand.Text(), shown.Webhook)
	}
	shown.Done = doneQuery(c)
	return s.console.OneWebhook(c.Ctx, status, shown)
}

// fillDeliveries loads the page of deliveries that follows the cursor.
func (s *Handlers) fillDeliveries(c *endpoint.Call, shown *console.OneWebhook) (err error) {
	q := &event.ListDeliveries{Limit: console.ShownDeliveries}
	if shown.Cursor != "" {
		if q.Before, err = accounts.PositionField("cursor", input.Value{Kind: input.Query, Text: []byte(shown.Cursor)}); err != nil {
			return err
		}
	}
	list, next, err := s.accounts.DeliveriesOf(c, shown.Webhook.Webhook, q)
	for _, d := range list {
		shown.Deliveries = append(shown.Deliveries, console.Delivery{
			Delivery: d, Replay: console.ActOnWebhook(c.Who.Account.String(), rand.Text(), shown.Webhook, "deliveries/"+d.Alert.GetId()+"/replay"),
		})
	}
	shown.Next = next
	return err
}

// showDeliveryList answers with the live part of a webhook's page.
func (s *Handlers) showDeliveryList(c *endpoint.Call) error {
	rules, err := s.accounts.OwnWebhook(c)
	if err != nil {
		return err
	}
	shown := &console.OneWebhook{Webhook: console.Webhook{WebhookRules: rules}}
	if err := s.fillDeliveries(c, shown); err != nil {
		return err
	}
	return s.console.DeliveryList(c.Ctx, shown)
}

// showDeliveryEvents sends an event whenever the newest deliveries of a webhook have changed.
func (s *Handlers) showDeliveryEvents(c *endpoint.Call) error {
	rules, err := s.accounts.OwnWebhook(c)
	if err != nil {
		return err
	}
	return s.showEvents(c, func(account event.AccountID) ([]byte, error) {
		return markOf(s.accounts.DeliveriesNow(account, rules.Webhook, console.ShownDeliveries))
	})
}

// changeWebhookFromPage changes a webhook, as changeWebhook does.
func (s *Handlers) changeWebhookFromPage(c *endpoint.Call) error {
	return s.onWebhook(c, func(account string, w console.Webhook) (*console.OneWebhook, *console.Form, submission) {
		form := console.ChangeWebhook(account, "", w)
		return &console.OneWebhook{Webhook: w, Change: form}, form, submission{do: func() error {
			d, err := accounts.ReadWebhook(webhookOf(form))
			if err != nil {
				return err
			}
			_, err = s.accounts.ChangedWebhook(c, d)
			return redirectAfter(err, c, console.Done(w.Path(), "webhook"))
		}}
	})
}

// rotateSecretFromPage rotates the secret, as rotateWebhookSecret does, and shows it once.
func (s *Handlers) rotateSecretFromPage(c *endpoint.Call) error {
	return s.onWebhook(c, func(account string, w console.Webhook) (*console.OneWebhook, *console.Form, submission) {
		form := console.ActOnWebhook(account, "", w, console.RotateSecret)
		return &console.OneWebhook{Webhook: w, Rotate: form}, form, submission{do: func() error {
			a, err := s.accounts.RotatedSecret(c)
			if err != nil {
				return err
			}
			return s.showSecret(c, &console.NewSecret{Webhook: w, Secret: a.Secret, UntilMs: a.PreviousUntilMs, Rotated: true})
		}}
	})
}

// testWebhookFromPage sends a test event, as testWebhook does.
func (s *Handlers) testWebhookFromPage(c *endpoint.Call) error {
	return s.onWebhook(c, func(account string, w console.Webhook) (*console.OneWebhook, *console.Form, submission) {
		form := console.ActOnWebhook(account, "", w, console.TestWebhook)
		return &console.OneWebhook{Webhook: w, Test: form}, form, submission{do: func() error {
			_, err := s.accounts.TestedWebhook(c)
			return redirectAfter(err, c, console.Done(w.Path(), "tested"))
		}}
	})
}

// replayDeliveryFromPage resends a delivery, as replayDelivery does.
func (s *Handlers) replayDeliveryFromPage(c *endpoint.Call) error {
	return s.onWebhook(c, func(account string, w console.Webhook) (*console.OneWebhook, *console.Form, submission) {
		form := console.ActOnWebhook(account, "", w, "deliveries")
		shown := &console.OneWebhook{Webhook: w}
		return shown, form, submission{
			do: func() error {
				_, err := s.accounts.ReplayedDelivery(c)
				return redirectAfter(err, c, console.Done(w.Path(), "replayed"))
			},
			show: func(status int) error {
				shown.Refused = form.Whole()
				return s.showWebhookWith(c, status, shown)
			},
		}
	})
}

// deleteWebhookFromPage deletes a webhook, as deleteWebhook does, once the reader has typed its id.
func (s *Handlers) deleteWebhookFromPage(c *endpoint.Call) error {
	return s.onWebhook(c, func(account string, w console.Webhook) (*console.OneWebhook, *console.Form, submission) {
		form := console.DeleteWebhook(account, "", w)
		return &console.OneWebhook{Webhook: w, Delete: form}, form, submission{do: func() error {
			if err := confirmed(form, w.ID()); err != nil {
				return err
			}
			_, err := s.accounts.DeletedWebhook(c)
			return redirectAfter(err, c, console.Done(console.WebhooksPath, "unhooked"))
		}}
	})
}

// onWebhook handles a form on a webhook's page. If it is refused, the page shows it again.
func (s *Handlers) onWebhook(c *endpoint.Call, act func(account string, w console.Webhook) (*console.OneWebhook, *console.Form, submission)) error {
	w, err := s.accounts.WebhookOf(c)
	if err != nil {
		return err
	}
	shown, form, sub := act(c.Who.Account.String(), consoleWebhook(w))
	if sub.show == nil {
		sub.show = func(status int) error { return s.showWebhookWith(c, status, shown) }
	}
	return s.submit(c, form, sub)
}
