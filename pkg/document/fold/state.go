package fold

import (
	"cmp"
	"slices"

	"quire.dev/pkg/event"
)

// MaxAheadMillis is how far a stamp may be ahead of the time at which its message was stored, so that
// one wrong clock can't move the fold's time, and with it every lifetime, into next month.
const MaxAheadMillis = 5_000

// SourceIdleMillis is after how long without a batch a source's mark is forgotten. A process draws a
// new source at each start, and repeats a batch for much less than an hour.
const SourceIdleMillis = 60 * 60 * 1000

// State is the state of a partition's fold beside its documents: its time and the marks of its sources.
// Not for concurrent use.
type State struct {
	sequence uint64
	timeMS   int64
	sources  map[string]source
	lease    *event.DomainLease // never changed in place; nil where there is none
}

type source struct {
	mark   uint64
	seenMS int64
}

// NewState makes the state of a Snapshot. Nil is the state before the first message.
func NewState(kept *event.DomainState) *State {
	s := &State{sequence: kept.GetSequence(), timeMS: kept.GetTimeMs(), sources: map[string]source{}, lease: kept.GetLease()}
	for _, k := range kept.GetSources() {
		s.sources[k.Source] = source{mark: k.Mark, seenMS: k.SeenMs}
	}
	return s
}

// Message is the part of a journal message that the state depends on.
type Message struct {
	Sequence uint64
	StoredMS int64 // when the journal stored it
	Batch    *event.RequestBatch
}

// Enter moves the fold to a message. It returns the fold's time there, and whether the batch repeats
// one that is already folded, so that it must be passed over.
func (s *State) Enter(m Message) (nowMS int64, repeat bool) {
	b := m.Batch
	s.sequence = m.Sequence
	s.timeMS = max(s.timeMS, min(b.StampMs, m.StoredMS+b.OffsetMs+MaxAheadMillis))
	if b.Number == 0 {
		return s.timeMS, false
	}
	known, ok := s.sources[b.Source]
	if ok && s.timeMS-known.seenMS <= SourceIdleMillis && b.Number <= known.mark {
		return s.timeMS, true
	}
	s.sources[b.Source] = source{mark: b.Number, seenMS: s.timeMS}
	return s.timeMS, false
}

// Grant folds the lease of the message that was entered last, and tells whether it is granted: its reader had the last
// lease, or knew of the last one. A reader that did not know of it was overtaken.
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

// Lease is the last lease that was granted and not ended, nil where there is none. It must not be changed.
func (s *State) Lease() *event.DomainLease { return s.lease }

// TimeMS is the fold's time.
func (s *State) TimeMS() int64 { return s.timeMS }

// Snapshot returns the state in the form in which it is kept. Idle sources are forgotten.
func (s *State) Snapshot() *event.DomainState {
	kept := &event.DomainState{Sequence: s.sequence, TimeMs: s.timeMS, Lease: s.lease}
	for name, known := range s.sources {
		if s.timeMS-known.seenMS > SourceIdleMillis {
			delete(s.sources, name)
			continue
		}
		kept.Sources = append(kept.Sources, &event.DomainSource{Source: name, Mark: known.mark, SeenMs: known.seenMS})
	}
	slices.SortFunc(kept.Sources, func(a, b *event.DomainSource) int { return cmp.Compare(a.Source, b.Source) })
	return kept
}
