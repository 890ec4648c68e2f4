package users

import (
	"context"
	"errors"
	"fmt"
	"time"

	"quire.dev/pkg/event"
	"quire.dev/pkg/rpc"
	"quire.dev/pkg/views"
)

// askedWait is how long after DELETION_ASKED the journal is the authority on whether the account is to be deleted: no edge
// waits as long for the outcome of its command.
const askedWait = 5 * time.Minute

// deletionDue is when the erasing job must check a user; 0: never.
func deletionDue(user *event.User) int64 {
	switch user.Deletion {
	case event.Deletion_DELETION_ASKED:
		return user.DeletionMs + askedWait.Milliseconds()
	case event.Deletion_DELETION_SET:
		return user.DeletionMs
	}
	return 0
}

// setDeletion records the stage of an account's deletion. DELETION_SET ends all sessions. DELETION_NONE undoes the stage that
// its caller has read, and no later one.
func (u *Users) setDeletion(ctx context.Context, r *event.SetDeletion) (*event.UserAnswer, error) {
	if r.GetDeletion() == event.Deletion_DELETION_SET && r.DeletesMs <= 0 {
		return nil, &rpc.Error{Code: "malformed", Message: "a deletion needs its time"}
	}
	set := func(user *event.User) bool {
		if r.GetDeletion() == event.Deletion_DELETION_NONE && user.DeletionMs != r.DeletesMs {
			return false
		}
		user.Deletion = r.GetDeletion()
		switch r.GetDeletion() {
		case event.Deletion_DELETION_SET:
			user.DeletionMs = r.DeletesMs
		case event.Deletion_DELETION_ASKED:
			user.DeletionMs = u.clock().UnixMilli()
		default:
			user.DeletionMs = 0
		}
		return true
	}
	return u.update(ctx, event.AccountID(r.GetAccount()), update{ends: r.GetDeletion() == event.Deletion_DELETION_SET, set: set})
}

// Deletion records the stage of an account's deletion, as SetDeletion does.
func (u *Users) Deletion(ctx context.Context, account event.AccountID, deletion event.Deletion, deletesMs int64) error {
	_, err := u.setDeletion(ctx, &event.SetDeletion{Account: uint64(account), Deletion: deletion, DeletesMs: deletesMs})
	return err
}

// DueDeletions calls each with the users whose deletion is due for a check, until it returns an error.
func (u *Users) DueDeletions(ctx context.Context, each func(*event.User) error) error {
	now := u.clock().UnixMilli()
	index := views.Index{Name: byDeletion, Keys: []string{"deletes"}}
	return views.Each(ctx, u.store, users, index, views.Query{Limit: sweepPage}, func(doc views.Doc) error {
		if doc.Keys.Get("deletes").Int64() > now {
			return views.ErrStop
		}
		user, err := decodeUser([]views.Doc{doc}, nil)
		if err != nil {
			return err
		}
		return each(user)
	})
}

// Erase removes the user of an account and its sessions, and frees the address.
func (u *Users) Erase(ctx context.Context, account event.AccountID) error {
	if err := u.eraseSessions(ctx, account); err != nil {
		return fmt.Errorf("delete sessions: %w", err)
	}
	for range maxTries {
		at, err := u.store.Checkpoint(ctx, changes)
		if err != nil {
			return err
		}
		user, _, err := u.record(ctx, account)
		if err != nil || user == nil {
			return err
		}
		err = u.store.Commit(ctx, views.Batch{
			Stream: changes, From: at, To: at + 1,
			Deletes: []views.Delete{{Collection: users, ID: event.EmailID(user.Email), Seq: at + 1}},
		})
		if !errors.Is(err, views.ErrConflict) {
			return err
		}
	}
	return errBusy
}

func (u *Users) eraseSessions(ctx context.Context, account event.AccountID) error {
	for {
		docs, err := u.store.List(ctx, sessions, views.Query{
			Index: byAccount, Equal: []views.Value{views.String(account.String())}, Limit: sweepPage,
		})
		if err != nil || len(docs) == 0 {
			return err
		}
		var b views.Batch
		for _, d := range docs {
			b.Deletes = append(b.Deletes, views.Delete{Collection: sessions, ID: d.ID, Seq: max(d.Seq, endSeq)})
		}
		if err := u.store.Commit(ctx, b); err != nil {
			return err
		}
	}
}
