// Package lost records which data operators have given up for lost: users of accounts and addresses of webhooks, which only the read
// model has, and which no backup can restore. Each is named, so that a later loss of others is noticed.
package lost

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"quire.dev/pkg/views"
)

// collection has a document for each user and address that was given up, under the account's or the webhook's id, and one for each
// partition in which an operator requested it.
const collection = "billing_lost"

// Collections returns the collection of this package.
func Collections() []views.Collection { return []views.Collection{{Name: collection}} }

func requestID(partition int) string { return "partition " + strconv.Itoa(partition) }

// Request asks the instance that folds a partition to give up all that is missing there. Actor is for its log.
func Request(ctx context.Context, store views.Store, partition int, actor string, now time.Time) error {
	doc := views.Doc{ID: requestID(partition), Seq: uint64(now.UnixMilli()), Head: []byte(actor)}
	if err := store.Commit(ctx, views.Batch{Puts: []views.Put{{Collection: collection, Doc: doc}}}); err != nil {
		return fmt.Errorf("request to give up what is missing: %w", err)
	}
	return nil
}

// Requested returns the actor who requested to give up what is missing in a partition; empty without a request.
func Requested(ctx context.Context, store views.Store, partition int) (actor string, err error) {
	docs, err := store.Load(ctx, collection, []string{requestID(partition)}, views.Heads)
	if err != nil {
		return "", fmt.Errorf("look for a request to give up what is missing: %w", err)
	}
	if len(docs) == 0 {
		return "", nil
	}
	return string(docs[0].Head), nil
}

// GiveUp records what is given up, by id, and then that the partition's request was carried out. It may be repeated.
func GiveUp(ctx context.Context, store views.Store, partition int, ids []string, actor string) error {
	for part := range slices.Chunk(ids, views.MaxList) {
		var b views.Batch
		for _, id := range part {
			b.Puts = append(b.Puts, views.Put{Collection: collection, Doc: views.Doc{ID: id, Head: []byte(actor)}})
		}
		if err := store.Commit(ctx, b); err != nil {
			return fmt.Errorf("give up what is missing: %w", err)
		}
	}
	docs, err := store.Load(ctx, collection, []string{requestID(partition)}, views.Heads)
	if err != nil || len(docs) == 0 {
		return err
	}
	done := views.Delete{Collection: collection, ID: docs[0].ID, Seq: docs[0].Seq}
	if err := store.Commit(ctx, views.Batch{Deletes: []views.Delete{done}}); err != nil {
		return fmt.Errorf("end a request to give up what is missing: %w", err)
	}
	return nil
}

// Without returns the ids that were not given up.
func Without(ctx context.Context, store views.Store, ids []string) (rest []string, err error) {
	for part := range slices.Chunk(ids, views.MaxList) {
		docs, err := store.Load(ctx, collection, part, views.Heads)
		if err != nil {
			return nil, fmt.Errorf("look for what was given up: %w", err)
		}
		given := map[string]bool{}
		for _, doc := range docs {
			given[doc.ID] = true
		}
		for _, id := range part {
			if !given[id] {
				rest = append(rest, id)
			}
		}
	}
	return rest, nil
}
