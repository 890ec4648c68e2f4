package replica_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"quire.dev/pkg/eventually"
	"quire.dev/pkg/journal/journaltest"
	"quire.dev/pkg/replica"
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

// start works on a partition until ctx ends, then until hold is closed; fail ends it once at once.
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

// run runs a set until stop is called, which returns the error.
func run(t *testing.T, cfg replica.Config) (set *replica.Set, assigned chan<- []int, stop func() error) {
	t.Helper()
	return runOf(t, 4, cfg)
}

// runOf is run for a number of partitions.
func runOf(t *testing.T, count int, cfg replica.Config) (set *replica.Set, assigned chan<- []int, stop func() error) {
	t.Helper()
	sets := make(chan []int)
	cfg.Count, cfg.Assigned, cfg.InitialPause, cfg.Logger = count, sets, time.Millisecond, slog.New(slog.DiscardHandler)
	set = replica.NewSet(cfg)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- set.Run(ctx) }()
	stop = sync.OnceValue(func() error {
		cancel()
		return <-done
	})
	t.Cleanup(func() { _ = stop() })
	return set, sets, stop
}

func (w *works) wait(t *testing.T, want ...int) {
	t.Helper()
	eventually.True(t, "work on the assigned partitions alone", func() bool { return slices.Equal(w.set(), want) })
}

// TestASetWorksOnTheAssignedPartitions starts new ones, stops those that are gone, and leaves the rest alone.
func TestASetWorksOnTheAssignedPartitions(t *testing.T) {
	w := newWorks()
	_, assigned, stop := run(t, replica.Config{Start: w.start})
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

// TestAPartitionNeverHasTwoReplicas, even if it is assigned again while its replica is stopping. A replica that stops
// slowly holds up no other.
func TestAPartitionNeverHasTwoReplicas(t *testing.T) {
	w := newWorks()
	hold := make(chan struct{})
	w.hold[0] = hold
	_, assigned, stop := run(t, replica.Config{Start: w.start})
	assigned <- []int{0}
	w.wait(t, 0)
	assigned <- []int{1} // 0 is told to stop, and holds on
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

// TestAFailedReplicaIsStartedAgain and none of the others.
func TestAFailedReplicaIsStartedAgain(t *testing.T) {
	w := newWorks()
	w.fail[1] = errors.New("broken for the moment")
	_, assigned, stop := run(t, replica.Config{Start: w.start})
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

// TestASetEndsOnAFatalError after it has stopped all others.
func TestASetEndsOnAFatalError(t *testing.T) {
	w := newWorks()
	fatal := errors.New("the journal is another one")
	_, assigned, stop := run(t, replica.Config{Start: w.start})
	assigned <- []int{0}
	w.wait(t, 0)
	w.mu.Lock()
	w.fail[1] = replica.Fatal(fatal)
	w.mu.Unlock()
	assigned <- []int{0, 1}
	w.wait(t)
	if err := stop(); !errors.Is(err, fatal) {
		t.Errorf("ended with %v", err)
	}
}

// TestASilentEndIsAFailure: an assigned partition has a replica.
func TestASilentEndIsAFailure(t *testing.T) {
	starts := make(chan int)
	_, assigned, stop := run(t, replica.Config{Start: func(ctx context.Context, partition int) error {
		select {
		case starts <- partition:
		case <-ctx.Done():
		}
		return nil
	}})
	assigned <- []int{3}
	for range 3 {
		if p := <-starts; p != 3 {
			t.Errorf("partition %d is started", p)
		}
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
}

// notifications records the calls of Served.
type notifications struct {
	mu  sync.Mutex
	all []string
}

func (l *notifications) served(partition int, serving bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, fmt.Sprint(partition, serving))
}

func (l *notifications) wait(t *testing.T, want ...string) {
	t.Helper()
	eventually.True(t, fmt.Sprintf("notified %q", want), func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return slices.Equal(l.all, want)
	})
}

// TestASetIsReadyWithAllOfItsFirstPartitions and stays so, while Serving follows what is assigned.
func TestASetIsReadyWithAllOfItsFirstPartitions(t *testing.T) {
	var set *replica.Set
	var log notifications
	caughtUp := []chan struct{}{make(chan struct{}), make(chan struct{}), make(chan struct{})}
	set, assigned, stop := run(t, replica.Config{
		NC: journaltest.Start(t).Conn(t), Served: log.served,
		Start: func(ctx context.Context, partition int) error {
			select {
			case <-caughtUp[partition]:
			case <-ctx.Done():
				return nil
			}
			defer set.Announce(ctx, partition)()
			<-ctx.Done()
			return nil
		},
	})
	isReady := func() bool {
		select {
		case <-set.Ready():
			return true
		default:
			return false
		}
	}
	assigned <- []int{0, 1, 7} // 7 does not exist
	close(caughtUp[0])
	log.wait(t, "0 true")
	if isReady() || set.Serving() || !slices.Equal(set.Served(), []int{0}) {
		t.Errorf("ready %v, serving %v, served %v with one of two", isReady(), set.Serving(), set.Served())
	}
	close(caughtUp[1])
	log.wait(t, "0 true", "1 true")
	if !isReady() || !set.Serving() {
		t.Errorf("ready %v, serving %v with both", isReady(), set.Serving())
	}
	assigned <- []int{0, 1, 2}
	assigned <- []int{0, 2}
	log.wait(t, "0 true", "1 true", "1 false")
	if !isReady() || set.Serving() {
		t.Errorf("ready %v, serving %v with a new one", isReady(), set.Serving())
	}
	assigned <- []int{0}
	if err := stop(); err != nil {
		t.Error(err)
	}
	log.wait(t, "0 true", "1 true", "1 false", "0 false")
}

// TestASetWithoutPartitionsIsReady as soon as it knows.
func TestASetWithoutPartitionsIsReady(t *testing.T) {
	set, assigned, _ := run(t, replica.Config{})
	if set.Serving() {
		t.Error("serving before anything was assigned")
	}
	assigned <- nil
	<-set.Ready()
	if !set.Serving() {
		t.Error("not serving")
	}
}

// TestAllPartitionsAreWorkedOnWhereNoneIsAssigned for good.
func TestAllPartitionsAreWorkedOnWhereNoneIsAssigned(t *testing.T) {
	for name, test := range map[string]struct{ partitions, want []int }{
		"all": {nil, []int{0, 1, 2}}, "some": {[]int{1}, []int{1}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorks()
			set := replica.NewSet(replica.Config{Count: 3, Partitions: test.partitions, Start: w.start, Logger: slog.New(slog.DiscardHandler)})
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error, 1)
			go func() { done <- set.Run(ctx) }()
			w.wait(t, test.want...)
			cancel()
			if err := <-done; err != nil {
				t.Error(err)
			}
		})
	}
}

