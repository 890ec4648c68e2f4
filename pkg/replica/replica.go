// Package replica runs a service's replicas of partitions in one process: it starts and stops them as partitions are assigned,
// restarts failed ones, and knows which of them serve.
package replica

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"quire.dev/pkg/wait"
)

// ErrEnded means that a replica returned without an error although its partition was still assigned.
var ErrEnded = errors.New("ended by itself")

// Fatal marks an error of Config.Start that makes Run stop all replicas and return it.
func Fatal(err error) error { return fatal{err} }

type fatal struct{ error }

func (f fatal) Unwrap() error { return f.error }

// Config describes a Set. Zero durations take the defaults given beside them.
type Config struct {
	Count int // number of partitions; assigned ones beyond it are ignored
	// Partitions is the fixed set to work on if Assigned is nil. nil: all partitions.
	Partitions []int
	// Assigned delivers the partitions to work on. Each set replaces the previous one, and the last one stays after the channel
	// is closed. Run starts none before the first.
	Assigned <-chan []int
	// Served, if not nil, is called when a partition starts or stops being served. Calls come from several goroutines, in order
	// for each partition, and must not block.
	Served func(partition int, serving bool)

	// Start folds and serves one partition until ctx ends. After an error that is not Fatal it is called again, with
	// exponential backoff.
	Start        func(ctx context.Context, partition int) error
	InitialPause time.Duration // 100 ms
	MaxPause     time.Duration // 10 s
	Steady       time.Duration // running time after which the backoff restarts at InitialPause; 10 s

	NC     *nats.Conn // carries the replicas' subscriptions
	Logger *slog.Logger
}

// Set is the replicas of one process. Safe for concurrent use, except that Run is called once.
type Set struct {
	cfg   Config
	ready chan struct{} // closed once all assigned partitions are served

	mu       sync.Mutex
	assigned bool         // a set was delivered
	wanted   []int        // the newest set
	serving  map[int]bool // partitions being served
	degraded map[int]error
	stalled  map[int]error // partitions whose journal takes no writes
	folding  map[int]Folding

	// Owned by the goroutine of Run.
	all     sync.WaitGroup
	ended   chan end
	running map[int]context.CancelFunc // until the replica has stopped
}

// end reports the end of a replica; the error is nil if it was stopped.
type end struct {
	partition int
	err       error
}

// NewSet returns a Set that starts nothing before Run.
func NewSet(cfg Config) *Set {
	for _, d := range []struct {
		value     *time.Duration
		otherwise time.Duration
	}{{&cfg.InitialPause, 100 * time.Millisecond}, {&cfg.MaxPause, 10 * time.Second}, {&cfg.Steady, 10 * time.Second}} {
		if *d.value <= 0 {
			*d.value = d.otherwise
		}
	}
	if cfg.Served == nil {
		cfg.Served = func(int, bool) {}
	}
	if cfg.Partitions == nil {
		for p := range cfg.Count {
			cfg.Partitions = append(cfg.Partitions, p)
		}
	}
	return &Set{
		cfg: cfg, ready: make(chan struct{}), serving: map[int]bool{}, degraded: map[int]error{}, stalled: map[int]error{}, folding: map[int]Folding{},
		ended: make(chan end), running: map[int]context.CancelFunc{},
	}
}

// Ready is closed once all assigned partitions are served for the first time; at once if none is assigned.
func (s *Set) Ready() <-chan struct{} { return s.ready }

// Serving reports whether all assigned partitions are served. It is true if none is assigned, and false before the first
// assignment.
func (s *Set) Serving() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.allServing()
}

// Unready is the reason for operators why assigned partitions are not served properly: which are not served, what each waits
// for, and whose journal takes no writes. nil: none.
func (s *Set) Unready() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.assigned {
		return errUnassigned
	}
	var reasons []error
	for _, p := range s.wanted {
		switch cause := s.degraded[p]; {
		case !s.serving[p] && cause != nil:
			reasons = append(reasons, fmt.Errorf("partition %d is catching up with its journal: %w", p, cause))
		case !s.serving[p]:
			reasons = append(reasons, fmt.Errorf("partition %d is catching up with its journal", p))
		case cause != nil:
			reasons = append(reasons, fmt.Errorf("partition %d: %w", p, cause))
		}
		if cause := s.stalled[p]; cause != nil {
			reasons = append(reasons, fmt.Errorf("partition %d: its journal takes no writes: %w", p, cause))
		}
	}
	return errors.Join(reasons...)
}

var errUnassigned = errors.New("no partitions are assigned yet")

// Degraded records what a partition waits for, for Unready; nil clears it.
func (s *Set) Degraded(partition int, cause error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if cause == nil {
		delete(s.degraded, partition)
		return
	}
	s.degraded[partition] = cause
}

// Stall records why a partition's journal takes no writes, for Unready and Stalled; nil clears it.
func (s *Set) Stall(partition int, cause error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.stalled[partition]
	switch {
	case cause != nil:
		s.stalled[partition] = cause
		s.cfg.Logger.Warn("the journal of a partition takes no writes", "partition", partition, "cause", cause)
	case before != nil:
		delete(s.stalled, partition)
		s.cfg.Logger.Info("no more trouble with the journal of a partition", "partition", partition, "trouble", before)
	}
}

// Stalled lists the partitions whose journal takes no writes, sorted.
func (s *Set) Stalled() []int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.stalled))
}

