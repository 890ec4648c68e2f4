package account

import "quire.dev/pkg/event"

// source publishes batches. An edge numbers its batches. A domain's stream does not, but each of its settlements carries that
// stream's sequence.
type source struct {
	name             string
	watermark        uint64 // edges: number of the last usage batch; domains: sequence
	watermarkMillis  int64  // domains: latest time of a settled request, by their journal's clock
	floorMillis      int64  // domains: watermarkMillis of the previous stream
	answer           []byte // to the last batch
	commandWatermark uint64
	commandAnswer    []byte
	seen             int64
	numbered         bool // an edge, forgotten when idle
}

// sources are the edges and the domains' streams, by name.
type sources map[string]*source

// get returns a source, added if new, and records its use.
func (l sources) get(name string, now int64) *source {
	s := l[name]
	if s == nil {
		s = &source{name: name}
		l[name] = s
	}
	s.seen = now
	return s
}

// settled reports whether a domain's settlement was folded before. Its sequence alone does not tell: a stream that was restored
// from a backup, truncated or recreated gives the same sequences to other requests. Those are stored later than everything
// settled before.
func (s *source) settled(item *event.Settlement) bool {
	return item.StoredMs <= s.floorMillis || item.Sequence <= s.watermark && item.StoredMs <= s.watermarkMillis
}

// Recreated is a domain's stream that reuses the sequences of settled requests.
type Recreated struct {
	Stream              string
	Watermark, Sequence uint64 // last sequence settled before, and last one now
}

// Watermarks returns the last settled sequence of each domain stream, by stream.
func (l sources) Watermarks() map[string]uint64 {
	list := map[string]uint64{}
	for name, s := range l {
		if !s.numbered && s.watermark > 0 {
			list[name] = s.watermark
		}
	}
	return list
}
