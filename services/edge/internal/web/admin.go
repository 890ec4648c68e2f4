package web

import (
	"quire.dev/services/edge/internal/httpin"

	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/gofiber/fiber/v2"

	"quire.dev/pkg/credit"
	"quire.dev/pkg/event"
	"quire.dev/pkg/plan"
	"quire.dev/services/edge/internal/fault"
)

const (
	// maxGrant is the most that one call gives or takes, and what an account may have.
	maxGrant     = 1_000_000_000 * credit.One
	reasonChars  = 200
	auditTimeout = 10 * time.Minute
)

// adminScope is what the Idempotency-Keys of the admin endpoints belong to.
func adminScope() []byte { return []byte("admin") }

// registerAdmin registers the admin endpoints. Without a token they do not exist.
func (s *Server) registerAdmin() {
	if s.cfg.AdminToken == "" {
		return
	}
	for _, r := range []struct {
		method, path string
		h            fiber.Handler
	}{
		{fiber.MethodPost, "/api/admin/accounts", s.createAccount},
		{fiber.MethodGet, "/api/admin/accounts/:id", s.showAccount},
		{fiber.MethodPut, "/api/admin/accounts/:id/tier", s.setTier},
		{fiber.MethodPost, "/api/admin/accounts/:id/credits", s.grantCredits},
		{fiber.MethodGet, "/api/admin/requests/:requestId", s.explainAny},
		{fiber.MethodPost, "/api/admin/audit", s.audit},
	} {
		s.http.Handle(r.method, r.path, func(c *fiber.Ctx) error {
			if err := s.requireAdmin(c); err != nil {
				return err
			}
			return r.h(c)
		})
	}
}

// requireAdmin compares the hashes, so that neither the token nor its length shows in the time.
func (s *Server) requireAdmin(c *fiber.Ctx) error {
	auth := strings.TrimSpace(c.Get(fiber.HeaderAuthorization))
	if len(auth) > 7 && strings.EqualFold(auth[:7], "Bearer ") {
		given, want := sha256.Sum256([]byte(strings.TrimSpace(auth[7:]))), sha256.Sum256([]byte(s.cfg.AdminToken))
		if subtle.ConstantTimeCompare(given[:], want[:]) == 1 {
			return nil
		}
	}
	return s.sourceFailed(c, fault.New(fault.AdminTokenRequired, "Admin token required"))
}

// pathAccount is the account in the path; 404 for what is no account id.
func pathAccount(c *fiber.Ctx) (event.AccountID, error) {
	id, err := event.ParseAccountID(c.Params("id"))
	if err != nil {
		return 0, notFound()
	}
	return id, nil
}

