package backup

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"quire.dev/pkg/blob"
	"quire.dev/pkg/blob/disk"
	"quire.dev/pkg/event"
	"quire.dev/pkg/eventually"
	"quire.dev/pkg/installation"
	"quire.dev/pkg/journal"
	"quire.dev/pkg/journal/journaltest"
	"quire.dev/pkg/proof"
	"quire.dev/services/archive"
)

const (
	partitionsArchived = 2
	messagesArchived   = 30 // of each partition
)

// archivedJournals runs an archive until it has all messages of some billing journals.
func archivedJournals(t *testing.T) (from blob.Store, nc *nats.Conn) {
	t.Helper()
	to := destination(t)
	if err := installation.Provision(t.Context(), to.NC, installation.Config{Partitions: partitionsArchived}); err != nil {
		t.Fatal(err)
	}
	id, err := installation.Await(t.Context(), slog.New(slog.DiscardHandler), installation.Journals(to.NC, event.Billing.Stream(0)), installation.Blobs(to.Blobs, true))
	if err != nil {
		t.Fatal(err)
	}
	publish(t, to.NC, messagesArchived)
	service, err := archive.New(archive.Config{
		PartitionCount: partitionsArchived, Interval: time.Millisecond, SegmentAge: 1, Secret: strings.Repeat("k", 40),
		Installation: func() string { return id },
	}, archive.Deps{NC: to.NC, Blobs: to.Blobs})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- service.Run(ctx) }()
	eventually.NoError(t, "all messages are archived", func() error {
		a, err := archive.OpenArchived(t.Context(), to.Blobs, "", 1)
		if err != nil {
			return err
		}
		ends, err := a.Check(t.Context(), func(int64, int64) {})
		for _, end := range ends {
			if end.Archived < messagesArchived {
				err = errors.New(end.String())
			}
		}
		return err
	})
	stop()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	return to.Blobs, to.NC
}

// publish adds messages to each billing journal.
func publish(t *testing.T, nc *nats.Conn, count int) {
	t.Helper()
	for n := range count {
		for p := range partitionsArchived {
			if _, err := nc.Request(event.Billing.Subjects(p)[0], fmt.Appendf(nil, "message %d", n), nats.DefaultTimeout); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func destination(t *testing.T) Destination {
	t.Helper()
	store, err := disk.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	return Destination{NC: journaltest.Start(t).Conn(t), Replicas: 1, Blobs: store}
}

func restoreArchived(ctx context.Context, from blob.Store, to Destination) error {
	a, err := archive.OpenArchived(ctx, from, "", 1)
	if err == nil {
		_, err = RestoreArchived(ctx, a, from, to)
	}
	return err
}

// compareRestored compares the billing journals with the archived ones. Those of documents are empty.
func compareRestored(t *testing.T, original *nats.Conn, to Destination) {
	t.Helper()
	for _, s := range streamsOf(partitionsArchived, event.Domains()...) {
		want, got := journal.Open(original, s.name), journal.Open(to.NC, s.name)
		last, err := got.LastSequence(t.Context())
		if s.domain != event.Billing && last == 0 && err == nil {
			continue
		}
		if err != nil || last != messagesArchived || s.domain != event.Billing {
			t.Fatalf("%s is restored with %d messages: %v", s.name, last, err)
		}
		for sequence := uint64(1); sequence <= last; sequence++ {
			a, err := want.Get(t.Context(), sequence)
			b, failed := got.Get(t.Context(), sequence)
			if err != nil || failed != nil || !a.Time.Equal(b.Time) || a.Subject != b.Subject || !bytes.Equal(a.Data, b.Data) {
				t.Fatalf("%s: message %d differs: %v %v", s.name, sequence, err, failed)
			}
		}
	}
}

func TestARestoreFromAnArchiveMayBeRepeated(t *testing.T) {
	t.Parallel()
	from, original := archivedJournals(t)
	to, steps := destination(t), 0
	for done := false; !done; steps++ {
		ctx, cancel := context.WithCancel(t.Context())
		calls := 0
		to.Progress = func(string, uint64, uint64) {
			if calls++; calls > steps {
				cancel()
			}
		}
		done = restoreArchived(ctx, from, to) == nil
		cancel()
	}
	if steps < 5 {
		t.Errorf("interrupted only %d times", steps-1)
	}
	compareRestored(t, original, to)
	if err := restoreArchived(t.Context(), from, to); err != nil {
		t.Errorf("over what is restored: %v", err)
	}
	if err := restoreArchived(t.Context(), from, Destination{NC: original, Replicas: 1, Blobs: from}); err != nil {
		t.Errorf("over the installation itself: %v", err)
	}
}

// Read models and the bucket may have outlived the journals. What does not belong to the archive is not mixed with it.
func TestAnArchiveIsNotRestoredOverOtherData(t *testing.T) {
	t.Parallel()
	from, _ := archivedJournals(t)
	put := func(to Destination, key, text string) {
		if _, err := to.Blobs.Put(t.Context(), key, strings.NewReader(text), int64(len(text))); err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range map[string]struct {
		prepare func(Destination)
		want    error
	}{
		"blobs of another installation": {func(to Destination) { put(to, installation.BlobKey, "another") }, installation.ErrMixed},
		"journals of another installation": {func(to Destination) {
			if err := installation.Provision(t.Context(), to.NC, installation.Config{Partitions: 1}); err != nil {
				t.Fatal(err)
			}
		}, installation.ErrMixed},
		"another log": {func(to Destination) { put(to, proof.LogCheckpoint, "another") }, ErrNotEmpty},
		"a journal that has gone on": {func(to Destination) {
			if err := restoreArchived(t.Context(), from, to); err != nil {
				t.Fatal(err)
			}
			publish(t, to.NC, 1)
		}, ErrNotEmpty},
		"other blobs": {func(to Destination) { put(to, "exports/1", "an export") }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			to := destination(t)
			c.prepare(to)
			if err := restoreArchived(t.Context(), from, to); !errors.Is(err, c.want) {
				t.Errorf("%v, want %v", err, c.want)
			}
		})
	}
}
