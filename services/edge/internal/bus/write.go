package bus

import (
	"context"
	"time"

	"quire.dev/pkg/event"
)

type (
	writeLane   = lane[*event.Request, *event.Outcome]
	writeItem   = item[*event.Request, *event.Outcome]
	commandLane = lane[*event.Command, *event.CommandOutcome]
	commandItem = item[*event.Command, *event.CommandOutcome]
)

const (
	// batchOverhead is the number of bytes that a batch needs for an item besides the item itself.
	batchOverhead = 8
	// writeQueueBytes bounds the waiting writes. Their number is no bound: each holds up to 64 KiB of content.
	writeQueueBytes = 64 << 20
	// outcomeMargin is the time reserved for an outcome to return: a write is folded at least this long before its caller
	// gives up. It is at most a quarter of WriteTimeout.
	outcomeMargin = 500 * time.Millisecond
)

func (b *Bus) newWriteLane(d event.Domain, partition int, j *journalWatch) (*writeLane, error) {
	source := b.source(partition)
	return newLane(laneConfig[*event.Request, *event.Outcome]{
		bus: b, journal: j, kind: string(d), subject: d.RequestSubject(partition), timeout: b.cfg.WriteTimeout,
		queueBytes: writeQueueBytes,
		encode: func(number uint64, items []*writeItem) ([]byte, error) {
			return event.Encode(&event.RequestBatch{
				Source: source, Number: number, StampMs: b.Now().UnixMilli(), OffsetMs: b.cfg.Offset.Milliseconds(),
				Requests: values(items),
			})
		},
		size: func(r *event.Request) int { return r.SizeVT() + batchOverhead },
	})
}

func (b *Bus) newCommandLane(partition int, j *journalWatch) (*commandLane, error) {
	source := b.source(partition)
	return newLane(laneConfig[*event.Command, *event.CommandOutcome]{
		bus: b, journal: j, kind: accountKind, subject: event.AccountSubject(partition), timeout: b.cfg.AdmitTimeout, gated: true,
		queueBytes: writeQueueBytes,
		encode: func(number uint64, items []*commandItem) ([]byte, error) {
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

// Write is a request to a document service. It is for one call of Bus.Write, and the bus may hold it for longer.
type Write struct {
	Request event.Request
	Timing  *Timing // may be nil
	item    writeItem
}

// Write publishes w's request to the journal of d and returns the fold's outcome. It sets DeadlineMs; w must not be used
// afterwards. After Unavailable or TooLarge, nothing was or will be done, and the caller voids the admission. After
// OutcomeUnknown the fold settles it.
func (b *Bus) Write(ctx context.Context, d event.Domain, w *Write) (*event.Outcome, error) {
	r := &w.Request
	margin := min(outcomeMargin, b.cfg.WriteTimeout/4)
	r.DeadlineMs = b.Now().Add(b.cfg.WriteTimeout - margin).UnixMilli()
	w.item.value = r
	lane := b.documentsOf(d, []byte(r.Item)).writes
	if w.Timing == nil {
		w.Timing = new(Timing)
	}
	w.item.span = w.Timing.child("write")
	outcome, err := lane.do(ctx, &w.item)
	lane.waited(&w.item, &w.Timing.Write)
	return outcome, err
}

// Command publishes an account command and returns its outcome. A command without an account goes to
// partition 0. RequestId is set if empty; c must not be changed afterwards.
func (b *Bus) Command(ctx context.Context, c *event.Command) (*event.CommandOutcome, error) {
	if len(c.RequestId) == 0 {
		id := event.NewRequestID()
		c.RequestId = id[:]
	}
	partition := 0
	if c.Account != 0 {
		partition = event.AccountPartition(event.AccountID(c.Account), b.cfg.Partitions)
	}
	return b.commands[partition].do(ctx, &commandItem{value: c})
}
