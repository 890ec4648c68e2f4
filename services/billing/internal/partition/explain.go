package partition

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"quire.dev/pkg/event"
	"quire.dev/pkg/journal"
	"quire.dev/pkg/num"
	"quire.dev/pkg/rpc"
	"quire.dev/services/billing/internal/account"
)

const (
	// explainBefore and explainAfter bound the difference between an edge's clock and the journal's. A request's id holds the
	// edge's time.
	explainBefore = 5 * time.Minute
	explainAfter  = 15 * time.Minute
	// Nearly all requests are found between atOnceBefore and atOnceAfter, and nearly all others between nearBefore and
	// nearAfter. These ranges are searched first: a busy journal has thousands of messages a second.
	atOnceBefore = 200 * time.Millisecond
	atOnceAfter  = 2 * time.Second
	nearBefore   = 5 * time.Second
	nearAfter    = time.Minute
	// maxCoupled bounds the other principals that the decision about a request may depend on.
	maxCoupled = 16

	maxExplanations   = 64               // of a partition, waiting or running
	maxKeptAnswers    = 4096             // of a partition
	explainsPerMinute = 120              // started by one account; operators have no limit
	keptAnswer        = time.Minute      // how long a final explanation is cached
	moment            = time.Second / 2  // how long a query waits before its result is reported as pending
	maxWaiting        = queryWorkers / 4 // concurrent waiting queries, which take workers from the others

	justNow = 3 * time.Second // age of a request up to which its settlement, some 25 ms after the answer, is waited for
)

// explainKey identifies an explanation. The asker is an account, or 0 for an operator.
type explainKey struct {
	asker   uint64
	request event.RequestID
	run     event.RequestID // as ExplainQuery.run
}

// explanation is one that is queued, running or finished.
type explanation struct {
	task
	answer *event.ExplainAnswer // nil: no such request
	final  bool                 // the answer can't change any more
}

// explanations are a partition's explanations. An account has one at a time, since each folds a part of the journal.
type explanations struct {
	*tasks
	jobs  map[explainKey]*explanation
	begun map[uint64]int // number begun in the current minute, by asker
	since time.Time
}

func newExplanations() *explanations {
	return &explanations{tasks: newTasks(), jobs: map[explainKey]*explanation{}, begun: map[uint64]int{}}
}

// refusal is why an explanation was not begun.
type refusal struct {
	status     event.QueryStatus
	retryAfter time.Duration
}

// begin begins an explanation, or returns the existing one.
func (e *explanations) begin(key explainKey, now time.Time, run func(context.Context, *explanation)) (*explanation, *refusal) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.tidy(now)
	if job := e.jobs[key]; job != nil && (!job.over() || job.err == nil && (job.final || !job.taken)) {
		return job, nil
	}
	under := 0
	for other, job := range e.jobs {
		if job.over() {
			continue
		}
		under++
		if other.asker == key.asker {
			return nil, &refusal{status: event.QueryStatus_QUERY_BUSY}
		}
	}
	if under >= maxExplanations {
		return nil, &refusal{status: event.QueryStatus_QUERY_BUSY}
	}
	if key.asker != 0 {
		if e.begun[key.asker] >= explainsPerMinute {
			return nil, &refusal{event.QueryStatus_QUERY_LIMITED, e.since.Add(time.Minute).Sub(now)}
		}
		e.begun[key.asker]++
	}
	job := &explanation{task: newTask()}
	e.jobs[key] = job
	// Its beginning counts as its end: it is kept for a minute at most.
	e.start(&job.task, func() time.Time { return now }, func(ctx context.Context) { run(ctx, job) })
	return job, nil
}

// tidy forgets finished explanations, and begins a new minute. It requires mu.
func (e *explanations) tidy(now time.Time) {
	if age := now.Sub(e.since); age >= time.Minute || age < 0 {
		e.since = now
		clear(e.begun)
	}
	for key, job := range e.jobs {
		if job.over() && (job.taken && !job.final || now.Sub(job.ended) >= keptAnswer || len(e.jobs) > maxKeptAnswers) {
			delete(e.jobs, key)
		}
	}
}

