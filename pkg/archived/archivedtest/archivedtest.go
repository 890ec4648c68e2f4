// Package archivedtest archives journals for tests.
package archivedtest

import (
	"context"
	"errors"
	"io"
	"sync/atomic"
	"testing"

	"github.com/nats-io/nats.go"

	"quire.dev/pkg/archived"
	"quire.dev/pkg/blob"
	"quire.dev/pkg/journal"
	"quire.dev/pkg/segment"
)

// Archive is the archive of an installation.
type Archive struct {
	Blobs        blob.Store
	Installation string
	Partitions   int
}

// Journals reads the archive.
func (a Archive) Journals() *archived.Journals {
	return archived.NewJournals(a.Blobs, a.Partitions, func(context.Context) (string, error) { return a.Installation, nil })
}

// File writes one segment of a stream: of the messages that no segment has, up to a sequence.
func (a Archive) File(t testing.TB, nc *nats.Conn, stream string, partition int, to uint64) segment.Segment {
	t.Helper()
	written, err := a.file(t.Context(), nc, stream, partition, to, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return written
}

func (a Archive) file(ctx context.Context, nc *nats.Conn, stream string, partition int, to uint64, folder string) (written segment.Segment, err error) {
	segments, err := archived.Segments(a.Blobs, a.Installation, a.Partitions, folder)
	if err != nil {
		return written, err
	}
	listing, err := segments.List(ctx, stream)
	if err != nil {
		return written, err
	}
	var chain segment.Hash
	if n := len(listing.Segments); n > 0 {
		summary, err := segments.Describe(ctx, listing.Segments[n-1])
		if err != nil {
			return written, err
		}
		chain = summary.LastChain
	}
	w, err := segments.Create(stream, partition, chain)
	if err != nil {
		return written, err
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	err = journal.Open(nc, stream).Replay(ctx, listing.Last(), to, func(m journal.Message) error {
		return w.Add(segment.Message{Sequence: m.Sequence, TimeNanos: m.Time.UnixNano(), Subject: m.Subject, Data: m.Data})
	}, nil)
	if err != nil {
		return written, err
	}
	return w.Put(ctx)
}

// Unreachable is a blob store that can't be reached while Down is true.
type Unreachable struct {
	blob.Store
	Down  atomic.Bool
	Tries atomic.Int64 // reads while it was down
}

func (u *Unreachable) check() error {
	if !u.Down.Load() {
		return nil
	}
	u.Tries.Add(1)
	return blob.ErrUnavailable
}

// Get implements blob.Store.
func (u *Unreachable) Get(ctx context.Context, key string, offset, length int64) (io.ReadCloser, blob.Info, error) {
	if err := u.check(); err != nil {
		return nil, blob.Info{}, err
	}
	r, info, err := u.Store.Get(ctx, key, offset, length)
	if err != nil {
		return nil, info, err
	}
	return &breaking{r, u}, info, nil
}

// breaking fails in the middle of a blob, too.
type breaking struct {
	io.ReadCloser
	of *Unreachable
}

func (b *breaking) Read(p []byte) (int, error) {
	if err := b.of.check(); err != nil {
		return 0, err
	}
	return b.ReadCloser.Read(p)
}
