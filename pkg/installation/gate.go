package installation

import (
	"context"
	"log/slog"
)

// Gate is a part of a process that delays later parts until all stores belong to one installation.
type Gate struct {
	log      *slog.Logger
	journals Place
	others   func() []Place
	ready    chan struct{}
	id       string // set before ready is closed
}

// NewGate returns a Gate. Run calls others once.
func NewGate(log *slog.Logger, journals Place, others func() []Place) *Gate {
	return &Gate{log: log, journals: journals, others: others, ready: make(chan struct{})}
}

// Run returns ErrMixed, or works until ctx ends.
func (g *Gate) Run(ctx context.Context) error {
	id, err := Await(ctx, g.log, g.journals, g.others()...)
	switch {
	case ctx.Err() != nil:
		return nil
	case err != nil:
		return err
	}
	g.id = id
	close(g.ready)
	<-ctx.Done()
	return nil
}

// Ready is closed once all stores belong to one installation.
func (g *Gate) Ready() <-chan struct{} { return g.ready }

// ID is the installation's id. Use it after Ready.
func (g *Gate) ID() string { return g.id }
