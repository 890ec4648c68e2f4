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
	"quire.dev/services/edge/internal/fault"
)

func (b *Bus) makeReaders() error {
	for _, d := range event.Documents() {
		b.known[d] = make([]atomic.Uint64, b.cfg.Partitions)
		for p := range b.cfg.Partitions {
			known := &b.known[d][p]
			reader, err := rpc.NewBatcher(b.nc, rpc.Config[*event.Read, *event.ReadAnswer]{
				Subject: d.ReadSubject(p),
				Timeout: b.cfg.ReadTimeout,
				Encode: func(reads []*event.Read) ([]byte, error) {
					return event.Encode(&event.ReadBatch{NowMs: b.Now().UnixMilli(), Reads: reads, AfterSequence: known.Load()})
				},
				Size:   func(r *event.Read) int { return r.SizeVT() + batchOverhead },
				Decode: decodeReadAnswers,
			})
			if err != nil {
				return fmt.Errorf("read from %s: %w", d, err)
			}
			b.reads[d] = append(b.reads[d], reader)
		}
	}
	return nil
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
	for _, readers := range b.reads {
		for _, r := range readers {
			errs = append(errs, r.Close())
		}
	}
	return errors.Join(errs...)
}

// PendingRead is a read under way.
type PendingRead struct {
	err     error
	bus     *Bus
	reader  *rpc.Batcher[*event.Read, *event.ReadAnswer]
	read    *event.Read
	call    rpc.Future[*event.ReadAnswer]
	started time.Time
}

var errUnavailableModel = errors.New("the read model did not answer")

// StartRead asks for a document, or for the outcome kept under an idempotency id, without waiting.
// The item says which partition is asked; without one, as of a create's outcome, the idempotency id.
// r must not be changed afterwards.
func (b *Bus) StartRead(d event.Domain, r *event.Read) *PendingRead {
	readers := b.reads[d]
	if readers == nil {
		return &PendingRead{err: fault.New(fault.Internal, "Internal error").Because(fmt.Errorf("read from %q: %w", d, errDomain))}
	}
	key := []byte(r.Item)
	if r.Item == "" {
		key = r.IdempotencyId
	}
	reader := readers[event.Partition(key, b.cfg.Partitions)]
	return &PendingRead{bus: b, reader: reader, read: r, call: reader.Start(r), started: time.Now()}
}

// Found is what a read has found. Both are nil where there is nothing that the requester may see.
type Found struct {
	Document *event.Document
	Outcome  *event.Outcome // of the write with the idempotency id
}

// Wait returns what was found. It is called at most once, and may be left out when nobody wants the
// answer any more. A read changes nothing, not even what burns by being shown, so that it is asked
// again while its partition changes hands, and all its failures are Unavailable.
func (p *PendingRead) Wait(ctx context.Context) (Found, error) {
	if p.err != nil {
		return Found{}, p.err
	}
	found, err := p.wait(ctx)
	if err == nil {
		return found, nil
	}
	again := p.bus.newAgain(p.started)
	ctx, cancel := context.WithDeadline(ctx, again.last)
	defer cancel()
	for err != nil && again.wait(ctx, err) {
		p.call = p.reader.Start(p.read)
		found, err = p.wait(ctx)
	}
	if err != nil {
		return Found{}, callFault(err, false)
	}
	return found, nil
}

func (p *PendingRead) wait(ctx context.Context) (Found, error) {
	answer, err := p.call.Wait(ctx)
	switch {
	case err != nil:
		return Found{}, err
	case answer.Unavailable:
		return Found{}, errUnavailableModel
	case answer.Status != event.OutcomeStatus_OK:
		return Found{}, nil
	}
	return Found{Document: answer.Document, Outcome: answer.Outcome}, nil
}

// defaultListLimit is the page of the HTTP contract.
const defaultListLimit = 50

// List asks every partition for one page and merges them in the order of (created, id). NowMs is
// set here. Where More is set, the next page starts after ScannedPosition and ScannedId; a page
// with More may have fewer documents than asked for, when the partitions' scans ended early.
func (b *Bus) List(ctx context.Context, d event.Domain, q *event.ListRequest) (*event.ListAnswer, error) {
	if b.reads[d] == nil {
		return nil, fault.New(fault.Internal, "Internal error").Because(fmt.Errorf("list of %q: %w", d, errDomain))
	}
	if q.Limit == 0 {
		q.Limit = defaultListLimit
	}
	q.NowMs = b.Now().UnixMilli()
	payload, err := event.Encode(q)
	if err != nil {
		return nil, unavailable(err)
	}
	pages := make([]*event.ListAnswer, b.cfg.Partitions)
	err = b.scatter(ctx, b.cfg.AwayTimeout, func(ctx context.Context, p int) error {
		data, err := b.ask(ctx, d.ListSubject(p), payload, b.cfg.ReadTimeout)
		if err != nil {
			return callFault(err, false)
		}
		pages[p] = &event.ListAnswer{}
		if err := event.Decode(data, pages[p]); err != nil {
			return unavailable(err)
		}
		return nil
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
	if b.cfg.Partitions == 1 {
		return ask(ctx, 0)
	}
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

// mergePages is one page of all partitions. What lies after the place where the scan of any of them
// ended is left for the next page, since that partition may have something that comes before it.
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
