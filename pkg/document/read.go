package document

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"quire.dev/pkg/document/fold"
	"quire.dev/pkg/event"
	"quire.dev/pkg/num"
	"quire.dev/pkg/rpc"
	"quire.dev/pkg/trace"
	"quire.dev/pkg/views"
	"quire.dev/pkg/wait"
)

// reader answers ReadBatch requests. The receiving goroutine answers from memory, and workers answer the other reads, so that a
// slow lookup delays no other batch.
type reader struct {
	*scope
	model    *readModel
	memory   *memory
	position *wait.Position
	lease    *lease
	queue    chan *readJob
	asking   atomic.Int64 // jobs waiting for a confirmation of the lease
	asked    wait.Changes // of asking
	idle     atomic.Bool  // the workers have ended: jobs are refused
	buffers  sync.Pool    // of *[]byte
}

// readJob is the part of a batch not answered from memory.
type readJob struct {
	request *rpc.Request
	batch   *event.ReadBatch
	indexes []int // not answered yet

	newest uint64 // sequence of the last change found in the read model
	missed bool   // a document was not found there

	spans trace.Spans // of the traced reads among them
}

// done ends the spans of the traced reads.
func (j *readJob) done() {
	if len(j.spans) > 0 {
		j.spans.End(time.Now())
	}
	j.spans = nil
}

func newReader(s *scope, model *readModel, memory *memory, position *wait.Position, lease *lease) *reader {
	r := &reader{scope: s, model: model, memory: memory, position: position, lease: lease, queue: make(chan *readJob, s.cfg.Bounds.ReadQueue)}
	r.buffers.New = func() any { return new([]byte) }
	return r
}

// start begins the workers. stop, which must follow the last receive, waits until they have answered the accepted jobs; it
// refuses the jobs left after drainWait, and all jobs once ctx has ended.
func (r *reader) start(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	r.idle.Store(false)
	closing := make(chan struct{}) // closed once no more jobs come
	var workers sync.WaitGroup
	for range r.cfg.Bounds.ReadWorkers {
		workers.Go(func() { r.work(ctx, closing) })
	}
	return func() {
		confirming, stop := context.WithTimeout(ctx, drainWait)
		_ = r.asked.Until(confirming, func() bool { return r.asking.Load() == 0 }) // the only error is confirming's
		stop()
		close(closing)
		defer time.AfterFunc(drainWait, cancel).Stop()
		workers.Wait()
		cancel()
		r.idle.Store(true)
		r.refuseQueued()
	}
}

// receive runs on the subscription's goroutine and must not block.
func (r *reader) receive(request *rpc.Request) {
	batch := &event.ReadBatch{}
	if err := event.Decode(request.Payload, batch); err != nil {
		r.sent(request.Fail(&rpc.Error{Code: rpc.CodeInternal, Message: err.Error()}))
		return
	}
	if batch.NowMs == 0 {
		batch.NowMs = r.now()
	}
	job := &readJob{request: request, batch: batch}
	if r.deps.Traces != nil {
		for _, read := range batch.Reads {
			if span := r.beginRead(read); span != nil {
				job.spans = append(job.spans, span)
			}
		}
	}
	held := r.lease.held() // before the state is read
	if !held || batch.AfterSequence > r.position.Get() {
		for i := range batch.Reads {
			job.indexes = append(job.indexes, i)
		}
	} else {
		answers := r.newAnswers(request, len(batch.Reads))
		for i, read := range batch.Reads {
			if !r.fromMemory(answers, batch.NowMs, uint32(i), read) {
				job.indexes = append(job.indexes, i)
			}
		}
		r.metrics.fromMemory.Add(float64(len(batch.Reads) - len(job.indexes)))
		answers.flush()
	}
	switch {
	case len(job.indexes) == 0:
		job.done()
	case held:
		r.enqueue(job)
	default:
		r.confirm(job)
	}
}

