package snapshots

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"quire.dev/pkg/blob"
	"quire.dev/services/billing/internal/recent"
)

// keepRecent is how many images of recent requests are kept besides the one that a start would use.
const keepRecent = 3

// recentKey is the key of the recent requests that belong to the snapshot at a sequence. Keys of snapshots differ in form, so
// that neither is listed as the other.
func (s *Store) recentKey(sequence uint64) string {
	return fmt.Sprintf("%s%020d", s.recentPrefix(), sequence)
}

func (s *Store) recentPrefix() string {
	return "billing/recent/" + strings.TrimPrefix(s.prefix, "billing/")
}

// WriteRecent stores the recent requests as of a sequence.
func (s *Store) WriteRecent(ctx context.Context, sequence uint64, image *recent.Image) error {
	secret, err := s.keys.get(ctx)
	if err != nil {
		return err
	}
	var data bytes.Buffer
	if err := image.Encode(&data); err != nil {
		return err
	}
	key := s.recentKey(sequence)
	signed := secret.sign(key, data.Bytes())
	if _, err := s.blobs.Put(ctx, key, bytes.NewReader(signed), int64(len(signed))); err != nil {
		return fmt.Errorf("write recent requests %s: %w", key, err)
	}
	return nil
}

// LoadRecent loads the recent requests of a sequence into an empty log. Without an authentic image the log stays empty, and the
// error is blob.ErrNotFound or ErrDamaged.
func (s *Store) LoadRecent(ctx context.Context, sequence uint64, into *recent.Log) error {
	key := s.recentKey(sequence)
	reader, _, err := s.open(ctx, Snapshot{Key: key})
	if err != nil {
		return err
	}
	defer reader.Close()
	err = into.Load(reader)
	if errors.Is(err, recent.ErrImage) {
		err = damaged(err)
	}
	if err != nil {
		return fmt.Errorf("read recent requests %s: %w", key, err)
	}
	return nil
}

// ThinRecent deletes images of recent requests, except the last ones and the newest that is not after the sequence upTo.
func (s *Store) ThinRecent(ctx context.Context, upTo uint64) error {
	var sequences []uint64
	everything := time.Now().Add(100 * 365 * 24 * time.Hour)
	err := s.blobs.Sweep(ctx, s.recentPrefix(), everything, func(info blob.Info) error {
		if n, err := strconv.ParseUint(strings.TrimPrefix(info.Key, s.recentPrefix()), 10, 64); err == nil {
			sequences = append(sequences, n)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("list recent requests %s: %w", s.recentPrefix(), err)
	}
	slices.Sort(sequences)
	slices.Reverse(sequences)
	needed := slices.IndexFunc(sequences, func(n uint64) bool { return n <= upTo })
	for i, n := range sequences {
		if i < keepRecent || i == needed {
			continue
		}
		if err := s.blobs.Delete(ctx, s.recentKey(n)); err != nil {
			return fmt.Errorf("delete recent requests at %d: %w", n, err)
		}
	}
	return nil
}
