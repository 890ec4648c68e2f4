package document

import (
	"context"
	"fmt"

	"quire.dev/pkg/event"
	"quire.dev/pkg/journal"
)

// settlements are everything that one message tells one partition of billing. They must not be split: billing skips a
// settlement whose sequence it has seen in an earlier batch.
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
	list := make([]*event.Settlement, 0, min(most, 64)) // groups may be many
	return append(groups, settlements{partition: partition, list: append(list, t)})
}

// size bounds the bytes of the list in a UsageBatch. It always fits: a source message has at most 4,096 requests, and the
// settlements of one take below 200 bytes.
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
	start      func(func(context.Context) error)       // runs a function beside the applier
	appenders  map[int]*journal.Appender[*settlements] // by partition of billing
}

// settle queues a group after the groups of earlier messages. Unless an answer waits for it, a group lingers for others: each
// batch to billing costs a sync, and documents are decided in many small messages.
func (s *settler) settle(ctx context.Context, g *settlements) error {
	appender := s.appenders[g.partition]
	if appender == nil {
		var err error
		if appender, err = s.newAppender(ctx, g.partition); err != nil {
			return err
		}
		s.appenders[g.partition] = appender
		s.start(appender.Run)
	}
	if len(g.message.lateAnswers) > 0 {
		return journal.WhenFree(ctx, appender.Add, g)
	}
	return journal.WhenFree(ctx, appender.AddLingering, g)
}

func (s *settler) newAppender(ctx context.Context, partition int) (*journal.Appender[*settlements], error) {
	return journal.NewAppender(s.deps.NC, journal.Config[*settlements]{
		Subject:   s.cfg.Policy.Domain.SettleSubject(partition),
		Linger:    s.cfg.Bounds.SettleDelay,
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
					g.message.spans.Part("settle", g.message.decided)
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
		Files:   s.deps.Shared.Files,
		Metrics: s.metrics.journals,
		Logger:  s.log,
	})
}
