// Package replica runs a service's replicas of partitions in one process: it starts and stops them as partitions are
// assigned, starts those that fail again, and knows which of them serve.
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

// Fatal marks an error of Config.Start after which going on would be wrong: Run stops all replicas and returns it.
func Fatal(err error) error { return fatal{err} }

type fatal struct{ error }

func (f fatal) Unwrap() error { return f.error }

// Config describes a Set. Zero durations take the defaults given beside them.
type Config struct {
	Count int // of the partitions that exist; others that are assigned are left out
	// Partitions are those that the process works on for good where Assigned is nil. nil: all of them.
	Partitions []int
	// Assigned gives the partitions to work on: each set replaces the one before, and the last one stays after it is
	// closed. Run starts none before the first.
	Assigned <-chan []int
	// Served, where it is not nil, is told that a partition is served from now on, or is no longer served. It is
	// called by several goroutines, in order for each partition, and must not block.
	Served func(partition int, serving bool)

	// Start folds and serves one partition until ctx ends. It is called again after an error that is not Fatal, with
	// doubling pauses between.
	Start      func(ctx context.Context, partition int) error
	FirstPause time.Duration // 100 ms
	MostPause  time.Duration // 10 s
	Steady     time.Duration // how long a replica has to work for the pauses to begin again at FirstPause; 10 s

	NC     *nats.Conn // of the replicas' subscriptions
	Logger *slog.Logger
}

// Set is the replicas of one process. Safe for concurrent use, except that Run is called once.
type Set struct {
	cfg   Config
	ready chan struct{} // closed once all assigned partitions are served

	mu       sync.Mutex
	assigned bool         // a set was given
	wanted   []int        // the newest set
	serving  map[int]bool // partitions that are served now
	troubles map[int]error
	folding  map[int]Folding

	// Of the goroutine of Run.
	all     sync.WaitGroup
	ended   chan end
	running map[int]context.CancelFunc // until the replica has stopped
}

// end of a replica; the error is nil where it was stopped.
type end struct {
	partition int
	err       error
}

// NewSet starts nothing before Run.
func NewSet(cfg Config) *Set {
	for _, d := range []struct {
		value     *time.Duration
		otherwise time.Duration
	}{{&cfg.FirstPause, 100 * time.Millisecond}, {&cfg.MostPause, 10 * time.Second}, {&cfg.Steady, 10 * time.Second}} {
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
		cfg: cfg, ready: make(chan struct{}), serving: map[int]bool{}, troubles: map[int]error{}, folding: map[int]Folding{},
		ended: make(chan end), running: map[int]context.CancelFunc{},
	}
}

// Ready is closed as soon as all assigned partitions are served for the first time; at once where none is assigned.
func (s *Set) Ready() <-chan struct{} { return s.ready }

// Serving tells whether all assigned partitions are served now. It is true where none is assigned, and false before the
// first assignment.
func (s *Set) Serving() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.allServing()
}

// Unready tells operators why not all assigned partitions are served as they should be: which are not served, and what any
// of them waits for. nil: all is well.
func (s *Set) Unready() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.assigned {
		return errUnassigned
	}
	var reasons []error
	for _, p := range s.wanted {
		switch cause := s.troubles[p]; {
		case !s.serving[p] && cause != nil:
			reasons = append(reasons, fmt.Errorf("partition %d is catching up with its journal: %w", p, cause))
		case !s.serving[p]:
			reasons = append(reasons, fmt.Errorf("partition %d is catching up with its journal", p))
		case cause != nil:
			reasons = append(reasons, fmt.Errorf("partition %d: %w", p, cause))
		}
	}
	return errors.Join(reasons...)
}

var errUnassigned = errors.New("no partitions are assigned yet")

// Trouble notes what a partition waits for, which Unready tells; nil: it does not wait any more.
func (s *Set) Trouble(partition int, cause error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if cause == nil {
		delete(s.troubles, partition)
		return
	}
	s.troubles[partition] = cause
}

// Served lists the partitions that are served now, sorted.
func (s *Set) Served() []int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.serving))
}

// allServing is called with mu held.
func (s *Set) allServing() bool {
	return s.assigned && !slices.ContainsFunc(s.wanted, func(p int) bool { return !s.serving[p] })
}

// noteReady is called with mu held. A partition that is assigned later does not make the service unready: the replica
// that had it before serves it until then.
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
	flushWait  = 5 * time.Second // for one answer of the server
	flushPause = time.Second     // before it is asked again
)

// Announce tells that a partition is served, once the server knows the subscriptions made before the call: the members
// that are told ask at once. It is called by the partition's replica, and waits until the server answers or ctx ends.
// The partition counts as served until ctx ends or withdraw is called, which must be called before Start returns.
func (s *Set) Announce(ctx context.Context, partition int) (withdraw func()) {
	for !s.flush(ctx, partition) {
		if !wait.For(ctx, flushPause) {
			return func() {}
		}
	}
	s.tell(partition, true)
	once := sync.OnceFunc(func() { s.tell(partition, false) })
	stop := context.AfterFunc(ctx, once)
	return func() {
		stop()
		once() // waits where AfterFunc has begun it
	}
}

// Offer tells the members that a partition could be served, so that the replica that serves it lets it go. It does not
// count as served. Like Announce it holds until ctx ends or withdraw is called.
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

func (s *Set) tell(partition int, serving bool) {
	s.mu.Lock()
	if serving {
		s.serving[partition] = true
		delete(s.troubles, partition)
	} else {
		delete(s.serving, partition)
	}
	s.noteReady()
	s.mu.Unlock()
	s.cfg.Served(partition, serving)
}

// Run works on the assigned partitions, each in a goroutine of its own, until ctx ends; it then waits for them and
// returns nil, or the first error that is Fatal. One partition never has two replicas here, even if it is assigned
// again while its replica is stopping. A replica need not overlap its successor in another process: a members.Member
// keeps a partition assigned until its new owners serve it.
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

// assign notes a set before any of its replicas starts. Otherwise the first one to serve would make the set ready.
func (s *Set) assign(set []int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wanted = slices.DeleteFunc(slices.Clone(set), func(p int) bool { return p < 0 || p >= s.cfg.Count })
	s.assigned = true
	s.noteReady()
}

// adjust stops the replicas that are not wanted and starts those that are missing.
func (s *Set) adjust(ctx context.Context) {
	for p, stop := range s.running {
		if !slices.Contains(s.wanted, p) {
			stop()
		}
	}
	for _, p := range s.wanted {
		if s.running[p] != nil {
			continue // or it is still stopping: adjust is called again when it has stopped
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
	retry := wait.Backoff{First: s.cfg.FirstPause, Most: s.cfg.MostPause}
	for {
		began := time.Now()
		err := s.cfg.Start(ctx, partition)
		if ctx.Err() != nil {
			s.Trouble(partition, nil)
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
		s.Trouble(partition, err)
		pause := retry.Next()
		s.cfg.Logger.Warn("partition is started again", "partition", partition, "pause", pause, "cause", err)
		if !wait.For(ctx, pause) {
			return nil
		}
	}
}
