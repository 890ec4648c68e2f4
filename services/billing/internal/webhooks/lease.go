package webhooks

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"quire.dev/pkg/views"
)

// lease names the sending instance.
type lease struct {
	Instance string `json:"instance"`
	UntilMs  int64  `json:"untilMs"`
}

// lead reports whether this instance has the lease, after taking a free one.
func (s *Sender) lead(ctx context.Context) (bool, error) {
	if s.store.clock().Add(leaseEarly).Before(s.until) {
		return true, nil
	}
	return s.take(ctx, leaseTime)
}

// take takes or renews the lease, or releases it if length is 0.
func (s *Sender) take(ctx context.Context, length time.Duration) (bool, error) {
	store, now := s.store.store, s.store.clock()
	at, err := store.Checkpoint(ctx, leaseStream)
	if err != nil {
		return false, err
	}
	docs, err := store.Load(ctx, leases, []string{leaseID}, views.Heads)
	if err != nil {
		return false, err
	}
	var held lease
	if len(docs) > 0 {
		if err := json.Unmarshal(docs[0].Head, &held); err != nil {
			return false, fmt.Errorf("read the lease of the sender: %w", err)
		}
	}
	if held.Instance != s.instance && held.UntilMs > now.UnixMilli() && held.UntilMs <= now.Add(leaseTime).UnixMilli() {
		return false, nil
	}
	until := now.Add(length)
	head, err := json.Marshal(lease{s.instance, until.UnixMilli()})
	if err != nil {
		return false, err
	}
	err = store.Commit(ctx, views.Batch{
		Stream: leaseStream, From: at, To: at + 1, Puts: []views.Put{{Collection: leases, Doc: views.Doc{ID: leaseID, Head: head}}},
	})
	if errors.Is(err, views.ErrConflict) {
		return false, nil
	}
	if err == nil {
		s.until = until
	}
	return err == nil, err
}
