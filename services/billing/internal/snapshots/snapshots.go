// Package snapshots keeps the states of a billing fold in a blob store, so that a start need not fold the whole journal.
package snapshots

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"time"

	"quire.dev/pkg/blob"
	"quire.dev/pkg/event"
	"quire.dev/pkg/installation"
	"quire.dev/pkg/views"
	"quire.dev/services/billing/internal/account"
)

// maxBytes bounds the size of a snapshot.
const maxBytes = 8 << 30

// ErrDamaged: a snapshot is not what was written.
var ErrDamaged = errors.New("snapshot is damaged")

// ErrVersion: a snapshot is of a version that this code does not start from.
var ErrVersion = errors.New("snapshot of another version")

// Store holds the snapshots of one stream under billing/<stream>/<sequence>-<code version>-<state hash>-<entries>.
// Several replicas may use it at once: they write the same for a sequence.
type Store struct {
	blobs  blob.Store
	keys   *keyring
	stream string
	prefix string
	log    *slog.Logger
}

// New returns the store of a stream's snapshots. Their MAC key is in a read model opened with Collections.
func New(blobs blob.Store, model views.Store, stream string, log *slog.Logger) *Store {
	return &Store{blobs: blobs, keys: &keyring{store: model}, stream: stream, prefix: installation.SnapshotPrefix(stream), log: log}
}

// Prefix is the prefix of the keys in the blob store, for messages to operators.
func (s *Store) Prefix() string { return s.prefix }

// KeyIsNew creates the MAC key unless there is one, and reports whether this Store has created it. Snapshots from before can't be used then: their key is lost.
func (s *Store) KeyIsNew(ctx context.Context) (bool, error) {
	_, err := s.keys.get(ctx)
	s.keys.mu.Lock()
	defer s.keys.mu.Unlock()
	return s.keys.drawn, err
}

// Snapshot names a stored snapshot.
type Snapshot struct {
	Key      string
	Sequence uint64
	Version  int
	Hash     account.Hash
	Entries  uint64    // as account.Fold.Entries
	Stored   time.Time // by the blob store's clock
	Size     int64
}

