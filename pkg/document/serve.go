package document

import (
	"context"
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
	defer rpc.Stop(drainReads, reads)
	lists, err := rpc.Serve(s.e.deps.NC, domain.ListSubject(s.partition), replicaQueue, s.e.cfg.Bounds.ListWorkers, s.list, rpc.WithLogger(s.log))
	if err != nil {
		return err
	}
	defer rpc.Stop(drainReads, lists)
	defer s.e.replicas.Announce(ctx, s.partition)()
	s.log.Info("serving", "sequence", s.folded.Get())
	s.sweep(ctx)
	return nil
}
