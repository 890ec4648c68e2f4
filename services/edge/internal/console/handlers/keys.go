package handlers

import (
	"crypto/rand"
	"slices"
	"strings"

	"github.com/gofiber/fiber/v2"

	"quire.dev/pkg/apikey"
	"quire.dev/pkg/event"
	"quire.dev/pkg/plan"
	"quire.dev/services/edge/internal/accounts"
	"quire.dev/services/edge/internal/console"
	"quire.dev/services/edge/internal/endpoint"
	"quire.dev/services/edge/internal/httpin/input"
)

func (s *Handlers) showKeys(c *endpoint.Call) error {
	return s.showKeysWith(c, fiber.StatusOK, nil, nil)
}

// showKeysWith shows the keys with a refused form; nil: a new one.
func (s *Handlers) showKeysWith(c *endpoint.Call, status int, create, capping *console.Form) error {
	u, err := s.UsageOf(c, c.Who.Account, &event.UsageQuery{Keys: true, Addresses: true})
	if err != nil {
		return err
	}
	holder, err := s.holder(c)
	if err != nil {
		return err
	}
	shown := &console.Keys{Holder: holder, List: s.consoleKeys(u), Cap: u.Cap, Create: create, Capping: capping, Done: doneQuery(c)}
	if create == nil {
		shown.Create = console.CreateKey(holder.Account, rand.Text())
	}
	if capping == nil {
		shown.Capping = console.CapSpending(holder.Account, rand.Text(), u.Cap)
	}
	if u.KeyVersion == 0 {
		shown.First = console.FirstKey(holder.Account, rand.Text())
	}
	shown.Call = console.FirstCallOf(u, nil, s.URL(""), !shown.Used())
	return s.console.Keys(c.Ctx, status, shown)
}

func (s *Handlers) consoleKeys(u *event.UsageAnswer) []console.Key {
	now := s.Now()
	out := make([]console.Key, 0, len(u.Keys))
	for _, k := range u.Keys {
		out = append(out, console.Key{ApiKey: k, ID: apikey.ID(k.Number), Status: accounts.KeyStatus(k, now), Now: now.UnixMilli()})
	}
	return out
}

// ownKey returns the key in the path with its first call.
func (s *Handlers) ownKey(c *endpoint.Call) (console.Key, error) {
	number, err := accounts.PathKey(c)
	if err != nil {
		return console.Key{}, err
	}
	u, err := s.UsageOf(c, c.Who.Account, &event.UsageQuery{Keys: true, Addresses: true})
	if err != nil {
		return console.Key{}, err
	}
	keys := s.consoleKeys(u)
	i := slices.IndexFunc(keys, func(k console.Key) bool { return k.Number == number })
	if i < 0 {
		return console.Key{}, endpoint.NotFound()
	}
	keys[i].Call = console.FirstCallOf(u, keys[i].Scopes, s.URL(""), keys[i].LastUsedMs == 0)
	return keys[i], nil
}

func (s *Handlers) showKey(c *endpoint.Call) error {
	key, err := s.ownKey(c)
	if err != nil {
		return err
	}
	return s.showKeyWith(c, fiber.StatusOK, &console.OneKey{Key: key})
}

// showKeyWith shows a key with a refused form; nil forms are new ones.
func (s *Handlers) showKeyWith(c *endpoint.Call, status int, shown *console.OneKey) (err error) {
	if shown.Holder, err = s.holder(c); err != nil {
		return err
	}
	account := shown.Holder.Account
	if shown.Change == nil {
		shown.Change = console.ChangeKey(account, rand.Text(), shown.Key)
	}
	if shown.Rotate == nil {
		shown.Rotate = console.RotateKey(account, rand.Text(), shown.Key)
	}
	if shown.Revoke == nil {
		shown.Revoke = console.RevokeKey(account, rand.Text(), shown.Key)
	}
	shown.Done = doneQuery(c)
	return s.console.OneKey(c.Ctx, status, shown)
}

// createKeyFromPage creates an additional key, as createKey does, and shows it once.
func (s *Handlers) createKeyFromPage(c *endpoint.Call) error {
	form := console.CreateKey(c.Who.Account.String(), "")
	return s.submit(c, form, submission{
		do: func() error {
			rules, err := accounts.ReadKeyRules(keyRulesOf(form), s.Now(), true)
			if err != nil {
				return err
			}
			made, err := s.accounts.FurtherKey(c, rules)
			if err != nil {
				return err
			}
			return s.showNewKey(c, &console.NewKey{APIKey: made.APIKey}, made.Key.Scopes)
		},
		show: func(status int) error { return s.showKeysWith(c, status, form, nil) },
	})
}

// changeKeyFromPage changes a key, as updateKey does.
func (s *Handlers) changeKeyFromPage(c *endpoint.Call) error {
	key, err := s.ownKey(c)
	if err != nil {
		return err
	}
	form := console.ChangeKey(c.Who.Account.String(), "", key)
	return s.submit(c, form, submission{
		do: func() error {
			rules, err := accounts.ReadKeyRules(keyRulesOf(form), s.Now(), false)
			if err != nil {
				return err
			}
			_, err = s.accounts.ChangedKey(c, key.Number, rules)
			done := "changed"
			if key.Cap != nil && accounts.NoCap(rules.Cap) {
				done = "key-uncapped"
			}
			return redirectAfter(err, c, console.Done(key.Path(), done))
		},
		show: func(status int) error { return s.showKeyWith(c, status, &console.OneKey{Key: key, Change: form}) },
	})
}

