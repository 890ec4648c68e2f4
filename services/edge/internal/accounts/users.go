package accounts

import (
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"net/netip"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/gofiber/fiber/v2"

	"quire.dev/pkg/apikey"
	"quire.dev/pkg/event"
	"quire.dev/pkg/plan"
	"quire.dev/services/edge/internal/endpoint"
	"quire.dev/services/edge/internal/fault"
	"quire.dev/services/edge/internal/httpin"
	"quire.dev/services/edge/internal/httpin/httperr"
	"quire.dev/services/edge/internal/httpin/input"
	"quire.dev/services/edge/internal/password"
)

const (
	AccountPasswordMin = 8 // characters
	accountPasswordMax = 128
)

// profileView shows the caller's account.
type profileView struct {
	endpoint.Success
	Account profileAccount `json:"account"`
	Key     *keyView       `json:"key"`

	DeletionUndone bool `json:"deletionUndone,omitempty"` // this call cancelled a deletion
}

type profileAccount struct {
	AccountView
	CreatedAt string `json:"createdAt"`
}

func viewProfile(u *event.UsageAnswer, email string) profileView {
	return profileView{
		Success: endpoint.Succeeded(),
		Account: profileAccount{
			AccountView: viewUser(u, email),
			CreatedAt:   endpoint.FormatTime(u.CreatedMs),
		},
		Key: viewKey(u),
	}
}

type Credentials struct{ Email, Password string }

// ReadCredentials reads {email, password}, of a registration or a login. A login accepts passwords of any length: one too short
// to register is simply wrong.
func ReadCredentials(from input.Source, shortest int) (Credentials, error) {
	return readCredentials(from, shortest, input.Fields{})
}

// readCredentials is ReadCredentials with more fields.
func readCredentials(from input.Source, shortest int, fields input.Fields) (out Credentials, err error) {
	fields["email"] = input.To(&out.Email, EmailField)
	fields["password"] = input.To(&out.Password, AccountPasswordField(shortest))
	err = from(fields.Set)
	switch {
	case err != nil:
		return out, err
	case out.Email == "": // absent
		return out, httperr.InvalidField("email", "is required")
	case out.Password == "":
		return out, httperr.InvalidField("password", "is required")
	}
	return out, nil
}

// EmailField checks the syntax of an address. No mail is sent to it.
func EmailField(name string, v input.Value) (string, error) {
	email, err := input.StringField(name, v)
	if err != nil {
		return "", err
	}
	if email == "" {
		return "", httperr.InvalidField(name, "is required")
	}
	if max(len(email), len(event.EmailID(email))) > event.MaxEmailBytes {
		return "", httperr.OverLimit(name, event.MaxEmailBytes, "must have at most "+strconv.Itoa(event.MaxEmailBytes)+" bytes")
	}
	if !event.ValidEmail(email) {
		return "", httperr.InvalidField(name, "must be an email address such as name@example.com")
	}
	return email, nil
}

func AccountPasswordField(shortest int) func(string, input.Value) (string, error) {
	return func(name string, v input.Value) (string, error) {
		password, err := input.StringField(name, v)
		switch n := utf8.RuneCountInString(password); {
		case err != nil:
		case n == 0:
			err = httperr.InvalidField(name, "is required")
		case n < shortest || n > accountPasswordMax:
			err = httperr.OverLimit(name, accountPasswordMax, fmt.Sprintf("must have %d to %d characters", AccountPasswordMin, accountPasswordMax))
		}
		return password, err
	}
}

func invalidCredentials() error {
	return fault.New(fault.InvalidCredentials, "Invalid email or password")
}

// usersMissing is the answer to a log-in that finds nobody, while billing knows of accounts whose users it has lost.
func usersMissing() error {
	e := fault.New(fault.Unavailable, "Signing in is not possible for everyone at the moment: records of users are missing on our side and are being restored. "+
		"Your account, its content and its API keys are not affected.")
	e.RetryAfter = usersMissingRetry
	return e.Because(errUsersMissing)
}

const usersMissingRetry = 60 // seconds

var errUsersMissing = errors.New("billing's read model lacks users of accounts: see QuireReadModelLost in docs/runbook.md")

func EmailTaken() error {
	return endpoint.FailedAt("email", fault.EmailTaken, "An account with this email already exists.")
}

// registerUser creates a Free account. The user is stored first, then the account is created. If that is interrupted,
// repeating the registration or signing in completes it.
func (s *Accounts) registerUser(c *endpoint.Call) error {
	sent, err := ReadCredentials(input.JSON(c.Fields), AccountPasswordMin)
	if err != nil {
		return err
	}
	u, email, err := s.SignUp(c, sent)
	if err != nil {
		return err
	}
	return s.JSON(c.Ctx, fiber.StatusCreated, viewProfile(u, email))
}