// explain returns how a request was decided. It replays the journal around the time in the request's id, in a separate queue.
// If that takes more than a moment the asker polls.
func (p *Partition) explain(ctx context.Context, id event.AccountID, q *event.ExplainQuery) (*event.QueryAnswer, error) {
	request, err := event.RequestIDFrom(q.GetRequestId())
	if err != nil {
		return nil, &rpc.Error{Code: codeMalformed, Message: err.Error()}
	}
	key := explainKey{asker: uint64(id), request: request}
	if len(q.GetRun()) > 0 {
		if key.run, err = event.RequestIDFrom(q.Run); err != nil {
			return nil, &rpc.Error{Code: codeMalformed, Message: err.Error()}
		}
	}
	if q.GetAnyAccount() {
		key.asker = 0
	}
	job, refused := p.explanations.begin(key, p.deps.Clock(), func(ctx context.Context, job *explanation) {
		job.err = p.explainTo(ctx, job, key, p.awaitSettled(ctx, key))
	})
	if refused != nil {
		answer := status(refused.status)
		answer.Answer = &event.QueryAnswer_Progress{Progress: &event.Progress{
			Instance: p.cfg.Instance, RetryAfterSeconds: num.Uint32((refused.retryAfter + time.Second - 1) / time.Second),
		}}
		return answer, nil
	}
	if !p.await(ctx, &job.task, q.GetFollow()) {
		return p.pending(&job.task, false), ctx.Err()
	}
	p.explanations.take(&job.task)
	if job.err != nil {
		return nil, fmt.Errorf("explain: %w", job.err)
	}
	if job.answer == nil {
		return status(event.QueryStatus_QUERY_NOT_FOUND), nil
	}
	answer := status(event.QueryStatus_QUERY_OK)
	answer.Answer = &event.QueryAnswer_Explain{Explain: job.answer}
	return answer, nil
}

// await waits for a task: for a moment, or as long as the asker does, but not at all if too many are waiting. It reports
// whether the task has ended.
func (p *Partition) await(ctx context.Context, t *task, follows bool) bool {
	if follows {
		select {
		case p.waiting <- struct{}{}:
			defer func() { <-p.waiting }()
		default:
			return t.over()
		}
		limited, cancel := context.WithTimeout(ctx, moment)
		defer cancel()
		ctx = limited
	}
	select {
	case <-t.done:
		return true
	case <-ctx.Done():
		return t.over()
	}
}

func (p *Partition) pending(t *task, again bool) *event.QueryAnswer {
	answer := status(event.QueryStatus_QUERY_PENDING)
	answer.Answer = &event.QueryAnswer_Progress{Progress: &event.Progress{
		Instance: p.cfg.Instance, Done: t.read.Load(), Total: max(t.total.Load(), t.read.Load()), Again: again,
	}}
	return answer
}

// awaitSettled waits for the settlement of the asker's own request if it was decided a moment ago, so that an explanation right
// after an answer is complete. It returns the sequence that the explanation must reach.
func (p *Partition) awaitSettled(ctx context.Context, key explainKey) (last uint64) {
	ctx, cancel := context.WithTimeout(ctx, justNow)
	defer cancel()
	p.awaitFold(ctx, func() bool {
		since, open := p.fold.OpenSince(event.AccountID(key.asker), key.request)
		last = p.fold.Sequence()
		return !open || p.now().UnixMilli()-since > justNow.Milliseconds()
	})
	return last
}

// explainTo explains the asker's own request, or any one for an operator. It keeps only the request's principal in memory,
// whatever the size of the partition.
func (p *Partition) explainTo(ctx context.Context, job *explanation, key explainKey, last uint64) error {
	release, err := take(ctx, p.deps.Turns.explanations)
	if err != nil {
		return err
	}
	defer release()
	found, err := p.locate(ctx, &job.task, key.request, last)
	if err != nil || found == nil || key.asker != 0 && (found.anonymous || found.principal != key.asker) {
		return err
	}
	searched := job.read.Load()
	err = withCoupled(found.principal, func(together map[uint64]bool) (err error) {
		job.answer, job.final, err = p.retrace(ctx, &job.task, key.request, found.sequence, last, together)
		return err
	})
	if err == nil && job.answer != nil {
		job.answer.Stream, job.answer.Folded = p.stream, job.read.Load()-searched
		p.mu.Lock()
		job.answer.Losses = p.fold.LossesSince(job.answer.QuotaKey, job.answer.TimeMs)
		p.mu.Unlock()
	}
	return err
}

// withCoupled calls fold with the principals that the decisions about one depend on, as far as they are known: it is called again with each
// one that its CoupledError names.
func withCoupled(principal uint64, fold func(together map[uint64]bool) error) (err error) {
	together := map[uint64]bool{principal: true}
	for range maxCoupled {
		err = fold(together)
		var coupled *account.CoupledError
		if !errors.As(err, &coupled) {
			break
		}
		together[uint64(coupled.Other)] = true
	}
	return err
}

