package bus

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/nats-io/nats.go"

	"quire.dev/pkg/event"
)

// subscribe leads answers and announcements into one channel. The connection reads them one after
// another, so that an announcement published before an answer is also seen before it: a refusal is
// never remembered, or found, past the change that ended it and was answered for.
func (b *Bus) subscribe() (unsubscribe func(), err error) {
	var subs []*nats.Subscription
	unsubscribe = func() {
		for _, s := range subs {
			_ = s.Unsubscribe() // fails only where the connection is closed
		}
	}
	for _, subject := range []string{event.AnnounceSubject, event.AnswerSubjects(b.cfg.Source)} {
		s, err := b.nc.ChanSubscribe(subject, b.answers)
		if err != nil {
			unsubscribe()
			return nil, fmt.Errorf("subscribe to %s: %w", subject, err)
		}
		subs = append(subs, s)
	}
	return unsubscribe, nil
}

// receive reads the answers until ctx ends.
func (b *Bus) receive(ctx context.Context) {
	prefix := "edge." + b.cfg.Source + "."
	for {
		select {
		case <-ctx.Done():
			return
		case m := <-b.answers:
			var err error
			if m.Subject == event.AnnounceSubject {
				err = b.announced(m.Data)
			} else {
				err = b.answered(strings.TrimPrefix(m.Subject, prefix), m.Data)
			}
			if err != nil {
				b.metrics.malformed.Inc()
				b.cfg.Logger.Error("answer could not be read", slog.String("subject", m.Subject), slog.Any("error", err))
			}
		}
	}
}

func (b *Bus) announced(data []byte) error {
	var a event.Announcement
	if err := event.Decode(data, &a); err != nil {
		return err
	}
	for _, account := range a.Accounts {
		b.refusals.forget(event.AccountID(account))
	}
	return nil
}

// answered takes <partition>.verdict, <partition>.command and <partition>.outcome.<domain>.
func (b *Bus) answered(subject string, data []byte) error {
	number, kind, _ := strings.Cut(subject, ".")
	partition, err := strconv.Atoi(number)
	if err != nil || partition < 0 || partition >= b.cfg.Partitions {
		return fmt.Errorf("partition %q: %w", number, errAnswer)
	}
	switch kind {
	case "verdict":
		return b.verdicts(b.usage[partition], data)
	case "command":
		return b.commandOutcomes(b.commands[partition], data)
	}
	domain, ok := strings.CutPrefix(kind, "outcome.")
	lanes := b.requests[event.Domain(domain)]
	if !ok || lanes == nil {
		return fmt.Errorf("kind %q: %w", kind, errAnswer)
	}
	return b.outcomes(lanes[partition], &b.known[event.Domain(domain)][partition], data)
}

func (b *Bus) verdicts(u *usageLane, data []byte) error {
	var batch event.VerdictBatch
	if err := event.Decode(data, &batch); err != nil {
		return err
	}
	now := b.Now()
	ok := u.answered(batch.Number, len(batch.Verdicts), func(i int, asked *usage, v *Verdict) {
		v.Verdict, v.TimeMs, v.Sequence = batch.Verdicts[i], batch.TimeMs, batch.Sequence
		if !v.Admitted() {
			b.refusals.remember(&asked.Admission, v, now)
		}
	})
	if !ok {
		return fmt.Errorf("batch %d with %d verdicts: %w", batch.Number, len(batch.Verdicts), errAnswer)
	}
	return nil
}

func (b *Bus) commandOutcomes(l *commandLane, data []byte) error {
	var batch event.CommandOutcomeBatch
	if err := event.Decode(data, &batch); err != nil {
		return err
	}
	ok := l.answered(batch.Number, len(batch.Outcomes), func(i int, _ **event.Command, o **event.CommandOutcome) {
		*o = batch.Outcomes[i]
	})
	if !ok {
		return fmt.Errorf("batch %d with %d outcomes: %w", batch.Number, len(batch.Outcomes), errAnswer)
	}
	return nil
}

func (b *Bus) outcomes(l *requestLane, known *atomic.Uint64, data []byte) error {
	var batch event.OutcomeBatch
	if err := event.Decode(data, &batch); err != nil {
		return err
	}
	if batch.Sequence > known.Load() { // one goroutine reads all answers
		known.Store(batch.Sequence)
	}
	for _, outcome := range batch.Outcomes {
		ok := l.part(batch.Number, int(outcome.Index), func(_ int, _ **event.Request, o **event.Outcome) {
			*o = outcome
		})
		if !ok {
			return fmt.Errorf("batch %d, outcome %d: %w", batch.Number, outcome.Index, errAnswer)
		}
	}
	return nil
}
