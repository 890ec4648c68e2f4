package segment_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"quire.dev/pkg/blob"
	"quire.dev/pkg/segment"
)

// memory is a store whose blobs a test changes.
type memory struct {
	blob.Store
	blobs map[string][]byte
}

func (m *memory) Put(_ context.Context, key string, r io.Reader, _ int64) (blob.Info, error) {
	b, err := io.ReadAll(r)
	if err == nil {
		m.blobs[key] = b
	}
	return blob.Info{Key: key, Size: int64(len(b))}, err
}

func (m *memory) Get(_ context.Context, key string, offset, length int64) (io.ReadCloser, blob.Info, error) {
	b, ok := m.blobs[key]
	if !ok {
		return nil, blob.Info{}, blob.ErrNotFound
	}
	part := b[min(offset, int64(len(b))):]
	if length >= 0 {
		part = part[:min(length, int64(len(part)))]
	}
	return io.NopCloser(bytes.NewReader(part)), blob.Info{Key: key, Size: int64(len(b))}, nil
}

func (m *memory) Sweep(_ context.Context, prefix string, _ time.Time, visit func(blob.Info) error) error {
	for key, b := range m.blobs {
		if strings.HasPrefix(key, prefix) {
			if err := visit(blob.Info{Key: key, Size: int64(len(b))}); err != nil {
				return err
			}
		}
	}
	return nil
}

// small is a stored segment of a few frames.
func small(t *testing.T) (store *memory, s segment.Segment, all []segment.Message) {
	t.Helper()
	store = &memory{blobs: map[string][]byte{}}
	a := newArchive(t, store)
	a.Small(250, 1<<20)
	all = drawn(draw(t), 1, 9)
	return store, write(t, a, segment.Hash{}, all), all
}

// requireNoWrongData: whatever a reader returns of a damaged segment is what was written.
func requireNoWrongData(t *testing.T, what string, store blob.Store, all []segment.Message) (replayed error) {
	t.Helper()
	a := newArchive(t, store)
	got, err := replay(t, a, 1, 0)
	if len(got) > len(all) || !slices.EqualFunc(got, all[:len(got)], same) {
		t.Fatalf("%s: replay handles other messages: %v", what, err)
	}
	next := 0
	for m, err := range a.Messages(t.Context(), a.Find(t.Context(), stream, segment.Query{})) {
		if err != nil {
			if !errors.Is(err, segment.ErrDamaged) {
				t.Fatalf("%s: %v", what, err)
			}
			return err
		}
		if next >= len(all) || !same(m, all[next]) {
			t.Fatalf("%s: another message is found", what)
		}
		next++
	}
	if next != len(all) {
		t.Fatalf("%s: %d messages are found", what, next)
	}
	return err
}

func same(x, y segment.Message) bool {
	return x.Sequence == y.Sequence && x.TimeNanos == y.TimeNanos && x.Subject == y.Subject && bytes.Equal(x.Data, y.Data)
}

// TestEachFlippedByteIsFound by Verify and by Replay, which name the segment.
func TestEachFlippedByteIsFound(t *testing.T) {
	store, s, all := small(t)
	good := store.blobs[s.Key]
	verifier := newArchive(t, store)
	for i := range good {
		for _, mask := range []byte{0x01, 0x80, 0xff} {
			changed := bytes.Clone(good)
			changed[i] ^= mask
			store.blobs[s.Key] = changed
			_, err := verifier.Verify(t.Context(), s)
			requireDamaged(t, "verify", err, s.Key)
			requireDamaged(t, "replay", requireNoWrongData(t, "flipped", store, all), s.Key)
		}
	}
}

// TestEachTruncationIsFound: a segment ends with its trailer.
func TestEachTruncationIsFound(t *testing.T) {
	store, s, all := small(t)
	good := store.blobs[s.Key]
	a := newArchive(t, store)
	for i := range good {
		store.blobs[s.Key] = good[:i]
		_, err := a.Verify(t.Context(), s)
		requireDamaged(t, "verify with the size that was listed", err, s.Key)
		cut := s
		cut.Size = int64(i)
		_, err = a.Verify(t.Context(), cut)
		requireDamaged(t, "verify", err, s.Key)
		requireDamaged(t, "replay", requireNoWrongData(t, "truncated", store, all), s.Key)
	}
	store.blobs[s.Key] = append(bytes.Clone(good), 0)
	requireDamaged(t, "a byte more", requireNoWrongData(t, "longer", store, all), s.Key)
}

// TestARangeOfADamagedSegmentIsCheckedToo: the frames that are read, by the chain in the index.
func TestARangeOfADamagedSegmentIsCheckedToo(t *testing.T) {
	store, s, all := small(t)
	store.blobs[s.Key][10] ^= 1 // in the first frame
	a := newArchive(t, store)
	_, err := replay(t, a, 1, 1)
	requireDamaged(t, "the first frame", err, s.Key)
	got, err := replay(t, a, 9, 9)
	if err != nil || !reflect.DeepEqual(got, all[8:]) {
		t.Fatalf("the last frame: %d messages: %v", len(got), err)
	}
}

// TestASegmentOfAnotherJournalIsRefused though it is whole.
func TestASegmentOfAnotherJournalIsRefused(t *testing.T) {
	store, s, _ := small(t)
	other, err := segment.New(store, segment.Options{Installation: "another", Chain: chain})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := other.Describe(t.Context(), s); !errors.Is(err, segment.ErrForeign) || !strings.Contains(err.Error(), s.Key) {
		t.Errorf("of another installation: %v", err)
	}
	moved := s
	moved.Stream, moved.Key = "BILLING_1", strings.Replace(s.Key, stream, "BILLING_1", 1)
	store.blobs[moved.Key] = store.blobs[s.Key]
	if _, err := newArchive(t, store).Verify(t.Context(), moved); !errors.Is(err, segment.ErrForeign) {
		t.Errorf("of another stream: %v", err)
	}
	renamed := s
	renamed.First, renamed.Key = 2, strings.Replace(s.Key, "0001-", "0002-", 1)
	store.blobs[renamed.Key] = store.blobs[s.Key]
	_, err = newArchive(t, store).Verify(t.Context(), renamed)
	requireDamaged(t, "of another range", err, renamed.Key)
}

// TestAnotherIndexThanThatOfTheMessagesIsFound by a Verify that knows what messages mention.
func TestAnotherIndexThanThatOfTheMessagesIsFound(t *testing.T) {
	store, s, _ := small(t)
	a, err := segment.New(store, segment.Options{Installation: installation, Chain: chain, Mentions: func(m segment.Message, found *segment.Mentions) {
		mentions(m, found)
		found.Request(1)
	}})
	if err != nil {
		t.Fatal(err)
	}
	_, err = a.Verify(t.Context(), s)
	requireDamaged(t, "verify", err, s.Key)
}

// TestAFailingStoreIsNotADamage: an error of the store passes through.
func TestAFailingStoreIsNotADamage(t *testing.T) {
	store, s, _ := small(t)
	delete(store.blobs, s.Key)
	_, err := newArchive(t, store).Verify(t.Context(), s)
	if !errors.Is(err, blob.ErrNotFound) || errors.Is(err, segment.ErrDamaged) {
		t.Fatal(err)
	}
}
