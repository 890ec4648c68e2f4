package archive

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"quire.dev/pkg/archived"
	"quire.dev/pkg/blob"
	"quire.dev/pkg/event"
	"quire.dev/pkg/installation"
	"quire.dev/pkg/journal"
	"quire.dev/pkg/segment"
	"quire.dev/pkg/wait"
)

// retainEvery is the time between two looks for generations to delete. It is a tenth of a short retention.
const retainEvery = 10 * time.Minute

// Why a generation past its retention is kept.
const (
	waitsForSegments = "not all of its messages are in segments yet"
	waitsForAudit    = "no complete audit has covered it and matched: see quire audit --new"
)

// errAltered: a message is in the journal another one than in the archive.
var errAltered = errors.New("the journal and the archive have different messages")

// retention deletes closed generations of the billing journals from the NATS servers.
type retention struct {
	*Service
	reported []string             // why each partition's generation is kept, or the error, as logged last
	overdue  []time.Duration      // how long each partition's generation has been past its retention, as known last
	compared []journal.Generation // what was read back, by partition
}

func newRetention(s *Service) *retention {
	n := s.cfg.PartitionCount
	return &retention{Service: s, reported: make([]string, n), overdue: make([]time.Duration, n), compared: make([]journal.Generation, n)}
}

// retain deletes generations that are due, until ctx ends.
func (s *Service) retain(ctx context.Context) {
	if s.cfg.Retention == 0 {
		return
	}
	r := newRetention(s)
	for {
		r.round(ctx)
		if !wait.For(ctx, min(retainEvery, max(s.cfg.Retention/10, time.Second))) {
			return
		}
	}
}

// round looks at each partition once.
func (r *retention) round(ctx context.Context) {
	for p := range r.cfg.PartitionCount {
		closed, waits, err := r.retire(ctx, p)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			waits = err.Error()
		}
		log := r.deps.Logger.With("stream", closed.Stream, "generation", closed.Number)
		switch {
		case err != nil && waits != r.reported[p]:
			log.Error("a closed generation of a journal could not be deleted", "error", err)
		case waits != "" && waits != r.reported[p]:
			log.Warn("a closed generation of a journal is past its retention and kept", "because", waits)
		}
		switch r.reported[p] = waits; {
		case waits == "":
			r.overdue[p] = 0
		case !closed.Closed.IsZero(): // else the servers could not be asked
			r.overdue[p] = r.since(closed) - r.cfg.Retention
		}
	}
	r.metrics.overdue.Set(slices.Max(r.overdue).Seconds())
}

// since is how long a generation has been closed.
func (r *retention) since(closed journal.Generation) time.Duration {
	return r.deps.Clock().Sub(closed.Closed)
}

// retire deletes the closed generation of a partition if it is due, and nothing has to happen before. Otherwise it returns what has to.
func (r *retention) retire(ctx context.Context, partition int) (closed journal.Generation, waits string, err error) {
	stream := installation.Stream(event.Billing, partition)
	generations, err := journal.Generations(ctx, r.deps.NC, stream)
	if err != nil || len(generations) < 2 {
		return closed, "", err
	}
	if closed = generations[0]; closed.Closed.IsZero() || r.since(closed) < r.cfg.Retention {
		return closed, "", nil
	}
	segments, err := archived.Segments(r.deps.Blobs, r.cfg.Installation(), r.cfg.PartitionCount, r.deps.Folder)
	if err != nil {
		return closed, "", err
	}
	if listing, err := segments.List(ctx, stream.Name); err != nil || len(listing.Gaps) > 0 || listing.Last() < closed.Last {
		return closed, waitsForSegments, err
	}
	if audited, err := r.audited(ctx, stream.Name); err != nil || audited < closed.Last {
		return closed, waitsForAudit, err
	}
	if r.compared[partition] != closed { // else only the deletion failed
		if err := r.readBack(ctx, stream.Name, segments, closed); err != nil {
			return closed, "", err
		}
		r.compared[partition] = closed
	}
	return closed, "", r.remove(ctx, closed)
}

// audited returns the sequence up to which billing has audited a journal, 0 if it has not.
func (r *retention) audited(ctx context.Context, stream string) (uint64, error) {
	note, err := blob.Read(ctx, r.deps.Blobs, installation.AuditedKey(stream), installation.MaxAudited)
	if errors.Is(err, blob.ErrNotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("read %s: %w", installation.AuditedKey(stream), err)
	}
	return installation.AuditedSequence(stream, note)
}

// readBack compares each message of a generation with the segments, which it reads from the blob store.
func (r *retention) readBack(ctx context.Context, stream string, segments *segment.Archive, closed journal.Generation) error {
	next, stop := iter.Pull2(messages(ctx, segments, stream, closed.First, closed.Last))
	defer stop()
	return journal.Open(r.deps.NC, stream).Replay(ctx, closed.First-1, closed.Last, func(m journal.Message) error {
		old, err, more := next()
		switch {
		case err != nil:
			return err
		case !more || !same(m, old):
			return fmt.Errorf("%w: message %d of %s", errAltered, m.Sequence, stream)
		}
		return nil
	}, nil)
}

// remove deletes a generation over a separate connection that does not reconnect, so that a delayed request can't delete a later generation
// with the same stream name.
func (r *retention) remove(ctx context.Context, closed journal.Generation) error {
	deleting, err := r.deps.Deleting()
	if err != nil {
		return err
	}
	defer deleting.Close()
	if err := journal.DeleteGeneration(ctx, r.deps.NC, deleting, closed); err != nil {
		return err
	}
	r.metrics.deleted.Inc()
	r.deps.Logger.Info("a closed generation of a journal was deleted: segments have its messages", "stream", closed.Stream,
		"generation", closed.Number, "first", closed.First, "last", closed.Last, "bytes", closed.Bytes)
	return nil
}

// messages returns the archived messages of a stream from one sequence up to another, 0 for the last one, in order. The data of a message
// is valid until the next one.
func messages(ctx context.Context, segments *segment.Archive, stream string, from, to uint64) iter.Seq2[journal.Message, error] {
	return func(yield func(journal.Message, error) bool) {
		stopped := errors.New("the reader wants no more")
		err := segments.Replay(ctx, stream, from, to, func(m segment.Message) error {
			if !yield(archived.Message(m), nil) {
				return stopped
			}
			return nil
		})
		if err != nil && !errors.Is(err, stopped) {
			yield(journal.Message{}, err)
		}
	}
}

// same reports whether a journal and the archive have the same message.
func same(m, old journal.Message) bool {
	return m.Sequence == old.Sequence && m.Time.Equal(old.Time) && m.Subject == old.Subject && string(m.Data) == string(old.Data)
}
