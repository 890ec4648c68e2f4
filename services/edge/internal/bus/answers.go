package bus

import (
	"context"
	"fmt"
	"log/slog"

	"quire.dev/pkg/event"
	"quire.dev/pkg/num"
	"quire.dev/pkg/rpc"
)

// subscribe delivers answers and announcements into one channel. The connection delivers them one after
// another. Billing publishes the announcement of a change before the answer to it, so the bus has
// forgotten the account's refusals by the time the answer is there.
func (b *Bus) subscribe() (unsubscribe func(), err error) {
	var stops []func()
	unsubscribe = func() {
		for _, stop := range stops {
			stop()
		}
	}
	for _, subject := range []string{event.AnnounceSubject, event.SourcesSubject, event.AnswerSubjects(b.name)} {
		stop, err := b.cfg.Shared.Answers.Listen(b.nc, subject, b.answers)
		if err != nil {
			unsubscribe()
			return nil, fmt.Errorf("subscribe to %s: %w", subject, err)
		}
		stops = append(stops, stop)
	}
	return unsubscribe, nil
}

// receive handles answers and announcements until ctx ends.
func (b *Bus) receive(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case m := <-b.answers:
			err := errAnswer
			if handle := b.handlers[m.Subject]; handle != nil && !rpc.Redirected(m) {
				err = handle(m.Data)
			}
			if err != nil {
				b.metrics.malformed.Inc()
				b.cfg.Logger.Error("answer could not be read", slog.String("subject", m.Subject), slog.Any("error", err))
			}
		}
	}
}

func (b *Bus) handleAnnouncement(data []byte) error {
	var a event.Announcement
	if err := event.Decode(data, &a); err != nil {
		return err
	}
	for _, account := range a.Accounts {
		b.refusals.forget(event.AccountID(account))
	}
	return nil
}

func (b *Bus) handleVerdicts(u *usageLane, data []byte) error {
	var batch event.VerdictBatch
	if err := event.DecodeVerdicts(data, &batch); err != nil {
		return err
	}
	now := b.Now()
	return u.resolve(batch.Number, len(batch.Verdicts), nil, func(i int, asked *usage, v *Verdict) {
		v.Verdict, v.TimeMs = batch.Verdicts[i], batch.TimeMs
		v.at = journalOffset{batch.Sequence, num.Uint32(i)}
		if !v.Admitted() {
			b.refusals.remember(&asked.Admission, v, now)
		}
	})
}

func (b *Bus) handleCommandOutcomes(l *commandLane, data []byte) error {
	var batch event.CommandOutcomeBatch
	if err := event.Decode(data, &batch); err != nil {
		return err
	}
	return l.resolve(batch.Number, len(batch.Outcomes), nil, func(i int, _ **event.Command, o **event.CommandOutcome) {
		*o = batch.Outcomes[i]
	})
}

// outcomes handles the answer to some of a batch's writes.
func (b *Bus) handleOutcomes(d *documents, data []byte) error {
	var batch event.OutcomeBatch
	if err := event.DecodeOutcomes(data, &batch); err != nil {
		return err
	}
	d.known.Store(max(d.known.Load(), batch.Sequence)) // only this goroutine stores
	offset := func(i int) int { return int(batch.Outcomes[i].Index) }
	return d.writes.resolve(batch.Number, len(batch.Outcomes), offset, func(i int, _ **event.Request, o **event.Outcome) {
		*o = batch.Outcomes[i]
	})
}
