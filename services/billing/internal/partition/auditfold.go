package partition

import (
	"context"
	"errors"
	"fmt"
	"math"

	"quire.dev/pkg/journal"
	"quire.dev/pkg/num"
	"quire.dev/services/billing/internal/account"
	"quire.dev/services/billing/internal/compare"
	"quire.dev/services/billing/internal/snapshots"
)

// fold replays the journal into parts.
func (a *auditing) fold(
	ctx context.Context, live position, exact bool, c *compare.Comparison, rows results, stored map[uint64][]snapshots.Snapshot,
) (account.Whole, error) {
	always := len(a.kept)
	one := func(fold *account.Fold, pass, passes int) error {
		if exact && passes > 1 {
			return errParts
		}
		if err := fold.Know(a.cfg.Rules); err != nil {
			return err
		}
		if rows.Begin(pass == 0); pass == 0 {
			a.kept, a.requests, a.entries = a.kept[:always], 0, 0
			a.sum = account.Sum{}
		}
		a.part, a.partSum = nil, nil
		from := fold.Sequence()
		a.task.total.Store(a.before + num.Uint64(passes)*(live.at-from))
		part := &auditedPart{
			auditing: a, folded: fold, live: live, rows: c, stored: stored, all: exact && a.options.account == 0,
			offset: a.before + num.Uint64(pass)*(live.at-from) - from, seals: a.sealsSince(from),
		}
		if err := part.replay(ctx, from); err != nil {
			return err
		}
		rows.Keep()
		a.seals = part.seals.count
		a.kept, a.part = append(a.kept, a.part...), nil
		return a.keepSum()
	}
	whole, err := a.foldParts(ctx, live, one)
	if err == nil {
		err = a.compareSum()
	}
	return whole, err
}

// auditedPart is a part of the principals, into which the journal is replayed.
type auditedPart struct {
	*auditing
	folded   *account.Fold
	live     position
	rows     *compare.Comparison
	stored   map[uint64][]snapshots.Snapshot
	all      bool   // these are all principals
	offset   uint64 // of the task's progress to a sequence
	requests *replayedRequests
	seals    auditedSeals
}

// replay folds the journal after a message, and compares what the part has then.
func (p *auditedPart) replay(ctx context.Context, from uint64) error {
	oldest := p.live.millis - p.cfg.RequestRetention.Milliseconds()
	if from > 0 {
		oldest = max(oldest, p.folded.NextMillis())
	}
	p.requests = newReplayedRequests(p.cfg.AuditRequests, oldest)
	if p.live.requests {
		p.folded.Record()
	}
	p.task.read.Store(p.offset + from)
	err := p.journal.Replay(ctx, from, p.live.at, func(m journal.Message) error { return p.apply(ctx, m) }, p.reporter("auditing "+p.stream))
	if err == nil && p.live.image != nil {
		err = p.compareStates(p.folded, p.live.image, "")
	}
	if err == nil && p.live.requests {
		err = errors.Join(p.compareRequests(ctx, p.folded, p.live, p.requests), p.compareEntries(ctx, p.folded, p.live))
	}
	return err
}

// apply folds a message, and compares what is known as of it.
func (p *auditedPart) apply(ctx context.Context, m journal.Message) error {
	effects, err := p.folded.Apply(p.message(m))
	if err != nil && !errors.Is(err, account.ErrUndecodable) {
		return err
	}
	if err := p.rows.Apply(m.Sequence, effects, p.folded.Keeps); err != nil {
		return err
	}
	p.requests.apply(m.Sequence, effects.Requests)
	if p.all {
		differ, err := p.seals.apply(ctx, p.folded, effects.Seal, p.cfg.Partitions)
		if err != nil {
			return err
		}
		p.auditing.part = append(p.auditing.part, differ...)
	}
	p.noteChain(m, p.folded.Head(), p.live.at)
	p.task.read.Store(p.offset + m.Sequence)
	for _, s := range p.stored[m.Sequence] {
		if err := p.compareSnapshot(ctx, p.folded, s, p.all); err != nil {
			return err
		}
	}
	if s, marked := p.marks[m.Sequence]; marked && p.sums != nil && p.all {
		return p.save(ctx, s)
	}
	return nil
}

// foldParts calls one for each part of the principals: for the audit's account, for all from the audited snapshot on, or for parts that fit
// into memory.
func (a *auditing) foldParts(ctx context.Context, live position, one func(*account.Fold, int, int) error) (account.Whole, error) {
	switch {
	case a.options.account != 0:
		return a.foldAccount(one)
	case a.since != nil:
		return a.foldNew(ctx, one)
	case a.resumed != nil:
		fold := a.resumed.fold
		a.resumed.fold = nil
		return a.foldFrom(fold, one)
	}
	most := a.cfg.AuditPrincipals
	if a.options.repair != "" {
		most = math.MaxInt
	}
	whole, err := account.HashInParts(live.about, most, one)
	a.before = a.task.read.Load()
	return whole, err
}

// noteChain puts the chain at the head that was asked for, and the time of the last message, into the answer.
func (a *auditing) noteChain(m journal.Message, head account.Head, last uint64) {
	if m.Sequence == a.options.head {
		a.answer.HeadChain = head.Chain[:]
	}
	if m.Sequence == last {
		a.answer.TimeMs = m.Time.UnixMilli()
		a.answer.Chain = head.Chain[:]
	}
}

// foldNew folds what is new since the audited snapshot, all principals at once.
func (a *auditing) foldNew(ctx context.Context, one func(*account.Fold, int, int) error) (account.Whole, error) {
	fold := a.start
	a.start = nil
	var err error
	if fold == nil { // for the second pass
		fold, err = a.snapshots.Load(ctx, *a.since)
	}
	if err != nil {
		return account.Whole{}, err
	}
	return a.foldFrom(fold, one)
}

// foldFrom folds what comes after a state, all principals at once.
func (a *auditing) foldFrom(fold *account.Fold, one func(*account.Fold, int, int) error) (account.Whole, error) {
	if err := one(fold, 0, 1); err != nil {
		return account.Whole{}, err
	}
	a.before = a.task.read.Load()
	hash, err := fold.StateHash()
	return account.Whole{Hash: hash, Sequence: fold.Sequence(), Entries: fold.Entries()}, err
}

// foldAccount folds one account, with those that its requests are coupled with.
func (a *auditing) foldAccount(one func(*account.Fold, int, int) error) (account.Whole, error) {
	together := map[uint64]bool{uint64(a.options.account): true}
	for range maxCoupled {
		fold := account.NewPart(func(id uint64) bool { return together[id] })
		err := one(fold, 0, 1)
		if coupled := (*account.CoupledError)(nil); errors.As(err, &coupled) {
			together[uint64(coupled.Other)] = true
			continue
		}
		a.before = a.task.read.Load()
		return account.Whole{Sequence: fold.Sequence(), Entries: fold.Entries()}, err
	}
	return account.Whole{}, fmt.Errorf("audit of account %s: its requests share their ids with those of %d others", a.options.account, maxCoupled)
}
