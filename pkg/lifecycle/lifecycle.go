// Package lifecycle runs the components of a process: it starts them in order, waits for each to be ready, and stops them in
// reverse order once one fails or the process is asked to end.
package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"time"
)

// Component is a part of a process that works until its context ends.
type Component interface {
	// Run works until ctx ends, then cleans up and returns nil or ctx's error.
	Run(ctx context.Context) error
}

// Readier is a Component that others depend on: those added later start once its channel is closed.
type Readier interface {
	Ready() <-chan struct{}
}

// Func adapts a function to a Component.
type Func func(ctx context.Context) error

// Run implements Component.
func (f Func) Run(ctx context.Context) error { return f(ctx) }

// Errors that Group.Run wraps.
var (
	// ErrEnded means that a component returned early without an error.
	ErrEnded = errors.New("ended by itself")
	// ErrGrace means that a component did not stop in time and was abandoned.
	ErrGrace = errors.New("did not stop in time")
)

// PanicError is a panic of a component.
type PanicError struct {
	Value any
	Stack []byte
}

// Error implements error. It includes the stack.
func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v\n%s", e.Value, e.Stack) }

// Unwrap returns the value of the panic if it is an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

// DefaultGrace is the default of Group.Grace.
const DefaultGrace = 10 * time.Second

// Group runs components as one, and is a Component and a Readier itself. Becoming ready has no time limit: a slow component
// would be as slow after a restart. Set Grace and call Add before Run, which is called once.
type Group struct {
	Grace time.Duration // bounds the stop of each component; DefaultGrace

	log        *slog.Logger
	components []*running
	ready      chan struct{}
	ended      chan *running // has room for all, so that no send blocks
}

// running is the state of a component.
type running struct {
	name      string
	component Component
	cancel    context.CancelFunc
	done      chan struct{} // closed when Run has returned err
	err       error
	first     bool // its failure stopped the group
}

// New returns an empty Group.
func New(log *slog.Logger) *Group {
	return &Group{Grace: DefaultGrace, log: log, ready: make(chan struct{})}
}

// Add appends a component to the starting order.
func (g *Group) Add(name string, component Component) {
	g.components = append(g.components, &running{name: name, component: component, done: make(chan struct{})})
}

// Ready is closed once all components are ready.
func (g *Group) Ready() <-chan struct{} { return g.ready }

// Run starts the components one by one and works until ctx ends or one of them fails, panics or returns early. It then stops
// them in reverse, each only after those started later have stopped. It returns the first failure, or nil; later ones are
// logged.
func (g *Group) Run(ctx context.Context) error {
	g.ended = make(chan *running, len(g.components))
	started, failure := g.start(ctx)
	if failure == nil && ctx.Err() == nil {
		close(g.ready)
		g.log.Info("ready", "components", len(g.components))
		select {
		case <-ctx.Done():
		case first := <-g.ended:
			failure = first.failure()
		}
	}
	if failure != nil {
		g.log.Error("stopping after a failure", "error", failure)
	} else {
		g.log.Info("stopping")
	}
	return g.stop(started, failure)
}

// start returns the components it started and the failure that interrupted it.
func (g *Group) start(ctx context.Context) ([]*running, error) {
	for i, c := range g.components {
		if ctx.Err() != nil {
			return g.components[:i], nil
		}
		// A component's context ends when its turn to stop comes, not with ctx.
		own, cancel := context.WithCancel(context.WithoutCancel(ctx))
		c.cancel = cancel
		go c.run(own, g.ended)
		if err := g.awaitReady(ctx, c); err != nil {
			return g.components[:i+1], err
		}
		g.log.Debug("started", "component", c.name)
	}
	return g.components, nil
}

func (g *Group) awaitReady(ctx context.Context, c *running) error {
	readier, ok := c.component.(Readier)
	if !ok {
		return nil
	}
	select {
	case <-readier.Ready():
		return nil
	case <-ctx.Done():
		return nil
	case failed := <-g.ended: // c or an earlier one
		return failed.failure()
	}
}

// run is the goroutine of a component.
func (c *running) run(ctx context.Context, ended chan<- *running) {
	defer func() {
		if value := recover(); value != nil {
			c.err = &PanicError{Value: value, Stack: debug.Stack()}
		}
		close(c.done)
		ended <- c
	}()
	c.err = c.component.Run(ctx)
}

// failure is the error of a component that ended early.
func (c *running) failure() error {
	c.first = true
	if c.err == nil {
		return fmt.Errorf("%s: %w", c.name, ErrEnded)
	}
	return fmt.Errorf("%s: %w", c.name, c.err)
}

// stop stops the components from last to first and returns the first failure of all.
func (g *Group) stop(started []*running, failure error) error {
	for i := len(started) - 1; i >= 0; i-- {
		c := started[i]
		err := g.stopOne(c)
		if err == nil || c.first {
			continue
		}
		if failure == nil {
			failure = err
		} else {
			g.log.Error("another failure while stopping", "error", err)
		}
	}
	return failure
}

func (g *Group) stopOne(c *running) error {
	c.cancel()
	timer := time.NewTimer(g.Grace)
	defer timer.Stop()
	select {
	case <-c.done:
		if c.err == nil || errors.Is(c.err, context.Canceled) {
			g.log.Debug("stopped", "component", c.name)
			return nil
		}
		return fmt.Errorf("%s: %w", c.name, c.err)
	case <-timer.C:
		return fmt.Errorf("%s: %w (%s)", c.name, ErrGrace, g.Grace)
	}
}
