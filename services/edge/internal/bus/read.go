package bus

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"quire.dev/pkg/event"
	"quire.dev/pkg/rpc"
	"quire.dev/pkg/trace"
)

func (b *Bus) newReader(d event.Domain, partition int, known *atomic.Uint64) (*rpc.Batcher[*event.Read, *event.ReadAnswer], error) {
	reader, err := rpc.NewBatcher(b.nc, rpc.Config[*event.Read, *event.ReadAnswer]{
		Subject: d.ReadSubject(partition),
		Timeout: b.cfg.ReadTimeout,
		Encode: func(reads []*event.Read) ([]byte, error) {
			return event.Encode(&event.ReadBatch{NowMs: b.Now().UnixMilli(), Reads: reads, AfterSequence: known.Load()})
		},
		Size:   func(r *event.Read) int { return r.SizeVT() + batchOverhead },
		Decode: decodeReadAnswers,
	})
	if err != nil {
		return nil, fmt.Errorf("read from %s: %w", d, err)
	}
	return reader, nil
}

func decodeReadAnswers(data []byte) (answers []*event.ReadAnswer, indexes []int, err error) {
	var batch event.ReadAnswerBatch
	if err := event.Decode(data, &batch); err != nil {
		return nil, nil, err
	}
	indexes = make([]int, len(batch.Answers))
	for i, a := range batch.Answers {
		indexes[i] = int(a.Index)
	}
	return batch.Answers, indexes, nil
}

func (b *Bus) closeReaders() error {
	var errs []error
	for _, partitions := range b.documents {
		for _, d := range partitions {
			errs = append(errs, d.reads.Close())
		}
	}
	return errors.Join(errs...)
}

// PendingRead is a read in progress.
type PendingRead struct {
	bus     *Bus
	timing  *Timing     // may be nil
	span    *trace.Span // nil: the request is not traced
	reader  *rpc.Batcher[*event.Read, *event.ReadAnswer]
	read    *event.Read
	answer  *event.ReadAnswer // from Shared.Reads; nil if call has it
	call    rpc.Future[*event.ReadAnswer]
	started time.Time
	stored  bool // an outcome under the idempotency id exists
}

// StartRead asks for a document, or for the outcome kept under an idempotency id, without waiting.
// It asks the item's partition or, without an item, as for the outcome of a create, the partition of the idempotency id. r
// must not be changed afterwards. timing may be nil.
func (b *Bus) StartRead(d event.Domain, r *event.Read, timing *Timing) *PendingRead {
	key := []byte(r.Item)
	if r.Item == "" {
		key = r.IdempotencyId
	}
	partition := event.Partition(key, b.cfg.Partitions)
	from := b.documents[d][partition]
	p := &PendingRead{bus: b, timing: timing, reader: from.reads, read: r, started: time.Now(), span: timing.child("read")}
	if p.span != nil {
		r.Traceparent = p.span.Parent()
	}
	if b.cfg.Shared.Reads != nil {
		p.answer = b.cfg.Shared.Reads(d, partition, r, from.known.Load(), b.Now().UnixMilli())
	}
	if p.answer == nil {
		p.call = p.reader.Start(r)
	}
	return p
}

// Found is the result of a read; zero if there is nothing the requester may see. It may share memory and must not be
// changed.
type Found struct {
	Document *event.Document
	Outcome  *event.Outcome    // of the write with the idempotency id
	Versions []*event.Document // of Read.ListVersions
	More     bool              // earlier versions exist
	NotOwner bool              // the requester may read the document but not list its versions
}

// Wait returns the result. It may be called once, or not at all if the answer is no longer needed. A read changes nothing,
// not even of a paste that burns after reading. So it is repeated while its partition moves to another instance, and all its
// failures are Unavailable.
func (p *PendingRead) Wait(ctx context.Context) (Found, error) {
	found, err := p.wait(ctx)
	if err != nil {
		found, err = p.repeat(ctx, err)
	}
	if p.timing != nil {
		p.timing.Read += time.Since(p.started)
		p.span.End(time.Now())
	}
	return found, err
}

// repeat repeats a read that failed.
func (p *PendingRead) repeat(ctx context.Context, err error) (Found, error) {
	end := p.started.Add(p.bus.cfg.AwayTimeout)
	budget := p.bus.newBudget(p.started, end)
	ctx, cancel := context.WithDeadline(ctx, end)
	defer cancel()
	var found Found
	for err != nil && budget.spend(ctx, causeOf(err)) {
		p.answer, p.call = nil, p.reader.Start(p.read)
		found, err = p.wait(ctx)
	}
	if err != nil {
		return Found{}, callFault(err, false)
	}
	return found, nil
}

