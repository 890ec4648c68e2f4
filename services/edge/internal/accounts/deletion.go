package accounts

import (
	"fmt"
	"strconv"
	"strings"
	"time"

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
	if s.beforeDeletion != nil {
		if err := s.beforeDeletion(event.AccountID(user.Account)); err != nil {
			return nil, nil, err
		}
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

// keepAccount refuses a sign-in to an account that is scheduled for deletion, or cancels the deletion if its user wants that.
// The journal is authoritative; the user's record may lag behind. An erased account can't be signed in to.
func (s *Accounts) keepAccount(c *endpoint.Call, user *event.User, u *event.UsageAnswer, cancel bool) error {
	deletesMs := deletionOf(user, u)
	switch {
	case u.ErasedMs != 0:
		return invalidCredentials()
	case deletesMs != 0 && !cancel:
		return &Scheduled{fault: deletionScheduled(deletesMs), Proof: s.keepProof(user, deletesMs)}
	case deletesMs == 0 && (user.Deletion == event.Deletion_DELETION_NONE || !cancel):
		return nil // a deletion that was only asked for is set right by the job that erases accounts
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
	u.DeletesMs = 0
	return s.noteDeletion(user, event.Deletion_DELETION_NONE, user.DeletionMs)
}

// deletionOf is when an account will be deleted, in Unix milliseconds; 0 if it stays. While the journal's answer is older than the user's
// record, the record counts, so that nobody is signed in to an account that is about to be deleted.
func deletionOf(user *event.User, u *event.UsageAnswer) int64 {
	if u.DeletesMs == 0 && user.Deletion == event.Deletion_DELETION_SET {
		return user.DeletionMs
	}
	return u.DeletesMs
}

// stays fails unless the account stays. It is for calls that can't cancel a deletion.
func (s *Accounts) stays(user *event.User) error {
	if user.Deletion == event.Deletion_DELETION_NONE {
		return nil
	}
	u, err := s.Usage(event.AccountID(user.Account))
	if err != nil {
		return err
	}
	if deletesMs := deletionOf(user, u); deletesMs != 0 {
		return deletionScheduled(deletesMs)
	}
	return nil
}

// deletionScheduled is only for callers who know the password: nobody else learns of the deletion.
func deletionScheduled(deletesMs int64) *fault.Error {
	e := fault.New(fault.DeletionScheduled, "The account is scheduled for deletion. To keep it, log in with `cancelDeletion`.").
		InForm("The account with this email is scheduled for deletion. Sign in to keep it.")
	e.DeletesMs = deletesMs
	return e
}

// Scheduled refuses a sign-in to an account that is scheduled for deletion.
type Scheduled struct {
	fault *fault.Error
	Proof string // of the sign-in, for SignInKeeping
}

// Error is the fault's.
func (e *Scheduled) Error() string { return e.fault.Error() }

// Unwrap returns the fault.
func (e *Scheduled) Unwrap() error { return e.fault }

// DeletesMs is when the account will be deleted, in Unix milliseconds.
func (e *Scheduled) DeletesMs() int64 { return e.fault.DeletesMs }

const (
	keepLifetime = 10 * time.Minute
	// keepProofParts are the account, the second at which the proof expires, and the signature.
	keepProofParts = 3
)

// keepClaim is the signed text of a proof. It is valid for this deletion and the current password: a change of either invalidates it.
// Its prefix distinguishes it from the signed paths of links.
func keepClaim(user *event.User, deletesMs int64) string {
	return fmt.Sprintf("keep account\n%s\n%d\n%d", event.AccountID(user.Account), user.Epoch, deletesMs)
}

// keepProof proves for ten minutes that a user has signed in to an account that is scheduled for deletion, so that a page can
// ask whether to keep it without having the password.
func (s *Accounts) keepProof(user *event.User, deletesMs int64) string {
	expires := s.Now().Add(keepLifetime).Unix()
	return strings.Join([]string{
		event.AccountID(user.Account).String(), strconv.FormatInt(expires, 10), s.secret.SignLink(keepClaim(user, deletesMs), expires),
	}, "~")
}

// SignInKeeping opens a session by the proof of a *Scheduled, and cancels the deletion.
func (s *Accounts) SignInKeeping(c *endpoint.Call, proof string) error {
	parts := strings.Split(proof, "~")
	if len(parts) != keepProofParts {
		return keepProofInvalid()
	}
	account, err := event.ParseAccountID(parts[0])
	if err != nil {
		return keepProofInvalid()
	}
	expires, err := strconv.ParseInt(parts[1], 10, 64)
	if err != nil || expires <= s.Now().Unix() {
		return keepProofInvalid()
	}
	user, err := s.UserOf(account)
	if err != nil {
		return err
	}
	if user == nil {
		return keepProofInvalid()
	}
	u, err := s.Usage(account)
	if err != nil {
		return err
	}
	if !s.secret.CheckLink(keepClaim(user, deletionOf(user, u)), expires, parts[2]) {
		return keepProofInvalid()
	}
	return s.openSession(c, user, u, true)
}

func keepProofInvalid() error {
	return endpoint.FailedAt("proof", fault.InvalidCredentials, "The question is too old, or was answered before. Sign in again.")
}
