package archive

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sort"

	"golang.org/x/mod/sumdb/tlog"

	"quire.dev/pkg/event"
	"quire.dev/pkg/proof"
	"quire.dev/pkg/segment"
	"quire.dev/pkg/tilelog"
)

// Rewound is a journal that lacks messages which the log has, or has others in their place. It was restored from a backup.
type Rewound struct {
	Stream    string
	Partition int
	Logged    uint64   // last message that the log has
	Kept      uint64   // last message that the journal has as the log has it
	Segments  []string // blobs with later messages
}

// FindRewound compares the ends of the log and of the segments with the journals. It needs no key.
func FindRewound(ctx context.Context, cfg Config, deps Deps) ([]Rewound, error) {
	s, k, err := openUnsigned(ctx, cfg, deps)
	if err != nil {
		return nil, err
	}
	var found []Rewound
	for _, at := range k.positions {
		err := k.check(ctx, s.journals[at.Partition], at)
		if err == nil {
			continue
		}
		if !errors.Is(err, ErrRewound) {
			return nil, err
		}
		one := Rewound{Stream: event.Billing.Stream(at.Partition), Partition: at.Partition, Logged: at.Sequence}
		if one.Kept, err = k.lastKept(ctx, at); err != nil {
			return nil, err
		}
		if one.Segments, err = s.segmentsAfter(ctx, one); err != nil {
			return nil, err
		}
		found = append(found, one)
	}
	return found, nil
}

// AcceptRewound has the log go on with what the journals have. Each loss becomes an entry of the log, and segments with lost
// messages are set aside. No instance may work meanwhile.
func AcceptRewound(ctx context.Context, cfg Config, deps Deps, rewound []Rewound) error {
	s, k, err := openUnsigned(ctx, cfg, deps)
	if err != nil {
		return err
	}
	next := &cut{Number: k.cut + 1, Time: s.deps.Clock().UTC()}
	for _, one := range rewound {
		for _, key := range one.Segments {
			aside := "archive/aside/" + next.Time.Format("20060102T150405Z") + key[len("archive"):]
			if err := s.deps.Blobs.Move(ctx, key, aside); err != nil {
				return fmt.Errorf("set %s aside: %w", key, err)
			}
		}
		next.Rewinds = append(next.Rewinds, position{Partition: one.Partition, Sequence: one.Kept})
	}
	// A cut that was not added may have lost messages, and never can be.
	if err := s.deps.Blobs.Delete(ctx, cutKey(next.Number)); err != nil {
		return err
	}
	_, err = k.agree(ctx, next)
	return err
}

// openUnsigned opens the log as its state says, without a key.
func openUnsigned(ctx context.Context, cfg Config, deps Deps) (*Service, *keeper, error) {
	s, err := New(cfg, deps)
	if err != nil {
		return nil, nil, err
	}
	k, err := s.openState(ctx)
	if err != nil {
		return nil, nil, err
	}
	var next cut
	if _, err := readRecord(ctx, s.deps.Blobs, cutKey(k.cut+1), &next); err != nil {
		return nil, nil, err
	}
	if len(next.Rewinds) > 0 {
		return nil, nil, errors.New("what the journals have was accepted already: start the archive")
	}
	return s, k, nil
}

// lastKept finds the last message that a journal has as the log has it. Of the log's messages, those up to it are in the journal.
func (k *keeper) lastKept(ctx context.Context, at position) (uint64, error) {
	const step = 256 // entries of the log, a tile
	tree, reader, bound := k.log.Tree(), tilelog.NewReader(k.deps.Blobs, proof.LogPrefix), at.Sequence
	for end := tree.N; end > 0; end = max(end-step, 0) {
		var logged []position // ascending
		back := bound
		err := reader.Entries(ctx, max(end-step, 0), end, tree.N, func(_ int64, entry []byte) error {
			decoded, err := proof.Decode(entry)
			if err != nil {
				return err
			}
			switch e := decoded.(type) {
			case proof.Message:
				if e.Partition == at.Partition && e.Sequence <= bound {
					hash := tlog.RecordHash(entry)
					logged = append(logged, position{Partition: e.Partition, Sequence: e.Sequence, Entry: &hash})
				}
			case proof.Rewind:
				if e.Partition == at.Partition {
					logged = slices.DeleteFunc(logged, func(p position) bool { return p.Sequence > e.Sequence })
					back = min(back, e.Sequence)
				}
			}
			return nil
		})
		if err != nil {
			return 0, err
		}
		kept, err := k.keptOf(ctx, logged)
		if kept > 0 || err != nil {
			return kept, err
		}
		bound = back
	}
	return 0, nil
}

// keptOf returns the last of some logged messages that the journal has, 0 for none.
func (k *keeper) keptOf(ctx context.Context, logged []position) (uint64, error) {
	var failed error
	lost := sort.Search(len(logged), func(i int) bool {
		err := k.check(ctx, k.journals[logged[i].Partition], logged[i])
		if err != nil && !errors.Is(err, ErrRewound) {
			failed = err
		}
		return err != nil
	})
	if failed != nil || lost == 0 {
		return 0, failed
	}
	return logged[lost-1].Sequence, nil
}

// segmentsAfter returns the blobs of segments with messages that the journal has lost.
func (s *Service) segmentsAfter(ctx context.Context, one Rewound) (keys []string, err error) {
	archive, err := segment.New(s.deps.Blobs, segment.Options{
		Installation: s.cfg.Installation(), Chain: func(before segment.Hash, _ segment.Message) segment.Hash { return before }, // none is read
	})
	if err != nil {
		return nil, err
	}
	listing, err := archive.List(ctx, one.Stream)
	for _, found := range slices.Concat(listing.Segments, listing.Spare) {
		if found.Last > one.Kept {
			keys = append(keys, found.Key)
		}
	}
	return keys, err
}
