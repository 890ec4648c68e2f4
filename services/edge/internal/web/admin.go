package web

import (
	"strings"
	"time"
	"unicode/utf8"

	"github.com/gofiber/fiber/v2"

	"quire.dev/pkg/event"
	"quire.dev/pkg/plan"
	"quire.dev/services/edge/internal/fault"
	"quire.dev/services/edge/internal/httpin/httperr"
	"quire.dev/services/edge/internal/httpin/input"
)

const (
	maxGrant    = 1_000_000_000 * plan.Credit // that one call gives or takes, and that an account may have
	reasonChars = 200
)

// requireAdmin finds the admin token that was sent.
func (s *Server) requireAdmin(c *call) error {
	scheme, token, _ := strings.Cut(strings.Trim(c.Get(fiber.HeaderAuthorization), " \t"), " ")
	if strings.EqualFold(scheme, "Bearer") {
		c.admin = s.cfg.AdminTokens.Find(strings.Trim(token, " \t"))
	}
	if c.admin == "" {
		return s.sourceFailed(c.Ctx, fault.New(fault.AdminTokenRequired, "Admin token required"))
	}
	return nil
}

// pathAccount is the account in the path; 404 for text that is no account id.
func pathAccount(c *call) (event.AccountID, error) {
	id, err := event.ParseAccountID(c.Params("id"))
	if err != nil {
		return 0, notFound()
	}
	return id, nil
}

// pathUser is the user of the account in the path, 404 where there is none.
func (s *Server) pathUser(c *call) (*event.User, error) {
	account, err := pathAccount(c)
	if err != nil {
		return nil, err
	}
	user, err := s.userOf(account)
	if err == nil && user == nil {
		err = notFound()
	}
	return user, err
}

func tierField(name string, v input.Value) (plan.Tier, error) {
	text, err := input.StringField(name, v)
	if err != nil {
		return 0, err
	}
	tier, ok := plan.ParseTier(text)
	if !ok {
		return 0, httperr.NotAnOption(name, text, "free", "pro", "max", "admin")
	}
	return tier, nil
}

type accountCreatedView struct {
	success
	Account accountView `json:"account"`
	APIKey  string      `json:"apiKey"`
}

// createAccount makes an account with a key, for a user who has no password.
func (s *Server) createAccount(c *call) error {
	email, tier, err := readNewAccount(c.json)
	if err != nil {
		return err
	}
	proposed, err := s.proposeAccount(c.idem, email)
	if err != nil {
		return err
	}
	user, err := s.storeUser(&event.RegisterUser{Email: email, Account: uint64(proposed)})
	if err != nil {
		return err
	}
	if user.PasswordHash != "" && user.Account != uint64(proposed) {
		return emailTaken() // registered by its owner
	}
	// The email of a user that exists may be of an earlier call that stopped here. Billing knows.
	account := event.AccountID(user.Account)
	key := s.newKey(c, account)
	o, err := s.command(c, &event.Command{
		Account: user.Account, IdempotencyId: c.idem, BodyHash: registrationHash(user, tier),
		Action: &event.Command_Create{Create: &event.CreateAccount{Tier: uint32(tier), Key: s.rotation(key)}},
	})
	if err != nil {
		return err
	}
	if key, err = s.madeKey(c, key, o); err != nil {
		return err
	}
	return s.json(c.Ctx, fiber.StatusCreated, accountCreatedView{
		success: succeeded(), Account: viewAccount(account, user.Email, plan.Tier(o.Tier)), APIKey: s.secret.Format(key),
	})
}

func readNewAccount(body []byte) (email string, tier plan.Tier, err error) {
	err = input.ParseObject(body, input.Fields{"email": input.To(&email, emailField), "tier": input.To(&tier, tierField)}.Set)
	switch {
	case err != nil:
	case email == "":
		err = httperr.InvalidField("email", "is required")
	case tier == plan.TierUnspecified:
		err = httperr.InvalidField("tier", "is required")
	}
	return email, tier, err
}