// rotateKeyFromPage rotates a key, as rotateKey does. Revoking the old one immediately requires typing its name.
func (s *Handlers) rotateKeyFromPage(c *endpoint.Call) error {
	key, err := s.ownKey(c)
	if err != nil {
		return err
	}
	form := console.RotateKey(c.Who.Account.String(), "", key)
	return s.submit(c, form, submission{
		do: func() error {
			if form.Values["overlap"] == "0s" {
				if err := confirmed(form, key.Label()); err != nil {
					return err
				}
			}
			overlap, err := accounts.ReadOverlap(fieldsOf(form, "overlap"))
			if err != nil {
				return err
			}
			made, endsMs, err := s.accounts.ReplacedKey(c, key.Number, overlap)
			if err != nil {
				return err
			}
			if endsMs <= s.Now().UnixMilli() {
				endsMs = 0
			}
			return s.showNewKey(c, &console.NewKey{APIKey: made.APIKey, OldEndsMs: endsMs}, made.Key.Scopes)
		},
		show: func(status int) error { return s.showKeyWith(c, status, &console.OneKey{Key: key, Rotate: form}) },
	})
}

// revokeKeyFromPage revokes a key, as revokeKey does, once the reader has typed its name.
func (s *Handlers) revokeKeyFromPage(c *endpoint.Call) error {
	key, err := s.ownKey(c)
	if err != nil {
		return err
	}
	form := console.RevokeKey(c.Who.Account.String(), "", key)
	return s.submit(c, form, submission{
		do: func() error {
			if err := confirmed(form, key.Label()); err != nil {
				return err
			}
			_, err := s.accounts.RevokedKey(c, key.Number)
			return redirectAfter(err, c, console.Done(console.KeysPath, "revoked"))
		},
		show: func(status int) error { return s.showKeyWith(c, status, &console.OneKey{Key: key, Revoke: form}) },
	})
}

// capSpendingFromPage sets the account's spending cap, as setSpendingCap does.
func (s *Handlers) capSpendingFromPage(c *endpoint.Call) error {
	form := console.CapSpending(c.Who.Account.String(), "", nil)
	return s.submit(c, form, submission{
		do: func() error {
			limit, err := accounts.ReadSpendingCap(input.List(capOf(form, "")...))
			if err != nil {
				return err
			}
			_, err = s.accounts.CappedSpending(c, limit)
			done := "cap"
			if accounts.NoCap(limit) {
				done = "uncapped"
			}
			return redirectAfter(err, c, console.Done(console.KeysPath, done))
		},
		show: func(status int) error { return s.showKeysWith(c, status, nil, form) },
	})
}

// keyRulesOf are the form's fields for a key of the API.
func keyRulesOf(f *console.Form) input.Source {
	var scopes input.Value // null: all
	if f.Values["scopes"] == console.ScopesSome {
		scopes.Kind = input.Array
	}
	for _, scope := range plan.Scopes() {
		if name := scope.String(); scopes.Kind == input.Array && f.Values["scopes."+name] != "" {
			scopes.Items = append(scopes.Items, input.Text(name))
		}
	}
	quotas := input.Value{Kind: input.Object}
	for _, key := range plan.QuotaKeys() {
		name := key.String()
		if text := strings.TrimSpace(f.Values["quotas."+name]); text != "" {
			quotas.Members = append(quotas.Members, input.Member{Name: name, Value: number(text)})
		}
	}
	var limit input.Value // null: none
	if cap := capOf(f, "spendingCap."); len(cap) > 1 {
		limit = input.Value{Kind: input.Object, Members: cap}
	}
	var out []input.Member
	if expiry := f.Values["expiresIn"]; expiry != "" && expiry != console.KeepExpiry {
		out = append(out, textField("expiresIn", expiry))
	}
	if name := strings.TrimSpace(f.Values["name"]); name != "" || f.Field("name").Required {
		out = append(out, textField("name", name))
	}
	return input.List(append(out, input.Member{Name: "quotas", Value: quotas},
		input.Member{Name: "scopes", Value: scopes}, input.Member{Name: "spendingCap", Value: limit})...)
}

// number is the value of what should be a number. Other text is refused by the field.
func number(text string) input.Value { return input.Value{Kind: input.Number, Text: []byte(text)} }

// capOf are the form's fields for a spending cap of the API. Without an amount there is no cap.
func capOf(f *console.Form, before string) []input.Member {
	amount := strings.TrimSpace(f.Values[before+"amount"])
	if amount == "" {
		return []input.Member{{Name: "amount"}}
	}
	return []input.Member{textField("amount", amount), textField("period", f.Values[before+"period"])}
}

// showNewKey shows a new key. scopes are its scopes; nil: all. It is shown even if the rest of the page fails, since it can't
// be shown again.
func (s *Handlers) showNewKey(c *endpoint.Call, shown *console.NewKey, scopes []string) error {
	shown.URL, shown.Once = s.URL(""), rand.Text()
	shown.CanPaste = len(scopes) == 0 || slices.Contains(scopes, plan.LiteCreate.String())
	shown.Holder, _ = s.holder(c) // without the email if that is unknown
	if u, err := s.UsageOf(c, c.Who.Account, &event.UsageQuery{}); err == nil {
		if i := slices.IndexFunc(u.Usage, func(k *event.KeyUsage) bool { return plan.QuotaKey(k.QuotaKey) == plan.LiteCreate }); i >= 0 {
			shown.Known, shown.Left, shown.Limit = true, u.Usage[i].Remaining, u.Usage[i].Limit
		}
		book, err := s.Prices()
		if err == nil && shown.Welcome {
			shown.Offers = console.OffersOf(book, plan.Tier(u.Tier), s.upgradePath(plan.KeyUnspecified))
		}
	}
	return s.console.NewKey(c.Ctx, shown)
}
