package admin

import (
	"strings"
	"time"

	"github.com/gofiber/fiber/v2"

	"quire.dev/pkg/event"
	"quire.dev/pkg/plan"
	"quire.dev/pkg/pricebook"
	"quire.dev/services/edge/internal/accounts"
	"quire.dev/services/edge/internal/bus"
	"quire.dev/services/edge/internal/endpoint"
	"quire.dev/services/edge/internal/httpin/httperr"
	"quire.dev/services/edge/internal/httpin/input"
)

// PathAccount parses the account id in the path; 404 if it is none.
func PathAccount(c *endpoint.Call) (event.AccountID, error) {
	id, err := event.ParseAccountID(c.Params("id"))
	if err != nil {
		return 0, endpoint.NotFound()
	}
	return id, nil
}

// pathUser returns the user of the account in the path, 404 if it has none.
func (s *Admin) pathUser(c *endpoint.Call) (*event.User, error) {
	account, err := PathAccount(c)
	if err != nil {
		return nil, err
	}
	user, err := s.accounts.UserOf(account)
	if err == nil && user == nil {
		err = endpoint.NotFound()
	}
	return user, err
}

// tierField reads the name of a plan of the price book in force.
func (s *Admin) tierField(name string, v input.Value) (plan.Tier, error) {
	text, err := input.StringField(name, v)
	if err != nil {
		return 0, err
	}
	inForce, err := s.Prices()
	if inForce == nil {
		return 0, err
	}
	book := pricebook.Of(inForce)
	if tier, found := book.Tier(text); found {
		return tier, nil
	}
	var names []string
	for _, tier := range book.Tiers() {
		names = append(names, book.Plans[tier].Name)
	}
	return 0, httperr.NotAnOption(name, text, names...)
}

type accountCreatedView struct {
	endpoint.Success
	Account accounts.AccountView `json:"account"`
	APIKey  string               `json:"apiKey"`
}

// createAccount creates an account with a key, for a user without a password.
func (s *Admin) createAccount(c *endpoint.Call) error {
	email, tier, err := s.readNewAccount(c.Fields)
	if err != nil {
		return err
	}
	proposed, err := s.accounts.ProposeAccount(c.Idem, email)
	if err != nil {
		return err
	}
	user, err := s.accounts.StoreUser(&event.RegisterUser{Email: email, Account: uint64(proposed)})
	if err != nil {
		return err
	}
	if user.PasswordHash != "" && user.Account != uint64(proposed) {
		return accounts.EmailTaken() // registered by its owner
	}
	// An existing user's email may be from an earlier call that was interrupted here. Billing knows.
	account := event.AccountID(user.Account)
	key := s.accounts.NewKey(c, account)
	o, err := s.accounts.Command(c, &event.Command{
		Account: user.Account, IdempotencyId: c.Idem, BodyHash: accounts.RegistrationHash(user, tier),
		Action: &event.Command_Create{Create: &event.CreateAccount{Tier: uint32(tier), Key: s.accounts.Rotation(key)}},
	})
	if err != nil {
		return err
	}
	if key, err = s.accounts.MadeKey(c, key, o); err != nil {
		return err
	}
	return s.JSON(c.Ctx, fiber.StatusCreated, accountCreatedView{
		Success: endpoint.Succeeded(), Account: accounts.ViewAccount(account, user.Email, plan.Tier(o.Tier).Name(o.Plan)), APIKey: s.secret.Format(key),
	})
}

func (s *Admin) readNewAccount(body []byte) (email string, tier plan.Tier, err error) {
	err = input.ParseObject(body, input.Fields{"email": input.To(&email, accounts.EmailField), "tier": input.To(&tier, s.tierField)}.Set)
	switch {
	case err != nil:
	case email == "":
		err = httperr.InvalidField("email", "is required")
	case tier == plan.TierUnspecified:
		err = httperr.InvalidField("tier", "is required")
	}
	return email, tier, err
}

func (s *Admin) showAccount(c *endpoint.Call) error {
	account, err := PathAccount(c)
	if err != nil {
		return err
	}
	u, err := s.Usage(account)
	if err != nil {
		return err
	}
	email, err := s.accounts.EmailOf(account)
	if err != nil {
		return err
	}
	view := accounts.ViewUsage(u, email)
	view.Account.SuspensionReason, view.Account.QuarantineReason = u.SuspensionReason, u.QuarantineReason
	return s.JSON(c.Ctx, fiber.StatusOK, view)
}

// showKeysOf answers with an account's keys, as its holder sees them.
func (s *Admin) showKeysOf(c *endpoint.Call) error {
	account, err := PathAccount(c)
	if err != nil {
		return err
	}
	u, err := s.UsageOf(c, account, &event.UsageQuery{Keys: true})
	if err != nil {
		return err
	}
	return s.JSON(c.Ctx, fiber.StatusOK, accounts.ViewKeys(u, s.Now()))
}

// revokeKeyOf revokes one key of an account. Once this has answered, every edge refuses it.
func (s *Admin) revokeKeyOf(c *endpoint.Call) error {
	account, err := PathAccount(c)
	if err != nil {
		return err
	}
	return s.accounts.RevokeKeyOf(c, account, c.Params("key"))
}

type tierSetView struct {
	endpoint.Success
	Account accounts.AccountView `json:"account"`
}

func (s *Admin) setTier(c *endpoint.Call) error {
	tier, err := s.ReadTier(input.JSON(c.Fields))
	if err != nil {
		return err
	}
	user, o, err := s.TierSet(c, tier)
	if err != nil {
		return err
	}
	return s.JSON(c.Ctx, fiber.StatusOK, tierSetView{Success: endpoint.Succeeded(), Account: accounts.ViewOutcome(user, o)})
}

