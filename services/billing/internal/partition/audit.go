package partition

import (
	"context"
	"fmt"
	"slices"
	"time"

	"quire.dev/pkg/event"
	"quire.dev/pkg/num"
	"quire.dev/pkg/rpc"
)

const (
	// untaken is how long a result is kept for the next caller without an audit's id if all callers have given up.
	untaken = 5 * time.Second
	// keptAudits is how many audits a partition remembers by id.
	keptAudits = 64
)

// auditID names an audit of all partitions: drawn by an edge, or given by the caller.
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
	id      auditID // of the first caller; zero: it had none
	options auditOptions
	answer  *event.AuditAnswer
	// Guarded by tasks.mu. Anyone who knows a run's id may have forged what it resumes, so such a run answers that id alone.
	resumes bool
	shared  bool // another caller has joined
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
func (a *audits) join(o auditOptions, run func(context.Context, *auditRun)) *auditRun {
	a.mu.Lock()
	defer a.mu.Unlock()
	if r := a.running; r != nil && r.options == o && !r.resumes && r.over() && !r.taken && time.Since(r.ended) < untaken {
		return r
	}
	return a.share(auditID{}, o, run)
}

// begin begins the audit of an id, or returns it. A failed one begins again.
func (a *audits) begin(id auditID, again bool, o auditOptions, run func(context.Context, *auditRun)) knownAudit {
	a.mu.Lock()
	defer a.mu.Unlock()
	known, found := a.known[id]
	if found && (!known.over() || known.err == nil) {
		return known
	}
	if !found {
		a.order = append(a.order, id)
	}
	known = knownAudit{a.share(id, o, run), again || known.again}
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

// resumes reports whether a run may resume what its id's earlier one has saved.
func (a *audits) resumes(r *auditRun) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	r.resumes = !r.shared
	return r.resumes
}

// startsOver takes back that a run resumes.
func (a *audits) startsOver(r *auditRun) {
	a.mu.Lock()
	defer a.mu.Unlock()
	r.resumes = false
}

// share joins the running audit if it has the same options. It requires mu.
func (a *audits) share(id auditID, o auditOptions, run func(context.Context, *auditRun)) *auditRun {
	if r := a.running; r != nil && !r.over() && r.options == o && (r.id == id || !r.resumes) {
		r.shared = r.shared || r.id != id
		return r
	}
	r := &auditRun{task: newTask(), id: id, options: o}
	a.running = r
	a.start(&r.task, time.Now, func(ctx context.Context) { run(ctx, r) })
	return r
}

// audit replays the journal beside the live fold, and compares both and the read model, each at one sequence. A caller that names an audit gets
// its progress and polls. Other callers wait.
func (p *Partition) audit(ctx context.Context, q *event.AuditQuery) (*event.QueryAnswer, error) {
	o, err := p.auditOptions(q)
	if err != nil {
		return nil, err
	}
	if len(q.GetId()) == 0 {
		run := knownAudit{auditRun: p.audits.join(o, p.runAudit)}
		return p.auditAnswer(ctx, run, false)
	}
	if len(q.Id) != len(auditID{}) {
		return nil, &rpc.Error{Code: codeMalformed, Message: fmt.Sprintf("id of an audit with %d bytes", len(q.Id))}
	}
	id := auditID(q.Id)
	run, found := p.audits.find(id)
	failed := found && run.again && run.over() && run.err != nil // perhaps because of the parameters with which it was restarted
	switch {
	case !q.Look && found && !q.Again && run.options != o && (!run.over() || run.err == nil):
		return nil, errOtherOptions()
	case !q.Look:
		return p.auditAnswer(ctx, p.audits.begin(id, q.Again, o, p.runAudit), true)
	case !found, failed && run.options != o:
		return status(event.QueryStatus_QUERY_NOT_FOUND), nil
	}
	return p.auditAnswer(ctx, run, true)
}

func errOtherOptions() error {
	return &rpc.Error{Code: codeMalformed, Message: "the audit of this id has other parameters"}
}

func (p *Partition) losses() []*event.Loss {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.fold.Losses()
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
		Stream: p.stream, Partition: num.Uint32(p.cfg.Partition), LastSequence: run.answer.LastSequence, Entries: run.answer.Entries,
		LiveHash: run.answer.LiveHash, ReplayHash: run.answer.ReplayHash, Match: run.answer.Match, Folded: run.answer.Folded,
		Again: run.again, ComparedSequence: run.answer.ComparedSequence, Tables: run.answer.Tables, Differences: run.answer.Differences,
		Skipped: run.answer.Skipped, Chain: run.answer.Chain, TimeMs: run.answer.TimeMs, HeadChain: run.answer.HeadChain,
		Losses: p.losses(), FromSequence: run.answer.FromSequence,
	}}
	return answer, nil
}