// WaitStored is Wait for the outcome of a write that billing says is served. Its service may not show it yet, so the read is
// repeated for up to a second. The outcome is nil if that was too short.
func (p *PendingRead) WaitStored(ctx context.Context) (*event.Outcome, error) {
	p.stored = true
	found, err := p.Wait(ctx)
	if errors.Is(err, errUnseen) {
		err = nil
	}
	return found.Outcome, err
}

func (p *PendingRead) wait(ctx context.Context) (Found, error) {
	answer, err := p.answer, error(nil)
	if answer == nil {
		answer, err = p.call.Wait(ctx)
	}
	switch {
	case err != nil:
		return Found{}, err
	case answer.Unavailable:
		return Found{}, errReadModel
	case p.stored && answer.Outcome == nil:
		return Found{}, errUnseen
	case answer.Status != event.OutcomeStatus_OK:
		return Found{NotOwner: answer.Status == event.OutcomeStatus_NOT_OWNER}, nil
	case p.read.ListVersions > 0 && answer.Document != nil:
		return Found{}, errAnswer // an older instance without lists of versions
	}
	return Found{Document: answer.Document, Outcome: answer.Outcome, Versions: answer.Versions, More: answer.MoreVersions}, nil
}

// defaultListLimit is the default page size.
const defaultListLimit = 50

// List asks every partition for one page and merges them by (created, id). It sets NowMs. If More is set, the next page
// starts after ScannedPosition and ScannedId; the page may then be short if scans of partitions ended early.
func (b *Bus) List(ctx context.Context, d event.Domain, q *event.ListRequest) (*event.ListAnswer, error) {
	if q.Limit == 0 {
		q.Limit = defaultListLimit
	}
	q.NowMs = b.Now().UnixMilli()
	pages := make([]*event.ListAnswer, b.cfg.Partitions)
	err := b.scatter(ctx, b.cfg.AwayTimeout, func(ctx context.Context, p int) error {
		pages[p] = &event.ListAnswer{}
		return b.ask(ctx, d.ListSubject(p), q, pages[p], b.cfg.ReadTimeout)
	})
	if err != nil {
		return nil, err
	}
	return mergePages(pages, int(q.Limit), q.Ascending), nil
}

// scatter asks all partitions at once, waits for all, and returns the first error.
func (b *Bus) scatter(ctx context.Context, timeout time.Duration, ask func(ctx context.Context, partition int) error) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	var group errgroup.Group
	for p := range b.cfg.Partitions {
		group.Go(func() error { return ask(ctx, p) })
	}
	return group.Wait()
}

// position is a position in the order of a list.
type position struct {
	listed int64 // Document.ListPosition
	id     string
}

// compare is positive if p comes after o in ascending order.
func (p position) compare(o position) int {
	return cmp.Or(cmp.Compare(p.listed, o.listed), strings.Compare(p.id, o.id))
}

func positionOf(d *event.Document) position { return position{d.ListPosition(), d.Id} }

// mergePages merges the pages of all partitions. A partition whose scan ended early may have more documents after that
// position, so documents after the first such position are left for the next page.
func mergePages(pages []*event.ListAnswer, limit int, ascending bool) *event.ListAnswer {
	direction := -1
	if ascending {
		direction = 1
	}
	after := func(a, b position) bool { return direction*a.compare(b) > 0 }

	merged := &event.ListAnswer{}
	var horizon position
	for _, page := range pages {
		merged.Documents = append(merged.Documents, page.Documents...)
		scanned := position{page.ScannedPosition, page.ScannedId}
		if page.More && (!merged.More || after(horizon, scanned)) {
			merged.More, horizon = true, scanned
		}
	}
	slices.SortFunc(merged.Documents, func(a, b *event.Document) int {
		return direction * positionOf(a).compare(positionOf(b))
	})
	if merged.More {
		beyond := slices.IndexFunc(merged.Documents, func(d *event.Document) bool { return after(positionOf(d), horizon) })
		if beyond >= 0 {
			merged.Documents = merged.Documents[:beyond]
		}
	}
	if len(merged.Documents) > limit {
		merged.Documents = merged.Documents[:limit]
		merged.More, horizon = true, positionOf(merged.Documents[limit-1])
	}
	if merged.More {
		merged.ScannedPosition, merged.ScannedId = horizon.listed, horizon.id
	}
	return merged
}
