package accounts

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gofiber/fiber/v2"

	"quire.dev/pkg/apikey"
	"quire.dev/pkg/event"
	"quire.dev/pkg/plan"
	"quire.dev/services/edge/internal/endpoint"
	"quire.dev/services/edge/internal/httpin/httperr"
	"quire.dev/services/edge/internal/httpin/input"
)

// docs/api.md, Limits.
const (
	maxKeys       = 20
	keyNameChars  = 100
	maxKeyQuota   = 1_000_000_000 // requests per month
	maxKeyOverlap = 7 * endpoint.Day
)

// PathKey parses the key number in the path, 404 if it is none.
func PathKey(c *endpoint.Call) (uint32, error) {
	number, ok := apikey.ParseID(c.Params("id"))
	if !ok {
		return 0, endpoint.NotFound()
	}
	return number, nil
}

// apiKeyView shows a key to its owner.
type apiKeyView struct {
	ID          string                  `json:"id"`
	Name        string                  `json:"name"`
	Prefix      string                  `json:"prefix"`
	Status      string                  `json:"status"`
	Scopes      []string                `json:"scopes"` // null: all
	CreatedAt   string                  `json:"createdAt"`
	LastUsedAt  *string                 `json:"lastUsedAt"`
	ExpiresAt   *string                 `json:"expiresAt"`
	RevokedAt   *string                 `json:"revokedAt"`
	ReplacedBy  *string                 `json:"replacedBy"`
	Quotas      map[string]uint32       `json:"quotas"`
	SpendingCap *capView                `json:"spendingCap"`
	Usage       map[string]keyCountView `json:"usage"`
}

type capView struct {
	Amount  string  `json:"amount"`
	Period  string  `json:"period"`
	Spent   string  `json:"spent"`
	ResetAt *string `json:"resetAt"` // null: the cap is a total
}

type keyCountView struct {
	Used         uint64 `json:"used"`
	Overage      uint64 `json:"overage"`
	CreditsSpent string `json:"creditsSpent"`
}

// listedKeyView shows a key in its account's list.
type listedKeyView struct {
	apiKeyView
	LastUsedAddress *string `json:"lastUsedAddress"` // null: unknown, or not the reader's account
}

// KeyStatus returns the status of a key: revoked, expired, capped or active.
func KeyStatus(k *event.ApiKey, now time.Time) string {
	switch {
	case k.RevokedMs != 0:
		return "revoked"
	case k.ExpiresMs != 0 && k.ExpiresMs <= now.UnixMilli():
		return "expired"
	case k.Capped:
		return "capped"
	}
	return "active"
}

func viewAPIKey(k *event.ApiKey, now time.Time) apiKeyView {
	out := apiKeyView{
		ID: apikey.ID(k.Number), Name: k.Name, Prefix: k.Prefix, Status: KeyStatus(k, now), CreatedAt: endpoint.FormatTime(k.CreatedMs),
		LastUsedAt: endpoint.OptionalTime(k.LastUsedMs), ExpiresAt: endpoint.OptionalTime(k.ExpiresMs), RevokedAt: endpoint.OptionalTime(k.RevokedMs),
		Quotas: make(map[string]uint32, len(k.Quotas)), SpendingCap: viewCap(k.Cap), Usage: make(map[string]keyCountView, len(k.Usage)),
	}
	for _, scope := range k.Scopes {
		out.Scopes = append(out.Scopes, plan.QuotaKey(scope).String())
	}
	if k.Replaced {
		out.ReplacedBy = new(apikey.ID(k.ReplacedBy))
	}
	for _, q := range k.Quotas {
		out.Quotas[plan.QuotaKey(q.QuotaKey).String()] = q.Limit
	}
	for _, u := range k.Usage {
		out.Usage[plan.QuotaKey(u.QuotaKey).String()] = keyCountView{
			Used: u.Used, Overage: u.Overage, CreditsSpent: plan.Credits(u.SpentMicros),
		}
	}
	return out
}

func viewCap(c *event.CapStatus) *capView {
	if c == nil {
		return nil
	}
	return &capView{
		Amount: plan.Credits(c.Cap.GetAmountMicros()), Period: endpoint.CapPeriodName(c.Cap.GetPeriod()), Spent: plan.Credits(c.SpentMicros),
		ResetAt: endpoint.OptionalTime(c.ResetMs),
	}
}

type keysView struct {
	endpoint.Success
	Keys        []listedKeyView `json:"keys"`
	SpendingCap *capView        `json:"spendingCap"`
}

