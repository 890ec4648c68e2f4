package partition

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"time"

	"quire.dev/pkg/event"
	"quire.dev/services/billing/internal/account"
	"quire.dev/services/billing/internal/lost"
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
		if err := p.giveUpMissing(ctx); err != nil {
			return err
		}
		holders := p.holders()
		accounts, hooks := sample(holders), sample(hooksOf(holders))
		users, err := p.missingUsers(ctx, accounts)
		if err != nil {
			return err
		}
		addresses, err := p.missingAddresses(ctx, hooks)
		if err != nil {
			return err
		}
		now := [2]int{len(users), len(addresses)}
		if err := p.deps.Users.NoteMissing(ctx, p.cfg.Partition, now[0], now[1]); err != nil {
			return err
		}
		lookedFor := [2]int{len(accounts), len(hooks)}
		for i, of := range [...]string{ofUsers, ofAddresses} {
			p.deps.Metrics.showMissing(p.cfg.Partition, of, now[i])
			switch {
			case now[i] > 0 && now[i] != last[i]:
				p.log.Error("the read model has lost what exists nowhere else: restore it from a backup (docs/runbook.md, QuireReadModelLost)",
					"of", of, "missing", now[i], "looked_for", lookedFor[i])
			case now[i] == 0 && last[i] > 0:
				p.log.Info("nothing is missing any more", "of", of)
			}
		}
		if last = now; now == [2]int{} {
			found()
		}
		return nil
	})
}

// giveUpMissing gives up all that is missing if an operator has asked for it: see lost.Request.
func (p *Partition) giveUpMissing(ctx context.Context) error {
	actor, err := lost.Requested(ctx, p.deps.Views, p.cfg.Partition)
	if err != nil || actor == "" {
		return err
	}
	holders := p.holders()
	users, err := p.missingUsers(ctx, holders)
	if err != nil {
		return err
	}
	addresses, err := p.missingAddresses(ctx, hooksOf(holders))
	if err != nil {
		return err
	}
	if err := lost.GiveUp(ctx, p.deps.Views, p.cfg.Partition, slices.Concat(users, addresses), actor); err != nil {
		return err
	}
	p.log.Warn("users and addresses of webhooks that the read model has lost were given up", "by", actor, "users", len(users), "addresses", len(addresses))
	return nil
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

// missingUsers returns the ids of the accounts that have no user, and whose users were not given up.
func (p *Partition) missingUsers(ctx context.Context, holders []account.Holder) (list []string, err error) {
	accounts := make([]event.AccountID, len(holders))
	for i, h := range holders {
		accounts[i] = h.Account
	}
	without, err := p.deps.Users.Missing(ctx, accounts)
	if err != nil || len(without) == 0 {
		return nil, err
	}
	// A user goes after its account has been erased, perhaps by an instance that is ahead of this one.
	if err := p.catchUp(ctx); err != nil {
		return nil, err
	}
	for _, id := range without {
		if p.holds(id) {
			list = append(list, id.String())
		}
	}
	return lost.Without(ctx, p.deps.Views, list)
}

// holds reports whether the account exists and was not erased.
func (p *Partition) holds(id event.AccountID) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.fold.Summary(uint64(id))
	return s != nil && s.ErasedMs == 0
}

func hooksOf(holders []account.Holder) (list []webhooks.Ref) {
	for _, h := range holders {
		for _, w := range h.Webhooks {
			list = append(list, webhooks.Ref{Account: h.Account, Webhook: w})
		}
	}
	return list
}

// missingAddresses returns the ids of the webhooks that have no address, and whose addresses were not given up.
func (p *Partition) missingAddresses(ctx context.Context, hooks []webhooks.Ref) (list []string, err error) {
	without, err := webhooks.Missing(ctx, p.deps.Views, hooks)
	if err != nil || len(without) == 0 {
		return nil, err
	}
	if err := p.catchUp(ctx); err != nil { // the address of a deleted webhook goes later too
		return nil, err
	}
	for _, w := range without {
		if p.hasWebhook(w.Account, w.Webhook) {
			list = append(list, w.ID())
		}
	}
	return lost.Without(ctx, p.deps.Views, list)
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