// pathUser is the user of the account in the path, 404 where there is none.
func (s *Server) pathUser(c *fiber.Ctx) (*event.User, error) {
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

func tierField(name string, v httpin.Value) (plan.Tier, error) {
	text, err := httpin.StringField(name, v)
	if err != nil {
		return 0, err
	}
	tier, ok := plan.ParseTier(text)
	if !ok {
		return 0, httpin.InvalidField(name, "must be one of free, pro, max, admin")
	}
	return tier, nil
}

type accountCreatedView struct {
	success
	Account accountView `json:"account"`
	APIKey  string      `json:"apiKey"`
}

// createAccount makes an account with a key, for a user who has no password.
func (s *Server) createAccount(c *fiber.Ctx) error {
	idem, err := idempotencyID(c, adminScope())
	if err != nil {
		return err
	}
	email, tier, err := s.readNewAccount(c)
	if err != nil {
		return err
	}
	proposed := s.proposeAccount(idem, email)
	a, err := s.bus.User(s.ctx, &event.UserRequest{Action: &event.UserRequest_Register{Register: &event.RegisterUser{
		Email: email, Account: uint64(proposed),
	}}})
	if err != nil {
		return err
	}
	user := a.GetUser()
	switch {
	case user.GetAccount() == 0, a.Status != event.UserStatus_USER_OK && a.Status != event.UserStatus_USER_EXISTS:
		return unavailable(errUserAnswer)
	case user.PasswordHash != "":
		return emailTaken() // registered by its owner
	}
	// An email that is there already may be of a call that stopped here: billing knows.
	account := event.AccountID(user.Account)
	key := s.newKey(c, account, idem)
	o, err := s.command(c, &event.Command{
		Account: user.Account, IdempotencyId: idem, BodyHash: registrationHash(user, tier),
		Action: &event.Command_Create{Create: &event.CreateAccount{Tier: uint32(tier), Key: s.rotation(key)}},
	})
	if err != nil {
		return err
	}
	key.Version = o.KeyVersion
	return s.json(c, fiber.StatusCreated, accountCreatedView{
		success: unmetered(), Account: viewAccount(account, user.Email, plan.Tier(o.Tier)), APIKey: s.secret.Format(key),
	})
}

func (s *Server) readNewAccount(c *fiber.Ctx) (email string, tier plan.Tier, err error) {
	body, err := s.readFields(c)
	if err != nil {
		return "", 0, err
	}
	err = httpin.ParseObject(body, func(name string, v httpin.Value) (err error) {
		switch name {
		case "email":
			email, err = emailField(name, v)
		case "tier":
			tier, err = tierField(name, v)
		default:
			err = httpin.UnknownField(name)
		}
		return err
	})
	switch {
	case err != nil:
	case email == "":
		err = httpin.InvalidField("email", "is required")
	case tier == plan.TierUnspecified:
		err = httpin.InvalidField("tier", "is required")
	}
	return email, tier, err
}

func (s *Server) showAccount(c *fiber.Ctx) error {
	if err := httpin.NoQuery(c); err != nil {
		return err
	}
	account, err := pathAccount(c)
	if err != nil {
		return err
	}
	u, err := s.usage(c, account, nil)
	if err != nil {
		return err
	}
	email, err := s.emailOf(account)
	if err != nil {
		return err
	}
	return s.json(c, fiber.StatusOK, viewUsage(u, email))
}

type tierSetView struct {
	success
	Account accountView `json:"account"`
}

func (s *Server) setTier(c *fiber.Ctx) error {
	idem, err := idempotencyID(c, adminScope())
	if err != nil {
		return err
	}
	body, err := s.readFields(c)
	if err != nil {
		return err
	}
	hash := bodyHash(c, body)
	var tier plan.Tier
	err = httpin.ParseObject(body, func(name string, v httpin.Value) (err error) {
		if name != "tier" {
			return httpin.UnknownField(name)
		}
		tier, err = tierField(name, v)
		return err
	})
	if err != nil {
		return err
	}
	if tier == plan.TierUnspecified {
		return httpin.InvalidField("tier", "is required")
	}
	user, err := s.pathUser(c)
	if err != nil {
		return err
	}
	o, err := s.command(c, &event.Command{
		Account: user.Account, IdempotencyId: idem, BodyHash: hash,
		Action: &event.Command_SetTier{SetTier: &event.SetTier{Tier: uint32(tier)}},
	})
	if err != nil {
		return err
	}
	return s.json(c, fiber.StatusOK, tierSetView{
		success: unmetered(), Account: viewAccount(event.AccountID(user.Account), user.Email, plan.Tier(o.Tier)),
	})
}

type grantedView struct {
	success
	Balance string `json:"balance"`
}

func (s *Server) grantCredits(c *fiber.Ctx) error {
	idem, err := idempotencyID(c, adminScope())
	if err != nil {
		return err
	}
	body, err := s.readFields(c)
	if err != nil {
		return err
	}
	hash := bodyHash(c, body)
	grant, err := parseGrant(body, s.now())
	if err != nil {
		return err
	}
	account, err := pathAccount(c)
	if err != nil {
		return err
	}
	o, err := s.command(c, &event.Command{
		Account: uint64(account), IdempotencyId: idem, BodyHash: hash, Action: &event.Command_Grant{Grant: grant},
	})
	if err != nil {
		return err
	}
	return s.json(c, fiber.StatusOK, grantedView{success: unmetered(), Balance: credits(o.BalanceMicros)})
}

// parseGrant reads {amount, reason, expiresAt?}.
func parseGrant(body []byte, now time.Time) (*event.Grant, error) {
	g := &event.Grant{}
	err := httpin.ParseObject(body, func(name string, v httpin.Value) (err error) {
		switch name {
		case "amount":
			g.AmountMicros, err = amountField(name, v)
		case "reason":
			g.Reason, err = httpin.LineField(name, v, reasonChars)
		case "expiresAt":
			g.ExpiresMs, err = futureField(name, v, now)
		default:
			err = httpin.UnknownField(name)
		}
		return err
	})
	switch {
	case err != nil:
		return nil, err
	case g.AmountMicros == 0:
		return nil, httpin.InvalidField("amount", "is required")
	case strings.TrimSpace(g.Reason) == "":
		return nil, httpin.InvalidField("reason", "is required: 1 to 200 characters")
	case g.AmountMicros < 0 && g.ExpiresMs != 0:
		return nil, httpin.InvalidField("expiresAt", "is only for credits that are given")
	}
	return g, nil
}

// amountField reads an amount of credits: a decimal string, or a number by its digits as they are
// written. It is never a float.
func amountField(name string, v httpin.Value) (int64, error) {
	if v.Kind != httpin.String && v.Kind != httpin.Number {
		return 0, httpin.InvalidField(name, "must be a decimal string like \"12.5\"")
	}
	amount, err := credit.Parse(string(v.Text))
	switch {
	case err != nil && utf8.RuneCount(v.Text) > 32, amount > maxGrant, amount < -maxGrant:
		return 0, httpin.InvalidField(name, "must be between -1000000000 and 1000000000")
	case err != nil:
		return 0, httpin.InvalidField(name, "must be a decimal number with at most six places")
	case amount == 0:
		return 0, httpin.InvalidField(name, "must not be zero")
	}
	return int64(amount), nil
}

// futureField reads an optional time after now as Unix milliseconds; 0 for null.
func futureField(name string, v httpin.Value, now time.Time) (int64, error) {
	if v.Kind == httpin.Null {
		return 0, nil
	}
	t, err := httpin.TimeField(name, v)
	if err != nil {
		return 0, err
	}
	if !t.After(now) {
		return 0, httpin.InvalidField(name, "must be in the future")
	}
	return t.UnixMilli(), nil
}

func (s *Server) explainAny(c *fiber.Ctx) error {
	id, err := explainedID(c)
	if err != nil {
		return err
	}
	e, err := s.bus.Explain(s.ctx, id)
	if err != nil {
		return err
	}
	return s.json(c, fiber.StatusOK, explanationView{success: unmetered(), Request: viewExplained(e)})
}

type auditView struct {
	success
	Match      bool                 `json:"match"`
	Partitions []auditPartitionView `json:"partitions"`
}

type auditPartitionView struct {
	Partition    uint32 `json:"partition"`
	LastSequence uint64 `json:"lastSequence"`
	Entries      uint64 `json:"entries"`
	LiveHash     string `json:"liveHash"`
	ReplayHash   string `json:"replayHash"`
	Match        bool   `json:"match"`
}

// audit takes as long as the journals are. No time-out of the server's cuts it short: those are of
// reading a request and of writing its answer.
func (s *Server) audit(c *fiber.Ctx) error {
	if err := s.readNothing(c); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(s.ctx, auditTimeout, errAuditTime)
	defer cancel()
	answers, err := s.bus.Audit(ctx)
	if err != nil {
		return err
	}
	return s.json(c, fiber.StatusOK, viewAudit(answers))
}

var errAuditTime = errors.New("the audit took too long")

// viewAudit matches where every partition does.
func viewAudit(answers []*event.AuditAnswer) auditView {
	out := auditView{success: unmetered(), Match: len(answers) > 0, Partitions: make([]auditPartitionView, 0, len(answers))}
	for _, a := range answers {
		out.Match = out.Match && a.Match
		out.Partitions = append(out.Partitions, auditPartitionView{
			Partition: a.Partition, LastSequence: a.LastSequence, Entries: a.Entries,
			LiveHash: hex.EncodeToString(a.LiveHash), ReplayHash: hex.EncodeToString(a.ReplayHash), Match: a.Match,
		})
	}
	return out
}