// readNow answers a read on the goroutine of an edge in the same process. See Engine.ReadNow.
func (r *reader) readNow(read *event.Read, after uint64, nowMS int64) *event.ReadAnswer {
	if !r.lease.held() || after > r.position.Get() {
		return nil
	}
	span := r.beginRead(read)
	var one struct { // one allocation
		space [1]event.ReadAnswer
		list  [1]*event.ReadAnswer
	}
	answers := answers{r: r, space: one.space[:], batch: event.ReadAnswerBatch{Answers: one.list[:0]}}
	if !r.fromMemory(&answers, nowMS, 0, read) || r.lease.isBarred() {
		return nil
	}
	r.metrics.fromMemory.Inc()
	span.End(time.Now())
	return &one.space[0]
}

// confirm queues a job once the journal has confirmed how far the state must be for it. Without a confirmation it leaves the
// job unanswered, like an instance that has lost its connection: the edge then retries for longer than after a refusal.
func (r *reader) confirm(job *readJob) {
	r.asking.Add(1)
	done := func() {
		r.asking.Add(-1)
		r.asked.Notify()
	}
	r.lease.confirm(
		func(sequence uint64) {
			defer done()
			job.batch.AfterSequence = max(job.batch.AfterSequence, sequence)
			r.enqueue(job)
		},
		func(err error) {
			defer done()
			r.log.Debug("reads are not answered", "reads", len(job.indexes), "error", err)
		},
	)
}

// enqueue passes a job to the workers. After they have ended it refuses the job: a confirmation may be late.
func (r *reader) enqueue(job *readJob) {
	select {
	case r.queue <- job:
	default:
		r.refuse(job)
	}
	if r.idle.Load() {
		r.refuseQueued()
	}
}

func (r *reader) refuseQueued() {
	for {
		select {
		case job := <-r.queue:
			r.refuse(job)
		default:
			return
		}
	}
}

// refuse answers that the reads are unavailable.
func (r *reader) refuse(job *readJob) {
	r.metrics.unavailable.Add(float64(len(job.indexes)))
	defer job.done()
	answers := r.newAnswers(job.request, len(job.indexes))
	for _, i := range job.indexes {
		a := answers.next(num.Uint32(i), 0)
		a.Unavailable = true
	}
	answers.flush()
}

// fromMemory answers one read. It returns false if the read needs the read model.
func (r *reader) fromMemory(answers *answers, nowMS int64, index uint32, read *event.Read) bool {
	if len(read.IdempotencyId) > 0 {
		id, ok := idempotencyID(read.IdempotencyId)
		if !ok {
			answers.next(index, 0).Status = event.OutcomeStatus_NOT_FOUND
			return true
		}
		if o := r.memory.outcome(id); o != nil {
			answers.outcome(index, o, nowMS)
			return true
		}
		return false
	}
	if !event.ValidItemID(read.Item) {
		answers.next(index, 0).Status = event.OutcomeStatus_NOT_FOUND
		return true
	}
	if read.ListVersions > 0 {
		return false
	}
	current, _ := r.memory.get(read.Item)
	if current == nil {
		return false
	}
	if !earlier(current.doc, read, nowMS) {
		answers.document(index, current, read, nowMS)
		return true
	}
	version, _ := r.memory.get(versionID(read.Item, read.Version))
	if version == nil {
		return false
	}
	answers.version(index, current.doc, version, read)
	return true
}

// earlier reports whether the read asks for an earlier version that the reader may see.
func earlier(current *event.Document, read *event.Read, nowMS int64) bool {
	return current != nil && read.Version != 0 && read.Version != current.Version &&
		fold.MayRead(current, fold.Reader{Account: read.Requester, Version: read.Version, NowMS: nowMS})
}

func idempotencyID(b []byte) (id event.IdempotencyID, ok bool) {
	if len(b) != len(id) {
		return id, false
	}
	return event.IdempotencyID(b), true
}

