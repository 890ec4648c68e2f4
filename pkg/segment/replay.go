package segment

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"math"
)

// Replay calls handle for the messages from the sequence from to the sequence to, or to the last archived one if to is 0. It
// stops at the first error: of handle, or of the archive. Messages are handled once their whole frame was checked: that its
// sequences have no gap, and that the chain continues in it, from the frame and from the segment before. The chain before the
// first frame is only known to be zero before message 1.
//
// Errors: ErrGap if messages are missing, once the preceding ones were handled. ErrDamaged, ErrForeign, ErrFormat, and the store's
// errors, such as blob.ErrUnavailable.
func (a *Archive) Replay(ctx context.Context, stream string, from, to uint64, handle func(Message) error) error {
	l, err := a.List(ctx, stream)
	if err != nil {
		return err
	}
	end := to
	if to == 0 {
		end = l.Last()
	}
	from = max(from, 1)
	r := &replay{next: from, last: end, handle: handle}
	for _, s := range l.Segments {
		if s.Last < r.next || s.Start > end {
			continue
		}
		if s.Start > r.next {
			return &GapError{Stream: stream, First: r.next, Last: min(s.Start-1, end)}
		}
		if err := r.segment(ctx, a, s); err != nil {
			return err
		}
	}
	if r.next <= end && end != 0 {
		return &GapError{Stream: stream, First: r.next, Last: end}
	}
	return nil
}

// ReplaySegment is Replay of one segment, from a message in it to its end.
func (a *Archive) ReplaySegment(ctx context.Context, s Segment, from uint64, handle func(Message) error) error {
	r := &replay{next: max(from, s.First), last: s.Last, handle: handle}
	return r.segment(ctx, a, s)
}

// replay goes through segments, and through the frames of each.
type replay struct {
	next, last uint64 // messages to handle
	handle     func(Message) error
	chain      *Hash // before message next; nil: not known

	stored, records []byte // reused
}

// segment handles the messages of a segment that are still to be handled.
func (r *replay) segment(ctx context.Context, a *Archive, s Segment) error {
	o, err := a.openIndex(ctx, s)
	if err != nil {
		return err
	}
	frames := o.index.frames
	begin, end := 0, len(frames)
	for begin < end && frames[begin].last < r.next {
		begin++
	}
	for end > begin && frames[end-1].first > r.last {
		end--
	}
	return r.frames(ctx, o, begin, end)
}

// frames handles the messages of the frames from begin to before end. If these are all, it also checks the hashes of the whole.
func (r *replay) frames(ctx context.Context, o *opened, begin, end int) error {
	frames := o.index.frames
	first, last := &frames[begin], &frames[end-1]
	in, err := o.archive.open(ctx, &o.Segment, first.offset, last.offset+int64(last.stored)-first.offset)
	if err != nil {
		return err
	}
	defer in.Close()
	sum := sha256.New()
	for i := begin; i < end; i++ {
		f := &frames[i]
		r.stored = resize(r.stored, int(f.stored))
		if err := o.fill(in, f.offset, r.stored); err != nil {
			return err
		}
		sum.Write(r.stored)
		if err := r.frame(o, i); err != nil {
			return err
		}
	}
	if begin > 0 || end < len(frames) {
		return nil
	}
	return o.checkHashes(sum)
}

// checkHashes checks the hashes of the frames and of the whole, of which sum has got the frames.
func (o *opened) checkHashes(sum hash.Hash) error {
	if !bytes.Equal(sum.Sum(nil), o.trailer.frames[:]) {
		return o.damaged(0, errors.New("its frames have another hash"))
	}
	sum.Write(o.tail)
	if got := sum.Sum(nil); !bytes.Equal(got, o.Hash[:]) {
		return o.damaged(0, fmt.Errorf("it has the hash %x", got))
	}
	return nil
}

// frame handles the messages of a frame, which is in stored.
func (r *replay) frame(o *opened, number int) error {
	f := &o.index.frames[number]
	var err error
	if r.records, err = o.archive.decompress(r.stored, int(f.length), r.records); err != nil {
		return o.damaged(f.offset, err)
	}
	from := max(r.next, f.first)
	c := checker{chain: o.archive.options.Chain, at: from}
	if err := c.check(f, o.chainAfter(number), r.records); err != nil {
		return o.damaged(f.offset, err)
	}
	if r.chain != nil && *r.chain != c.have {
		return o.damaged(f.offset, fmt.Errorf("%w: the chain of the segment before does not continue with message %d", errFrame, from))
	}
	if err := c.each(r.records, from, r.last, r.handle); err != nil {
		return err
	}
	after := o.chainAfter(number)
	r.chain, r.next = &after, f.last+1
	return nil
}

// resize returns b with a length, in its memory if that suffices. It does not keep the memory of a message that was far larger.
func resize(b []byte, n int) []byte {
	if cap(b) < n || cap(b) > 4*frameTargetBytes && n < frameTargetBytes {
		return make([]byte, n)
	}
	return b[:n]
}

// Verify reads a segment whole and compares it with its name and with itself: hashes, index, sequences, times and chain. With
// Options.Mentions the index must be the one that this program would write. An index of an older program, whose Mentions found
// less, would differ: verify those without Mentions.
func (a *Archive) Verify(ctx context.Context, s Segment) (Summary, error) {
	s.Start = s.First
	o, err := a.openIndex(ctx, s)
	if err != nil {
		return Summary{}, err
	}
	again := newIndexer(&a.options, o.before)
	number := 0
	r := &replay{next: s.First, last: math.MaxUint64, chain: &o.before, handle: func(m Message) error {
		if a.options.Mentions == nil {
			return nil
		}
		if number < len(o.index.frames) && m.Sequence == o.index.frames[number].first {
			again.begin(m)
			f := &again.frames[number]
			f.stored, f.length = o.index.frames[number].stored, o.index.frames[number].length
			number++
		}
		found, err := again.inspect(m)
		if err == nil {
			again.add(m, found)
		}
		return err
	}}
	if err := r.frames(ctx, o, 0, len(o.index.frames)); err != nil {
		return Summary{}, err
	}
	if a.options.Mentions != nil {
		t := o.trailer
		if encoded := again.encode(o.Stream, &t); !bytes.Equal(encoded, o.encoded) || t != o.trailer {
			return Summary{}, o.damaged(o.framesBytes, fmt.Errorf("%w: it is not the one of the messages", errIndex))
		}
	}
	return o.summary(), nil
}
