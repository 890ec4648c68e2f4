package sqlite

import (
	"context"
	"errors"
	"time"

	"quire.dev/pkg/views"
)

type readJob struct {
	ctx  context.Context
	run  func(context.Context, *conn) error
	done chan error
}

// writeJob is a write. It changes nothing when it returns ErrConflict or ErrExists.
type writeJob struct {
	ctx  context.Context
	run  func(*conn) error
	done chan error
}

// read runs the function on a reading connection. When it returns an error, the
// function may still be running: don't look at its results.
func (s *Store) read(ctx context.Context, what string, run func(context.Context, *conn) error) error {
	job := readJob{ctx: ctx, run: run, done: make(chan error, 1)}
	err := hand(ctx, s.quit, s.reads, job, job.done)
	if err == nil {
		return nil
	}
	return views.Unavailable(what, err)
}

func (s *Store) write(ctx context.Context, what string, run func(*conn) error) error {
	job := writeJob{ctx: ctx, run: run, done: make(chan error, 1)}
	err := hand(ctx, s.quit, s.writes, job, job.done)
	if err == nil || isRefusal(err) {
		return err
	}
	return views.Unavailable(what, err)
}

// hand passes the job to a worker and waits for it. The channel is unbuffered:
// a worker finishes each job that it receives, and no job is left in the
// channel when the workers end.
func hand[J any](ctx context.Context, quit <-chan struct{}, jobs chan<- J, job J, done <-chan error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case <-quit:
		return errClosed
	default:
	}
	select {
	case jobs <- job:
	case <-quit:
		return errClosed
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func isRefusal(err error) bool {
	return errors.Is(err, views.ErrConflict) || errors.Is(err, views.ErrExists)
}

func (s *Store) readLoop(c *conn) {
	for {
		select {
		case job := <-s.reads:
			job.done <- job.run(job.ctx, c)
		case <-s.quit:
			return
		}
	}
}

// writerLoop owns the writing connection.
type writerLoop struct {
	store     *Store
	conn      *conn
	nextSweep time.Time
	written   bool // since the log was last emptied
}

func (w *writerLoop) run() {
	group := make([]writeJob, 0, groupLimit)
	empty := time.NewTicker(w.store.emptyLog)
	defer empty.Stop()
	for {
		select {
		case job := <-w.store.writes:
			group = w.gather(append(group[:0], job))
			w.commit(group)
			w.sweep()
			w.move()
			w.written = true
		case <-empty.C:
			w.truncateLog()
		case <-w.store.quit:
			return
		}
	}
}

// gather adds the waiting writes.
func (w *writerLoop) gather(group []writeJob) []writeJob {
	for len(group) < groupLimit {
		select {
		case job := <-w.store.writes:
			group = append(group, job)
		default:
			return group
		}
	}
	return group
}

// commit runs the jobs in one transaction. If that fails, each job gets its
// own, so that one failing write does not fail the others.
func (w *writerLoop) commit(group []writeJob) {
	results, err := w.transact(group)
	if err != nil && len(group) > 1 {
		for i := range group {
			w.commit(group[i : i+1])
		}
		return
	}
	for i, job := range group {
		if err != nil {
			job.done <- err
		} else {
			job.done <- results[i]
		}
	}
}

// transact returns a result for each job, or an error if none was carried out.
func (w *writerLoop) transact(group []writeJob) (results []error, err error) {
	if err := w.begin(); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			w.rollback()
		}
	}()
	for _, job := range group {
		result := job.ctx.Err()
		if result == nil {
			result = job.run(w.conn)
			if result != nil && !isRefusal(result) {
				return nil, result
			}
		}
		results = append(results, result)
	}
	if _, err := w.conn.exec("COMMIT"); err != nil {
		return nil, err
	}
	for _, t := range w.store.tables {
		t.ids.commit()
	}
	return results, nil
}

// begin begins a transaction, after rolling back one that an earlier failure
// may have left open.
func (w *writerLoop) begin() error {
	_, err := w.conn.exec("BEGIN IMMEDIATE")
	if err != nil {
		w.rollback()
		_, err = w.conn.exec("BEGIN IMMEDIATE")
	}
	return err
}

// rollback returns no error: SQLite has often rolled back by itself, and if the
// transaction is still open, the next begin fails.
func (w *writerLoop) rollback() {
	_, _ = w.conn.exec("ROLLBACK")
	for _, t := range w.store.tables {
		t.ids.rollBack()
	}
}

// sweep forgets some old deletions. It runs after a write, since without writes
// there are no deletions. It reports no errors: whatever fails here fails the
// next write too, which has a caller.
func (w *writerLoop) sweep() {
	now := w.store.now()
	if now.Before(w.nextSweep) {
		return
	}
	w.nextSweep = now.Add(sweepInterval)
	if w.begin() != nil {
		return
	}
	swept := map[*table][]entry{}
	for _, t := range w.store.tables {
		rows, err := t.sweep(w.conn, now.Add(-tombstoneAge).Unix(), sweepLimit)
		if err != nil {
			w.rollback()
			return
		}
		if len(rows) == sweepLimit {
			w.nextSweep = now
		}
		swept[t] = rows
	}
	if _, err := w.conn.exec("COMMIT"); err != nil {
		w.rollback()
		return
	}
	for t, rows := range swept {
		t.ids.forget(rows)
	}
}

// move puts some ids of new rows into the indexes, once a table has many of them. It reports no errors either: the ids stay in
// memory.
func (w *writerLoop) move() {
	for _, t := range w.store.tables {
		if !t.ids.due(w.store.freshIDs) {
			continue
		}
		if w.begin() != nil {
			return
		}
		moved, err := t.move(w.conn)
		if err == nil {
			_, err = w.conn.exec("COMMIT")
		}
		if err != nil {
			w.rollback()
			return
		}
		t.ids.finishStep(moved)
	}
}

// truncateLog moves the write-ahead log into the file and empties it, since it keeps deleted content until overwritten. A
// reader of an older state prevents that; then the next tick retries. It reports no errors: a file that can't be written fails
// the next write too.
func (w *writerLoop) truncateLog() {
	if !w.written {
		return
	}
	// Don't let the next write wait for readers.
	_, _ = w.conn.exec("PRAGMA busy_timeout = 50")
	busy, err := w.conn.integer(context.Background(), "PRAGMA wal_checkpoint(TRUNCATE)")
	w.written = err != nil || busy != 0
	_, _ = w.conn.exec(busyTimeout)
}
