package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"quire.dev/pkg/event"
	"quire.dev/pkg/journal"
	"quire.dev/pkg/rpc"
	"quire.dev/pkg/wait"
	"quire.dev/tools/cluster"
)

// journalSpeed is what one stream of three replicas stores for a number of sources, each with a number of waiting items.
// Edges append in this way. No service reads the stream.
type journalSpeed struct {
	Sources  int
	Waiting  int
	Messages float64
	Items    float64
}

// journalCases begins with few sources of many items, as with few edges. Then come many sources of few items, as when many
// edges share many partitions.
func journalCases() []journalSpeed {
	return []journalSpeed{
		{Sources: 1, Waiting: 1},
		{Sources: 2, Waiting: 128},
		{Sources: 2, Waiting: 2048},
		{Sources: 32, Waiting: 1},
		{Sources: 256, Waiting: 1},
		{Sources: 256, Waiting: 8},
	}
}

const (
	journalItemBytes = 80 // about the size of an admission
	journalTime      = 1500 * time.Millisecond
	journalWarmUp    = 500 * time.Millisecond
	// journalConnections are shared by the sources.
	journalConnections = 8
)

// journalAlone kills the services of a cluster and measures one stream without them. The system can't be used afterwards.
func (s *system) journalAlone(ctx context.Context) ([]journalSpeed, error) {
	for _, p := range s.cluster.Processes(cluster.Services()...) {
		if err := p.Kill(); err != nil {
			return nil, err
		}
	}
	all := journalCases()
	for n := range all {
		if err := s.appendFor(ctx, &all[n]); err != nil {
			return nil, fmt.Errorf("append to one stream from %d sources: %w", all[n].Sources, err)
		}
	}
	return all, nil
}

// appended counts what the sources have stored.
type appended struct {
	messages, items atomic.Uint64
	failed          atomic.Pointer[error]
}

// source runs an appender that keeps the given number of items waiting, adding one for each stored.
func (to *appended) source(nc *nats.Conn, subject string, waiting int) (*journal.Appender[struct{}], error) {
	payload := make([]byte, journalItemBytes*waiting)
	var a *journal.Appender[struct{}]
	a, err := journal.NewAppender(nc, journal.Config[struct{}]{
		Subject: subject,
		Encode:  func(_ uint64, list []struct{}) ([]byte, error) { return payload[:journalItemBytes*len(list)], nil },
		Size:    func(struct{}) int { return journalItemBytes },
		Acked: func(list []struct{}, _, _ uint64) {
			to.messages.Add(1)
			to.items.Add(uint64(len(list)))
			for range list {
				_ = a.Add(struct{}{}) // it fails once the appender is stopping, as it should
			}
		},
		Failed: func(_ []struct{}, _ uint64, err error) { to.failed.Store(&err) },
	})
	if err != nil {
		return nil, err
	}
	for range waiting {
		if err := a.Add(struct{}{}); err != nil {
			return nil, err
		}
	}
	return a, nil
}

// appendFor runs the sources for a warm-up and for journalTime, and sets the messages and items of speed.
func (s *system) appendFor(ctx context.Context, speed *journalSpeed) error {
	running, cancel := context.WithCancel(ctx)
	defer cancel()
	var (
		to   appended
		all  sync.WaitGroup
		list []*journal.Appender[struct{}]
	)
	for n := range min(journalConnections, speed.Sources) {
		nc, err := rpc.Connect(s.cluster.NATSURL("edge"), "edge", slog.New(slog.DiscardHandler))
		if err != nil {
			return err
		}
		defer nc.Close()
		for source := n; source < speed.Sources; source += journalConnections {
			// The user of an edge may publish to the journal of the files, which no service folds now.
			a, err := to.source(nc, event.File.RequestSubject(0), speed.Waiting)
			if err != nil {
				return err
			}
			list = append(list, a)
		}
	}
	for _, a := range list {
		all.Go(func() { _ = a.Run(running) }) // the failure is in to.failed
	}
	wait.For(ctx, journalWarmUp)
	messages, items, started := to.messages.Load(), to.items.Load(), time.Now()
	wait.For(ctx, journalTime)
	seconds := time.Since(started).Seconds()
	speed.Messages, speed.Items = float64(to.messages.Load()-messages)/seconds, float64(to.items.Load()-items)/seconds
	cancel()
	all.Wait()
	if err := to.failed.Load(); err != nil {
		return errors.Join(ctx.Err(), *err)
	}
	return ctx.Err()
}