// listKeys answers with the account's keys, the default key first, and its spending cap.
func (s *Accounts) listKeys(c *endpoint.Call) error {
	u, err := s.UsageOf(c, c.Who.Account, &event.UsageQuery{Keys: true, Addresses: true})
	if err != nil {
		return err
	}
	return s.JSON(c.Ctx, fiber.StatusOK, ViewKeys(u, s.Now()))
}

// ViewKeys is the list of an account's keys, as it shows it at a time.
func ViewKeys(u *event.UsageAnswer, now time.Time) keysView {
	out := keysView{Success: endpoint.Succeeded(), Keys: make([]listedKeyView, 0, len(u.Keys)), SpendingCap: viewCap(u.Cap)}
	for _, k := range u.Keys {
		out.Keys = append(out.Keys, listedKeyView{viewAPIKey(k, now), endpoint.OptionalText(k.LastAddress)})
	}
	return out
}

type madeKeyView struct {
	endpoint.Success
	APIKey          string     `json:"apiKey"`
	Key             apiKeyView `json:"key"`
	OldKeyExpiresAt string     `json:"oldKeyExpiresAt,omitempty"`
}

// createKey creates an additional key. Its text is shown only once, or again under the same Idempotency-Key.
func (s *Accounts) createKey(c *endpoint.Call) error {
	rules, err := ReadKeyRules(input.JSON(c.Fields), s.Now(), true)
	if err != nil {
		return err
	}
	made, err := s.FurtherKey(c, rules)
	if err != nil {
		return err
	}
	return s.JSON(c.Ctx, fiber.StatusCreated, made)
}

// FurtherKey creates an additional key.
func (s *Accounts) FurtherKey(c *endpoint.Call, rules *event.KeyRules) (*madeKeyView, error) {
	key := s.NewKey(c, c.Who.Account)
	rotation := s.Rotation(key)
	made, _, err := s.makeFurtherKey(c, key, &event.Command{Action: &event.Command_CreateKey{CreateKey: &event.CreateKey{
		Fingerprint: rotation.Fingerprint, Prefix: rotation.Prefix, Rules: rules,
	}}})
	return made, err
}

// OwnCommand executes a command on the session's account.
func (s *Accounts) OwnCommand(c *endpoint.Call, cmd *event.Command) (*event.CommandOutcome, error) {
	return s.commandOn(c, c.Who.Account, cmd)
}

// commandOn executes a command on an account.
func (s *Accounts) commandOn(c *endpoint.Call, account event.AccountID, cmd *event.Command) (*event.CommandOutcome, error) {
	cmd.Account, cmd.IdempotencyId, cmd.BodyHash = uint64(account), c.Idem, c.Hash
	return s.Command(c, cmd)
}

// makeFurtherKey executes a command that creates a key.
func (s *Accounts) makeFurtherKey(c *endpoint.Call, key apikey.Key, cmd *event.Command) (*madeKeyView, *event.CommandOutcome, error) {
	o, err := s.OwnCommand(c, cmd)
	if err != nil {
		return nil, nil, err
	}
	if o.Key == nil {
		return nil, nil, endpoint.Unavailable(endpoint.ErrUnknownOutcome)
	}
	key.Number, o.KeyVersion = o.Key.Number, o.Key.Version
	if key, err = s.MadeKey(c, key, o); err != nil {
		return nil, nil, err
	}
	out := &madeKeyView{Success: endpoint.Succeeded(), APIKey: s.secret.Format(key), Key: viewAPIKey(o.Key, s.Now())}
	if o.OldKeyExpiresMs != 0 {
		out.OldKeyExpiresAt = endpoint.FormatTime(o.OldKeyExpiresMs)
	}
	return out, o, nil
}

type keyChangedView struct {
	endpoint.Success
	Key        apiKeyView `json:"key"`
	CapCleared bool       `json:"capCleared,omitempty"` // the request removed the key's spending cap
}

// updateKey changes the properties of a key that the body names.
func (s *Accounts) updateKey(c *endpoint.Call) error {
	rules, err := ReadKeyRules(input.JSON(c.Fields), s.Now(), false)
	if err != nil {
		return err
	}
	return s.answerKey(c, rules.Cap != nil && NoCap(rules.Cap), func(number uint32) (*event.ApiKey, error) { return s.ChangedKey(c, number, rules) })
}

// ChangedKey changes the properties of a key that the rules set.
func (s *Accounts) ChangedKey(c *endpoint.Call, number uint32, rules *event.KeyRules) (*event.ApiKey, error) {
	return s.changeKey(c, c.Who.Account, &event.Command{Action: &event.Command_UpdateKey{UpdateKey: &event.UpdateKey{Key: number, Rules: rules}}})
}

// revokeKey revokes a key. The outcome comes from the fold that admits requests, so that it admits no request with the key
// afterwards.
func (s *Accounts) revokeKey(c *endpoint.Call) error {
	return s.answerKey(c, false, func(number uint32) (*event.ApiKey, error) { return s.RevokedKey(c, number) })
}

