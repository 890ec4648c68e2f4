package account

import "quire.dev/pkg/event"

// An edge settles a read that it served by the position of its admission: the sequence of the message, and the offset in it. So
// reads are indexed by position from admission to settlement. Writes are not: their services settle them by request id.

// batchHolds are the holds of one message that can be settled by their offset.
type batchHolds struct {
	holds []*hold // by offset; nil: none, or settled
	left  int
}

const (
	// maxOffsets is more than the admissions of any message.
	maxOffsets = 1 << 16
	// maxSpare bounds the batchHolds kept for reuse.
	maxSpare = 64
)

// index adds a read to the index by offset.
func (s *holds) index(h *hold) {
	if h.write || h.index >= maxOffsets {
		return
	}
	b := s.byOffset[h.sequence]
	if b == nil {
		if last := len(s.spareBatches) - 1; last >= 0 {
			b, s.spareBatches = s.spareBatches[last], s.spareBatches[:last]
		} else {
			b = &batchHolds{}
		}
		s.byOffset[h.sequence] = b
	}
	for len(b.holds) <= int(h.index) {
		b.holds = append(b.holds, nil)
	}
	b.holds[h.index] = h
	b.left++
}

// unindex removes a hold from the index by offset, if it is there.
func (s *holds) unindex(h *hold) {
	if s.at(h.sequence, h.index) != h {
		return
	}
	b := s.byOffset[h.sequence]
	b.holds[h.index] = nil
	if b.left--; b.left > 0 {
		return
	}
	delete(s.byOffset, h.sequence)
	if b.holds = b.holds[:0]; len(s.spareBatches) < maxSpare {
		s.spareBatches = append(s.spareBatches, b)
	}
}

// at returns the hold of an admission, or nil if none can be settled there.
func (s *holds) at(sequence uint64, offset uint32) *hold {
	if b := s.byOffset[sequence]; b != nil && int64(offset) < int64(len(b.holds)) {
		return b.holds[offset]
	}
	return nil
}

// serveBatches settles reads by their offsets, and returns how many were named. An offset without a hold changes nothing: a
// time-out has served that read, and it is forgotten.
func (f *Fold) serveBatches(batches []*event.Served) (named uint64) {
	for _, b := range batches {
		if len(b.Places) == 0 {
			f.serveAt(b.Sequence, 0)
			named++
		}
		for _, offset := range b.Places {
			f.serveAt(b.Sequence, offset)
		}
		named += uint64(len(b.Places))
	}
	return named
}

func (f *Fold) serveAt(sequence uint64, offset uint32) {
	h := f.holds.at(sequence, offset)
	switch {
	case h == nil:
	case h.result == event.Result_RESULT_UNSPECIFIED:
		f.serve(h, f.time, false)
	default: // a time-out has served it
		f.holds.unindex(h)
		f.settleLate(&event.Settlement{Result: event.Result_SERVED}, h)
	}
}
