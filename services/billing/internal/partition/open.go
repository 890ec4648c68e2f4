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

// open creates the fold and the projection from the newest snapshot and the read model's checkpoint.
func (p *Partition) open(ctx context.Context) error {
	checkpoint, err := p.deps.Views.Checkpoint(ctx, p.stream)
	if err != nil {
		return fmt.Errorf("read checkpoint of %s: %w", p.stream, err)
	}
	if p.storedHead, err = projection.StoredHead(ctx, p.deps.Views, p.stream); err != nil {
		return fmt.Errorf("read the chain's head: %w", err)
	}
	list, err := p.snapshots.List(ctx)
	if err != nil {
		return err
	}
	if err := p.ensureSnapshotKey(ctx, len(list)); err != nil {
		return err
	}
	known := max(checkpoint, p.storedHead.Sequence)
	for _, snapshot := range list {
		known = max(known, snapshot.Sequence)
	}
	state, err := p.journal.StateFrom(ctx, known)
	if err != nil {
		return fmt.Errorf("read state of %s: %w", p.stream, err)
	}
	if written := max(checkpoint, p.storedHead.Sequence); written > state.Last {
		return p.unfit(restoreJournal, fmt.Errorf("it ends at %d, but the read model was written up to %d", state.Last, written))
	}
	for _, snapshot := range list {
		if snapshot.Sequence <= state.Last {
			continue
		}
		err := p.snapshots.Authentic(ctx, snapshot)
		switch {
		case err == nil:
			return p.unfit(repairSnapshots, fmt.Errorf("it ends at %d, but snapshot %s was taken at %d", state.Last, snapshot.Key, snapshot.Sequence))
		case errors.Is(err, snapshots.ErrDamaged) || errors.Is(err, blob.ErrNotFound):
			p.log.Warn("ignoring a snapshot beyond the journal's end that this billing did not write", "key", snapshot.Key, "error", err)
		default:
			return err
		}
	}
	// The messages after the read model's checkpoint must be folded again for the projection. So a snapshot after the
	// checkpoint is useless.
	fold, key, err := p.snapshots.Newest(ctx, checkpoint)
	if err != nil {
		return err
	}
	if err := p.checkLast(ctx, fold, key); err != nil {
		return err
	}
	if err := p.checkHead(fold.Head()); err != nil {
		return err
	}
	if err := fold.Know(p.cfg.Rules); err != nil {
		return fmt.Errorf("snapshot %s: %w", key, err)
	}
	fold.Record()
	p.log.Info("folding", "snapshot", key, "from", fold.Sequence(), "to", state.Last)
	for _, id := range fold.QuarantinedAccounts() {
		p.log.Warn("the account is in quarantine until an admin resumes it", "account", id.String())
	}
	p.fold = fold
	p.projection = projection.New(p.deps.Views, p.stream, checkpoint, p.cfg.ProjectionBound, p.log)
	p.projection.MakeAgain(p.remade)
	p.projection.Skip(p.now().Add(-p.cfg.RequestRetention).UnixMilli(), projection.EntriesSince(p.now(), p.cfg.RequestRetention))
	p.lastSnapshot = snapshots.Snapshot{Sequence: fold.Sequence(), Entries: fold.Entries()}
	p.position.Set(fold.Sequence())
	return nil
}

// checkLast compares the journal's message at the snapshot's sequence with the folded one. They differ if the journal was
// restored from an older backup and written to since.
func (p *Partition) checkLast(ctx context.Context, fold *account.Fold, key string) error {
	if fold.Sequence() == 0 {
		return nil
	}
	fits, err := p.fits(ctx, fold)
	if errors.Is(err, journal.ErrGap) {
		return p.unfit(lostMessages, err)
	}
	if err != nil || fits {
		return err
	}
	return p.unfit(repairSnapshots, fmt.Errorf("message %d, at which snapshot %s was taken, is another one or missing", fold.Sequence(), key))
}

// checkHead compares the head that the read model has with the fold's at the same sequence. They differ if any message up to there
// was edited, removed, added or moved since.
func (p *Partition) checkHead(head account.Head) error {
	if head.Sequence != p.storedHead.Sequence || head == p.storedHead {
		return nil
	}
	return p.unfit(restoreJournal, fmt.Errorf("the chain over its messages up to %d is %x, but the read model was written from messages whose chain is %x",
		head.Sequence, head.Chain, p.storedHead.Chain))
}

// Ways out of a refusal to start, for operators.
const (
	repairSnapshots = "If the journal is the right one, as after a restore of an older backup, `quire repair snapshots` moves the snapshots that " +
		"don't fit out of the way, and the next start folds more of the journal"
	restoreJournal = "If the journal is the right one and the read model is newer, as after a restore of the journals alone, " +
		"`quire repair read-model` has billing make again what comes from the journal, and keeps users, sessions and webhooks"
	lostMessages = "Nothing makes up for a message of this journal: put a segment of its archive back into the blob store from a copy, and restore " +
		"other messages from a backup, with `quire restore`"
)

// unfit wraps a cause as ErrJournal. The text tells operators the way out.
func (p *Partition) unfit(way string, cause error) error {
	return fmt.Errorf("%w: %s: %w. Nothing was changed or deleted. Put back the journal that belongs to the data, "+
		"from a backup or a replica. %s: docs/refusals.md", ErrJournal, p.stream, cause, way)
}

// reporter returns a function that logs the progress of a long fold and passes it on.
func (p *Partition) reporter(task string) func(done, total uint64) {
	const first, every = time.Second, 5 * time.Second
	started := p.deps.Clock()
	next := started.Add(first)
	logged := false
	return func(done, total uint64) {
		p.cfg.Progress(task, done, total)
		now := p.deps.Clock()
		if now.After(next) || logged && done == total {
			p.log.Info(task, "done", done, "total", total, "seconds", int(now.Sub(started).Seconds()))
			next, logged = now.Add(every), done != total
		}
	}
}
