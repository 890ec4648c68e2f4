package account

import "quire.dev/pkg/event"

// source publishes batches. An edge instance numbers its batches. A domain's stream does not, but each of its
// settlements carries that stream's sequence.
type source struct {
	name             string
	watermark        uint64 // edges: number of the last usage batch; domains: sequence
	watermarkMillis  int64  // domains: latest time of a request that was settled, by the clock of their journal
	floorMillis      int64  // domains: watermarkMillis of the stream that was there before
	answer           []byte // to that batch
	commandWatermark uint64
	commandAnswer    []byte
	seen             int64
	numbered         bool // an edge: it is forgotten when it is idle
}

// sources are the edges and the domains' streams, by name.
type sources map[string]*source

// get finds a source, or adds it, and notes that it was seen.
func (l sources) get(name string, now int64) *source {
	s := l[name]
	if s == nil {
		s = &source{name: name}
		l[name] = s
	}
	s.seen = now
	return s
}

// settled tells whether a domain's settlement was folded before. Its sequence alone does not tell: a stream that was restored
// from a backup, cut or recreated gives the same sequences to other requests. Those are stored later than everything that was
// settled before.
func (s *source) settled(item *event.Settlement) bool {
	return item.StoredMs <= s.floorMillis || item.Sequence <= s.watermark && item.StoredMs <= s.watermarkMillis
}

// Recreated is a domain's stream that gives the sequences of settled requests to others.
type Recreated struct {
	Stream              string
	Watermark, Sequence uint64 // last one settled before, and the last one now
}

// Watermarks are the sequences up to which the streams of domains are settled, by stream.
func (f *Fold) Watermarks() map[string]uint64 {
	list := map[string]uint64{}
	for name, s := range f.sources {
		if !s.numbered && s.watermark > 0 {
			list[name] = s.watermark
		}
	}
	return list
}
