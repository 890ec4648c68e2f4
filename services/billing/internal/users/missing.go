package users

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"quire.dev/pkg/event"
	"quire.dev/pkg/views"
)

// missing has a document for each partition that lacks users or addresses of webhooks, so that every instance knows of it, also
// those that don't fold the partition. The index has those that lack users.
const (
	missing     = "billing_missing"
	byPartition = "by_partition"

	// missingEvery is how often an instance reads what others have noted. Requests use what was read last, so that an unknown
	// address takes no longer than a known one.
	missingEvery = 10 * time.Second
)

// Missing returns the accounts among ids that have no user.
func (u *Users) Missing(ctx context.Context, ids []event.AccountID) (without []event.AccountID, err error) {
	for _, id := range ids {
		user, err := u.byAccount(ctx, id)
		if err != nil {
			return nil, fmt.Errorf("look for users: %w", err)
		}
		if user == nil {
			without = append(without, id)
		}
	}
	return without, nil
}

// Noted is how many users and addresses of webhooks a partition lacks, as far as it has looked.
type Noted struct {
	Users     int `json:"users"`
	Addresses int `json:"addresses"`
}

// NoteMissing records how many users and addresses of webhooks a partition lacks. While any partition lacks users, a log-in that
// finds nobody is not called wrong, and no new user takes an address.
func (u *Users) NoteMissing(ctx context.Context, partition, users, addresses int) error {
	head, err := json.Marshal(Noted{users, addresses})
	if err != nil {
		return err
	}
	doc := views.Doc{ID: strconv.Itoa(partition), Seq: uint64(u.clock().UnixMilli()), Head: head} // newer than an earlier, deleted note
	if users > 0 {
		doc.Keys = views.Keys{{Name: "partition", Value: views.Int(int64(partition))}}
	}
	batch := views.Batch{Puts: []views.Put{{Collection: missing, Doc: doc}}}
	if users == 0 && addresses == 0 {
		list, err := u.store.Load(ctx, missing, []string{doc.ID}, views.Heads)
		if err != nil || len(list) == 0 {
			return err
		}
		batch = views.Batch{Deletes: []views.Delete{{Collection: missing, ID: doc.ID, Seq: list[0].Seq}}}
	}
	if err := u.store.Commit(ctx, batch); err != nil {
		return fmt.Errorf("note missing users: %w", err)
	}
	return u.readMissing(ctx)
}

// MissingIn returns what a partition has noted last.
func MissingIn(ctx context.Context, store views.Store, partition int) (n Noted, err error) {
	docs, err := store.Load(ctx, missing, []string{strconv.Itoa(partition)}, views.Heads)
	if err != nil || len(docs) == 0 {
		return n, err
	}
	return n, json.Unmarshal(docs[0].Head, &n)
}

// followMissing reads what all instances have noted, until ctx ends.
func (u *Users) followMissing(ctx context.Context) {
	tick := time.NewTicker(missingEvery)
	defer tick.Stop()
	for {
		if err := u.readMissing(ctx); err != nil && ctx.Err() == nil {
			u.log.Warn("whether users are missing is not known yet", "error", err)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

func (u *Users) readMissing(ctx context.Context) error {
	docs, err := u.store.List(ctx, missing, views.Query{Index: byPartition, Limit: 1})
	if err != nil {
		return fmt.Errorf("list partitions without users: %w", err)
	}
	u.missing.Store(len(docs) > 0)
	return nil
}

// addressUnknown refuses to give an address to a user while it may belong to a missing one.
func addressUnknown() *event.UserAnswer {
	return &event.UserAnswer{Status: event.UserStatus_USER_NOT_FOUND, UsersMissing: true}
}
