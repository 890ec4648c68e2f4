package archive

import (
	"context"
	"errors"
	"fmt"
	"time"

	"quire.dev/pkg/archived"
	"quire.dev/pkg/event"
	"quire.dev/pkg/journal"
	"quire.dev/pkg/segment"
)

// segmentBytes is how many bytes of messages may give a full segment, whose 64 MB are compressed.
const segmentBytes = 160 << 20

// filer copies the journals into segments. Not safe for concurrent use.
type filer struct {
	*Service
	archive *segment.Archive
	streams []filed // by partition
}

// filed is what a partition has in segments.
type filed struct {
	name   string
	last   uint64 // last message
	chain  segment.Hash
	oldest time.Time // of the first message after it; zero: not known
	tries  uint64    // the messages below this sequence did not fill a segment
}

// openFiler finds the end of each partition's segments, and compares it with the journal.
func (s *Service) openFiler(ctx context.Context) (*filer, error) {
	f, err := s.newFiler()
	if err != nil {
		return nil, err
	}
	for p := range s.cfg.PartitionCount {
		of, err := f.find(ctx, p)
		if err != nil {
			return nil, err
		}
		f.streams = append(f.streams, of)
	}
	return f, nil
}

func (s *Service) newFiler() (*filer, error) {
	archive, err := archived.Segments(s.deps.Blobs, s.cfg.Installation(), s.cfg.PartitionCount, s.deps.Folder)
	return &filer{Service: s, archive: archive}, err
}

func (f *filer) find(ctx context.Context, partition int) (filed, error) {
	of := filed{name: event.Billing.Stream(partition)}
	listing, err := f.archive.List(ctx, of.name)
	if err != nil || len(listing.Segments) == 0 {
		return of, err
	}
	if len(listing.Gaps) > 0 {
		return of, &segment.GapError{Stream: of.name, First: listing.Gaps[0].First, Last: listing.Gaps[0].Last}
	}
	last := listing.Segments[len(listing.Segments)-1]
	summary, err := f.archive.Describe(ctx, last)
	if err != nil {
		return of, err
	}
	of.last, of.chain = summary.Last, summary.LastChain
	return of, f.compare(ctx, partition, last)
}

// compare compares the last message of a segment with the journal's.
func (f *filer) compare(ctx context.Context, partition int, of segment.Segment) error {
	m, err := f.journals[partition].Get(ctx, of.Last)
	if errors.Is(err, journal.ErrNoMessage) {
		return fmt.Errorf("%s: %w: it lacks message %d, which is archived", of.Stream, ErrRewound, of.Last)
	}
	if err != nil {
		return err
	}
	return f.archive.ReplaySegment(ctx, of, of.Last, func(old segment.Message) error {
		if !same(m, archived.Message(old)) {
			return fmt.Errorf("%s: %w: message %d is archived as another one", of.Stream, ErrRewound, of.Last)
		}
		return nil
	})
}

// file writes a segment of what the log has, if some partition has enough or has waited long enough.
func (f *filer) file(ctx context.Context, logged []position) (written bool, err error) {
	for _, at := range logged {
		of := &f.streams[at.Partition]
		if at.Sequence <= of.last {
			continue
		}
		late, err := f.isLate(ctx, of, at.Partition)
		if err != nil {
			return false, err
		}
		size := (at.Sequence - of.last) * at.Bytes / at.Sequence
		if !late && (size < segmentBytes || at.Sequence < of.tries) {
			continue
		}
		if written, err = f.write(ctx, of, at, late); written || err != nil {
			return written, err
		}
		of.tries = at.Sequence + (at.Sequence-of.last)/2
	}
	return false, nil
}

// isLate reports whether the oldest message that no segment has must be in one now.
func (f *filer) isLate(ctx context.Context, of *filed, partition int) (bool, error) {
	if of.oldest.IsZero() {
		m, err := f.journals[partition].Get(ctx, of.last+1)
		if err != nil {
			return false, fmt.Errorf("read the oldest message of %s that is not archived: %w", of.name, err)
		}
		of.oldest = m.Time
	}
	return f.deps.Clock().Sub(of.oldest) >= f.cfg.SegmentAge, nil
}

// write writes one segment of the messages up to a position: a full one, or what there is if partial allows that.
func (f *filer) write(ctx context.Context, of *filed, to position, partial bool) (written bool, err error) {
	w, err := f.archive.Create(of.name, to.Partition, of.chain)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	err = f.journals[to.Partition].Replay(ctx, of.last, to.Sequence, func(m journal.Message) error {
		return w.Add(segment.Message{Sequence: m.Sequence, TimeNanos: m.Time.UnixNano(), Subject: m.Subject, Data: m.Data})
	}, nil)
	if full := errors.Is(err, segment.ErrFull); err != nil && !full || err == nil && !partial {
		return false, err
	}
	chain := w.Chain()
	one, err := w.Put(ctx)
	if err != nil {
		return false, err
	}
	of.last, of.chain, of.oldest = one.Last, chain, time.Time{}
	f.metrics.segments.Add(float64(one.Size))
	return true, nil
}
