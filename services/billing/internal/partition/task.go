package partition

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// task is something that takes long.
type task struct {
	done        chan struct{} // closed at its end; err and ended may be read then
	err         error
	ended       time.Time
	read, total atomic.Uint64 // messages
	taken       bool          // somebody has received the result; guarded by tasks.mu
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

// tasks are those of one kind, which a partition has under way. They go on when those who asked for them give up.
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

// start runs a task. now tells the time that counts as its end.
func (t *tasks) start(one *task, now func() time.Time, run func(context.Context)) {
	t.group.Go(func() {
		defer close(one.done)
		run(t.ctx)
		one.ended = now()
	})
}

// take notes that somebody has received the result of a task.
func (t *tasks) take(one *task) {
	t.mu.Lock()
	defer t.mu.Unlock()
	one.taken = true
}

// stop cancels the tasks under way and waits for their end.
func (t *tasks) stop() {
	t.cancel()
	t.group.Wait()
}
