package replica

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"quire.dev/pkg/event"
)

// endWait bounds the question for the end of a journal: a person waits for the answer.
const endWait = time.Second

// Folding is what the replica of a partition tells about itself. Several goroutines call the functions.
type Folding struct {
	Position func() uint64                             // sequence of the last message that is folded
	End      func(ctx context.Context) (uint64, error) // sequence of the last message in the journal
	Holds    func() int                                // open holds; nil: the partition can have none
}

// Tell registers what Health asks about a partition. withdraw ends that. It must be called before Config.Start returns.
func (s *Set) Tell(partition int, f Folding) (withdraw func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.folding[partition] = f
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.folding, partition)
	}
}

// Health tells the state of each partition that is assigned or served, sorted by number. It asks their journals at the same
// time, and takes a second at most. It may be called at any time, by several goroutines.
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
			lag := end - min(end, f.Position()) // messages may have come and been folded since End answered
			out[i].Lag = &lag
		})
	}
	asked.Wait()
	return out
}

// folds has what is known without asking a journal.
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
