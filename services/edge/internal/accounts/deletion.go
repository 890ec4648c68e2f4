package accounts

import (
	"github.com/gofiber/fiber/v2"

	"quire.dev/pkg/event"
	"quire.dev/services/edge/internal/endpoint"
	"quire.dev/services/edge/internal/fault"
	"quire.dev/services/edge/internal/httpin/input"
)

type deletionView struct {
	endpoint.Success
	Account AccountView `json:"account"`
}

// deleteAccount schedules the deletion of the session's account in 14 days, unless its holder signs in before. Its keys are
// refused and its sessions end. The user is marked first, so that the job that erases accounts finds it even if this is
// interrupted: the journal is authoritative.
func (s *Accounts) deleteAccount(c *endpoint.Call) error {
	current, err := ReadCurrentPassword(input.JSON(c.Fields))
	if err != nil {
		return err
	}
	user, o, err := s.DeletedAccount(c, current)
	if err != nil {
		return err
	}
	return s.JSON(c.Ctx, fiber.StatusOK, deletionView{Success: endpoint.Succeeded(), Account: ViewOutcome(user, o)})
}

// DeletedAccount schedules the deletion, if the current password is right.
func (s *Accounts) DeletedAccount(c *endpoint.Call, current string) (*event.User, *event.CommandOutcome, error) {
	user, err := s.ownUser(c)
	if err != nil {
		return nil, nil, err
	}
	if err := s.checkCurrentPassword(c, user, current); err != nil {
		return nil, nil, err
	}
	if err := s.noteDeletion(user, event.Deletion_DELETION_ASKED, 0); err != nil {
		return nil, nil, err
	}
	// There is no idempotency id: a repetition is no different request, not even after a deletion was cancelled.
	o, err := s.Command(c, &event.Command{
		Account: user.Account, Action: &event.Command_DeleteAccount{DeleteAccount: &event.DeleteAccount{}},
	})
	if err != nil {
		return nil, nil, err
	}
	if err := s.noteDeletion(user, event.Deletion_DELETION_SET, o.DeletesMs); err != nil {
		return nil, nil, err
	}
	s.SetSessionCookie(c.Ctx, "", 0)
	return user, o, nil
}

func (s *Accounts) noteDeletion(user *event.User, deletion event.Deletion, deletesMs int64) error {
	a, err := s.bus.User(s.ctx, &event.UserRequest{Action: &event.UserRequest_SetDeletion{
		SetDeletion: &event.SetDeletion{Account: user.Account, Deletion: deletion, DeletesMs: deletesMs},
	}})
	changed := deletion == event.Deletion_DELETION_NONE && a.GetStatus() == event.UserStatus_USER_CHANGED // a concurrent call recorded a newer state
	if err == nil && a.Status != event.UserStatus_USER_OK && !changed {
		err = endpoint.Unavailable(endpoint.ErrUserAnswer)
	}
	return err
}

// keepAccount cancels the deletion of an account whose user signs in. The journal is authoritative; the user's record may lag
// behind. An erased account can't be signed in to.
func (s *Accounts) keepAccount(c *endpoint.Call, user *event.User, u *event.UsageAnswer) error {
	switch {
	case u.GetErasedMs() != 0:
		return invalidCredentials()
	case user.Deletion == event.Deletion_DELETION_NONE && u.GetDeletesMs() == 0:
		return nil
	}
	_, err := s.Command(c, &event.Command{
		Account: user.Account, Action: &event.Command_KeepAccount{KeepAccount: &event.KeepAccount{}},
	})
	if fault.KindOf(err) == fault.NotFound {
		return invalidCredentials()
	}
	if err != nil {
		return err
	}
	c.Kept = true
	if u != nil {
		u.DeletesMs = 0
	}
	return s.noteDeletion(user, event.Deletion_DELETION_NONE, user.DeletionMs)
}
