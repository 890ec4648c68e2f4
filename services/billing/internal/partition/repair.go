package partition

import (
	"context"
	"errors"
	"fmt"
	"time"

	"quire.dev/pkg/blob"
	"quire.dev/pkg/journal"
	"quire.dev/services/billing/internal/account"
	"quire.dev/services/billing/internal/projection"
	"quire.dev/services/billing/internal/snapshots"
)

// Unfit is a snapshot that keeps billing from starting.
type Unfit struct {
	Key      string // in the blob store
	Sequence uint64
	Why      string
}

// UnfitSnapshots returns the snapshots that billing wrote and that don't fit the journal: from after its end, at last, or taken at
// another message. It changes nothing. Snapshots that a start ignores are not among them. The Partition must not run.
func (p *Partition) UnfitSnapshots(ctx context.Context, last uint64) (list []Unfit, err error) {
	all, err := p.snapshots.List(ctx)
	if err != nil {
		return nil, err
	}
	for _, snapshot := range all {
		why, err := p.unfitSnapshot(ctx, snapshot, last)
		switch {
		case errors.Is(err, snapshots.ErrDamaged) || errors.Is(err, blob.ErrNotFound) || errors.Is(err, snapshots.ErrVersion):
			continue
		case err != nil:
			return nil, err
		case why == "": // older ones are of the same journal
			return list, nil
		}
		list = append(list, Unfit{Key: snapshot.Key, Sequence: snapshot.Sequence, Why: why})
	}
	return list, nil
}

// unfitSnapshot returns why a snapshot does not fit the journal, which ends at last; empty if it does.
func (p *Partition) unfitSnapshot(ctx context.Context, snapshot snapshots.Snapshot, last uint64) (string, error) {
	if snapshot.Sequence > last {
		return fmt.Sprintf("%s ends at %d", p.stream, last), p.snapshots.Authentic(ctx, snapshot)
	}
	fold, err := p.snapshots.Load(ctx, snapshot)
	if err != nil {
		return "", err
	}
	fits, err := p.fits(ctx, fold)
	if err != nil || fits {
		return "", err
	}
	return fmt.Sprintf("%s has another message at %d, or none", p.stream, snapshot.Sequence), nil
}

// fits reports whether the journal's message at the fold's sequence is the folded one.
func (p *Partition) fits(ctx context.Context, fold *account.Fold) (bool, error) {
	m, err := p.journal.Get(ctx, fold.Sequence())
	if errors.Is(err, journal.ErrNoMessage) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("read message %d of %s: %w", fold.Sequence(), p.stream, err)
	}
	return account.Digest(p.message(m)) == fold.LastDigest(), nil
}

// SetAside moves a snapshot to where no start looks for it, and returns its new key.
func (p *Partition) SetAside(ctx context.Context, snapshot Unfit, now time.Time) (key string, err error) {
	return p.snapshots.SetAside(ctx, snapshot.Key, now)
}

// Positions returns where the journal ends, and up to where the read model was written from it. The Partition must not run.
func (p *Partition) Positions(ctx context.Context) (journal, model uint64, err error) {
	model, err = p.deps.Views.Checkpoint(ctx, p.stream)
	if err != nil {
		return 0, 0, fmt.Errorf("read checkpoint of %s: %w", p.stream, err)
	}
	head, err := projection.StoredHead(ctx, p.deps.Views, p.stream)
	if err != nil {
		return 0, 0, fmt.Errorf("read the chain's head: %w", err)
	}
	model = max(model, head.Sequence)
	known := model
	all, err := p.snapshots.List(ctx)
	if err != nil {
		return 0, 0, err
	}
	if len(all) > 0 {
		known = max(known, all[0].Sequence)
	}
	state, err := p.journal.StateFrom(ctx, known)
	if err != nil {
		return 0, 0, fmt.Errorf("read state of %s: %w", p.stream, err)
	}
	return state.Last, model, nil
}
