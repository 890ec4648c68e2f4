package snapshots

import (
	"bytes"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/sha256"
	"errors"
	"fmt"

	"quire.dev/pkg/blob"
	"quire.dev/pkg/event"
	"quire.dev/pkg/installation"
)

// maxProgress bounds the progress of an audit, which is a few megabytes at most.
const maxProgress = 16 << 20

// progressFormat is the version of what an audit's progress means: which rows are expected, how they are hashed and in which bucket. Progress of
// another version is unusable. Raise it with each change of these.
const progressFormat = "1"

// ErrProgress means that saved progress is not of the audit, was changed, or needs a snapshot that is gone.
var ErrProgress = errors.New("unusable progress of an audit")

// progressCipher encrypts and authenticates the progress of the audit with an id. Credentials for the blob store and the read model are not
// enough to read or forge it.
func progressCipher(id [16]byte) (cipher.AEAD, error) {
	key := sha256.Sum256(append([]byte("quire audit progress\n"), id[:]...))
	block, err := aes.NewCipher(key[:])
	if err != nil {
		return nil, err
	}
	return cipher.NewGCMWithRandomNonce(block)
}

// SetProgress keeps the progress of the audit with an id, which must be secret, in place of what was kept before.
func (s *Store) SetProgress(ctx context.Context, id [16]byte, progress *event.AuditProgress) error {
	data, err := event.Encode(progress)
	if err != nil {
		return err
	}
	secret, err := progressCipher(id)
	if err != nil {
		return err
	}
	key := installation.AuditProgressKey(s.stream)
	data = secret.Seal(nil, nil, data, []byte(key+progressFormat)) //nolint:gosec // it draws the nonce itself
	if _, err := s.blobs.Put(ctx, key, bytes.NewReader(data), int64(len(data))); err != nil {
		return fmt.Errorf("write %s: %w", key, err)
	}
	return nil
}

// Progress returns what SetProgress kept for the audit with an id, and the snapshot that it names. The error is blob.ErrNotFound if nothing
// was kept, ErrProgress if it can't be used.
func (s *Store) Progress(ctx context.Context, id [16]byte) (*event.AuditProgress, Snapshot, error) {
	key := installation.AuditProgressKey(s.stream)
	unusable := func(what string) (*event.AuditProgress, Snapshot, error) {
		return nil, Snapshot{}, fmt.Errorf("%w: %s %s", ErrProgress, key, what)
	}
	sealed, err := blob.Read(ctx, s.blobs, key, maxProgress)
	switch {
	case errors.Is(err, blob.ErrTooLarge):
		return unusable("is too large")
	case err != nil:
		return nil, Snapshot{}, fmt.Errorf("read %s: %w", key, err)
	}
	secret, err := progressCipher(id)
	if err != nil {
		return nil, Snapshot{}, err
	}
	progress := &event.AuditProgress{}
	data, err := secret.Open(nil, nil, sealed, []byte(key+progressFormat))
	if err != nil || event.Decode(data, progress) != nil {
		return unusable("is of another audit, or was changed")
	}
	snapshot, found, err := s.find(ctx, progress.Snapshot)
	if err == nil && !found {
		return unusable("names a snapshot that is gone")
	}
	return progress, snapshot, err
}
