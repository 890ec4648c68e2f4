package partition

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"quire.dev/pkg/blob"
	"quire.dev/pkg/event"
	"quire.dev/services/billing/internal/account"
	"quire.dev/services/billing/internal/compare"
	"quire.dev/services/billing/internal/snapshots"
)

// begin loads the audited snapshot, with which an audit of what is new begins, or the one at which an interrupted audit is resumed.
// Others begin with the first message.
func (a *auditing) begin(ctx context.Context, exact bool) error {
	if a.resumable() {
		err := a.resume(ctx, exact)
		if errors.Is(err, compare.ErrProgress) {
			a.startsOver(err)
			return nil
		}
		return err
	}
	if !a.options.new {
		return nil
	}
	s, found, err := a.snapshots.Audited(ctx)
	if err != nil || !found || s.Version != account.CodeVersion || s.Sequence > a.position.Get() {
		return err
	}
	fold, err := a.snapshots.Load(ctx, s)
	switch {
	case errors.Is(err, snapshots.ErrDamaged) || errors.Is(err, blob.ErrNotFound):
		a.log.Warn("the audited snapshot is unusable, auditing from the first message", "key", s.Key, "error", err)
		return nil
	case err != nil:
		return err
	}
	a.since, a.start = &s, fold
	return nil
}

// note notes the newest snapshot that this audit has compared, so that the next one may begin there. Everything in it matched.
func (a *auditing) note(ctx context.Context) error {
	if a.newest == nil || a.skipped[a.newest.Key] {
		return nil
	}
	return a.snapshots.SetAudited(ctx, *a.newest)
}

// stored returns the snapshots to compare, by sequence. It finds the newest of them whose rows are compared, too.
func (a *auditing) stored(ctx context.Context, upTo, compared uint64) (map[uint64][]snapshots.Snapshot, error) {
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
	a.marks = map[uint64]snapshots.Snapshot{}
	for _, s := range list {
		if s.Version == account.CodeVersion && s.Sequence > a.from() {
			a.marks[s.Sequence] = s
		}
		switch {
		case s.Sequence > end && a.options.until == 0:
			a.kept = append(a.kept, a.snapshotFound(s, "sequence", fmt.Sprintf("at most %d", end), fmt.Sprint(s.Sequence)))
		case s.Sequence > upTo || s.Version > account.CodeVersion || !a.options.deep && count == auditedSnapshots:
		case s.Sequence > a.from():
			count++
			bySequence[s.Sequence] = append(bySequence[s.Sequence], s)
			if a.newest == nil && s.Version == account.CodeVersion && s.Sequence <= compared {
				a.newest = &s
			}
		case a.resumed != nil:
			count++
			a.earlier++
			if err := a.unchanged(ctx, s); err != nil {
				return nil, err
			}
		}
	}
	if a.newest == nil && a.resumed != nil {
		newest := a.resumed.snapshot
		a.newest = &newest
	}
	a.skipped = map[string]bool{}
	return bySequence, nil
}

// unchanged checks that a snapshot, which the interrupted audit has compared, is still the one that billing wrote.
func (a *auditing) unchanged(ctx context.Context, s snapshots.Snapshot) error {
	err := a.snapshots.Authentic(ctx, s)
	switch {
	case errors.Is(err, blob.ErrNotFound): // deleted meanwhile
		return nil
	case errors.Is(err, snapshots.ErrDamaged):
		a.kept = append(a.kept, a.damaged(s, err))
		return nil
	}
	return err
}

// from is the message after which the audit begins.
func (a *auditing) from() uint64 {
	switch {
	case a.since != nil:
		return a.since.Sequence
	case a.resumed != nil:
		return a.resumed.snapshot.Sequence
	}
	return 0
}

func (a *auditing) snapshotFound(s snapshots.Snapshot, field, expected, value string) found {
	return found{table: tableSnapshots, snapshot: &s, list: []*event.AuditDifference{
		{Table: tableSnapshots, Row: s.Key, Field: field, Expected: expected, Found: value},
	}}
}

func (a *auditing) damaged(s snapshots.Snapshot, err error) found {
	return a.snapshotFound(s, "", "as billing wrote it", err.Error())
}

// differs reports whether the parts that have ended found a difference of the snapshot.
func (a *auditing) differs(s snapshots.Snapshot) bool {
	return slices.ContainsFunc(a.kept, func(f found) bool { return f.snapshot != nil && f.snapshot.Key == s.Key })
}

// compareSnapshot compares a snapshot with the fold at its sequence. whole says that the fold keeps all principals. Of parts only the
// sum of the newest snapshot is kept, since it takes 40 bytes for each principal.
func (a *auditing) compareSnapshot(ctx context.Context, fold *account.Fold, s snapshots.Snapshot, whole bool) error {
	state, err := a.snapshots.Part(ctx, s, fold.Keeps)
	switch {
	case errors.Is(err, blob.ErrNotFound): // thinned meanwhile
		a.skipped[s.Key] = true
		return nil
	case errors.Is(err, snapshots.ErrDamaged):
		if !a.differs(s) { // in an earlier part
			a.part = append(a.part, a.damaged(s, err))
		}
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
	if !whole {
		if a.newest == nil || s != *a.newest {
			return nil
		}
		a.partSum = &account.Sum{}
		return a.partSum.Add(fold)
	}
	hash, err := fold.StateHash()
	if err == nil && hash != s.Hash {
		a.part = append(a.part, a.snapshotFound(s, "hash", fmt.Sprintf("%x", hash), fmt.Sprintf("%x", s.Hash)))
	}
	return err
}

// keepSum adds the part that has been folded to the sum of the newest snapshot.
func (a *auditing) keepSum() error {
	if a.partSum == nil {
		return nil
	}
	return a.sum.Join(a.partSum)
}

// compareSum compares the hash of the newest snapshot, of which all principals are right, with that of the parts' states.
func (a *auditing) compareSum() error {
	if a.partSum == nil || a.skipped[a.newest.Key] || a.differs(*a.newest) {
		return nil
	}
	hash, err := a.sum.Hash()
	if err == nil && hash != a.newest.Hash {
		a.kept = append(a.kept, a.snapshotFound(*a.newest, "hash", fmt.Sprintf("%x", hash), fmt.Sprintf("%x", a.newest.Hash)))
	}
	return err
}
