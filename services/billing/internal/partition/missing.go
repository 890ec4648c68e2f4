package partition

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"time"

	"quire.dev/pkg/event"
	"quire.dev/services/billing/internal/account"
	"quire.dev/services/billing/internal/webhooks"
)

const (
	// missingEvery is how often what is missing is looked for again, until a restore has put it back.
	missingEvery = time.Minute
	// mostLookedFor bounds the accounts and the webhooks that a start looks for: half of them the newest, which an old backup lacks,
	// the others spread over the rest.
	mostLookedFor = 10_000

	// Values of the label "of" of the metric.
	ofUsers       = "users"
	ofAddresses   = "webhook_addresses"
	ofSnapshotKey = "snapshot_key"
)

// lookForMissing compares the accounts and webhooks of the journal with the users and addresses of the read model, which exist
// nowhere else. It returns once nothing is missing, or when ctx ends.
func (p *Partition) lookForMissing(ctx context.Context) {
	ctx, found := context.WithCancel(ctx)
	defer found()
	last := [2]int{}
	p.sweep(ctx, missingEvery, "whether users and addresses of webhooks are missing is not known yet", func() error {
		holders := p.holders()
		lookedFor := [2]int{min(len(holders), mostLookedFor), 0}
		users, err := p.missingUsers(ctx, holders)
		if err != nil {
			return err
		}
		if err := p.deps.Users.NoteMissing(ctx, p.cfg.Partition, users > 0); err != nil {
			return err
		}
		addresses, all, err := p.missingAddresses(ctx, holders)
		if err != nil {
			return err
		}
		lookedFor[1] = all
		now := [2]int{users, addresses}
		for i, of := range [...]string{ofUsers, ofAddresses} {
			p.deps.Metrics.showMissing(p.cfg.Partition, of, now[i])
			switch {
			case now[i] > 0 && now[i] != last[i]:
				p.log.Error("the read model has lost what exists nowhere else: restore it from a backup (docs/operations.md, QuireReadModelLost)",
					"of", of, "missing", now[i], "looked_for", lookedFor[i])
			case now[i] == 0 && last[i] > 0:
				p.log.Info("nothing is missing any more", "of", of)
			}
		}
		if last = now; users == 0 && addresses == 0 {
			found()
		}
		return nil
	})
}

// ensureSnapshotKey creates the key that signs snapshots, unless there is one: before the first of them, so that a backup of the read model
// has the key of each, whenever it was made. It reports that the key was missing though there are so many snapshots.
func (p *Partition) ensureSnapshotKey(ctx context.Context, snapshots int) error {
	created, err := p.snapshots.KeyIsNew(ctx)
	if created && snapshots > 0 {
		p.log.Error("the read model has lost the key that signs snapshots: folding the whole journal instead", "snapshots", snapshots)
		p.deps.Metrics.showMissing(p.cfg.Partition, ofSnapshotKey, snapshots)
	}
	return err
}

// holders returns the accounts, newest first.
func (p *Partition) holders() []account.Holder {
	p.mu.Lock()
	list := p.fold.Holders()
	p.mu.Unlock()
	slices.SortFunc(list, func(a, b account.Holder) int {
		return cmp.Or(cmp.Compare(b.CreatedMs, a.CreatedMs), cmp.Compare(a.Account, b.Account))
	})
	return list
}

// sample keeps mostLookedFor elements of a list: the first half of them, and of the rest every few.
func sample[T any](list []T) []T {
	const half = mostLookedFor / 2
	if len(list) <= mostLookedFor {
		return list
	}
	out := slices.Clone(list[:half])
	rest := list[half:]
	for i := range half {
		out = append(out, rest[i*len(rest)/half])
	}
	return out
}

func (p *Partition) missingUsers(ctx context.Context, holders []account.Holder) (int, error) {
	var ids []event.AccountID
	for _, h := range sample(holders) {
		ids = append(ids, h.Account)
	}
	without, err := p.deps.Users.Missing(ctx, ids)
	if err != nil || len(without) == 0 {
		return 0, err
	}
	// A user goes after its account has been erased, perhaps by an instance that is ahead of this one.
	if err := p.catchUp(ctx); err != nil {
		return 0, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	n := 0
	for _, id := range without {
		if s := p.fold.Summary(uint64(id)); s != nil && s.ErasedMs == 0 {
			n++
		}
	}
	return n, nil
}

// missingAddresses returns how many of the webhooks lack an address, and of how many.
func (p *Partition) missingAddresses(ctx context.Context, holders []account.Holder) (n, all int, err error) {
	var list []webhooks.Ref
	for _, h := range holders {
		for _, w := range h.Webhooks {
			list = append(list, webhooks.Ref{Account: h.Account, Webhook: w})
		}
	}
	list = sample(list)
	without, err := webhooks.Missing(ctx, p.deps.Views, list)
	if err != nil || len(without) == 0 {
		return 0, len(list), err
	}
	if err := p.catchUp(ctx); err != nil { // the address of a deleted webhook goes later too
		return 0, len(list), err
	}
	for _, w := range without {
		if p.hasWebhook(w.Account, w.Webhook) {
			n++
		}
	}
	return n, len(list), nil
}

// catchUp waits for the messages that the journal has now.
func (p *Partition) catchUp(ctx context.Context) error {
	last, err := p.journal.LastSequence(ctx)
	if err != nil {
		return err
	}
	return p.position.Until(ctx, last)
}

func (m *Metrics) showMissing(partition int, of string, n int) {
	m.missing.WithLabelValues(strconv.Itoa(partition), of).Set(float64(n))
}
