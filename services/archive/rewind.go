package archive

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sort"

	"golang.org/x/mod/sumdb/tlog"

	"quire.dev/pkg/event"
	"quire.dev/pkg/journal"
	"quire.dev/pkg/proof"
	"quire.dev/pkg/segment"
	"quire.dev/pkg/tilelog"
)

// Rewound is a journal that lacks messages which the log or its segments have, or has others in their place. It was restored from a
// backup.
type Rewound struct {
	Stream    string
	Partition int
	Logged    uint64   // last message that the log has
	Kept      uint64   // last message that the journal has as the log has it; Logged if nothing of the log is lost
	Planned   uint64   // the next cut goes on to this message, which the journal lacks; 0: it does not
	Segments  []string // blobs with lost messages

	entry *tlog.Hash // of the message Kept
}

// String says in a line what is lost.
func (r Rewound) String() string {
	text := fmt.Sprintf("%s has messages up to %d as the log has them.", r.Stream, r.Kept)
	if r.Kept < r.Logged {
		text += fmt.Sprintf(" Lost: %d to %d.", r.Kept+1, r.Logged)
	}
	if r.Planned > 0 {
		text += fmt.Sprintf(" The log was about to add messages up to %d.", r.Planned)
	}
	return text + fmt.Sprintf(" Segments to set aside: %d", len(r.Segments))
}

// FindRewound compares the ends of the log, of the next cut and of the segments with the journals. It needs no key. No instance may
// work meanwhile.
func FindRewound(ctx context.Context, cfg Config, deps Deps) ([]Rewound, error) {
	s, err := New(cfg, deps)
	if err != nil {
		return nil, err
	}
	k, err := s.openState(ctx)
	if err != nil {
		return nil, err
	}
	planned, err := k.planned(ctx)
	if err != nil {
		return nil, err
	}
	f, err := s.newFiler()
	if err != nil {
		return nil, err
	}
	all, err := journal.EachPartition(ctx, len(k.positions), func(ctx context.Context, p int) (Rewound, error) {
		return k.rewound(ctx, k.positions[p], planned[p])
	})
	if err != nil {
		return nil, err
	}
	var found []Rewound
	for _, one := range all {
		if one.Segments, err = f.unfit(ctx, one.Partition); err != nil {
			return nil, err
		}
		if one.Kept < one.Logged || one.Planned > 0 || len(one.Segments) > 0 {
			found = append(found, one)
		}
	}
	return found, nil
}

// planned returns up to where the next cut goes, by partition. It fails if the cut records losses and can be added.
func (k *keeper) planned(ctx context.Context) (map[int]uint64, error) {
	var next cut
	if _, err := readRecord(ctx, k.deps.Blobs, cutKey(k.cut+1), &next); err != nil {
		return nil, err
	}
	fits := len(next.Rewinds) > 0
	for _, to := range next.Rewinds {
		if err := k.check(ctx, k.journals[to.Partition], to); errors.Is(err, ErrRewound) {
			fits = false
		} else if err != nil {
			return nil, err
		}
	}
	if fits {
		return nil, errors.New("the loss is already accepted. Start the archive")
	}
	planned := map[int]uint64{}
	for _, to := range next.Positions {
		planned[to.Partition] = to.Sequence
	}
	return planned, nil
}

// rewound compares the end of the log with a journal.
func (k *keeper) rewound(ctx context.Context, at position, planned uint64) (one Rewound, err error) {
	one = Rewound{Stream: event.Billing.Stream(at.Partition), Partition: at.Partition, Logged: at.Sequence, Kept: at.Sequence, entry: at.Entry}
	state, err := k.journals[at.Partition].StateFrom(ctx, max(at.Sequence, planned))
	if err != nil {
		return one, err
	}
	if planned > state.Last {
		one.Planned = planned
	}
	if err = k.check(ctx, k.journals[at.Partition], at); !errors.Is(err, ErrRewound) {
		return one, err
	}
	kept, err := k.lastKept(ctx, at)
	one.Kept, one.entry = kept.Sequence, kept.Entry
	return one, err
}

// AcceptRewound has the log go on with what the journals have. Each loss becomes an entry of the log, and segments with lost
// messages are set aside.
func AcceptRewound(ctx context.Context, cfg Config, deps Deps, rewound []Rewound) error {
	s, err := New(cfg, deps)
	if err != nil {
		return err
	}
	k, err := s.openState(ctx)
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
		if one.Kept < one.Logged {
			next.Rewinds = append(next.Rewinds, position{Partition: one.Partition, Sequence: one.Kept, Entry: one.entry})
		}
	}
	// A cut that was not added may have lost messages, and never can be.
	if err := s.deps.Blobs.Delete(ctx, cutKey(next.Number)); err != nil || len(next.Rewinds) == 0 {
		return err
	}
	_, err = k.agree(ctx, next)
	return err
}

// lastKept finds the last message that a journal has as the log has it. Of the log's messages, those up to it are in the journal.
func (k *keeper) lastKept(ctx context.Context, at position) (position, error) {
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
			return position{}, err
		}
		kept, err := k.keptOf(ctx, logged)
		if kept.Sequence > 0 || err != nil {
			return kept, err
		}
		bound = back
	}
	return position{}, nil
}

// keptOf returns the last of some logged messages that the journal has; none is 0.
func (k *keeper) keptOf(ctx context.Context, logged []position) (position, error) {
	var failed error
	lost := sort.Search(len(logged), func(i int) bool {
		err := k.check(ctx, k.journals[logged[i].Partition], logged[i])
		if err != nil && !errors.Is(err, ErrRewound) {
			failed = err
		}
		return err != nil
	})
	if failed != nil || lost == 0 {
		return position{}, failed
	}
	return logged[lost-1], nil
}

// unfit returns the blobs of segments whose last message the journal does not have.
func (f *filer) unfit(ctx context.Context, partition int) (keys []string, err error) {
	listing, err := f.archive.List(ctx, event.Billing.Stream(partition))
	if err != nil {
		return nil, err
	}
	all := slices.Concat(listing.Segments, listing.Spare)
	slices.SortFunc(all, func(a, b segment.Segment) int { return cmp.Compare(b.Last, a.Last) })
	for _, one := range all { // the newest first
		err := f.compare(ctx, partition, one)
		if err == nil {
			break
		}
		if !errors.Is(err, ErrRewound) {
			return nil, err
		}
		keys = append(keys, one.Key)
	}
	return keys, nil
}
