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

// PendingRead is a read under way.
type PendingRead struct {
	bus     *Bus
	reader  *rpc.Batcher[*event.Read, *event.ReadAnswer]
	read    *event.Read
	answer  *event.ReadAnswer // of Shared.Reads; nil: call has it
	call    rpc.Future[*event.ReadAnswer]
	started time.Time
}

// StartRead asks for a document, or for the outcome kept under an idempotency id, without waiting.
// It asks the partition of the item. Without an item, as for the outcome of a create, it asks the partition
// of the idempotency id. r must not be changed afterwards.
func (b *Bus) StartRead(d event.Domain, r *event.Read) *PendingRead {
	key := []byte(r.Item)
	if r.Item == "" {
		key = r.IdempotencyId
	}
	partition := event.Partition(key, b.cfg.Partitions)
	from := b.documents[d][partition]
	p := &PendingRead{bus: b, reader: from.reads, read: r, started: time.Now()}
	if b.cfg.Shared.Reads != nil {
		p.answer = b.cfg.Shared.Reads(d, partition, r, from.known.Load(), b.Now().UnixMilli())
	}
	if p.answer == nil {
		p.call = p.reader.Start(r)
	}
	return p
}

// Found is the result of a read. It is zero if there is nothing that the requester may see. What it points to may be shared and
// must not be changed.
type Found struct {
	Document *event.Document
	Outcome  *event.Outcome    // of the write with the idempotency id
	Versions []*event.Document // of Read.ListVersions
	More     bool              // there are earlier versions
	NotOwner bool              // the requester may read the document, and not list its versions
}

// Wait returns the result. It is called at most once, and need not be called if the answer is not wanted any
// more. A read changes nothing: even a paste that burns when it is shown stays. So the read is repeated while its
// partition moves to another instance, and all its failures are Unavailable.
func (p *PendingRead) Wait(ctx context.Context) (Found, error) {
	found, err := p.wait(ctx)
	if err == nil {
		return found, nil
	}
	last := p.started.Add(p.bus.cfg.AwayTimeout)
	retry := p.bus.newRetry(p.started, last)
	ctx, cancel := context.WithDeadline(ctx, last)
	defer cancel()
	for err != nil && retry.wait(ctx, err) {
		p.answer, p.call = nil, p.reader.Start(p.read)
		found, err = p.wait(ctx)
	}
	if err != nil {
		return Found{}, callFault(err, false)
	}
	return found, nil
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
	case answer.Status != event.OutcomeStatus_OK:
		return Found{NotOwner: answer.Status == event.OutcomeStatus_NOT_OWNER}, nil
	case p.read.ListVersions > 0 && answer.Document != nil:
		return Found{}, errAnswer // of an instance from before there were lists of versions
	}
	return Found{Document: answer.Document, Outcome: answer.Outcome, Versions: answer.Versions, More: answer.MoreVersions}, nil
}

// defaultListLimit is the number of documents in a page if the client names none.
const defaultListLimit = 50

// List asks every partition for one page and merges them in the order of (created, id). NowMs is
// set here. If More is set, the next page starts after ScannedPosition and ScannedId. A page
// with More may have fewer documents than asked for, if the partitions' scans ended early.
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

// position is a place in the order of a list.
type position struct {
	listed int64 // Document.ListPosition
	id     string
}

// compare is positive where p comes after o in ascending order.
func (p position) compare(o position) int {
	return cmp.Or(cmp.Compare(p.listed, o.listed), strings.Compare(p.id, o.id))
}

func positionOf(d *event.Document) position { return position{d.ListPosition(), d.Id} }

// mergePages makes one page of the pages of all partitions. If a partition's scan ended early, it may have more
// documents after that place. So documents after the first such place are left for the next page.
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
