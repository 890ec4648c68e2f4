package partition

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"quire.dev/pkg/blob"
	"quire.dev/pkg/event"
	"quire.dev/pkg/num"
	"quire.dev/pkg/rpc"
	"quire.dev/services/billing/internal/account"
	"quire.dev/services/billing/internal/compare"
	"quire.dev/services/billing/internal/seal"
	"quire.dev/services/billing/internal/snapshots"
)

// A complete audit of a long journal takes hours. So it saves its progress in the blob store when its fold reaches a stored snapshot. Another
// replica, or the next process, resumes under the same id. The encryption key is derived from the id, which is in no store: a complete audit
// trusts none.

// resumed is saved progress, and the snapshot at which an audit resumes.
type resumed struct {
	*event.AuditProgress
	snapshot snapshots.Snapshot
	fold     *account.Fold // until the first pass
}

// resumable reports whether the audit saves its progress, and may be resumed.
func (a *auditing) resumable() bool {
	return a.options.complete() && !a.options.new && a.run.id != auditID{}
}

// resume loads the progress of an interrupted audit with this id, if there is some. The error is compare.ErrProgress if it can't be used.
func (a *auditing) resume(ctx context.Context, exact bool) error {
	progress, s, err := a.snapshots.Progress(ctx, a.run.id)
	switch {
	case errors.Is(err, blob.ErrNotFound):
		return nil // no audit was interrupted
	case errors.Is(err, snapshots.ErrProgress):
		return fmt.Errorf("%w: %w", compare.ErrProgress, err)
	case err != nil:
		return err
	case !a.lasts(progress.BegunMs):
		return fmt.Errorf("%w: the audit began more than 23 hours ago", compare.ErrProgress)
	case s.Version != account.CodeVersion || s.Sequence > a.position.Get():
		return fmt.Errorf("%w: snapshot %s is not of this journal and version", compare.ErrProgress, s.Key)
	case !exact:
		return fmt.Errorf("%w: the accounts need parts", compare.ErrProgress)
	case progress.Deep != a.options.deep || progress.Head != a.options.head:
		return errOtherOptions()
	case !a.audits.resumes(a.run):
		return fmt.Errorf("%w: another caller has joined the audit", compare.ErrProgress)
	}
	fold, err := a.snapshots.Load(ctx, s)
	switch {
	case errors.Is(err, snapshots.ErrDamaged) || errors.Is(err, blob.ErrNotFound):
		return fmt.Errorf("%w: %w", compare.ErrProgress, err)
	case err != nil:
		return err
	}
	a.resumed = &resumed{progress, s, fold}
	return nil
}

// startsOver logs why an audit begins with the first message although there is saved progress.
func (a *auditing) startsOver(err error) {
	a.log.Info("an audit begins with the first message", "reason", err)
	a.audits.startsOver(a.run)
}

// lasts reports whether an audit that began at a time may still be resumed.
func (a *auditing) lasts(begunMillis int64) bool {
	age := a.now().UnixMilli() - begunMillis
	return age >= 0 && age <= compare.ResumeMillis
}

// comparison begins the first pass over the rows of the read model, or resumes it.
func (a *auditing) comparison(cfg compare.Config) (*compare.Comparison, *compare.Sums, error) {
	if a.resumed == nil {
		c, sums := compare.New(cfg)
		return c, sums, nil
	}
	a.answer.HeadChain = a.resumed.HeadChain
	return compare.Resume(cfg, a.resumed.AuditProgress)
}

// knows returns compare.ErrProgress if the read model has changed too much since the resumed audit read it.
func (a *auditing) knows(known []byte, upTo uint64) error {
	a.known = known
	switch {
	case a.resumed == nil:
		return nil
	case upTo == 0:
		return &rpc.Error{Code: rpc.CodeUnavailable, Message: "the read model does not answer: the audit can be resumed once it does"}
	case !bytes.Equal(known, a.resumed.Known):
		return fmt.Errorf("%w: ledger rows were aged, or an account was erased", compare.ErrProgress)
	}
	a.log.Info("an interrupted audit is resumed", "sequence", a.resumed.snapshot.Sequence)
	return nil
}

// sealsSince are the seals that are compared from a message on.
func (a *auditing) sealsSince(from uint64) auditedSeals {
	if a.resumed == nil {
		return auditedSeals{after: from}
	}
	return auditedSeals{points: seal.Restore(a.resumed.Points), count: num.Int(a.resumed.Seals)}
}

// save saves the progress as of the message of a snapshot, if the fold has its state: at most once in AuditProgress, and only if the read model had this
// position at the start, nothing has differed yet, and enough entries follow for comparing requests.
func (p *auditedPart) save(ctx context.Context, s snapshots.Snapshot) error {
	a := p.auditing
	if time.Since(a.lastSave) < a.cfg.AuditProgress || s.Sequence > p.live.stored || len(a.part)+len(a.kept) > 0 ||
		p.live.entries < p.folded.Entries()+2*num.Uint64(a.cfg.AuditRequests) {
		return nil
	}
	a.lastSave = time.Now()
	hash, err := p.folded.StateHash()
	if err != nil || hash != s.Hash {
		return err
	}
	progress := &event.AuditProgress{
		Snapshot: s.Key, BegunMs: a.begun, Known: a.known, Deep: a.options.deep, Head: a.options.head, HeadChain: a.answer.HeadChain,
		Seals: num.Uint64(p.seals.count), Points: p.seals.points.Save(),
	}
	a.sums.Save(progress)
	if err := a.snapshots.SetProgress(ctx, a.run.id, progress); err != nil && ctx.Err() == nil {
		a.log.Warn("the progress of an audit could not be saved", "error", err)
	}
	return ctx.Err()
}
