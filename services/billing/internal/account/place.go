package account

import "quire.dev/pkg/event"

// An edge settles a read that it served by the place of its admission: the sequence of the message, and the index in it. So holds of
// reads are found by their place too, from the admission until they are settled. Writes are not: their services settle them by
// the id of the request.

// batchHolds are the holds of one message that can be settled by their place.
type batchHolds struct {
	holds []*hold // by place; nil: there is none, or none any more
	left  int
}

const (
	// maxPlaces is more than a message can have admissions.
	maxPlaces = 1 << 16
	// maxSpare bounds the batchHolds that are kept to be used again.
	maxSpare = 64
)

// place enters a read into the index by places.
func (s *holds) place(h *hold) {
	if h.write || h.index >= maxPlaces {
		return
	}
	b := s.byPlace[h.sequence]
	if b == nil {
		if last := len(s.spareBatches) - 1; last >= 0 {
			b, s.spareBatches = s.spareBatches[last], s.spareBatches[:last]
		} else {
			b = &batchHolds{}
		}
		s.byPlace[h.sequence] = b
	}
	for len(b.holds) <= int(h.index) {
		b.holds = append(b.holds, nil)
	}
	b.holds[h.index] = h
	b.left++
}

// displace takes a hold out of the index by places, if it is there.
func (s *holds) displace(h *hold) {
	if s.placed(h.sequence, h.index) != h {
		return
	}
	b := s.byPlace[h.sequence]
	b.holds[h.index] = nil
	if b.left--; b.left > 0 {
		return
	}
	delete(s.byPlace, h.sequence)
	if b.holds = b.holds[:0]; len(s.spareBatches) < maxSpare {
		s.spareBatches = append(s.spareBatches, b)
	}
}

// placed is the hold of the admission at a place, nil if none can be settled there.
func (s *holds) placed(sequence uint64, place uint32) *hold {
	if b := s.byPlace[sequence]; b != nil && int64(place) < int64(len(b.holds)) {
		return b.holds[place]
	}
	return nil
}

// serveBatches settles reads by their places, and returns how many were named. A place without a hold changes nothing: a
// time-out has served that read, and it is forgotten.
func (f *Fold) serveBatches(batches []*event.Served) (named uint64) {
	for _, b := range batches {
		if len(b.Places) == 0 {
			f.servePlace(b.Sequence, 0)
			named++
		}
		for _, place := range b.Places {
			f.servePlace(b.Sequence, place)
		}
		named += uint64(len(b.Places))
	}
	return named
}

func (f *Fold) servePlace(sequence uint64, place uint32) {
	h := f.holds.placed(sequence, place)
	switch {
	case h == nil:
	case h.result == event.Result_RESULT_UNSPECIFIED:
		f.serve(h, f.time, false)
	default: // a time-out has served it
		f.holds.displace(h)
		f.settleLate(&event.Settlement{Result: event.Result_SERVED}, h)
	}
}
