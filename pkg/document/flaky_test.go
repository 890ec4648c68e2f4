package document_test

import (
	"bytes"
	"context"
	"os"
	"sync"
	"time"

	"quire.dev/pkg/views"
)

// flakyViews fails or hangs on demand.
type flakyViews struct {
	views.Store
	mu      sync.Mutex
	fail    bool
	needs   time.Duration   // calls that have less time run out of it
	hang    chan struct{}   // calls wait until it is closed
	hung    chan struct{}   // where it is set: receives for each load, and read of the checkpoint, that hangs
	commits chan struct{}   // where it is set: receives for each commit that begins
	lose    int             // commits that are done and report an unknown outcome
	largest int             // bytes of a commit
	put     map[string]bool // documents of all commits: whether they were said to be new
	twice   []string        // documents that were said to be new more than once
}

// note notes what a commit has put. Two replicas may note their commits in another order than that in which they were done.
func (f *flakyViews) note(b views.Batch) {
	if f.put == nil {
		f.put = map[string]bool{}
	}
	for _, p := range b.Puts {
		id := p.Collection + " " + p.Doc.ID
		if p.New && f.put[id] {
			f.twice = append(f.twice, id)
		}
		f.put[id] = f.put[id] || p.New
	}
}

func (f *flakyViews) set(change func()) {
	f.mu.Lock()
	change()
	f.mu.Unlock()
}

func (f *flakyViews) check(ctx context.Context) error {
	f.mu.Lock()
	fail, hang, needs := f.fail, f.hang, f.needs
	f.mu.Unlock()
	if until, ok := ctx.Deadline(); ok && time.Until(until) < needs {
		<-ctx.Done()
		return views.Unavailable("slow", ctx.Err())
	}
	if hang != nil {
		select {
		case <-hang:
		case <-ctx.Done():
			return views.Unavailable("hang", ctx.Err())
		}
	}
	if fail {
		return views.Unavailable("fail", os.ErrDeadlineExceeded)
	}
	return nil
}

func (f *flakyViews) tell() {
	f.mu.Lock()
	defer f.mu.Unlock()
	offer(f.hung)
}

// offer sends unless the channel is nil or full.
func offer(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

func (f *flakyViews) Load(ctx context.Context, collection string, ids []string, parts views.Parts) ([]views.Doc, error) {
	f.tell()
	if err := f.check(ctx); err != nil {
		return nil, err
	}
	return f.Store.Load(ctx, collection, ids, parts)
}

func (f *flakyViews) List(ctx context.Context, collection string, q views.Query) ([]views.Doc, error) {
	if err := f.check(ctx); err != nil {
		return nil, err
	}
	return f.Store.List(ctx, collection, q)
}

func (f *flakyViews) Commit(ctx context.Context, b views.Batch) error {
	f.mu.Lock()
	offer(f.commits)
	f.mu.Unlock()
	if err := f.check(ctx); err != nil {
		return err
	}
	err := f.Store.Commit(ctx, b)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.largest = max(f.largest, b.SizeBytes())
	if err == nil {
		f.note(b)
	}
	if err == nil && f.lose > 0 && b.Stream != "" {
		f.lose--
		return views.Unavailable("commit", os.ErrDeadlineExceeded)
	}
	return err
}

func (f *flakyViews) Checkpoint(ctx context.Context, stream string) (uint64, error) {
	f.tell()
	if err := f.check(ctx); err != nil {
		return 0, err
	}
	return f.Store.Checkpoint(ctx, stream)
}

// logBuffer collects the logs of the engines.
type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