func (s *Server) showAccount(c *call) error {
	account, err := pathAccount(c)
	if err != nil {
		return err
	}
	u, err := s.usage(account)
	if err != nil {
		return err
	}
	email, err := s.emailOf(account)
	if err != nil {
		return err
	}
	view := viewUsage(u, email)
	view.Account.SuspensionReason = u.SuspensionReason
	return s.json(c.Ctx, fiber.StatusOK, view)
}

// showKeysOf answers with the keys of an account as its holder sees them.
func (s *Server) showKeysOf(c *call) error {
	account, err := pathAccount(c)
	if err != nil {
		return err
	}
	u, err := s.usageOf(c, account, &event.UsageQuery{Keys: true})
	if err != nil {
		return err
	}
	return s.json(c.Ctx, fiber.StatusOK, viewKeys(u))
}

type tierSetView struct {
	success
	Account accountView `json:"account"`
}

func (s *Server) setTier(c *call) error {
	user, o, err := s.tierSet(c)
	if err != nil {
		return err
	}
	return s.json(c.Ctx, fiber.StatusOK, tierSetView{success: succeeded(), Account: viewOutcome(user, o)})
}

// tierSet gives the account in the path another tier.
func (s *Server) tierSet(c *call) (*event.User, *event.CommandOutcome, error) {
	var tier plan.Tier
	err := input.ParseObject(c.json, input.Fields{"tier": input.To(&tier, tierField)}.Set)
	if err != nil {
		return nil, nil, err
	}
	if tier == plan.TierUnspecified {
		return nil, nil, httperr.InvalidField("tier", "is required")
	}
	user, err := s.pathUser(c)
	if err != nil {
		return nil, nil, err
	}
	o, err := s.command(c, &event.Command{
		Account: user.Account, IdempotencyId: c.idem, BodyHash: c.hash,
		Action: &event.Command_SetTier{SetTier: &event.SetTier{Tier: uint32(tier)}},
	})
	return user, o, err
}

type grantedView struct {
	success
	Balance string `json:"balance"`
}

func (s *Server) grantCredits(c *call) error {
	o, err := s.granted(c)
	if err != nil {
		return err
	}
	return s.json(c.Ctx, fiber.StatusOK, grantedView{success: succeeded(), Balance: credits(o.BalanceMicros)})
}

// granted gives the account in the path credits, or takes some away.
func (s *Server) granted(c *call) (*event.CommandOutcome, error) {
	grant, err := parseGrant(c.json, s.now())
	if err != nil {
		return nil, err
	}
	account, err := pathAccount(c)
	if err != nil {
		return nil, err
	}
	return s.command(c, &event.Command{
		Account: uint64(account), IdempotencyId: c.idem, BodyHash: c.hash, Action: &event.Command_Grant{Grant: grant},
	})
}

// parseGrant reads {amount, reason, expiresAt?}.
func parseGrant(body []byte, now time.Time) (*event.Grant, error) {
	g := &event.Grant{}
	err := input.ParseObject(body, input.Fields{
		"amount": input.To(&g.AmountMicros, amountField),
		"reason": input.To(&g.Reason, input.Line(reasonChars)),
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
		return nil, httperr.InvalidField("expiresAt", "is only for credits that are given")
	}
	return g, nil
}

// amountField reads an amount of credits: a decimal string, or the digits of a number. It never goes through a float.
func amountField(name string, v input.Value) (int64, error) {
	if v.Kind != input.String && v.Kind != input.Number {
		return 0, httperr.InvalidField(name, "must be a decimal string like \"12.5\"")
	}
	amount, err := plan.ParseCredits(string(v.Text))
	switch {
	case err != nil && utf8.RuneCount(v.Text) > 32, amount > maxGrant, amount < -maxGrant:
		return 0, httperr.InvalidField(name, "must be between -1000000000 and 1000000000")
	case err != nil:
		return 0, httperr.InvalidField(name, "must be a decimal number with at most six places")
	case amount == 0:
		return 0, httperr.InvalidField(name, "must not be zero")
	}
	return int64(amount), nil
}

// futureField reads an optional time after now as Unix milliseconds; 0 for null.
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
