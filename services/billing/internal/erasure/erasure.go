// Package erasure ends the accounts of a partition whose deletion is due: their documents, webhooks, users and sessions. Their
// entries in billing's journal and ledger stay, without personal data.
//
// The users of accounts to delete are the work list, and the user is deleted last. So a crash loses nothing: the next instance
// to fold the partition repeats the work, and each step is idempotent. Several instances may work on one account at a time.
package erasure

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go"

	"quire.dev/pkg/event"
	"quire.dev/pkg/rpc"
	"quire.dev/pkg/wait"
	"quire.dev/services/billing/internal/users"
)

const (
	roundEvery = 20 * time.Second
	foldWait   = 5 * time.Second  // for the fold to erase an account
	askWait    = 30 * time.Second // for a document service to answer
	pause      = 100 * time.Millisecond
)

// Config describes the job of one partition.
type Config struct {
	Partition, Partitions int
	Users                 *users.Users
	NC                    *nats.Conn
	// Account returns an account's state once every message stored before the call is folded; nil for a missing account.
	Account func(context.Context, event.AccountID) (*event.AccountSummary, error)
	Append  func(*event.Command) error // stores a command in the partition's journal, or fails
	// Rows deletes an account's webhooks and requests from the read model, after everything projected for them.
	Rows func(context.Context, event.AccountID) error
	Now  func() time.Time
	Log  *slog.Logger
}

// Job erases accounts.
type Job struct{ cfg Config }

// New returns a Job.
func New(cfg Config) *Job { return &Job{cfg: cfg} }

// Run erases due accounts, now and every 20 seconds, until ctx ends.
func (j *Job) Run(ctx context.Context) {
	tick := time.NewTicker(roundEvery)
	defer tick.Stop()
	for {
		if err := j.Round(ctx); err != nil && ctx.Err() == nil {
			j.cfg.Log.Warn("the erasure of accounts will continue later", "error", err)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// Round checks each account of the partition whose deletion is due. A failing one does not delay others.
func (j *Job) Round(ctx context.Context) error {
	var failed error
	err := j.cfg.Users.DueDeletions(ctx, func(user *event.User) error {
		id := event.AccountID(user.Account)
		if event.AccountPartition(id, j.cfg.Partitions) != j.cfg.Partition {
			return ctx.Err()
		}
		if err := j.look(ctx, user); err != nil {
			failed = errors.Join(failed, fmt.Errorf("account %s: %w", id, err))
		}
		return ctx.Err()
	})
	return errors.Join(err, failed)
}

// look applies the journal's state to a user.
func (j *Job) look(ctx context.Context, user *event.User) error {
	id := event.AccountID(user.Account)
	a, err := j.cfg.Account(ctx, id)
	if err != nil {
		return err
	}
	switch {
	case a.GetErasedMs() != 0:
		return j.erase(ctx, id)
	case a.GetDeletesMs() == 0: // canceled, or never sent to the journal
		return j.cfg.Users.Deletion(ctx, id, event.Deletion_DELETION_NONE, user.DeletionMs)
	case user.Deletion == event.Deletion_DELETION_ASKED || a.DeletesMs > j.cfg.Now().UnixMilli():
		return j.cfg.Users.Deletion(ctx, id, event.Deletion_DELETION_SET, a.DeletesMs)
	}
	command := &event.Command{Account: user.Account, Action: &event.Command_EraseAccount{EraseAccount: &event.EraseAccount{}}}
	if err := j.cfg.Append(command); err != nil {
		return err
	}
	if err := j.erased(ctx, id); err != nil {
		return err
	}
	return j.erase(ctx, id)
}

var errExport = errors.New("no edge has deleted the account's export yet")

var errNotErased = errors.New("the journal has not erased the account yet")

// erased waits until the fold has ended an account.
func (j *Job) erased(ctx context.Context, id event.AccountID) error {
	ctx, cancel := context.WithTimeout(ctx, foldWait)
	defer cancel()
	for {
		a, err := j.cfg.Account(ctx, id)
		if err != nil || a.GetErasedMs() != 0 {
			return err
		}
		if !wait.For(ctx, pause) {
			return errNotErased
		}
	}
}

// erase deletes what the account has outside of billing's journal, and the user last.
func (j *Job) erase(ctx context.Context, id event.AccountID) error {
	documents := 0
	for _, domain := range event.Documents() {
		for p := range j.cfg.Partitions {
			n, err := j.eraseDocuments(ctx, id, domain.EraseSubject(p))
			documents += n
			if err != nil {
				return fmt.Errorf("delete the documents of %s: %w", domain.Stream(p), err)
			}
		}
	}
	if err := j.cfg.Rows(ctx, id); err != nil {
		return fmt.Errorf("delete the webhooks: %w", err)
	}
	switch done, err := j.cfg.Users.EraseExport(ctx, id); {
	case err != nil:
		return fmt.Errorf("delete the export: %w", err)
	case !done:
		return errExport
	}
	if err := j.cfg.Users.Erase(ctx, id); err != nil {
		return fmt.Errorf("delete the user: %w", err)
	}
	j.cfg.Log.Info("an account was erased", "account", id.String(), "deletions", documents)
	return nil
}

// eraseDocuments asks one partition of a document service until no document of the account is left.
func (j *Job) eraseDocuments(ctx context.Context, id event.AccountID, subject string) (deletions int, err error) {
	payload, err := event.Encode(&event.EraseRequest{Account: uint64(id)})
	if err != nil {
		return 0, err
	}
	for {
		answer, err := j.ask(ctx, subject, payload)
		if err != nil || answer.Deleting == 0 {
			return deletions, err
		}
		deletions += int(answer.Deleting)
		if !wait.For(ctx, pause) {
			return deletions, ctx.Err()
		}
	}
}

func (j *Job) ask(ctx context.Context, subject string, payload []byte) (*event.EraseAnswer, error) {
	ctx, cancel := context.WithTimeout(ctx, askWait)
	defer cancel()
	data, err := rpc.Call(ctx, j.cfg.NC, subject, payload)
	if err != nil {
		return nil, err
	}
	answer := &event.EraseAnswer{}
	return answer, event.Decode(data, answer)
}
