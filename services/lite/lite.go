// Package lite is the service that owns quick pastes: package document with their policy.
package lite

import (
	"context"
	"time"

	"quire.dev/pkg/document"
	"quire.dev/pkg/document/fold"
	"quire.dev/pkg/event"
	"quire.dev/pkg/views"
)

// Config is what one instance folds.
type Config struct {
	Partitions []int        // all of them where it is nil
	Assigned   <-chan []int // in place of Partitions: each set replaces the one before
	// Served, if set, is told which partitions are served, as in document.Config.
	Served         func(partition int, serving bool)
	PartitionCount int             // of every domain
	Offset         time.Duration   // QUIRE_CLOCK_OFFSET, 0 outside development
	Bounds         document.Bounds // zero fields take their defaults
}

// Deps is what the service works with; it stays the caller's. Views has to be opened with Collections.
type Deps = document.Deps

// Collections are those of the read model that hold quick pastes.
func Collections() []views.Collection { return document.Collections(event.Lite) }

// Service folds and serves quick pastes.
type Service struct {
	engine *document.Engine
}

// New checks the configuration. Nothing is contacted before Run.
func New(cfg Config, deps Deps) (*Service, error) {
	engine, err := document.New(document.Config{
		Policy: fold.QuickPastes(), Partitions: cfg.Partitions, Assigned: cfg.Assigned, Served: cfg.Served,
		PartitionCount: cfg.PartitionCount, Offset: cfg.Offset, Bounds: cfg.Bounds,
	}, deps)
	if err != nil {
		return nil, err
	}
	return &Service{engine: engine}, nil
}

// Run serves until ctx ends, then returns nil. An error says that going on would be wrong: the journal
// is another one than the read model was made from, or could lose messages.
func (s *Service) Run(ctx context.Context) error { return s.engine.Run(ctx) }

// Ready is closed as soon as all partitions have caught up with their journals for the first time.
func (s *Service) Ready() <-chan struct{} { return s.engine.Ready() }

// Serving tells whether all partitions are served now.
func (s *Service) Serving() bool { return s.engine.Serving() }
