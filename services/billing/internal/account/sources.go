package account

import (
	"cmp"
	"slices"

	"quire.dev/pkg/event"
)

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

// sweep forgets the edges that have been idle.
func (l sources) sweep(now int64) {
	for name, s := range l { // the order has no effect: each is kept or deleted independently
		if s.numbered && s.seen+sourceMillis <= now {
			delete(l, name)
		}
	}
}

func (l sources) turnBack(to int64) {
	for _, s := range l { // the order has no effect
		s.seen = min(s.seen, to)
	}
}

// states returns the sources by name.
func (l sources) states() (list []*event.SourceState) {
	for _, s := range l { // sorted below
		list = append(list, s.state())
	}
	slices.SortFunc(list, func(a, b *event.SourceState) int { return cmp.Compare(a.Source, b.Source) })
	return list
}

func (l sources) restore(list []*event.SourceState) {
	for _, s := range list {
		l[s.Source] = &source{
			name: s.Source, watermark: s.Mark, seen: s.SeenMs, answer: s.LastAnswer,
			commandWatermark: s.CommandMark, commandAnswer: s.LastCommandAnswer, numbered: s.LastNumber != 0,
			watermarkMillis: s.MarkMs, floorMillis: s.FloorMs,
		}
	}
}

func (s *source) state() *event.SourceState {
	e := &event.SourceState{
		Source: s.name, Mark: s.watermark, SeenMs: s.seen, LastAnswer: s.answer,
		CommandMark: s.commandWatermark, LastCommandAnswer: s.commandAnswer, MarkMs: s.watermarkMillis, FloorMs: s.floorMillis,
	}
	if s.numbered {
		e.LastNumber = max(s.watermark, s.commandWatermark, 1) // only distinguishes an edge from a domain: not 0
	}
	return e
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
