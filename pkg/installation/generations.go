package installation

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go"

	"quire.dev/pkg/event"
	"quire.dev/pkg/journal"
)

// Generations says when a generation of a billing journal is closed: at a size or an age. Zero values never close one.
type Generations struct {
	Bytes int64
	Age   time.Duration // of its first message
	// Apart is the time from when a generation was seen to be deleted until a stream has its name again, so that a late request to delete
	// does not meet the wrong one. 0 suffices where one process does both.
	Apart time.Duration
}

// Apart is more than any connection outlives the process, or the network, that it has lost.
const Apart = time.Hour

// Enabled reports whether generations are closed at all.
func (g Generations) Enabled() bool { return g.Bytes > 0 || g.Age > 0 }

// due reports whether an open generation is to be closed.
func (g Generations) due(open journal.Generation, now time.Time) bool {
	if open.Last < open.First {
		return false // it is empty
	}
	return g.Bytes > 0 && open.Bytes >= uint64(g.Bytes) || g.Age > 0 && now.Sub(open.Oldest) >= g.Age
}

// CloseGenerations closes the generations of billing journals that are due, one partition after the other, and finishes what a killed call left.
// It does not wait where the generation before must be deleted first. In a cluster the job of Provision's user calls it. Only one call may run
// at a time.
func CloseGenerations(ctx context.Context, nc *nats.Conn, cfg Config, g Generations, log *slog.Logger) error {
	var errs []error
	for _, s := range Streams(event.Billing, cfg.Partitions) {
		s.Replicas = cfg.Replicas
		if err := closeGeneration(ctx, nc, s, cfg.Partitions, g, log); err != nil {
			errs = append(errs, fmt.Errorf("generations of %s: %w", s.Name, err))
		}
	}
	return errors.Join(errs...)
}

func closeGeneration(ctx context.Context, nc *nats.Conn, s journal.Stream, partitions int, g Generations, log *slog.Logger) error {
	if err := journal.Ensure(ctx, nc, []journal.Stream{s}, partitions); err != nil {
		return err
	}
	list, err := journal.Generations(ctx, nc, s)
	if err != nil {
		return err
	}
	open := list[len(list)-1]
	if len(list) == 1 && open.Number > 0 && g.Apart > 0 && open.Alone.IsZero() {
		return journal.NoteAlone(ctx, nc, open)
	}
	if !g.due(open, time.Now()) {
		return nil
	}
	switch {
	case len(list) > 1:
		log.Warn("a generation is due to be closed, but its predecessor is not deleted yet", "stream", s.Name, "generation", open.Number)
		return nil
	case open.Number > 0 && time.Since(open.Alone) < g.Apart:
		return nil
	}
	err = journal.Advance(ctx, nc, s, partitions)
	if errors.Is(err, journal.ErrGenerations) {
		return nil // the name of the next one was in use a moment ago
	}
	if err == nil {
		log.Info("a generation is closed, and the next one open", "stream", s.Name, "generation", open.Number, "bytes", open.Bytes)
	}
	return err
}