// RevokedKey revokes a key of the session's account.
func (s *Accounts) RevokedKey(c *endpoint.Call, number uint32) (*event.ApiKey, error) {
	return s.changeKey(c, c.Who.Account, revocation(number))
}

// RevokeKeyOf revokes a key of an account, for an admin, and answers with it.
func (s *Accounts) RevokeKeyOf(c *endpoint.Call, account event.AccountID, id string) error {
	number, ok := apikey.ParseID(id)
	if !ok {
		return endpoint.NotFound()
	}
	key, err := s.changeKey(c, account, revocation(number))
	if err != nil {
		return err
	}
	return s.JSON(c.Ctx, fiber.StatusOK, keyChangedView{Success: endpoint.Succeeded(), Key: viewAPIKey(key, s.Now())})
}

func revocation(number uint32) *event.Command {
	return &event.Command{Action: &event.Command_RevokeKey{RevokeKey: &event.RevokeKey{Key: number}}}
}

func (s *Accounts) changeKey(c *endpoint.Call, account event.AccountID, cmd *event.Command) (*event.ApiKey, error) {
	o, err := s.commandOn(c, account, cmd)
	if err != nil {
		return nil, err
	}
	if o.Key == nil {
		return nil, endpoint.Unavailable(endpoint.ErrUnknownOutcome)
	}
	return o.Key, nil
}

// answerKey answers with the key in the path after a change, which may have cleared its spending cap.
func (s *Accounts) answerKey(c *endpoint.Call, capCleared bool, change func(number uint32) (*event.ApiKey, error)) error {
	number, err := PathKey(c)
	if err != nil {
		return err
	}
	key, err := change(number)
	if err != nil {
		return err
	}
	return s.JSON(c.Ctx, fiber.StatusOK, keyChangedView{Success: endpoint.Succeeded(), Key: viewAPIKey(key, s.Now()), CapCleared: capCleared})
}

// rotateKey creates a successor of a key, which stays valid for a while.
func (s *Accounts) rotateKey(c *endpoint.Call) error {
	overlap, err := ReadOverlap(input.JSON(c.Fields))
	if err != nil {
		return err
	}
	number, err := PathKey(c)
	if err != nil {
		return err
	}
	made, _, err := s.ReplacedKey(c, number, overlap)
	if err != nil {
		return err
	}
	return s.JSON(c.Ctx, fiber.StatusOK, made)
}

// ReadOverlap reads how long a rotated key stays valid.
func ReadOverlap(from input.Source) (time.Duration, error) {
	overlap := time.Duration(-1)
	err := from(input.Fields{"overlap": input.To(&overlap, overlapField)}.Set)
	if err == nil && overlap < 0 {
		err = httperr.InvalidField("overlap", `is required: for how long the old key stays valid, like "24h", or "0s"`)
	}
	return overlap, err
}

// ReplacedKey creates a successor of a key, which stays valid until endsMs.
func (s *Accounts) ReplacedKey(c *endpoint.Call, number uint32, overlap time.Duration) (made *madeKeyView, endsMs int64, err error) {
	key := s.NewKey(c, c.Who.Account)
	rotation := s.Rotation(key)
	made, o, err := s.makeFurtherKey(c, key, &event.Command{Action: &event.Command_ReplaceKey{ReplaceKey: &event.ReplaceKey{
		Key: number, Fingerprint: rotation.Fingerprint, Prefix: rotation.Prefix, OverlapMs: overlap.Milliseconds(),
	}}})
	if err != nil {
		return nil, 0, err
	}
	return made, o.OldKeyExpiresMs, nil
}

// overlapField parses a whole number with unit s, m, h or d, from 0s to 7d.
func overlapField(name string, v input.Value) (time.Duration, error) {
	text, err := input.StringField(name, v)
	if err != nil {
		return 0, err
	}
	unit := time.Duration(0)
	if text != "" {
		switch text[len(text)-1] {
		case 's':
			unit = time.Second
		case 'm', 'h', 'd':
			unit, _ = endpoint.LifetimeUnit(text[len(text)-1])
		}
	}
	var n uint64
	if unit != 0 {
		n, err = strconv.ParseUint(text[:len(text)-1], 10, 31)
	}
	if unit == 0 || err != nil || time.Duration(n) > maxKeyOverlap/unit {
		return 0, httperr.InvalidField(name, `must be a whole number with one of s, m, h, d, from "0s" to "7d"`).InForm(name + " must be at most 7 days, such as 24h.")
	}
	return time.Duration(n) * unit, nil
}

