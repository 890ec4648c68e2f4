package document

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"quire.dev/pkg/event"
	"quire.dev/pkg/journal"
	"quire.dev/pkg/wait"
)

// settlements are all that one message tells one partition of billing. They must not be split: billing takes a settlement
// with a sequence that it has seen in an earlier batch for a repetition.
type settlements struct {
	partition int
	list      []*event.Settlement
	message   *message
}

// addSettlement adds t to the group of its partition. most bounds the settlements to come.
func addSettlement(groups []settlements, partition int, t *event.Settlement, most int) []settlements {
	for i := range groups {
		if g := &groups[i]; g.partition == partition {
			g.list = append(g.list, t)
			return groups
		}
	}
	list := make([]*event.Settlement, 0, min(most, 64)) // there may be many groups
	return append(groups, settlements{partition: partition, list: append(list, t)})
}

// size bounds the bytes of the list in a UsageBatch. It is always less than the message it comes from, in which every
// request is longer than its settlement.
func (g *settlements) size() int {
	n := 0
	for _, t := range g.list {
		n += t.SizeVT() + 4
	}
	return n
}

// settler stores the settlements of a partition in billing's journals, in order.
type settler struct {
	*scope
	answerer   *answerer
	projection *projection
	start      func(func(context.Context) error) (stop func()) // runs it beside the folding
	routes     map[int]*route                                  // by partition of billing
}

// route is how a partition of billing is told of settlements.
type route struct {
	appender *journal.Appender[*settlements]
	stop     func()
	outdated atomic.Bool  // billing's rules ask for another subject by now
	waiting  atomic.Int64 // groups that billing's journal does not hold yet
	moved    wait.Changes // of waiting
}

// settle queues a group behind those of earlier messages. Where no answer waits for it, it waits for others: each batch to billing
// is a sync, and documents are decided in many small messages.
func (s *settler) settle(ctx context.Context, g *settlements) error {
	r := s.routes[g.partition]
	if r != nil && r.outdated.Load() {
		// What was sent on the other subject is stored first, so that settlements stay in order.
		if err := r.moved.Until(ctx, func() bool { return r.waiting.Load() == 0 }); err != nil {
			return err
		}
		r.stop()
		r = nil
	}
	if r == nil {
		var err error
		if r, err = s.open(ctx, g.partition); err != nil {
			return err
		}
		s.routes[g.partition] = r
	}
	r.waiting.Add(1)
	if len(g.message.lateAnswers) > 0 {
		return add(ctx, r.appender.Add, g)
	}
	return add(ctx, r.appender.AddPatient, g)
}

// open begins to tell a partition of billing.
func (s *settler) open(ctx context.Context, partition int) (*route, error) {
	r := &route{}
	var err error
	if r.appender, err = s.newAppender(ctx, partition, r); err != nil {
		return nil, err
	}
	r.stop = s.start(func(ctx context.Context) error { return s.run(ctx, partition, r) })
	return r, nil
}

// run sends what is queued, once it is known on which subject billing takes it.
func (s *settler) run(ctx context.Context, partition int, r *route) error {
	own, err := s.awaitRules(ctx, partition)
	if err != nil {
		return nil //nolint:nilerr // ctx has ended
	}
	if own {
		r.appender.To(s.cfg.Policy.Domain.SettleSubject(partition))
		return r.appender.Run(ctx)
	}
	s.log.Info("settling on the subject of the edges, until billing's rules let each domain settle on its own", "billing_partition", partition)
	watching, stop := context.WithCancel(ctx)
	var watch sync.WaitGroup
	watch.Go(func() { s.watchRules(watching, partition, r) })
	defer watch.Wait()
	defer stop()
	r.appender.To(event.UsageSubject(partition))
	return r.appender.Run(ctx)
}

// awaitRules is ownSubject once billing's journal can be read. The error is that of ctx.
func (s *settler) awaitRules(ctx context.Context, partition int) (own bool, err error) {
	told := time.Now()
	for retry := newRetry(); ; {
		if own, err = s.ownSubject(ctx, partition); err == nil {
			return own, nil
		}
		if time.Since(told) >= tellEvery {
			told = time.Now()
			s.log.Warn("settling waits for the rules of billing", "billing_partition", partition, "cause", err)
		}
		if !retry.Wait(ctx) {
			return false, ctx.Err()
		}
	}
}

// watchRules ends when the route is outdated, or ctx.
func (s *settler) watchRules(ctx context.Context, partition int, r *route) {
	for wait.For(ctx, s.cfg.Bounds.RulesEvery) {
		if own, err := s.ownSubject(ctx, partition); err == nil && own {
			r.outdated.Store(true)
			return
		}
	}
}

// ownSubject tells whether the rules in force in a partition of billing let the domains settle on subjects of their own.
func (s *settler) ownSubject(ctx context.Context, partition int) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, rulesWait)
	defer cancel()
	m, err := journal.Open(s.deps.NC, event.Billing.Stream(partition)).LastOf(ctx, event.PricesSubject(partition))
	if errors.Is(err, journal.ErrNoMessage) {
		return false, nil // there is nothing to settle with a billing that has never had prices
	}
	if err != nil {
		return false, err
	}
	book := &event.PriceBook{}
	if err := event.Decode(m.Data, book); err != nil {
		return false, fmt.Errorf("read the price book of %s: %w", event.Billing.Stream(partition), err)
	}
	return book.Rules >= event.RulesDomains, nil
}

const (
	rulesWait = 2 * time.Second  // bounds one question for the rules
	tellEvery = 10 * time.Second // between two times that operators are told that settling waits
)

// add adds an item to an appender. It waits while the queue is full.
func add[T any](ctx context.Context, add func(T) error, item T) error {
	for retry := newRetry(); ; {
		err := add(item)
		if !errors.Is(err, journal.ErrBusy) {
			return err
		}
		if !retry.Wait(ctx) {
			return ctx.Err()
		}
	}
}

func (s *settler) newAppender(ctx context.Context, partition int, r *route) (*journal.Appender[*settlements], error) {
	return journal.NewAppender(s.deps.NC, journal.Config[*settlements]{
		Subject:   s.cfg.Policy.Domain.SettleSubject(partition),
		Patience:  s.cfg.Bounds.SettleDelay,
		DrainWait: drainWait,
		Size:      (*settlements).size,
		Encode: func(_ uint64, groups []*settlements) ([]byte, error) {
			batch := &event.UsageBatch{Source: s.stream, StampMs: s.now(), OffsetMs: s.cfg.Offset.Milliseconds()}
			for _, g := range groups {
				batch.Settlements = append(batch.Settlements, g.list...)
			}
			return event.Encode(batch)
		},
		Acked: func(groups []*settlements, _, _ uint64) {
			for _, g := range groups {
				if g.message.unsettled.Add(-1) == 0 {
					s.answerer.answer(g.message, g.message.lateAnswers)
					s.projection.wake()
				}
			}
			if r.waiting.Add(-int64(len(groups))) == 0 {
				r.moved.Notify()
			}
		},
		Failed: func(_ []*settlements, _ uint64, err error) {
			if ctx.Err() == nil {
				s.fail(fmt.Errorf("settle %s with billing: %w", s.stream, err))
			}
		},
		Logger: s.log,
	})
}
