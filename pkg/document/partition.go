package document

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"quire.dev/pkg/document/fold"
	"quire.dev/pkg/document/sweep"
	"quire.dev/pkg/event"
	"quire.dev/pkg/journal"
	"quire.dev/pkg/replica"
	"quire.dev/pkg/rpc"
	"quire.dev/pkg/wait"
)

// scope is what all parts of a partition share.
type scope struct {
	cfg      *Config
	deps     *Deps
	metrics  *metrics
	number   int
	stream   string
	names    names
	log      *slog.Logger
	failed   chan error        // capacity 1
	degraded func(cause error) // reports to operators what the partition waits for; nil: nothing
}

// now is the service's time of day in Unix milliseconds, with the offset.
func (s *scope) now() int64 { return s.deps.Clock().Add(s.cfg.Offset).UnixMilli() }

// fail restarts the partition, from a callback that can't return an error.
func (s *scope) fail(err error) {
	select {
	case s.failed <- err:
	default: // it is restarting already
	}
}

// newRetry paces retries of a failing call.
func newRetry() wait.Backoff { return wait.Backoff{Initial: initialPause, Max: maxPause} }

// partition is one run of a partition from its checkpoint until it must restart. It starts and stops the parts: the applier,
// which decides; the projection, which writes the decisions into the read model; and the reader, lister and sweeper, which use
// both.
type partition struct {
	*scope
	replicas   *replica.Set
	journal    *journal.Journal
	model      *readModel
	applier    *applier
	projection *projection
	reader     *reader
	lister     *lister
	sweeper    *sweep.Sweeper
	blobs      *sweep.Blobs
	lease      *lease
	serving    *atomic.Pointer[reader] // of Engine.ReadNow
}

func (e *Engine) newPartition(number int) (*partition, error) {
	stream := e.cfg.Policy.Domain.Stream(number)
	s := &scope{
		cfg: &e.cfg, deps: &e.deps, metrics: e.metrics, number: number, stream: stream, names: namesOf(e.cfg.Policy.Domain),
		log: e.deps.Logger.With("partition", number), failed: make(chan error, 1),
		degraded: func(cause error) { e.replicas.Degraded(number, cause) },
	}
	run := e.runs.Add(1)
	lease, err := newLease(s, reading{e.instance, run}, e.cfg.Assigned == nil)
	if err != nil {
		return nil, err
	}
	p := &partition{
		scope: s, replicas: e.replicas, journal: e.deps.Shared.Files.Open(e.deps.NC, stream).With(e.metrics.journals),
		model: &readModel{scope: s}, lease: lease,
		serving: &e.readers[number],
	}
	memory := newMemory(run, e.cache)
	sweeps := s.sweeps(p.journal)
	p.blobs = sweep.NewBlobs(sweeps)
	p.projection = newProjection(s, p.model, memory, p.blobs)
	p.applier = newApplier(s, p.model, memory, p.projection, lease)
	p.reader = newReader(s, p.model, memory, &p.applier.position, lease)
	p.lister = &lister{scope: s, model: p.model, position: &p.applier.position, projection: p.projection, lease: lease}
	blobNames := &blobNames{scope: s, model: p.model, memory: memory}
	p.sweeper, err = sweep.New(sweeps, sweep.State{
		Folded: p.applier.position.Until, Projected: p.model.projected.Load, ProjectedMS: p.projection.time,
		AwaitProjected: p.projection.waitTime, NamedBlobs: blobNames.of, List: p.lister.answer,
	}, p.blobs)
	return p, err
}

// run folds and serves until ctx ends, then returns nil. An error restarts the partition.
func (p *partition) run(ctx context.Context) error {
	checkpoint, err := p.open(ctx)
	if err != nil {
		return err
	}
	defer p.replicas.Register(p.number, replica.Folding{Position: p.applier.position.Get, End: p.journal.LastSequence})()
	defer p.projection.hide()
	// The lease outlives the group, so that it can be released after the last answer.
	leasing, stopLeasing := context.WithCancel(context.WithoutCancel(ctx))
	var leases sync.WaitGroup
	leases.Go(func() { p.lease.run(leasing) })
	defer leases.Wait()
	defer stopLeasing()
	defer p.lease.release()
	// When ctx ends, accepted reads are answered first. They wait for the applier and the projection, which therefore end after
	// them. After an error all end at once.
	stopping := ctx
	base, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	group, ctx := errgroup.WithContext(base)
	serving, stopServing := context.WithCancel(ctx)
	defer stopServing()
	defer context.AfterFunc(stopping, stopServing)()
	p.applier.settler.start = func(run func(context.Context) error) { group.Go(func() error { return run(ctx) }) }
	group.Go(func() error {
		select {
		case err := <-p.failed:
			return err
		case <-ctx.Done():
			return nil
		}
	})
	for _, part := range []func(context.Context) error{p.sweeper.Append, p.applier.answerer.run, p.projection.run, p.blobs.Run} {
		group.Go(func() error { return part(ctx) })
	}
	group.Go(func() error { p.metrics.journals.Observe(ctx, p.journal); return nil })
	caughtUp := make(chan struct{})
	group.Go(func() error {
		defer stop()
		select {
		case <-caughtUp:
		case <-serving.Done():
			return nil
		}
		group.Go(func() error { p.watch(serving); return nil })
		return p.serve(serving, ctx)
	})
	group.Go(func() error {
		return p.journal.Follow(ctx, checkpoint, p.applier.handle, journal.FollowOptions{CaughtUp: func() { close(caughtUp) }})
	})
	return group.Wait()
}