// SignUp creates a Free account and opens a session. The usage it returns is a new account's.
func (s *Accounts) SignUp(c *endpoint.Call, sent Credentials) (u *event.UsageAnswer, email string, err error) {
	err = s.Counted(c.Ctx, fault.EmailTaken, func() error {
		u, email, err = s.makeUser(c, sent)
		return err
	})
	return u, email, err
}

func (s *Accounts) makeUser(c *endpoint.Call, sent Credentials) (u *event.UsageAnswer, email string, err error) {
	proposed, err := s.ProposeAccount(c.Idem, sent.Email)
	if err != nil {
		return nil, "", err
	}
	user, err := s.addUser(c, sent, proposed)
	if err != nil {
		return nil, "", err
	}
	create := &event.Command{
		Account: user.Account, IdempotencyId: c.Idem, BodyHash: RegistrationHash(user, plan.Free),
		Action: &event.Command_Create{Create: &event.CreateAccount{Tier: uint32(plan.Free)}},
	}
	o, err := s.Command(c, create)
	for _, id := range c.OtherIdems { // during a secret rotation: an edge with another secret may have created the account
		if fault.KindOf(err) != fault.EmailTaken {
			break
		}
		create.IdempotencyId = id
		o, err = s.Command(c, create)
	}
	if err == nil {
		err = s.stays(user) // a repeated registration opens a session too
	}
	if err == nil {
		err = s.OpenSession(c.Ctx, user)
	}
	if err != nil {
		return nil, "", err
	}
	return &event.UsageAnswer{Account: user.Account, Tier: o.Tier, CreatedMs: o.TimeMs}, user.Email, nil
}

// StoreUser stores a user, or returns the one with the same email.
func (s *Accounts) StoreUser(r *event.RegisterUser) (*event.User, error) {
	a, err := s.bus.User(s.ctx, &event.UserRequest{Action: &event.UserRequest_Register{Register: r}})
	if err != nil {
		return nil, err
	}
	if a.UsersMissing {
		return nil, usersMissing()
	}
	if a.Status == event.UserStatus_USER_LIMITED {
		return nil, s.registrationLimit(a)
	}
	if a.User.GetAccount() == 0 || a.Status != event.UserStatus_USER_OK && a.Status != event.UserStatus_USER_EXISTS {
		return nil, endpoint.Unavailable(endpoint.ErrUserAnswer)
	}
	return a.User, nil
}

// addUser stores a user, or returns the one with the same email and password.
func (s *Accounts) addUser(c *endpoint.Call, sent Credentials, proposed event.AccountID) (*event.User, error) {
	hash, err := s.registrationHashes.Hash(s.ctx, sent.Password)
	if err != nil {
		return nil, err
	}
	source, others := s.registrationSource(c)
	user, err := s.StoreUser(&event.RegisterUser{
		Email: sent.Email, Account: uint64(proposed), PasswordHash: string(hash), Source: source, OtherSources: others,
	})
	if err != nil {
		return nil, err
	}
	if user.PasswordHash == string(hash) {
		return user, nil // just stored: hashes are salted
	}
	same := false
	if user.PasswordHash != "" {
		// This opens a session as a login does, so the same limits apply.
		if same, err = s.tryPassword(c, s.registrationHashes, user, sent); err != nil {
			return nil, err
		}
	}
	switch {
	case same:
		return user, nil
	case user.Account == uint64(proposed): // only under the same Idempotency-Key: see ProposeAccount
		return nil, endpoint.IdempotencyMismatch()
	}
	return nil, EmailTaken()
}

// registrationSource is the keyed hash of the network of a registration: an IPv4 /24 or an IPv6 /48, since a client with one
// address often has or can get others in it. others are its hashes under the other accepted secrets.
func (s *Accounts) registrationSource(c *endpoint.Call) (source uint64, others []uint64) {
	network := neighbourhoodBytes(s.http.Source(c.Ctx))
	for _, id := range s.secret.OtherNetworks(network) {
		others = append(others, uint64(id))
	}
	return uint64(s.secret.Network(network)), others
}

// neighbourhoodBytes identifies the network of a source; nil if the source has no address.
func neighbourhoodBytes(source netip.Addr) []byte {
	network := httpin.Neighbourhood(source)
	return network.Addr().AsSlice()[:max(0, network.Bits()/8)]
}

