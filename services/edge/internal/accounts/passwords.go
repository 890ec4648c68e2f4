package accounts

import (
	"bytes"
	"maps"
	"slices"

	"quire.dev/pkg/apikey"
	"quire.dev/pkg/event"
	"quire.dev/services/edge/internal/endpoint"
	"quire.dev/services/edge/internal/fault"
	"quire.dev/services/edge/internal/httpin/httperr"
	"quire.dev/services/edge/internal/httpin/input"
)

// changePassword sets a new password for the session's account and ends its other sessions.
func (s *Accounts) changePassword(c *endpoint.Call) error {
	change, err := ReadPasswordChange(input.JSON(c.Fields))
	if err != nil {
		return err
	}
	return s.Succeed(c, s.NewPassword(c, change))
}

// PasswordChange is a new password, and the current one.
type PasswordChange struct{ Current, Password string }

// ReadPasswordChange reads {currentPassword, password}.
func ReadPasswordChange(from input.Source) (r PasswordChange, err error) {
	r.Current, err = readWithPassword(from, input.Fields{"password": input.To(&r.Password, AccountPasswordField(AccountPasswordMin))})
	if err == nil && r.Password == "" {
		err = httperr.InvalidField("password", "is required")
	}
	return r, err
}

// ReadCurrentPassword reads {currentPassword}.
func ReadCurrentPassword(from input.Source) (string, error) { return readWithPassword(from, nil) }

// readWithPassword reads the current password, which is required, and other fields.
func readWithPassword(from input.Source, others input.Fields) (current string, err error) {
	fields := input.Fields{"currentPassword": input.To(&current, AccountPasswordField(1))}
	maps.Copy(fields, others)
	err = from(fields.Set)
	if err == nil && current == "" {
		err = httperr.InvalidField("currentPassword", "is required")
	}
	return current, err
}

// NewPassword sets a new password, if the current one is right.
func (s *Accounts) NewPassword(c *endpoint.Call, change PasswordChange) error {
	user, err := s.ownUser(c)
	if err != nil {
		return err
	}
	if done, err := s.changedBefore(c, user, change.Password); done || err != nil {
		return err
	}
	if err := s.checkCurrentPassword(c, user, change.Current); err != nil {
		return err
	}
	return s.storePassword(c, user, change.Password, &event.SetPassword{
		IfHash: user.PasswordHash, KeepSession: apikey.HashToken(s.SessionToken(c.Ctx)),
	})
}

// ownUser returns the session's user, and fails after too many wrong passwords for the account.
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

// checkCurrentPassword fails unless the password is the user's. Wrong guesses count for the account, which the session has
// identified.
func (s *Accounts) checkCurrentPassword(c *endpoint.Call, user *event.User, current string) error {
	account, begun := endpoint.AccountSource(c.Who.Account), s.Now()
	// It counts before waiting its turn, so that concurrent guesses can't exceed the limit.
	if seconds := s.Failures.Begin(account, begun); seconds > 0 {
		return endpoint.TooManyFailures(seconds, begun)
	}
	right, err := s.signInHashes.Check(s.ctx, []byte(user.PasswordHash), current)
	if err != nil || right {
		s.Failures.TakeBack(account, begun)
	}
	if err == nil && !right {
		err = endpoint.FailedAt("currentPassword", fault.WrongPassword, "The current password is wrong.")
	}
	return err
}

// changedBefore reports whether the password was already changed under the call's Idempotency-Key. A different password is
// 422.
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
		return endpoint.FailedAt("currentPassword", fault.WrongPassword, "The current password is wrong.")
	}
	return endpoint.Unavailable(endpoint.ErrUserAnswer)
}

// endSessions ends all sessions of the account, including this one.
func (s *Accounts) endSessions(c *endpoint.Call) error {
	return s.Succeed(c, s.SignOutEverywhere(c))
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

// NotePassword is the audit action of an admin setting a password.
const NotePassword = "password.set"

// ResetPassword records the change in the journal first. The command's hash is not derived from the password.
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
		return nil // it was set, and changed again since
	}
	return s.storePassword(c, user, password, &event.SetPassword{})
}
