package segment

import (
	"cmp"
	"context"
	"encoding/binary"
	"iter"
	"math"
	"slices"
	"sort"
	"time"

	"golang.org/x/sync/errgroup"
)

// loaders is how many trailers are read at once.
const loaders = 8

// Query selects messages. The conditions that are set must all hold.
type Query struct {
	Sequences *Range   // nil: any
	Times     *Between // of the journal's clock, in Unix nanoseconds
	Requests  *Between // times in ids of requests, in Unix milliseconds
	Account   uint64   // 0: any
	Network   uint64   // 0: any
}

// Between is a range of times, with both ends.
type Between struct{ Lowest, Highest int64 }

// Around is the time of a request, from its id, with a window before and after.
func Around(request [16]byte, window time.Duration) *Between {
	ms := int64(binary.BigEndian.Uint64(request[:8]) >> 16)
	w := window.Milliseconds()
	return &Between{Lowest: ms - w, Highest: ms + w}
}

// Frame is a part of a segment that is read alone.
type Frame struct {
	Segment                    Segment
	Offset, Length             int64
	First, Last                uint64 // its messages
	EarliestNanos, LatestNanos int64

	frame frame
	after Hash
}

// Find returns the frames that may have messages that a query selects, in order. No such message is in another frame. The
// index of one segment at a time is in memory. Messages that are missing in the archive, between the query's sequences and before
// its end, are an ErrGap where they would be.
func (a *Archive) Find(ctx context.Context, stream string, q Query) iter.Seq2[Frame, error] {
	return func(yield func(Frame, error) bool) {
		l, err := a.List(ctx, stream)
		if err != nil {
			yield(Frame{}, err)
			return
		}
		wanted := Range{First: 1, Last: math.MaxUint64}
		if q.Sequences != nil {
			wanted = *q.Sequences
		}
		segments := slices.DeleteFunc(l.Segments, func(s Segment) bool { return s.Last < wanted.First || s.Start > wanted.Last })
		found, err := a.loadTrailers(ctx, segments)
		if err != nil {
			yield(Frame{}, err)
			return
		}
		gaps := slices.DeleteFunc(l.Gaps, func(g Range) bool { return g.Last < wanted.First || g.First > wanted.Last })
		for i, s := range segments {
			if len(gaps) > 0 && gaps[0].First < s.Start {
				break
			}
			if q.selects(found[i].earliest, found[i].latest, found[i].requests) && !a.findIn(ctx, s, wanted, q, yield) {
				return
			}
		}
		if len(gaps) > 0 {
			yield(Frame{}, &GapError{Stream: stream, First: gaps[0].First, Last: gaps[0].Last})
		}
	}
}

// Seek returns the sequence of the first message at or after a time, up to the sequence to, or to+1 if all of them are older. Like a stream,
// it expects ascending times and bisects: of n segments it reads log n trailers, one index and one frame. The error is a *GapError if one of
// these messages is in no segment.
func (a *Archive) Seek(ctx context.Context, stream string, nanos int64, to uint64) (uint64, error) {
	l, err := a.List(ctx, stream)
	if err != nil {
		return 0, err
	}
	if gap, some := l.Missing(to); some {
		return 0, &GapError{Stream: stream, First: gap.First, Last: gap.Last}
	}
	segments := slices.DeleteFunc(l.Segments, func(s Segment) bool { return s.Start > to })
	first := sort.Search(len(segments), func(i int) bool {
		t, failed := a.trailer(ctx, &segments[i])
		err = cmp.Or(err, failed)
		return err != nil || t.latest >= nanos
	})
	if err != nil {
		return 0, err
	}
	wanted, q := Range{First: 1, Last: to}, Query{Times: &Between{Lowest: nanos, Highest: math.MaxInt64}}
	for _, s := range segments[first:] {
		frames := func(yield func(Frame, error) bool) { a.findIn(ctx, s, wanted, q, yield) }
		for m, err := range a.Messages(ctx, frames) {
			if err != nil {
				return 0, err
			}
			if m.Sequence > to {
				break
			}
			if m.TimeNanos >= nanos {
				return m.Sequence, nil
			}
		}
	}
	return to + 1, nil
}

// selects reports whether messages with these times may be selected.
func (q *Query) selects(earliest, latest int64, requests span) bool {
	if q.Times != nil && (latest < q.Times.Lowest || earliest > q.Times.Highest) {
		return false
	}
	return q.Requests == nil || requests.overlaps(q.Requests.Lowest, q.Requests.Highest)
}

// findIn yields frames of a segment, and reports whether more may follow.
func (a *Archive) findIn(ctx context.Context, s Segment, wanted Range, q Query, yield func(Frame, error) bool) bool {
	o, err := a.openIndex(ctx, s)
	if err != nil {
		yield(Frame{}, err)
		return false
	}
	for i := range o.index.frames {
		f := o.index.frames[i]
		if f.last < max(s.Start, wanted.First) || f.first > wanted.Last || !q.selects(f.earliest, f.latest, f.requests) ||
			q.Account != 0 && !mentions(o.accounts, f.accounts, q.Account) ||
			q.Network != 0 && !mentions(o.networks, f.networks, q.Network) {
			continue
		}
		f.accounts, f.networks = nil, nil // keep the index from being held
		found := Frame{
			Segment: s, Offset: f.offset, Length: int64(f.stored), First: f.first, Last: f.last,
			EarliestNanos: f.earliest, LatestNanos: f.latest, frame: f, after: o.chainAfter(i),
		}
		if !yield(found, nil) {
			return false
		}
	}
	return true
}

// loadTrailers reads the trailers of segments.
func (a *Archive) loadTrailers(ctx context.Context, segments []Segment) ([]trailer, error) {
	found := make([]trailer, len(segments))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(loaders)
	for i := range segments {
		group.Go(func() (err error) {
			found[i], err = a.trailer(ctx, &segments[i])
			return err
		})
	}
	return found, group.Wait()
}

// Messages reads frames that Find has found, each with one Get, and returns all messages in them, in order. A frame is checked
// before its first message is returned: its sequences, times and chain. The data of a message is valid until the next one.
func (a *Archive) Messages(ctx context.Context, frames iter.Seq2[Frame, error]) iter.Seq2[Message, error] {
	return func(yield func(Message, error) bool) {
		var stored, records []byte
		for f, err := range frames {
			if err == nil {
				stored = resize(stored, int(f.Length))
				records, err = a.readFrame(ctx, &f, stored, records)
			}
			if err != nil {
				yield(Message{}, err)
				return
			}
			c := checker{}
			more := true
			err := c.each(records, max(f.First, f.Segment.Start), f.Last, func(m Message) error {
				if more = yield(m, nil); !more {
					return errStopped
				}
				return nil
			})
			if !more {
				return
			}
			if err != nil {
				yield(Message{}, f.Segment.damaged(f.Offset, err))
				return
			}
		}
	}
}

func (a *Archive) readFrame(ctx context.Context, f *Frame, stored, records []byte) ([]byte, error) {
	if err := a.read(ctx, &f.Segment, f.Offset, stored); err != nil {
		return nil, err
	}
	records, err := a.decompress(stored, int(f.frame.length), records)
	if err == nil {
		c := checker{chain: a.options.Chain}
		err = c.check(&f.frame, f.after, records)
	}
	if err != nil {
		return nil, f.Segment.damaged(f.Offset, err)
	}
	return records, nil
}