func (s *Accounts) registrationLimit(a *event.UserAnswer) error {
	now := s.Now()
	wait := max(1, (a.ResetMs-now.UnixMilli()+999)/1000)
	e := fault.New(fault.RegistrationLimit, "Limit of %d new accounts per day reached for this network. Try again tomorrow.", a.Limit)
	e.Limit, e.RetryAfter, e.ResetMs = &a.Limit, int(wait), a.ResetMs
	return e
}

// ProposeAccount draws the id of a new account. Under an Idempotency-Key it is always the same for an email, and in the same
// partition for all emails, since the fold of that partition remembers the key. Ids of erased accounts are skipped: no id is
// reused.
func (s *Accounts) ProposeAccount(idem []byte, email string) (event.AccountID, error) {
	if len(idem) == 0 {
		return event.NewAccountID(), nil
	}
	for id := range s.accountsFor(idem, email) {
		switch u, err := s.Usage(id); {
		case fault.KindOf(err) == fault.NotFound, err == nil && u.ErasedMs == 0:
			return id, nil
		case err != nil:
			return 0, err
		}
	}
	return 0, endpoint.Unavailable(errProposals)
}

var errProposals = errors.New("each account that an Idempotency-Key may make was erased")

// mostProposals is how many accounts one Idempotency-Key may create for an email, one after the other.
const mostProposals = 16

// accountsFor yields the account ids for an Idempotency-Key and email, always in the same order.
func (s *Accounts) accountsFor(idem []byte, email string) iter.Seq[event.AccountID] {
	want := event.Partition(idem, s.partitions)
	seed := append([]byte(event.EmailID(email)), idem...)
	return func(yield func(event.AccountID) bool) {
		proposals := 0
		for i := uint32(0); proposals < mostProposals; i++ {
			id := s.secret.NewAccountID(binary.BigEndian.AppendUint32(slices.Clone(seed), i))
			if event.AccountPartition(id, s.partitions) != want {
				continue
			}
			if proposals++; !yield(id) {
				return
			}
		}
	}
}

// RegistrationHash is the hash that registrations with the same Idempotency-Key are compared by. The journal keeps it
// forever, so it must not be derived from the email or the password. The account stands for the email.
func RegistrationHash(user *event.User, tier plan.Tier) uint64 {
	return event.BodyHash(event.AccountID(user.Account).Bytes(), []byte(tier.String()))
}

// login opens a session.
func (s *Accounts) login(c *endpoint.Call) error {
	cancel := false
	sent, err := readCredentials(input.JSON(c.Fields), 1, input.Fields{"cancelDeletion": input.To(&cancel, input.BoolField)})
	if err != nil {
		return err
	}
	u, email, err := s.SignIn(c, sent, cancel)
	if err != nil {
		return err
	}
	view := viewProfile(u, email)
	view.DeletionUndone = c.Kept
	return s.JSON(c.Ctx, fiber.StatusOK, view)
}

// SignIn opens a session. It takes as long for an unknown email. An account that is scheduled for deletion is refused with
// *Scheduled, unless cancel keeps it.
func (s *Accounts) SignIn(c *endpoint.Call, sent Credentials, cancel bool) (u *event.UsageAnswer, email string, err error) {
	var user *event.User
	err = s.Counted(c.Ctx, fault.InvalidCredentials, func() error {
		user, err = s.checkCredentials(c, sent)
		return err
	})
	if err != nil {
		return nil, "", err
	}
	u, err = s.Usage(event.AccountID(user.Account))
	if fault.KindOf(err) == fault.NotFound {
		// The registration was interrupted. Complete it here.
		u, err = s.finishRegistration(c, user)
	}
	if err == nil {
		err = s.openSession(c, user, u, cancel)
	}
	if err != nil {
		return nil, "", err
	}
	return u, user.Email, nil
}

// openSession opens a session of an account that stays, or that cancel keeps.
func (s *Accounts) openSession(c *endpoint.Call, user *event.User, u *event.UsageAnswer, cancel bool) error {
	if err := s.keepAccount(c, user, u, cancel); err != nil {
		return err
	}
	return s.OpenSession(c.Ctx, user)
}

func (s *Accounts) checkCredentials(c *endpoint.Call, sent Credentials) (*event.User, error) {
	a, err := s.bus.User(s.ctx, &event.UserRequest{Action: &event.UserRequest_Find{Find: &event.FindUser{Email: sent.Email}}})
	if err != nil {
		return nil, err
	}
	user := a.User
	if a.Status != event.UserStatus_USER_OK {
		user = nil
	}
	right, err := s.tryPassword(c, s.signInHashes, user, sent)
	switch {
	case err != nil || right:
	case a.UsersMissing: // also for a known address, so that the answer doesn't tell which ones are known
		err = usersMissing()
	default:
		err = invalidCredentials()
	}
	return user, err
}

