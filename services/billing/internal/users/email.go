package users

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"quire.dev/pkg/event"
	"quire.dev/pkg/rpc"
	"quire.dev/pkg/views"
)

// reservedFor is how long an address stays reserved for an interrupted change. Only the first half may be used: the sweep must
// never free an address that is being taken.
const reservedFor = time.Hour

// setEmail changes a user's address, unless another user has it. Sessions stay. An Insert first reserves the address, so that
// of all concurrent registrations and changes only one succeeds. The commit then replaces both documents.
func (u *Users) setEmail(ctx context.Context, r *event.SetEmail) (*event.UserAnswer, error) {
	id := event.EmailID(r.GetEmail())
	if id == "" || len(r.Email) > event.MaxEmailBytes || r.IfHash == "" {
		return nil, &rpc.Error{Code: "malformed", Message: "a change needs an email address and a password hash"}
	}
	for range maxTries {
		at, err := u.store.Checkpoint(ctx, changes)
		if err != nil {
			return nil, err
		}
		user, seq, err := u.record(ctx, event.AccountID(r.Account))
		if err != nil || user == nil {
			return found(nil), err
		}
		if user.PasswordHash != r.IfHash {
			return &event.UserAnswer{Status: event.UserStatus_USER_CHANGED}, nil
		}
		before := event.EmailID(user.Email)
		user.Email = strings.TrimSpace(r.Email)
		if n := len(r.Change); n > 0 {
			user.EmailChange = slices.Concat(r.Change, user.EmailChange[:min(len(user.EmailChange), (keptChanges-1)*n)])
		}
		put, err := userDoc(user)
		if err != nil {
			return nil, err
		}
		put.Seq = seq
		batch := views.Batch{Stream: changes, From: at, To: at + 1}
		if before != id {
			if u.missing.Load() {
				return addressUnknown(), nil
			}
			if free, err := u.reserve(ctx, user, at); err != nil || !free {
				return &event.UserAnswer{Status: event.UserStatus_USER_EXISTS}, err
			}
			put.Seq = at + 1 // newer than the address's previous document
			batch.Deletes = []views.Delete{{Collection: users, ID: before, Seq: at + 1}}
		}
		batch.Puts = []views.Put{{Collection: users, Doc: put}}
		if err = u.store.Commit(ctx, batch); !errors.Is(err, views.ErrConflict) {
			return found(user), err
		}
	}
	return nil, errBusy
}

// reserve reserves the user's address for the account, and reports whether that succeeded.
func (u *Users) reserve(ctx context.Context, user *event.User, at uint64) (bool, error) {
	now := u.clock()
	doc, err := userDoc(&event.User{Account: user.Account, Email: user.Email, CreatedMs: now.UnixMilli(), Reserved: true})
	if err != nil {
		return false, err
	}
	// Without the account's key it is nobody's user.
	doc.Seq, doc.Keys = at, views.Keys{{Name: "expires", Value: views.Int(now.Add(reservedFor).UnixMilli())}}
	if err = u.store.Insert(ctx, users, doc); !errors.Is(err, views.ErrExists) {
		return err == nil, err
	}
	other, err := u.byEmail(ctx, doc.ID)
	if err != nil || other == nil {
		return false, errors.Join(err, errBusy)
	}
	mine := other.Reserved && other.Account == user.Account && now.Sub(time.UnixMilli(other.CreatedMs)) < reservedFor/2
	return mine, nil
}
