package archived_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"quire.dev/pkg/archived"
	"quire.dev/pkg/archived/archivedtest"
	"quire.dev/pkg/blob"
	"quire.dev/pkg/blob/disk"
	"quire.dev/pkg/event"
	"quire.dev/pkg/installation"
	"quire.dev/pkg/journal"
	"quire.dev/pkg/journal/journaltest"
	"quire.dev/pkg/segment"
)

// losing is a store that loses a blob once its name was listed.
type losing struct {
	blob.Store
	key string
}

func (l *losing) Sweep(ctx context.Context, prefix string, olderThan time.Time, visit func(blob.Info) error) error {
	err := l.Store.Sweep(ctx, prefix, olderThan, visit)
	if err == nil && l.key != "" {
		err, l.key = l.Delete(ctx, l.key), ""
	}
	return err
}

// TestASegmentThatIsDeletedWhileItIsReadMayHaveAnother with its messages: a reader looks again before it gives up.
func TestASegmentThatIsDeletedWhileItIsReadMayHaveAnother(t *testing.T) {
	seed := rand.Uint64()
	t.Log("seed", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	store, err := disk.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	nc := journaltest.Start(t).Conn(t)
	if err := installation.Provision(t.Context(), nc, installation.Config{Partitions: 1}); err != nil {
		t.Fatal(err)
	}
	stream, count := event.Billing.Stream(0), 20+random.Uint64N(100)
	for i := range count {
		if _, err := nc.Request(event.UsageSubject(0), fmt.Append(nil, i), time.Minute); err != nil {
			t.Fatal(err)
		}
	}
	id, err := installation.Journals(nc, stream).Owner(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	blobs := &losing{Store: store}
	archive := archivedtest.Archive{Blobs: blobs, Installation: id, Partitions: 1}
	parts := []segment.Segment{archive.File(t, nc, stream, 0, 1+random.Uint64N(count-1))}
	parts = append(parts, archive.File(t, nc, stream, 0, count))
	read := func() (n uint64, err error) {
		j := archived.Of(nc, blobs, 1)
		err = j.Replay(t.Context(), stream, 1, count, func(m journal.Message) error {
			if n++; m.Sequence != n {
				return fmt.Errorf("message %d after %d", m.Sequence, n-1)
			}
			return nil
		})
		return n, err
	}
	if n, err := read(); n != count || err != nil {
		t.Fatalf("%d messages of %d: %v", n, count, err)
	}
	blobs.key = parts[1].Key
	if n, err := read(); n != parts[0].Last || !errors.Is(err, journal.ErrUnavailable) {
		t.Errorf("%d messages, and %v, want %d and ErrUnavailable", n, err, parts[0].Last)
	}
	if n, err := read(); n != parts[0].Last || !errors.Is(err, journal.ErrGap) {
		t.Errorf("then %d messages, and %v, want %d and ErrGap", n, err, parts[0].Last)
	}
	if err := archived.Has(t.Context(), blobs, stream, count); !errors.Is(err, segment.ErrGap) {
		t.Errorf("has: %v, want ErrGap", err)
	}
	if err := archived.Has(t.Context(), blobs, stream, parts[0].Last); err != nil {
		t.Errorf("has: %v", err)
	}
	archive.File(t, nc, stream, 0, count)
	if n, err := read(); n != count || err != nil {
		t.Errorf("in the end %d messages of %d: %v", n, count, err)
	}
}