func TestUnreadyTellsWhichPartitionsWaitAndForWhat(t *testing.T) {
	nc := journaltest.Start(t).Conn(t)
	assigned := make(chan []int)
	serve := map[int]chan struct{}{0: make(chan struct{}), 1: make(chan struct{})}
	var s *replica.Set
	s = replica.NewSet(replica.Config{
		Count: 2, Assigned: assigned, NC: nc, Logger: slog.New(slog.DiscardHandler),
		Start: func(ctx context.Context, partition int) error {
			select {
			case <-serve[partition]:
			case <-ctx.Done():
				return nil
			}
			defer s.Announce(ctx, partition)()
			<-ctx.Done()
			return nil
		},
	})
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	want := func(text string) {
		t.Helper()
		eventually.NoError(t, text, func() error {
			if got := fmt.Sprint(s.Unready()); got != text {
				return errors.New(got)
			}
			return nil
		})
	}
	want("no partitions are assigned yet")
	assigned <- []int{0, 1}
	want("partition 0 is catching up with its journal\npartition 1 is catching up with its journal")
	close(serve[0])
	want("partition 1 is catching up with its journal")
	slow := errors.New("the store is slow")
	s.Degraded(1, slow)
	want("partition 1 is catching up with its journal: the store is slow")
	close(serve[1])
	want("<nil>")
	s.Degraded(0, slow)
	want("partition 0: the store is slow")
	s.Degraded(0, nil)
	want("<nil>")
	s.Stall(1, slow)
	s.Stall(0, nil)
	want("partition 1: its journal takes no writes: the store is slow")
	if got := s.Stalled(); !slices.Equal(got, []int{1}) {
		t.Errorf("stalled: %v", got)
	}
	s.Stall(1, nil)
	want("<nil>")
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// TestAnOfferIsToldAndDoesNotServe: the members learn that a partition could be served, and operators that it is not.
func TestAnOfferIsToldAndDoesNotServe(t *testing.T) {
	var log notifications
	var s *replica.Set
	s, assigned, stop := run(t, replica.Config{
		NC: journaltest.Start(t).Conn(t), Served: log.served,
		Start: func(ctx context.Context, partition int) error {
			s.Offer(ctx, partition)()
			defer s.Offer(ctx, partition)()
			<-ctx.Done()
			return nil
		},
	})
	assigned <- []int{2}
	log.wait(t, "2 true", "2 false", "2 true")
	if s.Serving() || len(s.Served()) != 0 {
		t.Errorf("serving %v, served %v", s.Serving(), s.Served())
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
	log.wait(t, "2 true", "2 false", "2 true", "2 false")
}
