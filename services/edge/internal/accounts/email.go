package accounts

import (
	"bytes"
	"encoding/binary"
	"slices"

	"quire.dev/pkg/event"
	"quire.dev/services/edge/internal/endpoint"
	"quire.dev/services/edge/internal/fault"
	"quire.dev/services/edge/internal/httpin/httperr"
	"quire.dev/services/edge/internal/httpin/input"
)

// changeEmail changes the email of the session's account. Its sessions stay valid.
func (s *Accounts) changeEmail(c *endpoint.Call) error {
	change, err := ReadEmailChange(input.JSON(c.Fields))
	if err != nil {
		return err
	}
	return s.Succeed(c, s.NewEmail(c, change))
}

// EmailChange is a new email, and the current password.
type EmailChange struct{ Current, Email string }

// ReadEmailChange reads {currentPassword, email}.
func ReadEmailChange(from input.Source) (r EmailChange, err error) {
	r.Current, err = readWithPassword(from, input.Fields{"email": input.To(&r.Email, EmailField)})
	if err == nil && r.Email == "" {
		err = httperr.InvalidField("email", "is required")
	}
	return r, err
}

// NewEmail sets a new email, if the current password is right.
func (s *Accounts) NewEmail(c *endpoint.Call, set EmailChange) error {
	user, err := s.ownUser(c)
	if err != nil {
		return err
	}
	change := emailChange(c.Idem, set.Email)
	for earlier := range slices.Chunk(user.EmailChange, emailChangeBytes) {
		if len(change) == 0 || !bytes.HasPrefix(earlier, c.Idem) {
			continue
		}
		if !bytes.Equal(earlier, change) {
			return endpoint.IdempotencyMismatch()
		}
		c.Set(endpoint.HeaderReplayed, "true")
		return nil
	}
	if err := s.checkCurrentPassword(c, user, set.Current); err != nil {
		return err
	}
	return s.storeEmail(c, &event.SetEmail{Account: user.Account, Email: set.Email, IfHash: user.PasswordHash, Change: change})
}

// emailChangeBytes are an idempotency id and a hash: SetEmail.change.
const emailChangeBytes = 16 + 8

// emailChange identifies a call with an Idempotency-Key, so that a retry is recognized even after later changes; nil without
// a key.
func emailChange(idem []byte, email string) []byte {
	if len(idem) == 0 {
		return nil
	}
	return binary.BigEndian.AppendUint64(slices.Clone(idem), event.BodyHash([]byte(event.EmailID(email))))
}

// storeEmail reveals no more about other accounts than a registration does, and a failure counts as one.
func (s *Accounts) storeEmail(c *endpoint.Call, set *event.SetEmail) error {
	if err := s.CheckFailures(s.http.Source(c.Ctx)); err != nil {
		return err
	}
	a, err := s.bus.User(s.ctx, &event.UserRequest{Action: &event.UserRequest_SetEmail{SetEmail: set}})
	switch {
	case err != nil:
		return err
	case a.UsersMissing:
		return usersMissing()
	case a.Status == event.UserStatus_USER_OK:
		return nil
	case a.Status == event.UserStatus_USER_EXISTS:
		return s.SourceFailed(c.Ctx, EmailTaken())
	case a.Status == event.UserStatus_USER_CHANGED:
		return endpoint.FailedAt("currentPassword", fault.WrongPassword, "The current password is wrong.")
	case a.Status == event.UserStatus_USER_NOT_FOUND:
		return endpoint.SessionRequired()
	}
	return endpoint.Unavailable(endpoint.ErrUserAnswer)
}
