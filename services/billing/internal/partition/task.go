package partition

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// task is a long-running operation.
type task struct {
	done        chan struct{} // closed at its end, after which err and ended may be read
	err         error
	ended       time.Time
	read, total atomic.Uint64 // messages
	taken       bool          // a caller has received the result; guarded by tasks.mu
}

func newTask() task { return task{done: make(chan struct{})} }

func (t *task) over() bool {
	select {
	case <-t.done:
		return true
	default:
		return false
	}
}

// tasks are a partition's running tasks of one kind. They continue when their callers give up.
type tasks struct {
	mu     sync.Mutex
	group  sync.WaitGroup
	ctx    context.Context
	cancel context.CancelFunc
}

func newTasks() *tasks {
	t := &tasks{}
	t.ctx, t.cancel = context.WithCancel(context.Background())
	return t
}

// start runs a task. now returns the time recorded as its end.
func (t *tasks) start(one *task, now func() time.Time, run func(context.Context)) {
	t.group.Go(func() {
		defer close(one.done)
		run(t.ctx)
		one.ended = now()
	})
}

// take records that a caller has received the result.
func (t *tasks) take(one *task) {
	t.mu.Lock()
	defer t.mu.Unlock()
	one.taken = true
}

// stop cancels the running tasks and waits for their end.
func (t *tasks) stop() {
	t.cancel()
	t.group.Wait()
}
