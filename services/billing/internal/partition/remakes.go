package partition

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"quire.dev/pkg/event"
	"quire.dev/pkg/journal"
	"quire.dev/services/billing/internal/account"
	"quire.dev/services/billing/internal/projection"
)

// Rows of ledgers that the read model no longer has are recomputed from the journal: like an explanation, by folding the account alone from
// the newest snapshot before them. Results are cached for a while, because a reader who pages asks for the preceding rows next.

const (
	maxRemakes     = 64          // of a partition, waiting or running
	maxRemadeKept  = 64          // cached results of a partition
	maxKeptBytes   = 16 << 20    // of all cached results of a partition
	maxRemadeBytes = 4 << 20     // of one result, unless a single message has more
	keptRemade     = time.Minute // how long a result is cached
)

// remakeKey identifies a remake.
type remakeKey struct {
	account event.AccountID
	last    uint64 // message
}

// remake is one that is queued, running or finished. An account has one running at a time, and possibly cached results.
type remake struct {
	task
	from, last uint64 // of its rows
	rows       []projection.MadeRow
	bytes      int // of rows
}

type remakes struct {
	*tasks
	jobs map[remakeKey]*remake
}

func newRemakes() *remakes { return &remakes{tasks: newTasks(), jobs: map[remakeKey]*remake{}} }

// begin returns the account's finished remake with the message's rows, or the running one. If there is neither, it begins one, or returns nil
// if too many are running.
func (r *remakes) begin(id event.AccountID, last uint64, now func() time.Time, run func(context.Context, *remake) error) *remake {
	r.mu.Lock()
	defer r.mu.Unlock()
	running := r.tidy(now())
	var runs *remake
	for key, job := range r.jobs { // whichever has it
		switch {
		case key.account != id:
		case !job.over():
			runs = job
		case job.has(last):
			return job
		}
	}
	if runs != nil {
		return runs
	}
	if running >= maxRemakes {
		return nil
	}
	job := &remake{task: newTask(), last: last}
	r.jobs[remakeKey{id, last}] = job
	r.start(&job.task, now, func(ctx context.Context) { job.err = run(ctx, job) })
	return job
}

// has reports whether the finished remake has a message's rows.
func (r *remake) has(last uint64) bool { return r.err == nil && r.from < last && last <= r.last }

// tidy forgets all finished remakes except the newest few, and returns the number of unfinished ones. It requires mu.
func (r *remakes) tidy(now time.Time) (running int) {
	var over []remakeKey
	for key, job := range r.jobs { // sorted below
		switch {
		case !job.over():
			running++
		case now.Sub(job.ended) >= keptRemade || job.ended.After(now):
			delete(r.jobs, key)
		default:
			over = append(over, key)
		}
	}
	slices.SortFunc(over, func(a, b remakeKey) int { return r.jobs[b].ended.Compare(r.jobs[a].ended) })
	size := 0
	for i, key := range over {
		if size += r.jobs[key].bytes; i >= maxRemadeKept || size > maxKeptBytes {
			delete(r.jobs, key)
		}
	}
	return running
}

// remade implements projection.Again. It returns projection.ErrMaking unless the rows are ready within a moment. Remakes and explanations
// share the process's limit on how many run at once.
func (p *Partition) remade(ctx context.Context, id event.AccountID, last uint64) ([]projection.MadeRow, uint64, error) {
	run := func(ctx context.Context, job *remake) error {
		release, err := take(ctx, p.deps.Turns.explanations)
		if err != nil {
			return err
		}
		defer release()
		return withCoupled(uint64(id), func(together map[uint64]bool) error { return p.remake(ctx, job, id, together) })
	}
	job := p.remakes.begin(id, last, p.deps.Clock, run)
	if job == nil || !p.await(ctx, &job.task, true) {
		return nil, 0, errors.Join(projection.ErrMaking, ctx.Err())
	}
	switch {
	case job.err != nil:
		return nil, 0, fmt.Errorf("make rows up to message %d again: %w", last, job.err)
	case !job.has(last): // it was running for another page
		return nil, 0, projection.ErrMaking
	}
	return job.rows, job.from, nil
}

// isUnreadable reports whether a ledger can't be read, now or later.
func isUnreadable(err error) bool {
	return slices.ContainsFunc([]error{projection.ErrOtherRows, projection.ErrAgedBlock, journal.ErrGap, journal.ErrTruncated, account.ErrGap},
		func(known error) bool { return errors.Is(err, known) })
}

// remake folds an account, and those coupled with it, from the newest snapshot before a message up to that message. It keeps the newest rows,
// up to maxRemadeBytes.
func (p *Partition) remake(ctx context.Context, job *remake, id event.AccountID, together map[uint64]bool) error {
	fold, err := p.partBefore(ctx, job.last, together)
	if err != nil {
		return err
	}
	job.from, job.rows, job.bytes = fold.Sequence(), nil, 0
	return p.journal.Replay(ctx, fold.Sequence(), job.last, func(m journal.Message) error {
		effects, err := fold.Apply(p.message(m))
		if err != nil && !errors.Is(err, account.ErrUndecodable) {
			return err
		}
		if len(effects.Ledger) == 0 {
			return nil
		}
		rows, err := projection.MadeRows(id, m.Sequence, effects)
		for _, r := range rows {
			job.bytes += len(r.Head)
		}
		job.rows = append(job.rows, rows...)
		for job.bytes > maxRemadeBytes && job.rows[0].Sequence < m.Sequence {
			job.forget()
		}
		return err
	}, nil)
}

// forget drops the rows of the oldest message.
func (r *remake) forget() {
	for r.from = r.rows[0].Sequence; len(r.rows) > 0 && r.rows[0].Sequence == r.from; r.rows = r.rows[1:] {
		r.bytes -= len(r.rows[0].Head)
	}
}
