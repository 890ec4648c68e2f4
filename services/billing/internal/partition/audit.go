package partition

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"quire.dev/pkg/event"
	"quire.dev/pkg/journal"
	"quire.dev/pkg/rpc"
	"quire.dev/services/billing/internal/account"
)

const (
	// untaken is how long a result is kept for the next caller without an audit's id if all callers have given up.
	untaken = 5 * time.Second
	// keptAudits is how many audits a partition remembers by id.
	keptAudits = 64
)

// auditID is an id drawn by an edge for an audit of all partitions.
type auditID [16]byte

// audits are a partition's audits. One runs at a time: concurrent callers share it. It continues when they give up.
type audits struct {
	*tasks
	running *auditRun
	known   map[auditID]knownAudit
	order   []auditID // of known, oldest first
}

type auditRun struct {
	task
	head   uint64 // as AuditQuery.head
	answer *event.AuditAnswer
}

// knownAudit is this partition's share of an audit of all partitions.
type knownAudit struct {
	*auditRun
	again bool // restarted, since another replica's progress is lost
}

func newAudits() *audits {
	return &audits{tasks: newTasks(), known: map[auditID]knownAudit{}}
}

// join begins an audit without an id, or returns the one running or finished and not taken.
func (a *audits) join(head uint64, run func(context.Context, *auditRun)) *auditRun {
	a.mu.Lock()
	defer a.mu.Unlock()
	if r := a.running; r != nil && r.head == head && r.over() && !r.taken && time.Since(r.ended) < untaken {
		return r
	}
	return a.share(head, run)
}

// begin begins the audit of an id, or returns it. A failed one begins again.
func (a *audits) begin(id auditID, head uint64, again bool, run func(context.Context, *auditRun)) knownAudit {
	a.mu.Lock()
	defer a.mu.Unlock()
	known, found := a.known[id]
	if found && (!known.over() || known.err == nil) {
		return known
	}
	if !found {
		a.order = append(a.order, id)
	}
	known = knownAudit{a.share(head, run), again || known.again}
	a.known[id] = known
	if len(a.order) > keptAudits {
		delete(a.known, a.order[0])
		a.order = slices.Delete(a.order, 0, 1)
	}
	return known
}

// find returns the audit of an id.
func (a *audits) find(id auditID) (knownAudit, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	known, found := a.known[id]
	return known, found
}

// share requires mu. A running audit with another head is no use: it may be beyond this one.
func (a *audits) share(head uint64, run func(context.Context, *auditRun)) *auditRun {
	if a.running != nil && !a.running.over() && a.running.head == head {
		return a.running
	}
	r := &auditRun{task: newTask(), head: head}
	a.running = r
	a.start(&r.task, time.Now, func(ctx context.Context) { run(ctx, r) })
	return r
}

// audit replays the whole journal beside the live fold and compares the two at one sequence. A caller that names an audit gets
// its progress and polls. Other callers wait.
func (p *Partition) audit(ctx context.Context, q *event.AuditQuery) (*event.QueryAnswer, error) {
	if len(q.GetId()) == 0 {
		run := knownAudit{auditRun: p.audits.join(q.GetHead(), p.runAudit)}
		return p.auditAnswer(ctx, run, false)
	}
	if len(q.Id) != len(auditID{}) {
		return nil, &rpc.Error{Code: codeMalformed, Message: fmt.Sprintf("id of an audit with %d bytes", len(q.Id))}
	}
	id := auditID(q.Id)
	if !q.Look {
		return p.auditAnswer(ctx, p.audits.begin(id, q.Head, q.Again, p.runAudit), true)
	}
	if run, found := p.audits.find(id); found {
		return p.auditAnswer(ctx, run, true)
	}
	return status(event.QueryStatus_QUERY_NOT_FOUND), nil
}

func (p *Partition) auditAnswer(ctx context.Context, run knownAudit, follows bool) (*event.QueryAnswer, error) {
	if !p.await(ctx, &run.task, follows) {
		return p.pending(&run.task, run.again), ctx.Err()
	}
	p.audits.take(&run.task)
	if run.err != nil {
		return nil, fmt.Errorf("audit: %w", run.err)
	}
	answer := status(event.QueryStatus_QUERY_OK)
	answer.Answer = &event.QueryAnswer_Audit{Audit: &event.AuditAnswer{
		Stream: p.stream, Partition: uint32(p.cfg.Partition), LastSequence: run.answer.LastSequence, Entries: run.answer.Entries,
		LiveHash: run.answer.LiveHash, ReplayHash: run.answer.ReplayHash, Match: run.answer.Match, Folded: run.answer.Folded,
		Again: run.again, Chain: run.answer.Chain, TimeMs: run.answer.TimeMs, HeadChain: run.answer.HeadChain,
	}}
	return answer, nil
}

func (p *Partition) runAudit(ctx context.Context, run *auditRun) {
	run.answer, run.err = p.auditOnce(ctx, &run.task, run.head)
}

// auditOnce folds the principals in parts, one after the other, so that it holds at most AuditPrincipals at a time. head is as in
// AuditQuery.
func (p *Partition) auditOnce(ctx context.Context, t *task, head uint64) (*event.AuditAnswer, error) {
	t.total.Store(p.position.Get())
	release, err := take(ctx, p.deps.Turns.audits)
	if err != nil {
		return nil, err
	}
	defer release()
	if err := p.clean(ctx); err != nil {
		return nil, err
	}
	p.mu.Lock()
	image, err := p.fold.Image()
	about := p.fold.Principals()
	p.mu.Unlock()
	if err != nil {
		return nil, err
	}
	live, at, chain := image.Hash(), image.Sequence, image.Chain // copies: an image held during the replay would be a second state
	answer := &event.AuditAnswer{Stream: p.stream, Partition: uint32(p.cfg.Partition), LastSequence: at, LiveHash: live[:], Chain: chain[:]}
	replay, err := account.HashInParts(about, p.cfg.AuditPrincipals, func(fold *account.Fold, pass, passes int) error {
		if err := fold.Know(p.cfg.Rules); err != nil {
			return err
		}
		before := uint64(pass) * at
		t.read.Store(before)
		t.total.Store(uint64(passes) * at)
		return p.journal.Replay(ctx, 0, at, func(m journal.Message) error {
			if _, err := fold.Apply(p.message(m)); err != nil && !errors.Is(err, account.ErrUndecodable) {
				return err
			}
			if m.Sequence == head {
				chain := fold.Head().Chain
				answer.HeadChain = chain[:]
			}
			if m.Sequence == at {
				answer.TimeMs = m.Time.UnixMilli()
			}
			t.read.Store(before + m.Sequence)
			return nil
		}, p.reporter("auditing "+p.stream))
	})
	if err != nil {
		return nil, err
	}
	answer.Entries, answer.Folded = replay.Entries, t.read.Load()
	answer.ReplayHash, answer.Match = replay.Hash[:], live == replay.Hash
	if !answer.Match {
		p.log.Error("audit: the replayed state differs from the live one", "sequence", at,
			"live", fmt.Sprintf("%x", live), "replay", fmt.Sprintf("%x", replay.Hash))
	}
	return answer, nil
}
