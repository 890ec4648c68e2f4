package accounts

import (
	"bytes"
	"maps"
	"slices"

	"github.com/gofiber/fiber/v2"

	"quire.dev/pkg/apikey"
	"quire.dev/pkg/event"
	"quire.dev/services/edge/internal/endpoint"
	"quire.dev/services/edge/internal/fault"
	"quire.dev/services/edge/internal/httpin/httperr"
	"quire.dev/services/edge/internal/httpin/input"
)

// changePassword sets a new password for the account of the session and ends its other sessions.
func (s *Accounts) changePassword(c *endpoint.Call) error {
	if err := s.NewPassword(c); err != nil {
		return err
	}
	return s.JSON(c.Ctx, fiber.StatusOK, endpoint.Succeeded())
}

// NewPassword sets the password that the body has.
func (s *Accounts) NewPassword(c *endpoint.Call) error {
	var password string
	current, err := readWithPassword(c.Fields, input.Fields{"password": input.To(&password, AccountPasswordField(AccountPasswordMin))})
	if err == nil && password == "" {
		err = httperr.InvalidField("password", "is required")
	}
	if err != nil {
		return err
	}
	return s.replacePassword(c, current, password)
}

// readWithPassword reads a body that has to have the current password, and others.
func readWithPassword(body []byte, others input.Fields) (current string, err error) {
	fields := input.Fields{"currentPassword": input.To(&current, AccountPasswordField(1))}
	maps.Copy(fields, others)
	err = input.ParseObject(body, fields.Set)
	if err == nil && current == "" {
		err = httperr.InvalidField("currentPassword", "is required")
	}
	return current, err
}

func (s *Accounts) replacePassword(c *endpoint.Call, current, password string) error {
	user, err := s.ownUser(c)
	if err != nil {
		return err
	}
	if done, err := s.changedBefore(c, user, password); done || err != nil {
		return err
	}
	if err := s.checkCurrentPassword(c, user, current); err != nil {
		return err
	}
	return s.storePassword(c, user, password, &event.SetPassword{
		IfHash: user.PasswordHash, KeepSession: apikey.HashToken(s.SessionToken(c.Ctx)),
	})
}

// ownUser is the user of the session, unless too many passwords of the account were guessed.
func (s *Accounts) ownUser(c *endpoint.Call) (*event.User, error) {
	if err := s.CheckFailures(endpoint.AccountSource(c.Who.Account)); err != nil {
		return nil, err
	}
	user, err := s.UserOf(c.Who.Account)
	if err == nil && user == nil {
		err = endpoint.SessionRequired()
	}
	return user, err
}

// checkCurrentPassword is an error unless it is the user's. Guessing it is limited by account, since who has the session is
// known.
func (s *Accounts) checkCurrentPassword(c *endpoint.Call, user *event.User, current string) error {
	account, begun := endpoint.AccountSource(c.Who.Account), s.Now()
	// It counts before its turn comes, so that many at a time don't get past the limit.
	if seconds := s.Failures.Begin(account, begun); seconds > 0 {
		return endpoint.TooManyFailures(seconds, begun)
	}
	right, err := s.signInHashes.Check(s.ctx, []byte(user.PasswordHash), current)
	if err != nil || right {
		s.Failures.TakeBack(account, begun)
	}
	if err == nil && !right {
		err = endpoint.FailedAt("currentPassword", fault.WrongPassword, "The current password is not right.")
	}
	return err
}

// changedBefore reports whether this change was made under the call's Idempotency-Key. Another password is 422.
func (s *Accounts) changedBefore(c *endpoint.Call, user *event.User, password string) (bool, error) {
	if len(c.Idem) == 0 || !bytes.Equal(user.PasswordChange, c.Idem) {
		return false, nil
	}
	same, err := s.signInHashes.Check(s.ctx, []byte(user.PasswordHash), password)
	if err != nil {
		return false, err
	}
	if !same {
		return false, endpoint.IdempotencyMismatch()
	}
	c.Set(endpoint.HeaderReplayed, "true")
	return true, nil
}

func (s *Accounts) storePassword(c *endpoint.Call, user *event.User, password string, set *event.SetPassword) error {
	hash, err := s.signInHashes.Hash(s.ctx, password)
	if err != nil {
		return err
	}
	set.Account, set.PasswordHash, set.Change = user.Account, string(hash), c.Idem
	a, err := s.bus.User(s.ctx, &event.UserRequest{Action: &event.UserRequest_SetPassword{SetPassword: set}})
	switch {
	case err != nil:
		return err
	case a.Status == event.UserStatus_USER_OK:
		return nil
	case a.Status == event.UserStatus_USER_NOT_FOUND:
		return endpoint.NotFound()
	case a.Status == event.UserStatus_USER_CHANGED:
		return endpoint.FailedAt("currentPassword", fault.WrongPassword, "The current password is not right.")
	}
	return endpoint.Unavailable(endpoint.ErrUserAnswer)
}

// endSessions ends all sessions of the account, this one too.
func (s *Accounts) endSessions(c *endpoint.Call) error {
	if err := s.SignOutEverywhere(c); err != nil {
		return err
	}
	return s.JSON(c.Ctx, fiber.StatusOK, endpoint.Succeeded())
}

func (s *Accounts) SignOutEverywhere(c *endpoint.Call) error {
	_, err := s.bus.User(s.ctx, &event.UserRequest{Action: &event.UserRequest_EndSessions{
		EndSessions: &event.EndSessions{Account: uint64(c.Who.Account)},
	}})
	if err == nil {
		s.SetSessionCookie(c.Ctx, "", 0)
	}
	return err
}

// NotePassword is the action of an admin who sets a password.
const NotePassword = "password.set"

// ResetPassword has the journal tell of it first. The hash of the command is not made of the password.
func (s *Accounts) ResetPassword(c *endpoint.Call, user *event.User, password string) error {
	if done, err := s.changedBefore(c, user, password); done || err != nil {
		return err
	}
	o, err := s.Command(c, &event.Command{
		Account: user.Account, IdempotencyId: c.Idem, BodyHash: event.BodyHash(event.AccountID(user.Account).Bytes()),
		Action: &event.Command_Note{Note: &event.Note{Action: NotePassword}},
	})
	if err != nil {
		return err
	}
	if o.Replayed && slices.ContainsFunc(user.EarlierPasswordChanges, func(id []byte) bool { return bytes.Equal(id, c.Idem) }) {
		return nil // it was set, and has been changed since
	}
	return s.storePassword(c, user, password, &event.SetPassword{})
}
