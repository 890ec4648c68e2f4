package document

import (
	"context"
	"errors"
	"fmt"
	"time"

	"quire.dev/pkg/event"
	"quire.dev/pkg/journal"
)

// answer publishes outcomes to the edge that asked, in messages of bounded size. A lost one costs the
// edge a repetition of its batch, or its client a 504, never the effect.
func (s *session) answer(source string, number, sequence uint64, outcomes []*event.Outcome) {
	if source == "" || len(outcomes) == 0 {
		return
	}
	subject := s.e.cfg.Policy.Domain.OutcomeSubject(source)
	for start, bytes := 0, 0; start < len(outcomes); {
		end := start
		for bytes = 0; end < len(outcomes); end++ {
			size := outcomes[end].SizeVT()
			if end > start && bytes+size > s.e.cfg.Bounds.AnswerBytes {
				break
			}
			bytes += size
		}
		data, err := event.Encode(&event.OutcomeBatch{Source: source, Number: number, Sequence: sequence, Outcomes: outcomes[start:end]})
		if err == nil {
			err = s.e.deps.NC.Publish(subject, data)
		}
		if err != nil {
			s.log.Warn("outcomes were not sent", "sequence", sequence, "error", err)
		}
		start = end
	}
}

// remember keeps what the last batch of a source was answered.
func (s *session) remember(m *message) {
	if m.source == "" || m.number == 0 {
		return
	}
	bytes := 0
	for _, o := range m.answers {
		bytes += o.SizeVT()
	}
	if bytes > recentBytes {
		delete(s.recent, m.source)
		return
	}
	s.recent[m.source] = m
	if len(s.recent) <= sweepSources {
		return
	}
	alive := map[string]bool{}
	for _, known := range s.state.Snapshot().Sources {
		alive[known.Source] = true
	}
	for source := range s.recent {
		if !alive[source] {
			delete(s.recent, source)
		}
	}
}

// answerAgain answers a batch that came twice as it was answered the first time. What is not settled
// yet will be answered then.
func (s *session) answerAgain(batch *event.RequestBatch) {
	m := s.recent[batch.Source]
	if m == nil || m.number != batch.Number {
		return
	}
	s.answer(m.source, m.number, m.sequence, m.answers)
	if m.settled() {
		s.answer(m.source, m.number, m.sequence, m.late)
	}
}

// settlements are all that one message tells one billing partition. They must not be split: billing
// takes what comes from a sequence it has seen, in an earlier batch, for a repetition.
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

// settlementBytes bounds what the list takes in a UsageBatch. It is always less than the message it
// comes from, in which every request is longer than its settlement.
func settlementBytes(g *settlements) int {
	n := 0
	for _, t := range g.list {
		n += t.SizeVT() + 4
	}
	return n
}

// settle queues a group behind those of earlier messages.
func (s *session) settle(ctx context.Context, g *settlements) error {
	appender := s.settlers[g.partition]
	if appender == nil {
		var err error
		if appender, err = s.newSettler(ctx, g.partition); err != nil {
			return err
		}
		s.settlers[g.partition] = appender
		s.group.Go(func() error { return appender.Run(ctx) })
	}
	for retry := newRetry(); ; {
		err := appender.Add(g)
		if !errors.Is(err, journal.ErrBusy) {
			return err
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		retry.Wait(ctx)
	}
}

// drainWait is how long a session that ends still tries to settle. What it does not get done is settled
// by the next one.
const drainWait = time.Second

func (s *session) newSettler(ctx context.Context, partition int) (*journal.Appender[*settlements], error) {
	return journal.NewAppender(s.e.deps.NC, journal.Config[*settlements]{
		Subject:   event.UsageSubject(partition),
		DrainWait: drainWait,
		Size:      settlementBytes,
		Encode: func(_ uint64, groups []*settlements) ([]byte, error) {
			batch := &event.UsageBatch{Source: s.stream, StampMs: s.e.now(), OffsetMs: s.e.cfg.Offset.Milliseconds()}
			for _, g := range groups {
				batch.Settlements = append(batch.Settlements, g.list...)
			}
			return event.Encode(batch)
		},
		Acked: func(groups []*settlements, _, _ uint64) {
			for _, g := range groups {
				if g.message.unsettled.Add(-1) == 0 {
					s.answer(g.message.source, g.message.number, g.message.sequence, g.message.late)
					signal(s.pending.work)
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

// failBehind starts the session again where err says that the read model has lost something.
func (s *session) failBehind(err error) {
	if errors.Is(err, errBehind) {
		s.fail(err)
	}
}

// fail starts the session again, from a callback that can't return an error.
func (s *session) fail(err error) {
	select {
	case s.broken <- err:
	default:
	}
}
