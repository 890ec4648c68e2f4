package bus

import (
	"context"
	"fmt"
	"time"

	"quire.dev/pkg/event"
	"quire.dev/services/edge/internal/fault"
)

type (
	requestLane = lane[*event.Request, *event.Outcome]
	commandLane = lane[*event.Command, *event.CommandOutcome]
)

// batchOverhead is what an item costs in its batch beside itself, in bytes.
const batchOverhead = 8

// Writes hold content of up to 64 KiB each, so that counting them does not bound them.
const writeQueueBytes = 64 << 20

func (b *Bus) newRequestLane(d event.Domain, partition int) (*requestLane, error) {
	source := b.source(partition)
	return newLane(laneConfig[*event.Request, *event.Outcome]{
		bus: b, kind: string(d), subject: d.RequestSubject(partition), timeout: b.cfg.WriteTimeout,
		queueBytes: writeQueueBytes,
		encode: func(number uint64, items []*item[*event.Request, *event.Outcome]) ([]byte, error) {
			batch := event.RequestBatch{
				Source: source, Number: number,
				StampMs: b.Now().UnixMilli(), OffsetMs: b.cfg.Offset.Milliseconds(),
				Requests: make([]*event.Request, len(items)),
			}
			for i, it := range items {
				batch.Requests[i] = it.value
			}
			return event.Encode(&batch)
		},
		size: func(r *event.Request) int { return r.SizeVT() + batchOverhead },
	})
}

func (b *Bus) newCommandLane(partition int) (*commandLane, error) {
	source := b.source(partition)
	return newLane(laneConfig[*event.Command, *event.CommandOutcome]{
		bus: b, kind: accountKind, subject: event.AccountSubject(partition), timeout: b.cfg.AdmitTimeout, gated: true,
		queueBytes: writeQueueBytes,
		encode: func(number uint64, items []*item[*event.Command, *event.CommandOutcome]) ([]byte, error) {
			batch := event.CommandBatch{
				Source: source, Number: number,
				StampMs: b.Now().UnixMilli(), OffsetMs: b.cfg.Offset.Milliseconds(),
				Commands: make([]*event.Command, len(items)),
			}
			for i, it := range items {
				batch.Commands[i] = it.value
			}
			return event.Encode(&batch)
		},
		size: func(c *event.Command) int { return c.SizeVT() + batchOverhead },
	})
}

// outcomeMargin is how long before the waiter gives up a write may still be folded, so that its
// outcome has time to come back; of a short WriteTimeout a quarter.
const outcomeMargin = 500 * time.Millisecond

// Write publishes r to the journal of d and returns what its fold decided. DeadlineMs is set here;
// r must not be changed afterwards. After Unavailable, or TooLarge, nothing was done and nothing
// will be: the caller voids the admission. After OutcomeUnknown the fold settles it.
func (b *Bus) Write(ctx context.Context, d event.Domain, r *event.Request) (*event.Outcome, error) {
	lanes := b.requests[d]
	if lanes == nil {
		return nil, fault.New(fault.Internal, "Internal error").Because(fmt.Errorf("write to %q: %w", d, errDomain))
	}
	margin := min(outcomeMargin, b.cfg.WriteTimeout/4)
	r.DeadlineMs = b.Now().Add(b.cfg.WriteTimeout - margin).UnixMilli()
	it := &item[*event.Request, *event.Outcome]{value: r, done: make(chan struct{})}
	l := lanes[event.ItemPartition(r.Item, b.cfg.Partitions)]
	l.start(it)
	if err := l.wait(ctx, it); err != nil {
		return nil, err
	}
	return it.answer, nil
}

// Command publishes an account command and returns its outcome. RequestId is set where it is
// empty; c must not be changed afterwards.
func (b *Bus) Command(ctx context.Context, c *event.Command) (*event.CommandOutcome, error) {
	if len(c.RequestId) == 0 {
		id := event.NewRequestID()
		c.RequestId = id[:]
	}
	it := &item[*event.Command, *event.CommandOutcome]{value: c, done: make(chan struct{})}
	l := b.commands[event.AccountPartition(event.AccountID(c.Account), b.cfg.Partitions)]
	l.start(it)
	if err := l.wait(ctx, it); err != nil {
		return nil, err
	}
	return it.answer, nil
}