// ReadKeyRules reads the properties of a new key, or the changes to a key. Billing names a new key without a name.
func ReadKeyRules(from input.Source, now time.Time, create bool) (*event.KeyRules, error) {
	r := &event.KeyRules{}
	any, lifetime, instant := false, false, false
	unset := func(sent *bool) { // a new key has no expiry for null to remove
		if !create {
			*sent, r.ExpiresMs = true, new(int64)
		}
	}
	fields := input.Fields{
		"name": func(name string, v input.Value) (err error) {
			var text string
			text, err = input.LineField(name, v, keyNameChars)
			if text = strings.TrimSpace(text); err == nil && text == "" {
				err = httperr.InvalidField(name, fmt.Sprintf("must have 1 to %d characters", keyNameChars))
			}
			r.Name = &text
			return err
		},
		"scopes": input.To(&r.Scopes, keyScopesField),
		"expiresIn": func(name string, v input.Value) error {
			if v.Kind == input.Null {
				unset(&lifetime)
				return nil
			}
			lifetime = true
			d, err := endpoint.LifetimeField(name, v, endpoint.MaxLifetime)
			if d == 0 {
				r.ExpiresMs = new(int64)
			} else {
				r.ExpiresInMs = new(d.Milliseconds())
			}
			return err
		},
		"expiresAt": func(name string, v input.Value) error {
			if v.Kind == input.Null {
				unset(&instant)
				return nil
			}
			instant = true
			t, err := endpoint.InstantField(name, v, now, endpoint.MaxLifetime)
			r.ExpiresMs = new(t.UnixMilli())
			return err
		},
		"quotas":      input.To(&r.Quotas, keyQuotasField),
		"spendingCap": input.To(&r.Cap, keyCapField),
	}
	err := from(func(name string, v input.Value) error {
		any = true
		return fields.Set(name, v)
	})
	switch {
	case err != nil:
	case lifetime && instant:
		err = httperr.InvalidField("expiresAt", "must not be sent together with expiresIn")
	case !create && !any:
		err = httperr.Malformed("The body must be a JSON object with at least one field to change: name, scopes, expiresIn, expiresAt, quotas, spendingCap.")
	}
	return r, err
}

// keyScopesField parses a list of scopes; null means all.
func keyScopesField(name string, v input.Value) (*event.KeyScopes, error) {
	out := &event.KeyScopes{}
	if v.Kind == input.Null {
		return out, nil
	}
	if v.Kind != input.Array || len(v.Items) == 0 {
		return nil, httperr.InvalidField(name, "must be a list of at least one scope, or null for all").
			InForm("Choose at least one request, or allow all requests.")
	}
	for _, item := range v.Items {
		if item.Kind != input.String {
			return nil, httperr.InvalidField(name, "must be a list of strings")
		}
		scope, err := option(name, string(item.Text), plan.Scopes(), plan.QuotaKey.String)
		if err != nil {
			return nil, err
		}
		out.QuotaKeys = append(out.QuotaKeys, uint32(scope))
	}
	slices.Sort(out.QuotaKeys)
	out.QuotaKeys = slices.Compact(out.QuotaKeys)
	return out, nil
}

// keyQuotasField parses limits by quota key; null means none.
func keyQuotasField(name string, v input.Value) (*event.KeyQuotas, error) {
	out := &event.KeyQuotas{}
	if v.Kind == input.Null {
		return out, nil
	}
	if v.Kind != input.Object {
		return nil, httperr.InvalidField(name, "must be an object with a monthly request limit for each quota key, or null")
	}
	for _, m := range v.Members {
		key, err := QuotaKeyField(name, input.Value{Kind: input.String, Text: []byte(m.Name)})
		if err != nil {
			return nil, err
		}
		n, err := strconv.ParseUint(string(m.Value.Text), 10, 32)
		if err != nil || m.Value.Kind != input.Number || n > maxKeyQuota {
			return nil, httperr.InvalidField(name+"."+m.Name, "must be a whole number from 0 to "+strconv.Itoa(maxKeyQuota))
		}
		out.Limits = append(out.Limits, &event.KeyQuota{QuotaKey: key, Limit: uint32(n)})
	}
	slices.SortFunc(out.Limits, func(a, b *event.KeyQuota) int { return int(a.QuotaKey) - int(b.QuotaKey) })
	return out, nil
}

// keyCapField parses {amount, period}; null means none.
func keyCapField(name string, v input.Value) (*event.SpendingCap, error) {
	if v.Kind == input.Null {
		return &event.SpendingCap{}, nil
	}
	if v.Kind != input.Object {
		return nil, httperr.InvalidField(name, "must be an object with amount and period, or null")
	}
	return readCap(input.List(v.Members...), name+".")
}
