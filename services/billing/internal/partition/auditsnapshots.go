package partition

import (
	"context"
	"errors"
	"fmt"

	"quire.dev/pkg/blob"
	"quire.dev/pkg/event"
	"quire.dev/services/billing/internal/account"
	"quire.dev/services/billing/internal/snapshots"
)

// audited returns the snapshot with which an audit of what is new begins; nil for another audit, and if there is none.
func (p *Partition) audited(ctx context.Context, o auditOptions) (*snapshots.Snapshot, error) {
	if !o.new {
		return nil, nil //nolint:nilnil // as documented
	}
	s, found, err := p.snapshots.Audited(ctx)
	if err == nil && found && s.Version == account.CodeVersion && s.Sequence <= p.position.Get() {
		err = p.snapshots.Authentic(ctx, s)
		if err == nil {
			return &s, nil
		}
	}
	if errors.Is(err, snapshots.ErrDamaged) || errors.Is(err, blob.ErrNotFound) {
		p.log.Warn("the audited snapshot is unusable, auditing from the first message", "key", s.Key, "error", err)
		err = nil
	}
	return nil, err
}

// note notes the newest snapshot that this audit has compared, so that the next one may begin there. Everything in it matched.
func (a *auditing) note(ctx context.Context, stored map[uint64][]snapshots.Snapshot, compared uint64) error {
	var newest *snapshots.Snapshot
	for _, list := range stored { // the order has no effect: one of a sequence is as good as another
		for _, s := range list {
			if !a.skipped[s.Key] && s.Version == account.CodeVersion && s.Sequence <= compared && (newest == nil || s.Sequence > newest.Sequence) {
				newest = &s
			}
		}
	}
	if newest == nil {
		return nil
	}
	return a.snapshots.SetAudited(ctx, *newest)
}

// stored returns the snapshots to compare, by sequence.
func (a *auditing) stored(ctx context.Context, upTo uint64) (map[uint64][]snapshots.Snapshot, error) {
	bySequence := map[uint64][]snapshots.Snapshot{}
	if a.options.repair != "" && a.options.repair != tableSnapshots {
		return bySequence, nil
	}
	list, err := a.snapshots.List(ctx)
	if err != nil {
		return nil, err
	}
	end, err := a.journal.LastSequence(ctx)
	if err != nil {
		return nil, err
	}
	count := 0
	for _, s := range list {
		switch {
		case s.Sequence > end && a.options.until == 0:
			a.kept = append(a.kept, a.snapshotFound(s, "sequence", fmt.Sprintf("at most %d", end), fmt.Sprint(s.Sequence)))
		case s.Sequence > upTo || s.Version > account.CodeVersion || a.since != nil && s.Sequence <= a.since.Sequence:
		case a.options.deep || count < auditedSnapshots:
			count++
			bySequence[s.Sequence] = append(bySequence[s.Sequence], s)
		}
	}
	a.skipped = map[string]bool{}
	return bySequence, nil
}

func (a *auditing) snapshotFound(s snapshots.Snapshot, field, expected, value string) found {
	return found{table: tableSnapshots, snapshot: &s, list: []*event.AuditDifference{
		{Table: tableSnapshots, Row: s.Key, Field: field, Expected: expected, Found: value},
	}}
}

// compareSnapshot compares a snapshot with the fold at its sequence, of all principals or a part.
func (a *auditing) compareSnapshot(ctx context.Context, fold *account.Fold, s snapshots.Snapshot) error {
	state, err := a.snapshots.Part(ctx, s, fold.Keeps)
	switch {
	case errors.Is(err, blob.ErrNotFound): // thinned meanwhile
		a.skipped[s.Key] = true
		return nil
	case errors.Is(err, snapshots.ErrDamaged):
		a.part = append(a.part, a.snapshotFound(s, "", "as billing wrote it", err.Error()))
		return nil
	case err != nil:
		return err
	}
	image, err := state.Image()
	if err != nil {
		return err
	}
	if s.Version != account.CodeVersion {
		return nil // other code may keep another state
	}
	before := len(a.part)
	if err := a.compareStates(fold, image, s.Key); err != nil {
		return err
	}
	for i := range a.part[before:] {
		a.part[before+i].snapshot = &s
	}
	if len(a.part) > before || a.options.account != 0 {
		return nil
	}
	sum := &account.Sum{}
	a.partSums[s] = sum
	return sum.Add(fold)
}

// keepSums adds the part that has been folded to the sums of the snapshots.
func (a *auditing) keepSums() error {
	for s, part := range a.partSums { // the order has no effect
		if a.sums[s] == nil {
			a.sums[s] = &account.Sum{}
		}
		if err := a.sums[s].Join(part); err != nil {
			return err
		}
	}
	return nil
}

// compareSums compares the hashes of snapshots, of which all principals are right, with those of the folded states.
func (a *auditing) compareSums() error {
	differ := map[string]bool{}
	for _, f := range a.kept {
		if f.snapshot != nil {
			differ[f.snapshot.Key] = true
		}
	}
	for s, sum := range a.sums { // the order has no effect but on the list of differences
		hash, err := sum.Hash()
		if err != nil {
			return err
		}
		if hash != s.Hash && !differ[s.Key] && !a.skipped[s.Key] {
			a.kept = append(a.kept, a.snapshotFound(s, "hash", fmt.Sprintf("%x", hash), fmt.Sprintf("%x", s.Hash)))
		}
	}
	return nil
}