// TierChange is a tier, and whether it begins with the next month.
type TierChange struct {
	tier      plan.Tier
	nextMonth bool
}

// ReadTier reads {tier, when}.
func (s *Admin) ReadTier(from input.Source) (change TierChange, err error) {
	var when string
	err = from(input.Fields{"tier": input.To(&change.tier, s.tierField), "when": input.To(&when, accounts.WhenField)}.Set)
	change.nextMonth = when == accounts.PeriodEnd
	if err == nil && change.tier == plan.TierUnspecified {
		err = httperr.InvalidField("tier", "is required")
	}
	return change, err
}

func (c TierChange) command() *event.Command {
	if c.nextMonth {
		return &event.Command{Action: &event.Command_SetNextTier{SetNextTier: &event.SetNextTier{Tier: uint32(c.tier)}}}
	}
	return &event.Command{Action: &event.Command_SetTier{SetTier: &event.SetTier{Tier: uint32(c.tier)}}}
}

// TierSet changes the tier of the account in the path.
func (s *Admin) TierSet(c *endpoint.Call, change TierChange) (*event.User, *event.CommandOutcome, error) {
	user, err := s.pathUser(c)
	if err != nil {
		return nil, nil, err
	}
	command := change.command()
	command.Account, command.IdempotencyId, command.BodyHash = user.Account, c.Idem, c.Hash
	o, err := s.accounts.Command(c, command)
	return user, o, err
}

type grantedView struct {
	endpoint.Success
	Balance string `json:"balance"`
}

func (s *Admin) grantCredits(c *endpoint.Call) error {
	grant, err := ReadGrant(input.JSON(c.Fields), s.Now())
	if err != nil {
		return err
	}
	o, err := s.Granted(c, grant)
	if err != nil {
		return err
	}
	return s.JSON(c.Ctx, fiber.StatusOK, grantedView{Success: endpoint.Succeeded(), Balance: plan.Credits(o.BalanceMicros)})
}

// Granted grants or withdraws credits of the account in the path.
func (s *Admin) Granted(c *endpoint.Call, grant *event.Grant) (*event.CommandOutcome, error) {
	account, err := PathAccount(c)
	if err != nil {
		return nil, err
	}
	return s.accounts.Command(c, &event.Command{
		Account: uint64(account), IdempotencyId: c.Idem, BodyHash: c.Hash, Action: &event.Command_Grant{Grant: grant},
	})
}

// ReadGrant reads {amount, reason, expiresAt?}.
func ReadGrant(from input.Source, now time.Time) (*event.Grant, error) {
	g := &event.Grant{}
	err := from(input.Fields{
		"amount": input.To(&g.AmountMicros, accounts.AmountField),
		"reason": input.To(&g.Reason, input.Line(accounts.ReasonChars)),
		"expiresAt": func(name string, v input.Value) (err error) {
			g.ExpiresMs, err = futureField(name, v, now)
			return err
		},
	}.Set)
	switch {
	case err != nil:
		return nil, err
	case g.AmountMicros == 0:
		return nil, httperr.InvalidField("amount", "is required")
	case strings.TrimSpace(g.Reason) == "":
		return nil, httperr.InvalidField("reason", "is required: 1 to 200 characters")
	case g.AmountMicros < 0 && g.ExpiresMs != 0:
		return nil, httperr.InvalidField("expiresAt", "is only for credits that are given").InForm("Leave the expiry empty: only credits that you add expire.")
	}
	return g, nil
}

// futureField parses an optional time in the future as Unix milliseconds; 0 for null.
func futureField(name string, v input.Value, now time.Time) (int64, error) {
	if v.Kind == input.Null {
		return 0, nil
	}
	t, err := input.TimeField(name, v)
	if err != nil {
		return 0, err
	}
	if !t.After(now) {
		return 0, httperr.InvalidField(name, "must be in the future")
	}
	return t.UnixMilli(), nil
}

// setPassword sets an account's password and ends its sessions.
func (s *Admin) setPassword(c *endpoint.Call) error {
	var password string
	err := input.ParseObject(c.Fields, input.Fields{"password": input.To(&password, accounts.AccountPasswordField(accounts.AccountPasswordMin))}.Set)
	if err == nil && password == "" {
		err = httperr.InvalidField("password", "is required")
	}
	if err != nil {
		return err
	}
	user, err := s.pathUser(c)
	if err != nil {
		return err
	}
	return s.Succeed(c, s.accounts.ResetPassword(c, user, password))
}

// explainAny explains the decision on a request of any account, or of none, and what the request waited for.
func (s *Admin) explainAny(c *endpoint.Call) error {
	id, err := accounts.ExplainedID(c)
	if err != nil {
		return err
	}
	e, err := s.ExplainForAdmin(c, bus.Question{Request: id})
	if err != nil {
		return err
	}
	if e.Answer == nil {
		return s.accounts.Explaining(c, e)
	}
	return s.JSON(c.Ctx, fiber.StatusOK, explanationView{
		Success: endpoint.Succeeded(), Request: accounts.ViewExplained(e.Answer), Timing: s.timingOf(c, e.Answer),
	})
}

// ExplainForAdmin explains the decision on a request of any account, and records that in the journal.
func (s *Admin) ExplainForAdmin(c *endpoint.Call, q bus.Question) (*bus.Explanation, error) {
	if err := s.note(c, 0, noteExplain, q.Request.String()); err != nil {
		return nil, err
	}
	return s.bus.ExplainAny(s.ctx, q)
}
