// Package lifecycle runs the components of a process: it starts them in order, waits for each to be ready, and stops
// them in the reverse order once one fails or the process is told to end.
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

// Readier is a Component that others depend on: those after it in a Group start when its channel is closed.
type Readier interface {
	Ready() <-chan struct{}
}

// Func makes a Component of a function.
type Func func(ctx context.Context) error

// Run implements Component.
func (f Func) Run(ctx context.Context) error { return f(ctx) }

// Errors that Group.Run wraps.
var (
	// ErrEnded says that a component returned without an error while it should have worked on.
	ErrEnded = errors.New("ended by itself")
	// ErrGrace says that a component did not stop in time, and was left behind.
	ErrGrace = errors.New("did not stop in time")
)

// PanicError is a panic of a component.
type PanicError struct {
	Value any
	Stack []byte
}

// Error implements error. It holds the stack.
func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v\n%s", e.Value, e.Stack) }

// Unwrap gives the value of the panic where that is an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

// DefaultGrace is the default of Group.Grace.
const DefaultGrace = 10 * time.Second

// Group runs components as one, and is a Component and a Readier itself. A component has all the time that it needs to be
// ready: one that is slow would be as slow after another start. Run is called once; Grace and Add are for use before that.
type Group struct {
	Grace time.Duration // bounds the time that each component takes to stop; DefaultGrace

	log        *slog.Logger
	components []*running
	ready      chan struct{}
	ended      chan *running // has room for all, so that no send waits
}

// running is the state of a component.
type running struct {
	name      string
	component Component
	cancel    context.CancelFunc
	done      chan struct{} // closed when Run has returned err
	err       error
	first     bool // its end is the failure that stops the group
}

// New returns an empty Group.
func New(log *slog.Logger) *Group {
	return &Group{Grace: DefaultGrace, log: log, ready: make(chan struct{})}
}

// Add puts a component at the end of the order in which they start.
func (g *Group) Add(name string, component Component) {
	g.components = append(g.components, &running{name: name, component: component, done: make(chan struct{})})
}

// Ready is closed once all components are ready.
func (g *Group) Ready() <-chan struct{} { return g.ready }

// Run starts the components one after the other and works until ctx ends or one of them fails, panics or ends by
// itself. It then stops them in reverse, each only after those started after it have stopped. It returns the first
// failure, and nil where there was none; later ones are logged.
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

// start returns the components that were started, with the failure that ended it early.
func (g *Group) start(ctx context.Context) ([]*running, error) {
	for i, c := range g.components {
		if ctx.Err() != nil {
			return g.components[:i], nil
		}
		// A component's context ends when it is its turn to stop, not when ctx does.
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
	case failed := <-g.ended: // c or one before it
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

// failure is the error of a component that ended before it was told to.
func (c *running) failure() error {
	c.first = true
	if c.err == nil {
		return fmt.Errorf("%s: %w", c.name, ErrEnded)
	}
	return fmt.Errorf("%s: %w", c.name, c.err)
}

// stop ends the components from the last to the first and returns the first failure of all.
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
