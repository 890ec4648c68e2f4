package partition

import (
	"context"
	"crypto/rand"
	"fmt"
	"strings"

	"quire.dev/pkg/event"
	"quire.dev/services/billing/internal/erasure"
	"quire.dev/services/billing/internal/webhooks"
)

// eraseAccounts ends the accounts of this partition whose deletion is due, until ctx ends.
func (p *Partition) eraseAccounts(ctx context.Context) {
	erasure.New(erasure.Config{
		Partition: p.cfg.Partition, Partitions: p.cfg.Partitions, Users: p.deps.Users, NC: p.deps.NC,
		Account: p.summary, Append: p.appendCommand, Rows: p.eraseRows, Now: p.now, Log: p.log,
	}).Run(ctx)
}

// summary is an account's state in the journal; nil for a missing account.
func (p *Partition) summary(ctx context.Context, id event.AccountID) (*event.AccountSummary, error) {
	last, err := p.end.LastSequence(ctx)
	if err == nil {
		err = p.position.Until(ctx, last)
	}
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.fold.Summary(uint64(id)), nil
}

// eraseRows deletes the requests, the entries and the webhooks of an account ended in the journal, once all of them and its alerts are in
// the read model: later ones would stay.
func (p *Partition) eraseRows(ctx context.Context, id event.AccountID) error {
	last, err := p.end.LastSequence(ctx)
	if err == nil {
		err = p.position.Until(ctx, last)
	}
	if err == nil {
		err = p.projection.Written(ctx, last)
	}
	if err == nil {
		err = p.projection.Erase(ctx, id)
	}
	if err != nil {
		return err
	}
	return webhooks.Erase(ctx, p.deps.Views, id)
}

// appendCommand publishes a command of billing itself. Each has a different source, since nobody waits for its outcome. Sources
// are named like edges', so that billing may publish the outcome.
func (p *Partition) appendCommand(c *event.Command) error {
	id := event.NewRequestID()
	c.RequestId = id[:]
	data, err := event.Encode(&event.CommandBatch{
		Source: fmt.Sprintf("billing-%s.%d", strings.ToLower(rand.Text()[:12]), p.cfg.Partition), Number: 1, StampMs: p.now().UnixMilli(), OffsetMs: p.deps.Offset.Milliseconds(),
		Commands: []*event.Command{c},
	})
	if err == nil {
		p.publish(event.AccountSubject(p.cfg.Partition), data)
	}
	return err
}
