package document

import (
	"context"
	"errors"
	"fmt"

	"quire.dev/pkg/event"
	"quire.dev/pkg/journal"
)

// settlements are all that one message tells one partition of billing. They must not be split: billing takes a settlement
// with a sequence that it has seen in an earlier batch for a repetition.
type settlements struct {
	partition int
	list      []*event.Settlement
	message   *message
}

func addSettlement(groups []*settlements, partition int, t *event.Settlement) []*settlements {
	for _, g := range groups {
		if g.partition == partition {
			g.list = append(g.list, t)
			return groups
		}
	}
	return append(groups, &settlements{partition: partition, list: []*event.Settlement{t}})
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
	start      func(*journal.Appender[*settlements]) // runs it beside the folding
	appenders  map[int]*journal.Appender[*settlements]
}

// settle queues a group behind those of earlier messages.
func (s *settler) settle(ctx context.Context, g *settlements) error {
	appender := s.appenders[g.partition]
	if appender == nil {
		var err error
		if appender, err = s.newAppender(ctx, g.partition); err != nil {
			return err
		}
		s.appenders[g.partition] = appender
		s.start(appender)
	}
	return add(ctx, appender, g)
}

// add waits while the appender's queue is full.
func add[T any](ctx context.Context, appender *journal.Appender[T], item T) error {
	for retry := newRetry(); ; {
		err := appender.Add(item)
		if !errors.Is(err, journal.ErrBusy) {
			return err
		}
		if !retry.Wait(ctx) {
			return ctx.Err()
		}
	}
}

func (s *settler) newAppender(ctx context.Context, partition int) (*journal.Appender[*settlements], error) {
	return journal.NewAppender(s.deps.NC, journal.Config[*settlements]{
		Subject:   event.UsageSubject(partition),
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
		},
		Failed: func(_ []*settlements, _ uint64, err error) {
			if ctx.Err() == nil {
				s.fail(fmt.Errorf("settle %s with billing: %w", s.stream, err))
			}
		},
		Logger: s.log,
	})
}
