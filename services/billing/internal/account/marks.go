package account

import "quire.dev/pkg/event"

// settled tells whether a domain's settlement was folded before. Its sequence alone does not tell: a stream that was restored
// from a backup, cut or recreated gives the same sequences to other requests. Those are stored later than everything that was
// settled before.
func (s *source) settled(item *event.Settlement) bool {
	return item.StoredMs <= s.floorMillis || item.Sequence <= s.mark && item.StoredMs <= s.markMillis
}

// Anew is a domain's stream that gives the sequences of settled requests to others.
type Anew struct {
	Stream         string
	Mark, Sequence uint64 // last one settled before, and the last one now
}

// Marks are the sequences up to which the streams of domains are settled, by stream.
func (f *Fold) Marks() map[string]uint64 {
	marks := map[string]uint64{}
	for name, s := range f.sources {
		if !s.numbered && s.mark > 0 {
			marks[name] = s.mark
		}
	}
	return marks
}
