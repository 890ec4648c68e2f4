package partition

import (
	"context"
	"math/rand/v2"
	"time"
)

const (
	auditEvery = 24 * time.Hour
	auditLook  = time.Hour // between two looks whether an audit is due
)

// keepAudited audits what is new once a day, until ctx ends, if closed generations of the journal are to be deleted: only what was audited
// is. Any replica's audit counts for all.
func (p *Partition) keepAudited(ctx context.Context) {
	if p.cfg.JournalRetention == 0 {
		return
	}
	var begun time.Time                   // of the last one here, which may not have matched
	due := auditEvery + rand.N(auditLook) // so that the replicas do not begin together
	p.sweep(ctx, auditLook, "what is new could not be audited yet", func() error {
		last, _, err := p.snapshots.Audited(ctx)
		if now := p.deps.Clock(); err != nil || now.Sub(last.Stored) < due || now.Sub(begun) < auditEvery {
			return err
		}
		begun = p.deps.Clock()
		run := p.audits.join(auditOptions{new: true}, p.runAudit)
		select {
		case <-run.done:
			p.audits.take(&run.task)
			if run.err != nil {
				begun = time.Time{} // such as a store that was away
			}
			return run.err
		case <-ctx.Done():
			return nil
		}
	})
}