// work answers jobs until closing is closed and the queue is empty. The queue itself is never closed: a receive that outlasts
// the server's drain may still send to it.
func (r *reader) work(ctx context.Context, closing <-chan struct{}) {
	for {
		select {
		case job := <-r.queue:
			r.do(ctx, job)
		case <-closing:
			select {
			case job := <-r.queue:
				r.do(ctx, job)
			default:
				return
			}
		}
	}
}

func (r *reader) do(ctx context.Context, job *readJob) {
	ctx, cancel := context.WithTimeout(ctx, min(r.cfg.Bounds.ReadWait, time.Until(job.request.Deadline)))
	defer cancel()
	switch err := r.load(ctx, job); {
	case errors.Is(err, errLate) && !errors.Is(err, context.Canceled) && !r.lease.alone: // as in confirm
		r.log.Debug("reads are not answered", "reads", len(job.indexes), "error", err)
	case err != nil:
		r.model.failBehind(err)
		if !errors.Is(err, context.Canceled) {
			r.metrics.failures.WithLabelValues("read").Inc()
			r.log.Warn("reads were not answered", "reads", len(job.indexes), "error", err)
		}
		r.refuse(job)
	}
}

// load answers a job with one query each for documents, earlier versions, lists of versions and outcomes, as needed. It answers
// all reads, or none and returns an error.
func (r *reader) load(ctx context.Context, job *readJob) error {
	for {
		if err := r.position.Until(ctx, job.batch.AfterSequence); err != nil {
			return fmt.Errorf("%w: wait for message %d: %w", errLate, job.batch.AfterSequence, err)
		}
		begun := time.Now()
		found, err := r.find(ctx, job)
		job.spans.Part("load", begun)
		if err != nil {
			return err
		}
		ahead, err := r.ahead(ctx, job)
		if err != nil {
			return err
		}
		if !ahead {
			r.answer(job, found)
			job.done()
			return nil
		}
	}
}

// ahead reports whether the job has read the work of a replica that projects ahead of this one. Later reads would then show an
// older state from memory. So the job waits until this one has caught up, and reads again.
func (r *reader) ahead(ctx context.Context, job *readJob) (bool, error) {
	newest := job.newest
	if job.missed && !r.lease.alone {
		checkpoint, err := r.model.checkpoint(ctx) // a missing document may be deleted, which no sequence reveals
		if err != nil {
			return false, err
		}
		newest = max(newest, checkpoint)
	}
	job.newest, job.missed = 0, false
	if newest <= r.position.Get() {
		return false, nil
	}
	job.batch.AfterSequence = max(job.batch.AfterSequence, newest)
	return true, nil
}

// found holds the existing objects requested by a job.
type found struct {
	documents map[string]*entry
	versions  map[string]*entry
	heads     map[string]*event.Document // of the earlier versions to list
	outcomes  map[event.IdempotencyID]*event.Outcome
}

func (r *reader) find(ctx context.Context, job *readJob) (f found, err error) {
	if f.documents, err = r.loadDocuments(ctx, job); err != nil {
		return f, err
	}
	if f.versions, err = r.loadVersions(ctx, job, f.documents); err != nil {
		return f, err
	}
	if f.heads, err = r.loadListed(ctx, job, f.documents); err != nil {
		return f, err
	}
	f.outcomes, err = r.loadOutcomes(ctx, job)
	return f, err
}

// loadCurrent is readModel.loadCurrent, and records its findings in the job.
func (r *reader) loadCurrent(ctx context.Context, job *readJob, collection string, ids []string, parts views.Parts, take func(views.Doc) error) error {
	missing := len(ids)
	err := r.model.loadCurrent(ctx, collection, ids, parts, func(d views.Doc) error {
		missing--
		job.newest = max(job.newest, d.Seq)
		return take(d)
	})
	job.missed = job.missed || missing > 0 && collection == r.names.documents
	return err
}

