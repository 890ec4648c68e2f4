package replica

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"quire.dev/pkg/event"
)

// endWait bounds the query for a journal's end: a person is waiting.
const endWait = time.Second

// Folding describes a partition's replica. Its functions are called by several goroutines.
type Folding struct {
	Position func() uint64                             // sequence of the last message folded
	End      func(ctx context.Context) (uint64, error) // sequence of the last message in the journal
	Holds    func() int                                // open holds; nil: not applicable
}

// Register registers a partition's replica for Health. withdraw removes it. Call it before Config.Start returns.
func (s *Set) Register(partition int, f Folding) (withdraw func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.folding[partition] = f
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.folding, partition)
	}
}

// Health returns the state of each partition that is assigned or served, sorted by number. It queries their journals in
// parallel, for a second at most. Safe for concurrent use.
func (s *Set) Health(ctx context.Context) []event.Fold {
	ctx, cancel := context.WithTimeout(ctx, endWait)
	defer cancel()
	out, folding := s.folds()
	var asked sync.WaitGroup
	for i := range out {
		f, known := folding[out[i].Partition]
		if !known {
			continue
		}
		if f.Holds != nil {
			holds := f.Holds()
			out[i].Holds = &holds
		}
		asked.Go(func() {
			end, err := f.End(ctx)
			if err != nil {
				return
			}
			lag := end - min(end, f.Position()) // the fold may have passed end since
			out[i].Lag = &lag
		})
	}
	asked.Wait()
	return out
}

// folds returns what is known without querying a journal.
func (s *Set) folds() ([]event.Fold, map[int]Folding) {
	s.mu.Lock()
	defer s.mu.Unlock()
	numbers := slices.AppendSeq(slices.Clone(s.wanted), maps.Keys(s.serving))
	slices.Sort(numbers)
	numbers = slices.Compact(numbers)
	out := make([]event.Fold, len(numbers))
	for i, p := range numbers {
		out[i] = event.Fold{Partition: p, Serves: s.serving[p]}
	}
	return out, maps.Clone(s.folding)
}
