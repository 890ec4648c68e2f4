package document

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"quire.dev/pkg/rpc"
)

// replicaQueue is the queue group that the replicas of a partition share: each request is answered by one of them.
// Its name on the wire stays, since replicas of an older version share it.
const replicaQueue = "folders"

// drainReads bounds how long a session that ends still answers, after each of its subscriptions.
const drainReads = time.Second

// serve answers reads and lists, and sweeps, until ctx ends. It begins once the fold has caught up, so
// that what was acknowledged before is seen. The reads that were taken are answered then, as far as
// session, within which ctx is, goes on.
func (s *session) serve(ctx, session context.Context) error {
	domain := s.e.cfg.Policy.Domain
	reader := s.newReader()
	reading, stopReading := context.WithCancel(session)
	var workers sync.WaitGroup
	defer func() {
		close(reader.closing) // nothing more comes
		timer := time.AfterFunc(drainReads, stopReading)
		workers.Wait()
		timer.Stop()
		stopReading()
	}()
	for range s.e.cfg.Bounds.ReadWorkers {
		workers.Go(func() { reader.work(reading) })
	}
	reads, err := rpc.ServeBatch(s.e.deps.NC, domain.ReadSubject(s.partition), replicaQueue, reader.receive, rpc.WithLogger(s.log))
	if err != nil {
		return err
	}
	defer drain(reads)
	lists, err := rpc.Serve(s.e.deps.NC, domain.ListSubject(s.partition), replicaQueue, s.e.cfg.Bounds.ListWorkers, s.list, rpc.WithLogger(s.log))
	if err != nil {
		return err
	}
	defer drain(lists)
	if err := s.flush(ctx); err != nil {
		return err
	}
	s.e.setServing(s.partition, true)
	s.log.Info("serving", "sequence", s.folded.Get())
	s.sweep(ctx)
	s.e.setServing(s.partition, false)
	return nil
}

// flush waits until the server knows the subscriptions: who is told that this partition is served must
// find it so.
func (s *session) flush(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s.e.cfg.Bounds.ReadWait)
	defer cancel()
	if err := s.e.deps.NC.FlushWithContext(ctx); err != nil {
		return fmt.Errorf("subscribe to reads of %s: %w", s.stream, err)
	}
	return nil
}

// drain takes no more requests and answers those it has. That it took too long is no news: who asked
// asks another replica.
func drain(server *rpc.Server) {
	ctx, cancel := context.WithTimeout(context.Background(), drainReads)
	defer cancel()
	if err := server.Drain(ctx); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return
	}
}