func (r *reader) answer(job *readJob, f found) {
	answers := r.newAnswers(job.request, len(job.indexes))
	for _, i := range job.indexes {
		read := job.batch.Reads[i]
		if id, ok := idempotencyID(read.IdempotencyId); ok {
			answers.outcome(num.Uint32(i), f.outcomes[id], job.batch.NowMs)
			continue
		}
		current := f.documents[read.Item]
		if current == nil {
			current = &entry{}
		}
		switch {
		case read.ListVersions > 0:
			answers.versions(num.Uint32(i), current.doc, f.heads, read, job.batch.NowMs)
		case earlier(current.doc, read, job.batch.NowMs):
			answers.version(num.Uint32(i), current.doc, f.versions[versionID(read.Item, read.Version)], read)
		default:
			answers.document(num.Uint32(i), current, read, job.batch.NowMs)
		}
	}
	r.metrics.fromView.Add(float64(len(job.indexes)))
	answers.flush()
}

func (r *reader) loadDocuments(ctx context.Context, job *readJob) (map[string]*entry, error) {
	documents := map[string]*entry{}
	marks := map[string]uint64{}
	var ids []string
	for _, i := range job.indexes {
		read := job.batch.Reads[i]
		if len(read.IdempotencyId) > 0 || !event.ValidItemID(read.Item) {
			continue
		}
		if _, seen := marks[read.Item]; seen || documents[read.Item] != nil {
			continue
		}
		e, mark := r.memory.get(read.Item)
		if e != nil {
			documents[read.Item] = e
			continue
		}
		marks[read.Item] = mark
		ids = append(ids, read.Item)
	}
	err := r.loadCurrent(ctx, job, r.names.documents, ids, views.Full, func(d views.Doc) error {
		doc, err := readDocument(d)
		if err != nil {
			return err
		}
		e := r.loadedEntry(d.ID, doc)
		documents[d.ID] = e
		if d.Seq <= r.position.Get() {
			r.memory.fill(d.ID, e, marks[d.ID])
		}
		return nil
	})
	return documents, err
}

func (r *reader) loadVersions(ctx context.Context, job *readJob, documents map[string]*entry) (map[string]*entry, error) {
	versions := map[string]*entry{}
	var ids []string
	for _, i := range job.indexes {
		read := job.batch.Reads[i]
		current := documents[read.Item]
		if current == nil || len(read.IdempotencyId) > 0 || !earlier(current.doc, read, job.batch.NowMs) {
			continue
		}
		id := versionID(read.Item, read.Version)
		if e, _ := r.memory.get(id); e != nil {
			versions[id] = e
			continue
		}
		ids = append(ids, id)
	}
	slices.Sort(ids)
	err := r.loadCurrent(ctx, job, r.names.versions, slices.Compact(ids), views.Full, func(d views.Doc) error {
		doc, err := readDocument(d)
		if err == nil {
			versions[d.ID] = r.loadedEntry(d.ID, doc)
		}
		return err
	})
	return versions, err
}

func (r *reader) loadOutcomes(ctx context.Context, job *readJob) (map[event.IdempotencyID]*event.Outcome, error) {
	outcomes := map[event.IdempotencyID]*event.Outcome{}
	var ids []string
	for _, i := range job.indexes {
		id, ok := idempotencyID(job.batch.Reads[i].IdempotencyId)
		if !ok {
			continue
		}
		if o := r.memory.outcome(id); o != nil {
			outcomes[id] = o
			continue
		}
		ids = append(ids, outcomeID(id))
	}
	slices.Sort(ids)
	err := r.loadCurrent(ctx, job, r.names.outcomes, slices.Compact(ids), views.Heads, func(d views.Doc) error {
		id, o, err := readOutcome(d)
		outcomes[id] = o
		return err
	})
	return outcomes, err
}

func (r *reader) sent(err error) {
	if err != nil {
		r.log.Debug("answer was not sent", "error", err)
	}
}