// Served lists the partitions being served, sorted.
func (s *Set) Served() []int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.serving))
}

// allServing requires mu.
func (s *Set) allServing() bool {
	return s.assigned && !slices.ContainsFunc(s.wanted, func(p int) bool { return !s.serving[p] })
}

// noteReady requires mu. A partition assigned later does not make the service unready: its former replica serves it until then.
func (s *Set) noteReady() {
	if !s.allServing() {
		return
	}
	select {
	case <-s.ready:
	default:
		close(s.ready)
	}
}

const (
	flushWait  = 5 * time.Second // for one response of the server
	flushPause = time.Second     // between attempts
)

// Announce marks a partition as served, once the server knows the subscriptions made before the call: notified members send
// requests at once. The partition's replica calls it; it waits until the server responds or ctx ends. The partition counts as
// served until ctx ends or withdraw is called, which must happen before Start returns.
func (s *Set) Announce(ctx context.Context, partition int) (withdraw func()) {
	for !s.flush(ctx, partition) {
		if !wait.For(ctx, flushPause) {
			return func() {}
		}
	}
	s.notify(partition, true)
	once := sync.OnceFunc(func() { s.notify(partition, false) })
	stop := context.AfterFunc(ctx, once)
	return func() {
		stop()
		once() // waits if AfterFunc has already started it
	}
}

// Offer tells the members that a partition is ready to be served, so that its present replica lets it go. The partition does
// not count as served. Like Announce it holds until ctx ends or withdraw is called.
func (s *Set) Offer(ctx context.Context, partition int) (withdraw func()) {
	s.cfg.Served(partition, true)
	once := sync.OnceFunc(func() { s.cfg.Served(partition, false) })
	stop := context.AfterFunc(ctx, once)
	return func() {
		stop()
		once()
	}
}

func (s *Set) flush(ctx context.Context, partition int) bool {
	ctx, cancel := context.WithTimeout(ctx, flushWait)
	defer cancel()
	err := s.cfg.NC.FlushWithContext(ctx)
	if err != nil {
		s.cfg.Logger.Warn("the server does not confirm the subscriptions of a partition", "partition", partition, "error", err)
	}
	return err == nil
}

func (s *Set) notify(partition int, serving bool) {
	s.mu.Lock()
	if serving {
		s.serving[partition] = true
		delete(s.degraded, partition)
	} else {
		delete(s.serving, partition)
	}
	s.noteReady()
	s.mu.Unlock()
	s.cfg.Served(partition, serving)
}

// Run works on the assigned partitions, each in its own goroutine, until ctx ends; it then waits for them and returns nil, or
// the first Fatal error. A partition never has two replicas here, even if it is assigned again while its replica is stopping. A
// replica need not overlap its successor in another process: a members.Member keeps a partition assigned until its new owners
// serve it.
func (s *Set) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	err := s.run(ctx)
	cancel()
	go func() {
		s.all.Wait()
		close(s.ended)
	}()
	for e := range s.ended { // until all have stopped
		if err == nil {
			err = e.err
		}
	}
	return err
}

func (s *Set) run(ctx context.Context) error {
	assigned := s.cfg.Assigned
	if assigned == nil {
		s.assign(s.cfg.Partitions)
		s.adjust(ctx)
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case set, ok := <-assigned:
			if !ok {
				assigned = nil
				continue
			}
			s.assign(set)
		case e := <-s.ended:
			delete(s.running, e.partition)
			if e.err != nil {
				return e.err
			}
		}
		s.adjust(ctx)
	}
}

// assign records a set before any of its replicas starts. Otherwise the first one to serve would make the set ready.
func (s *Set) assign(set []int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wanted = slices.DeleteFunc(slices.Clone(set), func(p int) bool { return p < 0 || p >= s.cfg.Count })
	s.assigned = true
	s.noteReady()
}

// adjust stops unwanted replicas and starts missing ones.
func (s *Set) adjust(ctx context.Context) {
	for p, stop := range s.running {
		if !slices.Contains(s.wanted, p) {
			stop()
		}
	}
	for _, p := range s.wanted {
		if s.running[p] != nil {
			continue // running, or stopping: then adjust is called again once it has stopped
		}
		replica, stop := context.WithCancel(ctx)
		s.running[p] = stop
		s.all.Go(func() {
			defer stop()
			s.ended <- end{p, s.keep(replica, p)}
		})
	}
}

// keep runs the replica of a partition until ctx ends or an error is Fatal.
func (s *Set) keep(ctx context.Context, partition int) error {
	retry := wait.Backoff{Initial: s.cfg.InitialPause, Max: s.cfg.MaxPause}
	for {
		began := time.Now()
		err := s.cfg.Start(ctx, partition)
		if ctx.Err() != nil {
			s.Degraded(partition, nil)
			return nil
		}
		if err == nil {
			err = ErrEnded
		}
		if errors.As(err, new(fatal)) {
			return fmt.Errorf("partition %d: %w", partition, err)
		}
		if time.Since(began) >= s.cfg.Steady {
			retry.Reset()
		}
		s.Degraded(partition, err)
		pause := retry.Next()
		s.cfg.Logger.Warn("partition is restarted", "partition", partition, "pause", pause, "cause", err)
		if !wait.For(ctx, pause) {
			return nil
		}
	}
}
