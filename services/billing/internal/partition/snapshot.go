package partition

import (
	"context"
	"errors"
	"fmt"
	"time"

	"quire.dev/pkg/num"
	"quire.dev/pkg/wait"
	"quire.dev/services/billing/internal/account"
	"quire.dev/services/billing/internal/snapshots"
)

const (
	snapshotCheck   = 200 * time.Millisecond
	snapshotTimeout = 5 * time.Minute
	// cleanPrincipals is how many principals are encoded in one pause of the fold, of about a millisecond. cleanSteps bounds
	// the steps.
	cleanPrincipals = 256
	cleanSteps      = 1 << 20
)

// keepSnapshots writes a snapshot after SnapshotMessages, nearly half of the entries of History or SnapshotInterval, and thins the old ones. It retries
// after a failure; a missing snapshot only makes the next start and explanations longer.
func (p *Partition) keepSnapshots(ctx context.Context) error {
	ticker := time.NewTicker(snapshotCheck)
	defer ticker.Stop()
	p.mu.Lock()
	head := p.fold.Head()
	p.mu.Unlock()
	p.showHead(head)
	last, pause := p.deps.Clock(), time.Duration(0)
	retry := wait.Backoff{Initial: time.Second, Max: time.Minute}
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return nil
		}
		p.observe()
		age := p.deps.Clock().Sub(last)
		if !p.snapshotDue(age) || age < pause {
			continue
		}
		last = p.deps.Clock()
		if err := p.snapshot(ctx); err != nil && ctx.Err() == nil {
			pause = retry.Next()
			p.log.Warn("snapshot failed", "retry_in", pause, "error", err)
			continue
		}
		pause = 0
		retry.Reset()
	}
}

// snapshotDue reports whether the next snapshot is due. age is the time since the last one. Of snapshots that are taken a little more often than
// after half of the entries of History every other one is thinned.
func (p *Partition) snapshotDue(age time.Duration) bool {
	p.mu.Lock()
	entries := p.fold.Entries() - p.lastSnapshot.Entries
	p.mu.Unlock()
	since := p.position.Get() - p.lastSnapshot.Sequence
	return since >= num.Uint64(p.cfg.SnapshotMessages) || since > 0 && age >= p.cfg.SnapshotInterval ||
		entries >= p.cfg.History.Apart(p.lastSnapshot.Size).Entries*9/20
}

// snapshot takes an image of the state while the fold pauses, and writes it while the fold continues. Changed principals are
// encoded beforehand, in small steps.
func (p *Partition) snapshot(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, snapshotTimeout)
	defer cancel()
	if err := p.clean(ctx); err != nil {
		return err
	}
	started := p.deps.Clock()
	p.mu.Lock()
	image, err := p.fold.Image()
	p.mu.Unlock()
	if err != nil {
		return err
	}
	held := p.deps.Clock().Sub(started)
	if image.Sequence == 0 || image.Sequence == p.lastSnapshot.Sequence {
		return nil
	}
	key, size, err := p.snapshots.Write(ctx, image)
	if err != nil {
		return err
	}
	p.lastSnapshot = snapshots.Snapshot{Sequence: image.Sequence, Entries: image.Entries, Size: int64(size)}
	p.deps.Metrics.snapshots.Inc()
	p.deps.Metrics.held.Observe(held.Seconds())
	p.showHead(image.Head)
	p.log.Debug("snapshot", "key", key, "bytes", size, "held_ms", held.Milliseconds())
	if err := p.snapshots.Thin(ctx, p.deps.Clock(), p.cfg.History); err != nil {
		p.log.Warn("old snapshots could not be deleted yet", "error", err)
	}
	return nil
}

// showHead puts the head of the chain where nobody who can edit the journal need be able to write: into the log and the metrics.
func (p *Partition) showHead(head account.Head) {
	if head.Sequence == 0 {
		return
	}
	p.log.Info("chain head", "sequence", head.Sequence, "chain", fmt.Sprintf("%x", head.Chain))
	p.deps.Metrics.showHead(p.cfg.Partition, head)
}

// clean encodes the changed principals, in small steps between which the fold continues.
func (p *Partition) clean(ctx context.Context) error {
	for range cleanSteps {
		if err := ctx.Err(); err != nil {
			return err
		}
		p.mu.Lock()
		left, err := p.fold.Clean(cleanPrincipals)
		p.mu.Unlock()
		if err != nil || left <= cleanPrincipals {
			return err
		}
	}
	return nil
}

// stop writes the rest of the read model and a snapshot. Without them the next start folds more.
func (p *Partition) stop(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, p.cfg.StopTimeout)
	defer cancel()
	err := errors.Join(p.projection.Flush(ctx), p.snapshot(ctx))
	if err != nil {
		p.log.Warn("stopped before everything was written; the next start folds more", "error", err)
		return
	}
	p.log.Info("stopped", "sequence", p.position.Get())
}
