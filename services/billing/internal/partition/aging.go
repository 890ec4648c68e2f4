package partition

import (
	"context"
	"time"

	"quire.dev/pkg/event"
)

// ageLedgersEvery is the interval between looks for rows of ledgers past their retention.
const ageLedgersEvery = time.Hour

// agedBefore is the time before which the read model's rows of ledgers are aged: the beginning of the month in which the retention begins,
// and not after the beginning of the month before the present one, which statements and refunds need.
func agedBefore(now time.Time, retention time.Duration) time.Time {
	since, now := now.Add(-retention).UTC(), now.UTC()
	month := time.Date(since.Year(), since.Month(), 1, 0, 0, 0, 0, time.UTC)
	previous := time.Date(now.Year(), now.Month()-1, 1, 0, 0, 0, 0, time.UTC)
	if previous.Before(month) {
		return previous
	}
	return month
}

// ageLedgers ages rows past the retention until ctx ends. All accounts are looked at after a start and when a month begins, and again until
// nothing is left to delete.
func (p *Partition) ageLedgers(ctx context.Context) {
	if p.cfg.LedgerRetention == 0 {
		return
	}
	var finished time.Time // rows before it are deleted
	p.sweep(ctx, ageLedgersEvery, "rows of ledgers past their retention could not be deleted yet", func() error {
		before := agedBefore(p.now(), p.cfg.LedgerRetention)
		if !finished.Before(before) {
			return nil
		}
		if err := p.projection.Written(ctx, p.position.Get()); err != nil { // it may be made again from the first message on
			return err
		}
		left := false
		for _, id := range p.ledgerOwners() {
			more, err := p.projection.AgeLedger(ctx, id, before, p.deps.Clock())
			if err != nil {
				return err
			}
			left = left || more
		}
		if !left {
			finished = before
		}
		return nil
	})
}

// ledgerOwners returns all accounts.
func (p *Partition) ledgerOwners() []event.AccountID {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.fold.AccountIDs()
}
