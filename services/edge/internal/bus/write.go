package bus

import (
	"context"
	"time"

	"quire.dev/pkg/event"
)

type (
	writeLane   = lane[*event.Request, *event.Outcome]
	commandLane = lane[*event.Command, *event.CommandOutcome]
)

const (
	// batchOverhead is the number of bytes that a batch needs for an item besides the item itself.
	batchOverhead = 8
	// writeQueueBytes bounds the waiting writes. Their number is no bound: each holds up to 64 KiB of content.
	writeQueueBytes = 64 << 20
	// outcomeMargin is the time that an outcome has to come back: a write is not folded later than this before its
	// caller gives up. With a short WriteTimeout it is a quarter of that.
	outcomeMargin = 500 * time.Millisecond
)

func (b *Bus) newWriteLane(d event.Domain, partition int) (*writeLane, error) {
	source := b.source(partition)
	return newLane(laneConfig[*event.Request, *event.Outcome]{
		bus: b, kind: string(d), subject: d.RequestSubject(partition), timeout: b.cfg.WriteTimeout,
		queueBytes: writeQueueBytes,
		encode: func(number uint64, items []*item[*event.Request, *event.Outcome]) ([]byte, error) {
			return event.Encode(&event.RequestBatch{
				Source: source, Number: number, StampMs: b.Now().UnixMilli(), OffsetMs: b.cfg.Offset.Milliseconds(),
				Requests: values(items),
			})
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
			return event.Encode(&event.CommandBatch{
				Source: source, Number: number, StampMs: b.Now().UnixMilli(), OffsetMs: b.cfg.Offset.Milliseconds(),
				Commands: values(items),
			})
		},
		size: func(c *event.Command) int { return c.SizeVT() + batchOverhead },
	})
}

func values[T, A any](items []*item[T, A]) []T {
	out := make([]T, len(items))
	for i, it := range items {
		out[i] = it.value
	}
	return out
}

// Write publishes r to the journal of d and returns the outcome that the fold decided. DeadlineMs is set here;
// r must not be changed afterwards. After Unavailable, or TooLarge, nothing was done and nothing
// will be: the caller voids the admission. After OutcomeUnknown the fold settles it.
func (b *Bus) Write(ctx context.Context, d event.Domain, r *event.Request) (*event.Outcome, error) {
	margin := min(outcomeMargin, b.cfg.WriteTimeout/4)
	r.DeadlineMs = b.Now().Add(b.cfg.WriteTimeout - margin).UnixMilli()
	return b.documentsOf(d, []byte(r.Item)).writes.do(ctx, r)
}

// Command publishes an account command and returns its outcome. A command without an account goes to
// partition 0. RequestId is set where it is empty; c must not be changed afterwards.
func (b *Bus) Command(ctx context.Context, c *event.Command) (*event.CommandOutcome, error) {
	if len(c.RequestId) == 0 {
		id := event.NewRequestID()
		c.RequestId = id[:]
	}
	partition := 0
	if c.Account != 0 {
		partition = event.AccountPartition(event.AccountID(c.Account), b.cfg.Partitions)
	}
	return b.commands[partition].do(ctx, c)
}