// List returns all snapshots, newest first. Blobs with other names are ignored.
func (s *Store) List(ctx context.Context) ([]Snapshot, error) {
	var list []Snapshot
	everything := time.Now().Add(100 * 365 * 24 * time.Hour)
	err := s.blobs.Sweep(ctx, s.prefix, everything, func(info blob.Info) error {
		if snapshot, ok := s.parse(info); ok {
			list = append(list, snapshot)
		} else {
			s.log.Warn("not a snapshot", "key", info.Key)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list snapshots %s: %w", s.prefix, err)
	}
	slices.SortFunc(list, func(a, b Snapshot) int { return strings.Compare(b.Key, a.Key) })
	return list, nil
}

func (s *Store) parse(info blob.Info) (Snapshot, bool) {
	parts := strings.Split(strings.TrimPrefix(info.Key, s.prefix), "-")
	if len(parts) != 4 {
		return Snapshot{}, false
	}
	sequence, err1 := strconv.ParseUint(parts[0], 10, 64)
	version, err2 := strconv.Atoi(parts[1])
	hash, err3 := hex.DecodeString(parts[2])
	entries, err4 := strconv.ParseUint(parts[3], 10, 64)
	if err1 != nil || err2 != nil || err3 != nil || err4 != nil || len(hash) != len(account.Hash{}) {
		return Snapshot{}, false
	}
	return Snapshot{
		Key: info.Key, Sequence: sequence, Version: version, Hash: account.Hash(hash), Entries: entries, Stored: info.Modified, Size: info.Size,
	}, true
}

// Newest loads the newest usable snapshot that is not after the sequence upTo, or returns a fresh fold and an empty key. It
// uses snapshots of this and the previous version of the code, and skips damaged and other ones with a warning, without
// deleting them.
func (s *Store) Newest(ctx context.Context, upTo uint64) (*account.Fold, string, error) {
	list, err := s.List(ctx)
	if err != nil {
		return nil, "", err
	}
	for _, snapshot := range list {
		if snapshot.Sequence > upTo {
			continue
		}
		fold, err := s.Load(ctx, snapshot)
		switch {
		case err == nil:
			return fold, snapshot.Key, nil
		case errors.Is(err, ErrVersion):
			s.log.Warn("ignoring a snapshot of another version", "key", snapshot.Key, "version", account.CodeVersion)
		case errors.Is(err, ErrDamaged) || errors.Is(err, blob.ErrNotFound): // or deleted meanwhile
			s.log.Warn("snapshot is unusable, folding more of the journal instead", "key", snapshot.Key, "error", err)
		default:
			return nil, "", err
		}
	}
	return account.New(), "", nil
}

// usable reports whether this code can restore the snapshot.
func usable(s Snapshot) bool {
	return s.Version == account.CodeVersion || s.Version == account.CodeVersion-1
}

// open opens a snapshot of size bytes. If the MAC is wrong, reading ends with ErrDamaged.
func (s *Store) open(ctx context.Context, snapshot Snapshot) (r io.ReadCloser, size int64, err error) {
	key, err := s.keys.get(ctx)
	if err != nil {
		return nil, 0, err
	}
	reader, info, err := s.blobs.Get(ctx, snapshot.Key, 0, -1)
	if err != nil {
		return nil, 0, fmt.Errorf("read %s: %w", snapshot.Key, err)
	}
	return struct {
		io.Reader
		io.Closer
	}{key.open(reader, info), reader}, info.Size, nil
}

// Authentic returns ErrDamaged unless this billing wrote the snapshot.
func (s *Store) Authentic(ctx context.Context, snapshot Snapshot) error {
	reader, _, err := s.open(ctx, snapshot)
	if err != nil {
		return err
	}
	defer reader.Close()
	if _, err := io.Copy(io.Discard, reader); err != nil {
		return fmt.Errorf("read %s: %w", snapshot.Key, err)
	}
	return nil
}

// Load returns the state of a snapshot. Errors: ErrDamaged, ErrVersion, blob.ErrNotFound.
func (s *Store) Load(ctx context.Context, snapshot Snapshot) (*account.Fold, error) {
	if !usable(snapshot) {
		return nil, ErrVersion
	}
	reader, size, err := s.open(ctx, snapshot)
	if err != nil {
		return nil, err
	}
	defer reader.Close()
	if size > maxBytes {
		return nil, fmt.Errorf("%w: %d bytes", ErrDamaged, size)
	}
	data := make([]byte, 0, size+1)
	buffer := bytes.NewBuffer(data)
	if _, err := io.Copy(buffer, reader); err != nil {
		return nil, fmt.Errorf("read %s: %w", snapshot.Key, err)
	}
	state := &event.BillingState{}
	if err := event.Decode(buffer.Bytes(), state); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	fold, err := account.Restore(state)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	hash, err := fold.StateHash()
	if err != nil {
		return nil, err
	}
	if hash != snapshot.Hash || fold.Sequence() != snapshot.Sequence {
		return nil, fmt.Errorf("%w: its state at %d has hash %x", ErrDamaged, fold.Sequence(), hash)
	}
	return fold, nil
}

// Write stores an image.
func (s *Store) Write(ctx context.Context, image *account.Image) (key string, sizeBytes int, err error) {
	secret, err := s.keys.get(ctx)
	if err != nil {
		return "", 0, err
	}
	key = fmt.Sprintf("%s%020d-%d-%x-%d", s.prefix, image.Sequence, account.CodeVersion, image.Hash(), image.Entries)
	data := secret.sign(key, image.Encode())
	if _, err := s.blobs.Put(ctx, key, bytes.NewReader(data), int64(len(data))); err != nil {
		return "", 0, fmt.Errorf("write snapshot %s: %w", key, err)
	}
	return key, len(data), nil
}

// SetAside moves a snapshot to billing/aside/<time>/<stream>/…, where nothing looks for it, and returns its new key.
func (s *Store) SetAside(ctx context.Context, key string, now time.Time) (string, error) {
	aside := "billing/aside/" + now.UTC().Format("20060102T150405Z") + "/" + strings.TrimPrefix(key, "billing/")
	if err := s.blobs.Move(ctx, key, aside); err != nil {
		return "", fmt.Errorf("move snapshot %s aside: %w", key, err)
	}
	return aside, nil
}

// Thin deletes superfluous snapshots, and never the audited one.
func (s *Store) Thin(ctx context.Context, now time.Time, spacing Spacing) error {
	list, err := s.List(ctx)
	if err != nil {
		return err
	}
	audited, _, err := s.Audited(ctx)
	if err != nil {
		return err
	}
	for _, snapshot := range superfluous(list, now, spacing) {
		if snapshot.Key == audited.Key {
			continue
		}
		if err := s.blobs.Delete(ctx, snapshot.Key); err != nil {
			return fmt.Errorf("delete snapshot %s: %w", snapshot.Key, err)
		}
	}
	return nil
}

const (
	keepLast = 3
	// perMessage and perEntry bound the size of permanently kept snapshots, per message and per entry of the journal. A message of a busy
	// journal has about this size, and an entry somewhat more.
	perMessage = 1000
	perEntry   = 25
)

// Spacing is how far apart two permanently kept snapshots may be.
type Spacing struct {
	Messages, Entries uint64
}

// Apart is the spacing of snapshots of a size, whose bytes stay within perMessage and perEntry.
func (s Spacing) Apart(size int64) Spacing {
	bytes := uint64(max(0, size))
	return Spacing{Messages: max(s.Messages, bytes/perMessage), Entries: max(s.Entries, bytes/perEntry)}
}

// superfluous returns the snapshots to delete. It keeps the last three, the newest of each hour for a day, and the newest of
// each day for a month. Permanently it keeps enough for an explanation to fold no more than the spacing for their size. list is sorted, newest
// first.
func superfluous(list []Snapshot, now time.Time, spacing Spacing) []Snapshot {
	var out []Snapshot
	kept := keptForNow(list, now)
	var last Snapshot // the last kept one
	for i := len(list) - 1; i >= 0; i-- {
		if kept[i] || beyond(last, list[i-1], spacing.Apart(list[i].Size)) {
			last = list[i]
		} else {
			out = append(out, list[i])
		}
	}
	return out
}

// beyond reports whether two snapshots are further apart.
func beyond(older, newer Snapshot, spacing Spacing) bool {
	return newer.Sequence > older.Sequence+spacing.Messages || newer.Entries > older.Entries+spacing.Entries
}

// keptForNow reports for each snapshot whether its age keeps it.
func keptForNow(list []Snapshot, now time.Time) []bool {
	kept := make([]bool, len(list))
	hours, days := map[time.Time]bool{}, map[time.Time]bool{}
	for i, snapshot := range list {
		age := now.Sub(snapshot.Stored)
		hour, day := snapshot.Stored.UTC().Truncate(time.Hour), snapshot.Stored.UTC().Truncate(24*time.Hour)
		keep := i < keepLast || age < 24*time.Hour && !hours[hour] || age < 31*24*time.Hour && !days[day]
		if keep {
			hours[hour], days[day] = true, true
		}
		kept[i] = keep
	}
	return kept
}
