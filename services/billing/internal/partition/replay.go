package partition

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"quire.dev/pkg/event"
	"quire.dev/pkg/journal"
	"quire.dev/pkg/rpc"
	"quire.dev/services/billing/internal/account"
)

// errEnough ends a replay early.
var errEnough = errors.New("enough was folded")

// explain finds how a request was decided. It folds the journal again around the time in the request's id.
func (p *Partition) explain(ctx context.Context, id event.AccountID, q *event.ExplainQuery, last uint64) (*event.QueryAnswer, error) {
	request, err := event.RequestIDFrom(q.GetRequestId())
	if err != nil {
		return nil, &rpc.Error{Code: codeMalformed, Message: err.Error()}
	}
	select { // each holds a whole state in memory
	case p.explains <- struct{}{}:
		defer func() { <-p.explains }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	found, err := p.find(ctx, request, last)
	if err != nil {
		return nil, fmt.Errorf("explain: %w", err)
	}
	if found == nil || !q.GetAnyAccount() && (found.Account != uint64(id) || found.Anonymous) {
		return status(event.QueryStatus_QUERY_NOT_FOUND), nil
	}
	found.Stream = p.stream
	answer := status(event.QueryStatus_QUERY_OK)
	answer.Answer = &event.QueryAnswer_Explain{Explain: found}
	return answer, nil
}

func (p *Partition) find(ctx context.Context, request event.RequestID, last uint64) (*event.ExplainAnswer, error) {
	made := timeOf(request)
	first, err := p.journal.SeekTime(ctx, made.Add(-explainBefore))
	if err != nil {
		return nil, err
	}
	if first > last {
		return nil, nil
	}
	fold, _, err := p.snapshots.Newest(ctx, first-1)
	if err != nil {
		return nil, err
	}
	trace := fold.Watch(request)
	latest := made.Add(explainAfter)
	err = p.journal.Replay(ctx, fold.Sequence(), last, func(m journal.Message) error {
		if trace.Answer() == nil && m.Time.After(latest) || trace.Done(fold) {
			return errEnough
		}
		if _, err := fold.Apply(p.message(m)); err != nil && !errors.Is(err, account.ErrUndecodable) {
			return err
		}
		return nil
	}, nil)
	if err != nil && !errors.Is(err, errEnough) {
		return nil, err
	}
	return trace.Answer(), nil
}

// audits lets callers share one audit at a time. The audit goes on when they give up, so that a caller who asks again
// soon finds it further on or finished.
type audits struct {
	mu      sync.Mutex
	running *auditRun
	group   sync.WaitGroup
	cancel  context.CancelFunc
}

type auditRun struct {
	done   chan struct{}
	answer *event.AuditAnswer
	err    error
	ended  time.Time
	taken  bool // guarded by audits.mu
}

// untaken is how long a result is kept for the next caller if all callers had given up.
const untaken = 5 * time.Second

func (a *audits) join(run func(ctx context.Context) (*event.AuditAnswer, error)) *auditRun {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.running != nil {
		select {
		case <-a.running.done:
			if !a.running.taken && time.Since(a.running.ended) < untaken {
				return a.running
			}
		default:
			return a.running
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	a.cancel = cancel
	r := &auditRun{done: make(chan struct{})}
	a.running = r
	a.group.Go(func() {
		defer cancel()
		defer close(r.done)
		r.answer, r.err = run(ctx)
		r.ended = time.Now()
	})
	return r
}

// take notes that a caller has received the result.
func (a *audits) take(r *auditRun) {
	a.mu.Lock()
	defer a.mu.Unlock()
	r.taken = true
}

// wait cancels a running audit and waits for its end.
func (a *audits) wait() {
	a.mu.Lock()
	cancel := a.cancel
	a.mu.Unlock()
	if cancel != nil {
		cancel()
	}
	a.group.Wait()
}

// audit folds the whole journal again beside the live fold and compares the two at one sequence.
func (p *Partition) audit(ctx context.Context) (*event.QueryAnswer, error) {
	run := p.audits.join(p.auditOnce)
	select {
	case <-run.done:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	p.audits.take(run)
	if run.err != nil {
		return nil, fmt.Errorf("audit: %w", run.err)
	}
	answer := status(event.QueryStatus_QUERY_OK)
	answer.Answer = &event.QueryAnswer_Audit{Audit: run.answer}
	return answer, nil
}

func (p *Partition) auditOnce(ctx context.Context) (*event.AuditAnswer, error) {
	p.mu.Lock()
	live, err := p.fold.StateHash()
	at := p.fold.Sequence()
	p.mu.Unlock()
	if err != nil {
		return nil, err
	}
	fold := account.New()
	err = p.journal.Replay(ctx, 0, at, func(m journal.Message) error {
		if _, err := fold.Apply(p.message(m)); err != nil && !errors.Is(err, account.ErrUndecodable) {
			return err
		}
		return nil
	}, p.reporter("auditing "+p.stream))
	if err != nil {
		return nil, err
	}
	replay, err := fold.StateHash()
	if err != nil {
		return nil, err
	}
	answer := &event.AuditAnswer{
		Stream: p.stream, Partition: uint32(p.cfg.Partition), LastSequence: at, Entries: fold.Entries(),
		LiveHash: live[:], ReplayHash: replay[:], Match: live == replay,
	}
	if !answer.Match {
		p.log.Error("audit: the journal folds to another state than the live one", "sequence", at,
			"live", fmt.Sprintf("%x", live), "replay", fmt.Sprintf("%x", replay))
	}
	return answer, nil
}