// located is the position of a request's first decision.
type located struct {
	sequence  uint64
	principal uint64
	anonymous bool
}

// span is a range of messages, including both ends.
type span struct{ first, last uint64 }

// locate finds the first admission of a request, or returns nil: immediately for an id older than the journal or from the
// future, after reading the messages of 20 minutes for any other.
func (p *Partition) locate(ctx context.Context, t *task, request event.RequestID, last uint64) (*located, error) {
	made := timeOf(request)
	if made.Year() > 9999 { // impossible in a journal
		return nil, nil
	}
	var at [6]uint64
	for i, d := range []time.Duration{-explainBefore, -nearBefore, -atOnceBefore, atOnceAfter, nearAfter, explainAfter} {
		sequence, err := p.journal.SeekTime(ctx, made.Add(d))
		if err != nil {
			return nil, err
		}
		at[i] = min(sequence, last+1)
	}
	t.total.Store(at[5] - at[0])
	for _, s := range []span{{at[2], at[3]}, {at[1], at[2]}, {at[3], at[4]}, {at[0], at[1]}, {at[4], at[5]}} {
		if s.first >= s.last {
			continue
		}
		found, err := p.search(ctx, t, request, s)
		if err != nil || found != nil {
			return found, err
		}
	}
	return nil, nil
}

// search reads the messages of a range, except the last, until one has an admission of the request.
func (p *Partition) search(ctx context.Context, t *task, request event.RequestID, s span) (found *located, err error) {
	err = p.journal.Replay(ctx, s.first-1, s.last-1, func(m journal.Message) error {
		t.read.Add(1)
		if m.Subject != event.UsageSubject(p.cfg.Partition) || !bytes.Contains(m.Data, request[:]) {
			return nil
		}
		var batch event.UsageBatch
		if batch.UnmarshalVT(m.Data) != nil {
			return nil // skipped by every fold
		}
		for _, a := range batch.Admissions {
			if bytes.Equal(a.RequestId, request[:]) {
				found = &located{sequence: m.Sequence, principal: a.Account, anonymous: a.Anonymous}
				return errEnough
			}
		}
		return nil
	}, nil)
	if errors.Is(err, errEnough) {
		err = nil
	}
	return found, err
}

// errEnough ends a replay early.
var errEnough = errors.New("enough was read")

// retrace folds the messages of some principals from the last snapshot before a request until its decision is final.
func (p *Partition) retrace(ctx context.Context, t *task, request event.RequestID, decided, last uint64, together map[uint64]bool) (
	answer *event.ExplainAnswer, final bool, err error,
) {
	fold, err := p.partBefore(ctx, decided, together)
	if err != nil {
		return nil, false, err
	}
	t.total.Store(t.read.Load() + decided - fold.Sequence())
	trace := fold.Watch(request)
	latest := timeOf(request).Add(explainAfter)
	err = p.journal.Replay(ctx, fold.Sequence(), last, func(m journal.Message) error {
		if trace.Answer() == nil && m.Sequence > decided && m.Time.After(latest) || trace.Done(fold) {
			return errEnough
		}
		t.read.Add(1)
		if _, err := fold.Apply(p.message(m)); err != nil && !errors.Is(err, account.ErrUndecodable) {
			return err
		}
		timed(trace.Answer(), m.Sequence, m.Time.UnixMilli()+fold.Offset())
		return nil
	}, nil)
	if err != nil && !errors.Is(err, errEnough) {
		return nil, false, err
	}
	return trace.Answer(), trace.Done(fold), nil
}

// partBefore returns a fold of some principals from the last snapshot before a message.
func (p *Partition) partBefore(ctx context.Context, sequence uint64, together map[uint64]bool) (*account.Fold, error) {
	fold, err := p.snapshots.NewestPart(ctx, sequence-1, func(id uint64) bool { return together[id] })
	if err != nil {
		return nil, err
	}
	fold.DecideOnly()
	return fold, fold.Know(p.cfg.Rules)
}

// timed adds a message's time to an answer that refers to the message.
func timed(answer *event.ExplainAnswer, sequence uint64, millis int64) {
	if answer == nil {
		return
	}
	if answer.Sequence == sequence {
		answer.StoredMs = millis
	}
	if answer.SettlementSequence == sequence {
		answer.SettlementStoredMs = millis
	}
}
