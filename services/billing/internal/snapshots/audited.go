package snapshots

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"quire.dev/pkg/blob"
	"quire.dev/pkg/installation"
)

// auditedKey is the key of a note that names the newest audited snapshot. Like snapshots it has a MAC.
func (s *Store) auditedKey() string { return installation.AuditedKey(s.stream) }

// SetAudited notes that an audit has folded the whole journal and found a snapshot to be right. Thin keeps it until another is noted.
func (s *Store) SetAudited(ctx context.Context, snapshot Snapshot) error {
	secret, err := s.keys.get(ctx)
	if err != nil {
		return err
	}
	data := secret.sign(s.auditedKey(), []byte(snapshot.Key))
	if _, err := s.blobs.Put(ctx, s.auditedKey(), bytes.NewReader(data), int64(len(data))); err != nil {
		return fmt.Errorf("write %s: %w", s.auditedKey(), err)
	}
	return nil
}

// Audited returns the snapshot that SetAudited noted last. found is false if none was noted, the snapshot is gone, or the note is damaged.
func (s *Store) Audited(ctx context.Context) (snapshot Snapshot, found bool, err error) {
	key, err := s.readAudited(ctx)
	switch {
	case errors.Is(err, blob.ErrNotFound):
		return Snapshot{}, false, nil
	case errors.Is(err, ErrDamaged):
		s.log.Warn("the note of the audited snapshot is unusable", "key", s.auditedKey(), "error", err)
		return Snapshot{}, false, nil
	case err != nil:
		return Snapshot{}, false, err
	}
	return s.find(ctx, key)
}

// find returns the snapshot with a key, or false.
func (s *Store) find(ctx context.Context, key string) (Snapshot, bool, error) {
	list, err := s.List(ctx)
	if err != nil {
		return Snapshot{}, false, err
	}
	i := slices.IndexFunc(list, func(have Snapshot) bool { return have.Key == key })
	if i < 0 {
		return Snapshot{}, false, nil
	}
	return list[i], true, nil
}

func (s *Store) readAudited(ctx context.Context) (key string, err error) {
	secret, err := s.keys.get(ctx)
	if err != nil {
		return "", err
	}
	reader, info, err := s.blobs.Get(ctx, s.auditedKey(), 0, -1)
	if err != nil {
		return "", fmt.Errorf("read %s: %w", s.auditedKey(), err)
	}
	defer reader.Close()
	if info.Size > installation.MaxAudited {
		return "", fmt.Errorf("%w: %s has %d bytes", ErrDamaged, s.auditedKey(), info.Size)
	}
	data, err := io.ReadAll(secret.open(reader, info))
	return string(data), err
}
