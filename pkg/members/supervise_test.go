package members_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"quire.dev/pkg/eventually"
	"quire.dev/pkg/members"
)

// works records which partitions are worked on.
type works struct {
	mu      sync.Mutex
	now     map[int]int // how many goroutines a partition has
	started map[int]int // how often it was started
	most    int         // goroutines that one partition had at a time
	hold    map[int]chan struct{}
	fail    map[int]error
}

func newWorks() *works {
	return &works{now: map[int]int{}, started: map[int]int{}, hold: map[int]chan struct{}{}, fail: map[int]error{}}
}

// start works on a partition until ctx ends and hold is closed. It returns the partition's error in fail, once.
func (w *works) start(ctx context.Context, partition int) error {
	w.mu.Lock()
	w.now[partition]++
	w.started[partition]++
	w.most = max(w.most, w.now[partition])
	hold, fail := w.hold[partition], w.fail[partition]
	delete(w.fail, partition)
	w.mu.Unlock()
	if fail == nil {
		<-ctx.Done()
	}
	if hold != nil {
		<-hold
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.now[partition]--; w.now[partition] == 0 {
		delete(w.now, partition)
	}
	return fail
}

func (w *works) set() []int {
	w.mu.Lock()
	defer w.mu.Unlock()
	var set []int
	for p := range w.now {
		set = append(set, p)
	}
	slices.Sort(set)
	return set
}

func (w *works) starts(partition int) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.started[partition]
}

// supervise runs until stop is called, which gives the error.
func supervise(t *testing.T, w *works, work members.Work) (assigned chan<- []int, stop func() error) {
	t.Helper()
	work.Start, work.FirstPause = w.start, time.Millisecond
	sets := make(chan []int)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- members.Supervise(ctx, sets, work) }()
	stop = sync.OnceValue(func() error {
		cancel()
		return <-done
	})
	t.Cleanup(func() { _ = stop() })
	return sets, stop
}

func (w *works) wait(t *testing.T, want ...int) {
	t.Helper()
	eventually.True(t, "work on the assigned partitions alone", func() bool { return slices.Equal(w.set(), want) })
}

// TestSuperviseWorksOnWhatIsAssigned: a new set starts and stops partitions, and leaves those in both sets alone.
func TestSuperviseWorksOnWhatIsAssigned(t *testing.T) {
	w := newWorks()
	assigned, stop := supervise(t, w, members.Work{})
	for _, set := range [][]int{{0, 1}, {1, 2, 3}, {1}, nil, {1, 3}} {
		assigned <- set
		w.wait(t, set...)
	}
	if got := w.starts(1); got != 2 {
		t.Errorf("partition 1 was started %d times, it was gone once", got)
	}
	close(assigned)
	if err := stop(); err != nil {
		t.Error(err)
	}
	if left := w.set(); len(left) != 0 {
		t.Errorf("%v are worked on after the end", left)
	}
}

// TestSuperviseNeverRunsAPartitionTwice, even if it comes back while it is stopping. A partition that stops slowly delays
// no other one.
func TestSuperviseNeverRunsAPartitionTwice(t *testing.T) {
	w := newWorks()
	hold := make(chan struct{})
	w.hold[0] = hold
	assigned, stop := supervise(t, w, members.Work{})
	assigned <- []int{0}
	w.wait(t, 0)
	assigned <- []int{1} // 0 is told to stop, and is slow
	w.wait(t, 0, 1)
	assigned <- []int{0, 1, 2}
	w.wait(t, 0, 1, 2)
	if got := w.starts(0); got != 1 {
		t.Fatalf("partition 0 was started %d times while it ran", got)
	}
	close(hold)
	eventually.True(t, "a second start", func() bool { return w.starts(0) == 2 })
	if err := stop(); err != nil {
		t.Error(err)
	}
	if w.most != 1 {
		t.Errorf("a partition had %d goroutines at a time", w.most)
	}
}

// TestSuperviseStartsAFailedPartitionAgain, and none of the others.
func TestSuperviseStartsAFailedPartitionAgain(t *testing.T) {
	w := newWorks()
	w.fail[1] = errors.New("broken for the moment")
	assigned, stop := supervise(t, w, members.Work{Fatal: func(err error) bool { return errors.Is(err, members.ErrEnded) }})
	assigned <- []int{0, 1}
	eventually.True(t, "a second start", func() bool { return w.starts(1) == 2 })
	w.wait(t, 0, 1)
	if err := stop(); err != nil {
		t.Error(err)
	}
	if got := w.starts(0); got != 1 {
		t.Errorf("partition 0 was started %d times", got)
	}
}

// TestSuperviseEndsOnAFatalFailure after it has stopped all others.
func TestSuperviseEndsOnAFatalFailure(t *testing.T) {
	w := newWorks()
	fatal := errors.New("the journal is another one")
	assigned, stop := supervise(t, w, members.Work{Fatal: func(err error) bool { return errors.Is(err, fatal) }})
	assigned <- []int{0}
	w.wait(t, 0)
	w.mu.Lock()
	w.fail[1] = fatal
	w.mu.Unlock()
	assigned <- []int{0, 1}
	w.wait(t)
	if err := stop(); !errors.Is(err, fatal) {
		t.Errorf("ended with %v", err)
	}
}

// TestSuperviseTakesASilentEndForAFailure: a partition that is assigned is worked on.
func TestSuperviseTakesASilentEndForAFailure(t *testing.T) {
	sets := make(chan []int, 1)
	sets <- []int{0}
	err := members.Supervise(t.Context(), sets, members.Work{
		Start: func(context.Context, int) error { return nil },
		Fatal: func(error) bool { return true },
	})
	if !errors.Is(err, members.ErrEnded) {
		t.Errorf("ended with %v", err)
	}
}
