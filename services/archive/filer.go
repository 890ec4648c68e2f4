package archive

import (
	"context"
	"errors"
	"fmt"
	"time"

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
	tries  uint64    // no full segment came of the messages before this one
}

// openFiler finds the end of each partition's segments, and compares it with the journal.
func (s *Service) openFiler(ctx context.Context) (*filer, error) {
	f := &filer{Service: s}
	kinds := map[string]byte{}
	for p := range s.cfg.PartitionCount {
		for subject, kind := range event.Kinds(p) {
			kinds[subject] = kind
		}
	}
	var err error
	f.archive, err = segment.New(s.deps.Blobs, segment.Options{
		Installation: s.cfg.Installation(),
		Chain: func(before segment.Hash, m segment.Message) segment.Hash {
			return event.Link(before, event.Digest(m.Sequence, m.TimeNanos, kinds[m.Subject], m.Subject, m.Data))
		},
		Mentions: func(m segment.Message, found *segment.Mentions) { mention(kinds[m.Subject], m.Data, found) },
	})
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

func (f *filer) find(ctx context.Context, partition int) (filed, error) {
	of := filed{name: event.Billing.Stream(partition)}
	listing, err := f.archive.List(ctx, of.name)
	if err != nil || len(listing.Segments) == 0 {
		return of, err
	}
	if len(listing.Gaps) > 0 {
		return of, &segment.GapError{Stream: of.name, First: listing.Gaps[0].First, Last: listing.Gaps[0].Last}
	}
	summary, err := f.archive.Describe(ctx, listing.Segments[len(listing.Segments)-1])
	if err != nil {
		return of, err
	}
	of.last, of.chain = summary.Last, summary.LastChain
	return of, f.compare(ctx, partition, of)
}

// compare compares the last message of the segments with the journal's.
func (f *filer) compare(ctx context.Context, partition int, of filed) error {
	m, err := f.journals[partition].Get(ctx, of.last)
	if errors.Is(err, journal.ErrNoMessage) {
		return fmt.Errorf("%s: %w: it lacks message %d, which is archived", of.name, ErrRewound, of.last)
	}
	if err != nil {
		return err
	}
	return f.archive.Replay(ctx, of.name, of.last, of.last, func(archived segment.Message) error {
		if archived.TimeNanos != m.Time.UnixNano() || archived.Subject != m.Subject || string(archived.Data) != string(m.Data) {
			return fmt.Errorf("%s: %w: message %d is archived as another one", of.name, ErrRewound, of.last)
		}
		return nil
	})
}

// file writes segments of what the log has, where there is enough or it has waited long enough.
func (f *filer) file(ctx context.Context, logged []position) error {
	for _, at := range logged {
		of := &f.streams[at.Partition]
		if at.Sequence <= of.last {
			continue
		}
		late, err := f.isLate(ctx, of, at.Partition)
		if err != nil {
			return err
		}
		size := (at.Sequence - of.last) * at.Bytes / at.Sequence
		if !late && (size < segmentBytes || at.Sequence < of.tries) {
			continue
		}
		before := of.last
		if err := f.write(ctx, of, at, late); err != nil {
			return fmt.Errorf("archive %s: %w", of.name, err)
		}
		if of.last == before {
			of.tries = at.Sequence + (at.Sequence-of.last)/2
		}
	}
	return nil
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

// write writes full segments up to a position, and the rest as one that is not full.
func (f *filer) write(ctx context.Context, of *filed, to position, rest bool) error {
	w, err := f.archive.Create(of.name, to.Partition, of.chain)
	if err != nil {
		return err
	}
	defer func() { _ = w.Close() }() // which frees a temporary file
	put := func() error {
		written, err := w.Put(ctx)
		if err != nil {
			return err
		}
		of.last, of.chain, of.oldest = written.Last, w.Chain(), time.Time{}
		f.metrics.segments.Add(float64(written.Size))
		return w.Close()
	}
	err = f.journals[to.Partition].Replay(ctx, of.last, to.Sequence, func(m journal.Message) error {
		copied := segment.Message{Sequence: m.Sequence, TimeNanos: m.Time.UnixNano(), Subject: m.Subject, Data: m.Data}
		err := w.Add(copied)
		if !errors.Is(err, segment.ErrFull) {
			return err
		}
		if err := put(); err != nil {
			return err
		}
		if w, err = f.archive.Create(of.name, to.Partition, of.chain); err != nil {
			return err
		}
		return w.Add(copied)
	}, nil)
	if err != nil || !rest {
		return err
	}
	return put()
}

// Kinds of messages that are no usage.
const (
	commands = 2
	prices   = 3
)

// mention adds the accounts, networks and requests of a message. One that does not decode has none.
func mention(kind byte, data []byte, found *segment.Mentions) {
	add := func(id uint64, anonymous bool, request []byte) {
		switch {
		case anonymous:
			found.Networks = append(found.Networks, id)
		case id != 0:
			found.Accounts = append(found.Accounts, id)
		}
		if id, err := event.RequestIDFrom(request); err == nil {
			found.Request(id.UnixMilli())
		}
	}
	if kind == commands {
		var batch event.CommandBatch
		if event.Decode(data, &batch) == nil {
			for _, c := range batch.Commands {
				add(c.Account, false, c.RequestId)
			}
		}
		return
	}
	var batch event.UsageBatch
	if kind == prices || event.Decode(data, &batch) != nil {
		return
	}
	for _, a := range batch.Admissions {
		add(a.Account, a.Anonymous, a.RequestId)
	}
	for _, s := range batch.Settlements {
		add(s.Account, s.Anonymous, s.RequestId)
	}
}
