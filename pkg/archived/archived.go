// Package archived reads the messages of billing journals from the segments in the blob store, for readers of streams that no longer have
// them, and knows what the index of a segment says about a message.
package archived

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"quire.dev/pkg/blob"
	"quire.dev/pkg/event"
	"quire.dev/pkg/installation"
	"quire.dev/pkg/journal"
	"quire.dev/pkg/segment"
)

// Segments opens the segments of an installation. A writer keeps its temporary file in the folder.
func Segments(blobs blob.Store, installation string, partitions int, folder string) (*segment.Archive, error) {
	kinds := map[string]byte{}
	for p := range partitions {
		for subject, kind := range event.Kinds(p) {
			kinds[subject] = kind
		}
	}
	return segment.New(blobs, segment.Options{
		Installation: installation, Folder: folder,
		Chain: func(before segment.Hash, m segment.Message) segment.Hash {
			return event.Link(before, event.Digest(m.Sequence, m.TimeNanos, kinds[m.Subject], m.Subject, m.Data))
		},
		Mentions: func(m segment.Message, found *segment.Mentions) { mention(kinds[m.Subject], m.Data, found) },
	})
}

// Has returns an error unless the segments have all messages of a stream up to a sequence, by their names: they are not read. The error
// is a *segment.GapError, or the store's.
func Has(ctx context.Context, blobs blob.Store, stream string, to uint64) error {
	listing, err := segment.List(ctx, blobs, stream)
	if err != nil {
		return err
	}
	if missing, some := listing.Missing(to); some {
		return &segment.GapError{Stream: stream, First: missing.First, Last: missing.Last}
	}
	return nil
}

// Message returns a segment's message as a message of the journal. Both share their data.
func Message(m segment.Message) journal.Message {
	return journal.Message{Sequence: m.Sequence, Time: time.Unix(0, m.TimeNanos).UTC(), Subject: m.Subject, Data: m.Data}
}

// Journals is a journal.Older: the archived messages of an installation's billing journals. Safe for concurrent use.
//
// Package segment checks the hash and the chain of what is read, so damage is detected. An archive that was rewritten consistently is
// not, and neither is a rewritten stream: audits, the chain's head in the read model and the signed log detect both, since they read
// archived messages the same way as the stream's.
type Journals struct {
	blobs        blob.Store
	installation func(context.Context) (string, error)
	partitions   int

	mu       sync.Mutex
	segments *segment.Archive // nil: nothing was read
}

// Of returns the archive of the installation whose journals a connection reaches. It contacts nothing.
func Of(nc *nats.Conn, blobs blob.Store, partitions int) *Journals {
	return NewJournals(blobs, partitions, installation.Journals(nc, event.Billing.Stream(0)).Owner)
}

// NewJournals contacts nothing. installation returns the installation's id, and is called at the first message that is read.
func NewJournals(blobs blob.Store, partitions int, installation func(context.Context) (string, error)) *Journals {
	return &Journals{blobs: blobs, partitions: partitions, installation: installation}
}

// archive opens the segments, or returns the open ones: they keep the trailers that were read.
func (j *Journals) archive(ctx context.Context) (*segment.Archive, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.segments != nil {
		return j.segments, nil
	}
	id, err := j.installation(ctx)
	if err != nil {
		return nil, err
	}
	j.segments, err = Segments(j.blobs, id, j.partitions, "")
	return j.segments, err
}

// Replay implements journal.Older.
func (j *Journals) Replay(ctx context.Context, stream string, from, to uint64, handle func(journal.Message) error) error {
	segments, err := j.archive(ctx)
	if err != nil {
		return failure(stream, err)
	}
	var failed error
	err = segments.Replay(ctx, stream, from, to, func(m segment.Message) error {
		failed = handle(Message(m))
		return failed
	})
	if failed != nil {
		return failed
	}
	return failure(stream, err)
}

// SeekTime implements journal.Older.
func (j *Journals) SeekTime(ctx context.Context, stream string, t time.Time, to uint64) (uint64, error) {
	if t.Unix() >= math.MaxInt64/int64(time.Second) { // later than any message
		return to + 1, nil
	}
	segments, err := j.archive(ctx)
	if err != nil {
		return 0, failure(stream, err)
	}
	nanos := int64(0)
	if t.Unix() > 0 {
		nanos = t.UnixNano()
	}
	sequence, err := segments.Seek(ctx, stream, nanos, to)
	return sequence, failure(stream, err)
}

// failure translates an error of the archive. A segment that was listed and is gone is looked for again: another one may have its
// messages.
func failure(stream string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, blob.ErrUnavailable), errors.Is(err, blob.ErrNotFound):
		return fmt.Errorf("read the archive of %s: %w: %w", stream, journal.ErrUnavailable, err)
	}
	for _, lost := range []error{segment.ErrGap, segment.ErrDamaged, segment.ErrForeign, segment.ErrFormat} {
		if errors.Is(err, lost) {
			return fmt.Errorf("read the archive of %s: %w: %w", stream, journal.ErrGap, err)
		}
	}
	return fmt.Errorf("read the archive of %s: %w", stream, err)
}
