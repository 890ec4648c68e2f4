// Package erasure ends the accounts of a partition whose deletion is due: their documents, webhooks, users and sessions. What billing's
// journal and ledger have of them stays, without personal data.
//
// The users of accounts that are to be deleted are the list of what is to be done, and the last thing that goes is the user. So
// an instance that dies in the middle loses nothing: whoever folds the partition next begins the same work again, and each step
// does nothing the second time. Several instances may work on one account at a time.
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
	// Account is what the journal says of an account once every message that was stored before is folded; nil where there is no
	// such account.
	Account func(context.Context, event.AccountID) (*event.AccountSummary, error)
	Append  func(*event.Command) error // stores a command in the partition's journal, or does not
	// Webhooks deletes an account's webhooks from the read model, after what its journal has told them.
	Webhooks func(context.Context, event.AccountID) error
	Now      func() time.Time
	Log      *slog.Logger
}

// Job erases accounts.
type Job struct{ cfg Config }

// New makes a job.
func New(cfg Config) *Job { return &Job{cfg: cfg} }

// Run erases what is due, now and every 20 seconds, until ctx ends.
func (j *Job) Run(ctx context.Context) {
	tick := time.NewTicker(roundEvery)
	defer tick.Stop()
	for {
		if err := j.Round(ctx); err != nil && ctx.Err() == nil {
			j.cfg.Log.Warn("the erasure of accounts will go on later", "error", err)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// Round looks once at each account of the partition whose deletion is due. One that fails holds up no other.
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

// look does for a user what the journal says.
func (j *Job) look(ctx context.Context, user *event.User) error {
	id := event.AccountID(user.Account)
	a, err := j.cfg.Account(ctx, id)
	if err != nil {
		return err
	}
	switch {
	case a.GetErasedMs() != 0:
		return j.erase(ctx, id)
	case a.GetDeletesMs() == 0: // it was taken back, or the journal was never told
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

var errExport = errors.New("an edge has not deleted the export of the account yet")

var errNotErased = errors.New("the journal has not ended the account yet")

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

// erase deletes what the account has outside of billing's journal. The user goes last.
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
	if err := j.cfg.Webhooks(ctx, id); err != nil {
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

// eraseDocuments asks one partition of a document service until it has none of the account's documents.
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
