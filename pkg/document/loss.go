package document

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/nats-io/nats.go"

	"quire.dev/pkg/event"
	"quire.dev/pkg/journal"
	"quire.dev/pkg/views"
)

// A partition with a gap between its journal and its read model does not start: folding would silently skip messages. If there is nothing
// better to restore, an operator accepts the loss, which is recorded in billing's journals, and the service continues.

// Loss is a range of messages that the journal of a stopped partition has lost.
type Loss struct {
	Stream      string
	First, Last uint64
	// Projected: the journal ends before the read model's checkpoint, so the read model has what the messages changed. Otherwise the
	// journal begins after the checkpoint, and what they changed is lost.
	Projected bool

	domain     event.Domain
	checkpoint uint64
}

// FindLosses returns what keeps each of the partitions from starting. It changes nothing. The read model may be nil: it is empty.
func FindLosses(ctx context.Context, nc *nats.Conn, model views.Store, domain event.Domain, partitions int) ([]*Loss, error) {
	list, err := journal.EachPartition(ctx, partitions, func(ctx context.Context, p int) (*Loss, error) {
		return findLoss(ctx, nc, model, domain, p)
	})
	return slices.DeleteFunc(list, func(l *Loss) bool { return l == nil }), err
}

// findLoss returns nil for a partition whose journal and read model meet.
func findLoss(ctx context.Context, nc *nats.Conn, model views.Store, domain event.Domain, number int) (*Loss, error) {
	l := &Loss{Stream: domain.Stream(number), domain: domain}
	if model != nil {
		var err error
		if l.checkpoint, err = model.Checkpoint(ctx, l.Stream); err != nil {
			return nil, fmt.Errorf("read checkpoint of %s: %w", l.Stream, err)
		}
	}
	state, err := journal.Open(nc, l.Stream).StateFrom(ctx, l.checkpoint)
	if err != nil {
		return nil, fmt.Errorf("read state of %s: %w", l.Stream, err)
	}
	switch {
	case state.First > l.checkpoint+1:
		l.First, l.Last = l.checkpoint+1, state.First-1
	case state.Last < l.checkpoint:
		l.First, l.Last, l.Projected = state.Last+1, l.checkpoint, true
	default:
		return nil, nil
	}
	return l, nil
}

// Accept records the loss in every journal of billing, of which there are as many as partitions, and lets the partition start: it
// moves the read model's checkpoint to the journal's beginning, or has the journal begin after the checkpoint. It may be repeated.
// The service must not run.
func (l *Loss) Accept(ctx context.Context, nc *nats.Conn, model views.Store, partitions int, actor string) error {
	for p := range partitions {
		record := &event.Loss{Stream: l.Stream, First: l.First, Last: l.Last, Actor: actor, Projected: l.Projected, Logged: p == 0}
		data, err := event.Encode(&event.UsageBatch{Source: l.Stream, Loss: record})
		if err != nil {
			return err
		}
		if err := journal.Publish(ctx, nc, l.domain.SettleSubject(p), data); err != nil {
			return fmt.Errorf("record the loss in %s: %w", event.Billing.Stream(p), err)
		}
	}
	if l.Projected {
		return l.advanceJournal(ctx, nc)
	}
	return l.advanceModel(ctx, model)
}

// advanceJournal has the journal continue after the checkpoint.
func (l *Loss) advanceJournal(ctx context.Context, nc *nats.Conn) error {
	j := journal.Open(nc, l.Stream)
	if err := j.Purge(ctx, l.checkpoint); err != nil {
		return fmt.Errorf("have %s begin after message %d: %w", l.Stream, l.checkpoint, err)
	}
	state, err := j.StateFrom(ctx, l.checkpoint)
	if err == nil && state.Last != l.checkpoint {
		err = fmt.Errorf("it ends at %d after it was purged up to %d", state.Last, l.checkpoint)
	}
	return err
}

// advanceModel has the read model continue at the journal's beginning.
func (l *Loss) advanceModel(ctx context.Context, model views.Store) error {
	if model == nil {
		return errors.New("there is no read model")
	}
	names := namesOf(l.domain)
	m := &readModel{scope: &scope{deps: &Deps{Views: model}, names: names, stream: l.Stream}}
	state, err := m.loadState(ctx)
	if err != nil {
		return err
	}
	if state == nil {
		state = &event.DomainState{}
	}
	state.Sequence = l.Last
	head, err := event.Encode(state)
	if err != nil {
		return err
	}
	return model.Commit(ctx, views.Batch{
		Stream: l.Stream, From: l.checkpoint, To: l.Last,
		Puts: []views.Put{{Collection: names.states, Doc: views.Doc{ID: l.Stream, Seq: l.Last, Head: head}}},
	})
}
