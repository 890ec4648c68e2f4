package document

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"quire.dev/pkg/document/fold"
	"quire.dev/pkg/event"
	"quire.dev/pkg/journal"
	"quire.dev/pkg/views"
	"quire.dev/pkg/wait"
)

// errAhead says that somebody else has projected this partition further than this session has: what
// the read model holds is not what the fold needs, so the session has to start again from there.
var errAhead = errors.New("another instance projects this partition")

// errBehind says that the read model does not come to hold what this session has found or put there.
var errBehind = errors.New("the read model is older than it was")

// session is one partition from its checkpoint until something makes it start again.
type session struct {
	e         *Engine
	partition int
	stream    string
	names     names
	log       *slog.Logger
	journal   *journal.Journal
	mem       *memory
	pending   *pendingLog
	blobs     *blobQueue
	sweeps    *journal.Appender[*event.Request]

	pulse    *pulse
	group    *errgroup.Group
	caughtUp chan struct{}
	once     sync.Once
	broken   chan error // holds one

	folded     wait.Position
	committing atomic.Uint64 // checkpoint that a commit under way moves to

	// Of the goroutine that folds.
	state    *fold.State
	settlers map[int]*journal.Appender[*settlements]
	recent   map[string]*message // last message of each source, to be answered again
}

func (e *Engine) newSession(partition int) *session {
	stream := e.cfg.Policy.Domain.Stream(partition)
	return &session{
		e: e, partition: partition, stream: stream, names: namesOf(e.cfg.Policy.Domain),
		log:     e.deps.Logger.With("partition", partition),
		journal: journal.Open(e.deps.NC, stream), mem: newMemory(e.sessions.Add(1), e.cache),
		blobs: newBlobQueue(), caughtUp: make(chan struct{}), broken: make(chan error, 1),
		settlers: map[int]*journal.Appender[*settlements]{}, recent: map[string]*message{},
	}
}

// run folds until ctx ends or something fails that starting again may cure.
func (s *session) run(ctx context.Context) error {
	checkpoint, err := s.open(ctx)
	if err != nil {
		return err
	}
	if err := s.completeEarlier(ctx, checkpoint); err != nil {
		return err
	}
	// When ctx ends, the reads that were taken are answered first: they wait for the fold and the
	// projection, which therefore end after them. When something fails, all end at once.
	stopping := ctx
	base, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	group, ctx := errgroup.WithContext(base)
	serving, stopServing := context.WithCancel(ctx)
	defer stopServing()
	defer context.AfterFunc(stopping, stopServing)()
	s.group = group
	if s.sweeps, err = s.newSweepAppender(); err != nil {
		return err
	}
	group.Go(func() error { return s.sweeps.Run(ctx) })
	group.Go(func() error {
		select {
		case err := <-s.broken:
			return err
		case <-ctx.Done():
			return nil
		}
	})
	s.pulse = newPulse()
	group.Go(func() error { return s.pulse.beat(ctx) })
	group.Go(func() error { return s.project(ctx) })
	group.Go(func() error { return s.deleteBlobs(ctx) })
	group.Go(func() error {
		defer stop()
		select {
		case <-s.caughtUp:
		case <-serving.Done():
			return nil
		}
		return s.serve(serving, ctx)
	})
	group.Go(func() error {
		return s.journal.Follow(ctx, checkpoint, s.handle, journal.FollowOptions{CaughtUp: func() { s.once.Do(func() { close(s.caughtUp) }) }})
	})
	return group.Wait()
}

// open reads where to go on.
func (s *session) open(ctx context.Context) (checkpoint uint64, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.e.cfg.Bounds.ViewWait)
	defer cancel()
	for {
		if checkpoint, err = s.e.deps.Views.Checkpoint(ctx, s.stream); err != nil {
			return 0, fmt.Errorf("read checkpoint of %s: %w", s.stream, err)
		}
		state, err := s.loadState(ctx)
		if err != nil {
			return 0, err
		}
		if state.GetSequence() != checkpoint {
			// Somebody has committed in between.
			if err := ctx.Err(); err != nil {
				return 0, fmt.Errorf("read state of %s at %d: %w", s.stream, checkpoint, err)
			}
			continue
		}
		s.state = fold.NewState(state)
		s.pending = newPendingLog(s.e.cfg.Bounds.OverlayBytes, s.e.cfg.Bounds.OverlayMessages, checkpoint, s.state.TimeMS())
		s.folded.Set(checkpoint)
		s.committing.Store(checkpoint)
		return checkpoint, nil
	}
}

// loadState is nil where nothing was ever committed.
func (s *session) loadState(ctx context.Context) (*event.DomainState, error) {
	docs, err := s.e.deps.Views.Load(ctx, s.names.states, []string{s.stream}, views.Heads)
	if err != nil {
		return nil, fmt.Errorf("load state of %s: %w", s.stream, err)
	}
	if len(docs) == 0 {
		return nil, nil
	}
	state := &event.DomainState{}
	if err := event.Decode(docs[0].Head, state); err != nil {
		return nil, fmt.Errorf("load state of %s: %w", s.stream, err)
	}
	return state, nil
}

// attempt calls the read model or the blob store until it answers; ctx's error where that ends first.
// An error that trying again can't cure is returned.
func (s *session) attempt(ctx context.Context, what string, call func(context.Context) error) error {
	return s.attemptFor(ctx, s.e.cfg.Bounds.ViewWait, what, call)
}

// attemptFor is attempt with another bound of each call.
func (s *session) attemptFor(ctx context.Context, wait time.Duration, what string, call func(context.Context) error) error {
	for retry := newRetry(); ; {
		bounded, cancel := context.WithTimeout(ctx, wait)
		err := call(bounded)
		cancel()
		if err == nil || errors.Is(err, views.ErrInvalid) || errors.Is(err, views.ErrTooLarge) ||
			errors.Is(err, views.ErrConflict) || errors.Is(err, errAhead) || errors.Is(err, errBehind) {
			return err
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		s.e.metrics.failures.WithLabelValues(what).Inc()
		s.log.Warn("call failed and will be tried again", "call", what, "error", err)
		retry.Wait(ctx)
	}
}

// newRetry paces calls that are tried again.
func newRetry() wait.Backoff {
	return wait.Backoff{First: firstPause, Most: mostPause}
}

// Between two attempts at a call that failed, and between two sessions of a partition. Two replicas that project one
// partition end each other's sessions; the pauses let one of them finish.
const (
	firstPause = 10 * time.Millisecond
	mostPause  = time.Second
)