// tryPassword reports whether the password is the user's. Limits, answer and timing are the same for an unknown email, for
// which user is nil, and for a user without a password.
func (s *Accounts) tryPassword(c *endpoint.Call, hashes *password.Hasher, user *event.User, sent Credentials) (right bool, err error) {
	try, err := s.GuessPassword(c, sent.Email)
	if err != nil {
		return false, err
	}
	if user.GetPasswordHash() == "" {
		_, err = hashes.Hash(s.ctx, sent.Password) // the same work as a check
	} else {
		right, err = hashes.Check(s.ctx, []byte(user.PasswordHash), sent.Password)
	}
	switch {
	case err != nil:
		try.Undecided()
	case right:
		try.Right()
	}
	return right, err
}

func (s *Accounts) finishRegistration(c *endpoint.Call, user *event.User) (*event.UsageAnswer, error) {
	_, err := s.Command(c, &event.Command{
		Account: user.Account, Action: &event.Command_Create{Create: &event.CreateAccount{Tier: uint32(plan.Free)}},
	})
	if err != nil && fault.KindOf(err) != fault.EmailTaken { // EmailTaken: a concurrent login was faster
		return nil, err
	}
	return s.Usage(event.AccountID(user.Account))
}

// logout closes the session, if any.
func (s *Accounts) logout(c *endpoint.Call) error {
	return s.Succeed(c, s.SignOut(c))
}

func (s *Accounts) SignOut(c *endpoint.Call) error {
	if token := s.SessionToken(c.Ctx); token != "" {
		_, err := s.bus.User(s.ctx, &event.UserRequest{Action: &event.UserRequest_CloseSession{
			CloseSession: &event.CloseSession{SessionHash: apikey.HashToken(token)},
		}})
		if err != nil {
			return err
		}
	}
	s.SetSessionCookie(c.Ctx, "", 0)
	return nil
}

func (s *Accounts) profile(c *endpoint.Call) error {
	u, email, err := s.ownUsage(c)
	if err != nil {
		return err
	}
	return s.JSON(c.Ctx, fiber.StatusOK, viewProfile(u, email))
}

// EmailOf returns the email of an account, "" if it has none.
func (s *Accounts) EmailOf(account event.AccountID) (string, error) {
	user, err := s.UserOf(account)
	return user.GetEmail(), err
}

// UserOf returns the user of an account, nil if it has none.
func (s *Accounts) UserOf(account event.AccountID) (*event.User, error) {
	a, err := s.bus.User(s.ctx, &event.UserRequest{Action: &event.UserRequest_Find{Find: &event.FindUser{Account: uint64(account)}}})
	if err != nil {
		return nil, err
	}
	if a.Status != event.UserStatus_USER_OK {
		return nil, nil
	}
	return a.User, nil
}

// NewKeyView shows a new key, whose text is shown only once.
type NewKeyView struct {
	endpoint.Success
	APIKey string  `json:"apiKey"`
	Key    keyView `json:"key"`
}

// regenerateKey replaces all keys of the account with a new one.
func (s *Accounts) regenerateKey(c *endpoint.Call) error {
	made, err := s.MakeKey(c, c.Who.Account)
	if err != nil {
		return err
	}
	return s.JSON(c.Ctx, fiber.StatusOK, made)
}

// MakeKey replaces all keys of the account with a new one. The outcome comes from the fold that admits requests, so that it
// admits no request with an old key afterwards.
func (s *Accounts) MakeKey(c *endpoint.Call, account event.AccountID) (*NewKeyView, error) {
	key := s.NewKey(c, account)
	o, err := s.Command(c, &event.Command{
		Account: uint64(account), IdempotencyId: c.Idem, BodyHash: c.Hash,
		Action: &event.Command_RotateKey{RotateKey: s.Rotation(key)},
	})
	if err != nil {
		return nil, err
	}
	if key, err = s.MadeKey(c, key, o); err != nil {
		return nil, err
	}
	text := s.secret.Format(key)
	return &NewKeyView{
		Success: endpoint.Succeeded(), APIKey: text,
		Key: keyView{Prefix: apikey.Prefix(text), Version: o.KeyVersion, CreatedAt: endpoint.FormatTime(o.KeyCreatedMs)},
	}, nil
}