// watch records whether the journal takes writes, until ctx ends.
func (p *partition) watch(ctx context.Context) {
	stall := func(cause error) { p.replicas.Stall(p.number, cause) }
	defer stall(nil)
	p.journal.NewConfirmer(p.cfg.Policy.Domain.RequestSubject(p.number), func() ([]byte, error) {
		return event.Encode(&event.RequestBatch{})
	}).Watch(ctx, journal.Watch{Position: p.applier.position.Get, Quiet: p.deps.Shared.Files != nil, Changed: stall})
}

// open loads the state at the checkpoint into the parts.
func (p *partition) open(ctx context.Context) (checkpoint uint64, err error) {
	var state *event.DomainState
	err = p.model.read(ctx, func(ctx context.Context) error {
		for {
			if checkpoint, err = p.model.checkpoint(ctx); err != nil {
				return err
			}
			if state, err = p.model.loadState(ctx); err != nil {
				return err
			}
			if state.GetSequence() == checkpoint {
				return nil
			}
			// Another replica has committed between the two reads.
			if err := ctx.Err(); err != nil {
				return fmt.Errorf("read state of %s at %d: %w", p.stream, checkpoint, err)
			}
		}
	})
	if err != nil {
		return 0, err
	}
	p.applier.state = fold.NewState(state)
	p.lease.restore(p.applier.state.Lease())
	p.applier.position.Set(checkpoint)
	p.model.projected.Store(checkpoint)
	p.model.committing.Store(checkpoint)
	p.projection.timeMS = p.applier.state.TimeMS()
	return checkpoint, nil
}

const (
	// replicaQueue is the queue group shared by the replicas of a partition: one of them answers each request.
	replicaQueue = "replicas"
	// drainWait bounds how long a stopping partition still answers, for each of its subscriptions, and still settles. Another
	// replica answers and settles the rest.
	drainWait = time.Second
)

// serve answers reads and lists, and sweeps, until ctx ends, except while another replica may do so. It begins once the applier
// has caught up. Reads accepted before ctx ends are answered within answering.
func (p *partition) serve(ctx, answering context.Context) error {
	for ctx.Err() == nil {
		if p.lease.isBarred() && !p.await(ctx) {
			return nil
		}
		if err := p.serveFree(ctx, answering); err != nil {
			return err
		}
	}
	return nil
}

// await waits until no other replica can hold the lease, which is released only once its holder knows that this one has caught
// up. It returns false if ctx ends first.
func (p *partition) await(ctx context.Context) bool {
	defer p.replicas.Offer(ctx, p.number)()
	p.degraded(errBarred)
	p.log.Info("caught up, another replica still answers the reads", "sequence", p.applier.position.Get())
	return p.lease.untilFree(ctx)
}

// serveFree serves until another replica has a lease or ctx ends.
func (p *partition) serveFree(ctx, answering context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var watching sync.WaitGroup
	watching.Go(func() {
		p.lease.untilBarred(ctx)
		stop()
	})
	defer watching.Wait()
	defer stop()
	domain := p.cfg.Policy.Domain
	defer p.reader.start(answering)()
	reads, err := rpc.ServeBatch(p.deps.NC, domain.ReadSubject(p.number), replicaQueue, p.reader.receive, rpc.WithLogger(p.log))
	if err != nil {
		return err
	}
	defer rpc.Stop(drainWait, reads)
	lists, err := rpc.Serve(p.deps.NC, domain.ListSubject(p.number), replicaQueue, p.cfg.Bounds.ListWorkers, p.lister.list, rpc.WithLogger(p.log))
	if err != nil {
		return err
	}
	defer rpc.Stop(drainWait, lists)
	erasures, err := rpc.Serve(p.deps.NC, domain.EraseSubject(p.number), replicaQueue, 1, p.sweeper.Erase, rpc.WithLogger(p.log))
	if err != nil {
		return err
	}
	defer rpc.Stop(drainWait, erasures)
	p.serving.Store(p.reader)
	defer p.serving.Store(nil)
	announced := p.deps.Clock()
	defer p.replicas.Announce(ctx, p.number)()
	p.log.Info("serving", "sequence", p.applier.position.Get())
	p.sweeper.Run(ctx, announced)
	return nil
}
