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
)

// journalSpeed is what one stream of three replicas stores when so many sources append to it, each with so many items
// that wait: what edges do, with nothing behind it.
type journalSpeed struct {
	sources, waiting int
	messages, items  float64 // a second
}

// journalCases: few sources with much, as with few edges; then many with little, as when many edges share many partitions.
func journalCases() []journalSpeed {
	return []journalSpeed{
		{sources: 1, waiting: 1},
		{sources: 2, waiting: 128},
		{sources: 2, waiting: 2048},
		{sources: 32, waiting: 1},
		{sources: 256, waiting: 1},
		{sources: 256, waiting: 8},
	}
}

const (
	journalItemBytes = 80 // of an admission, about
	journalTime      = 1500 * time.Millisecond
	journalWarmUp    = 500 * time.Millisecond
	// journalConnections are shared by the sources.
	journalConnections = 8
)

// journalAlone ends the services of a cluster and measures one stream without them. Afterwards they can't go on.
func (s *system) journalAlone(ctx context.Context) ([]journalSpeed, error) {
	for _, p := range s.cluster.Processes() {
		switch serviceOf(p.Name()) {
		case "nats", "mongo", "minio":
		default:
			if err := p.Kill(); err != nil {
				return nil, err
			}
		}
	}
	all := journalCases()
	for n := range all {
		if err := s.appendFor(ctx, &all[n]); err != nil {
			return nil, fmt.Errorf("append to one stream from %d sources: %w", all[n].sources, err)
		}
	}
	return all, nil
}

// appended counts what sources have stored.
type appended struct {
	messages, items atomic.Uint64
	failed          atomic.Pointer[error]
}

// source makes an appender that always has so many items waiting: one comes back for each that is stored.
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
				_ = a.Add(struct{}{}) // fails only once it is stopping
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

// appendFor runs the sources for a while and counts.
func (s *system) appendFor(ctx context.Context, speed *journalSpeed) error {
	running, cancel := context.WithCancel(ctx)
	defer cancel()
	var (
		to   appended
		all  sync.WaitGroup
		list []*journal.Appender[struct{}]
	)
	for n := range min(journalConnections, speed.sources) {
		nc, err := rpc.Connect(s.cluster.NATSURL("edge"), "edge", slog.New(slog.DiscardHandler))
		if err != nil {
			return err
		}
		defer nc.Close()
		for source := n; source < speed.sources; source += journalConnections {
			// An edge may publish to the journal of the files, which nobody folds any more.
			a, err := to.source(nc, event.File.RequestSubject(0), speed.waiting)
			if err != nil {
				return err
			}
			list = append(list, a)
		}
	}
	for _, a := range list {
		all.Go(func() { _ = a.Run(running) }) // what it can't store is given to failed
	}
	pause(ctx, journalWarmUp)
	messages, items, started := to.messages.Load(), to.items.Load(), time.Now()
	pause(ctx, journalTime)
	seconds := time.Since(started).Seconds()
	speed.messages, speed.items = float64(to.messages.Load()-messages)/seconds, float64(to.items.Load()-items)/seconds
	cancel()
	all.Wait()
	if err := to.failed.Load(); err != nil {
		return errors.Join(ctx.Err(), *err)
	}
	return ctx.Err()
}
