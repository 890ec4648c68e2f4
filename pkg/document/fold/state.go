package fold

import (
	"cmp"
	"slices"

	"quire.dev/pkg/event"
)

// MaxAheadMillis is how far a stamp may be ahead of its message's storage time, so that one wrong clock can't move the fold's
// time, and with it every lifetime, into next month.
const MaxAheadMillis = 5_000

// SourceIdleMillis is how long a source must be idle for its watermark to be forgotten. A process draws a new source at each
// start, and repeats a batch for much less than an hour.
const SourceIdleMillis = 60 * 60 * 1000

// State is the state of a partition's fold besides its documents: its time and the watermarks of its sources. Not safe for
// concurrent use.
type State struct {
	sequence uint64
	timeMS   int64
	sources  map[string]source
	lease    *event.DomainLease // immutable; may be nil
}

type source struct {
	watermark uint64
	seenMS    int64
}

// NewState restores the state of a Snapshot. Nil is the state before the first message.
func NewState(kept *event.DomainState) *State {
	s := &State{sequence: kept.GetSequence(), timeMS: kept.GetTimeMs(), sources: map[string]source{}, lease: kept.GetLease()}
	for _, k := range kept.GetSources() {
		s.sources[k.Source] = source{watermark: k.Mark, seenMS: k.SeenMs}
	}
	return s
}

// Message holds the parts of a journal message that the state depends on.
type Message struct {
	Sequence uint64
	StoredMS int64 // when the journal stored it
	Batch    *event.RequestBatch
}

// Enter moves the fold to a message. It returns the fold's time there, and whether the batch is a repeat of a folded one and
// must be skipped.
func (s *State) Enter(m Message) (nowMS int64, repeat bool) {
	b := m.Batch
	s.sequence = m.Sequence
	s.timeMS = max(s.timeMS, min(b.StampMs, m.StoredMS+b.OffsetMs+MaxAheadMillis))
	if b.Number == 0 {
		return s.timeMS, false
	}
	known, ok := s.sources[b.Source]
	if ok && s.timeMS-known.seenMS <= SourceIdleMillis && b.Number <= known.watermark {
		return s.timeMS, true
	}
	s.sources[b.Source] = source{watermark: b.Number, seenMS: s.timeMS}
	return s.timeMS, false
}

// Grant folds the lease of the last entered message, and reports whether it is granted: its reader had the last lease, or knew
// of it. A reader that did not know of it was overtaken.
func (s *State) Grant(l *event.ReadLease) bool {
	last := s.lease
	same := last != nil && last.Instance == l.Instance && last.Run == l.Run
	switch {
	case l.End && same:
		s.lease = nil
		return false
	case l.End, last != nil && !same && l.After != last.Sequence:
		return false
	}
	s.lease = &event.DomainLease{Instance: l.Instance, Run: l.Run, Sequence: s.sequence}
	return true
}

// Lease returns the last lease granted and not ended, or nil. It must not be changed.
func (s *State) Lease() *event.DomainLease { return s.lease }

// TimeMS is the fold's time.
func (s *State) TimeMS() int64 { return s.timeMS }

// Snapshot returns the state in its stored form, without idle sources.
func (s *State) Snapshot() *event.DomainState {
	kept := &event.DomainState{Sequence: s.sequence, TimeMs: s.timeMS, Lease: s.lease}
	for name, known := range s.sources {
		if s.timeMS-known.seenMS > SourceIdleMillis {
			delete(s.sources, name)
			continue
		}
		kept.Sources = append(kept.Sources, &event.DomainSource{Source: name, Mark: known.watermark, SeenMs: known.seenMS})
	}
	slices.SortFunc(kept.Sources, func(a, b *event.DomainSource) int { return cmp.Compare(a.Source, b.Source) })
	return kept
}
