package members

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
)

// Late is a member that joins as it begins to work, and not before: what folds its assignments can be made,
// and operators be answered, while no server is there yet. Host is called once.
type Late struct {
	nc     *nats.Conn
	cfg    Config
	out    chan []int
	member atomic.Pointer[Member] // nil until it has joined
}

// NewLate contacts nobody.
func NewLate(nc *nats.Conn, cfg Config) *Late {
	return &Late{nc: nc, cfg: cfg.withDefaults(), out: make(chan []int)}
}

// Instance is as that of a Member.
func (l *Late) Instance() string { return l.cfg.Instance }

// Live is as that of a Member; none before it has joined. Safe for concurrent use.
func (l *Late) Live() []string {
	if m := l.member.Load(); m != nil {
		return m.Live()
	}
	return nil
}

// Assigned is as that of a Member.
func (l *Late) Assigned() <-chan []int { return l.out }

// Serving is as that of a Member. Safe for concurrent use.
func (l *Late) Serving(partition int, serving bool) {
	if m := l.member.Load(); m != nil { // else nothing was assigned
		m.Serving(partition, serving)
	}
}

// Host joins, for which it waits as long as there is no server, and then is as that of a Member. It
// returns nil where ctx ends first, and Join's error where that fails.
func (l *Late) Host(ctx context.Context, run func(ctx context.Context) error) error {
	m, err := Join(ctx, l.nc, l.cfg)
	if err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	l.member.Store(m)
	passing, stop := context.WithCancel(context.WithoutCancel(ctx))
	passed := make(chan struct{})
	go func() {
		defer close(passed)
		l.pass(passing, m.Assigned())
	}()
	err = m.Host(ctx, run)
	stop()
	<-passed
	return err
}

// pass hands over every set, in order: what was taken away for a moment has to be stopped, and told of
// anew.
func (l *Late) pass(ctx context.Context, sets <-chan []int) {
	defer close(l.out)
	for set := range sets { // until the member is gone
		select {
		case l.out <- set:
		case <-ctx.Done():
			return
		}
	}
}

// StopTime is how long a stop takes at most of Host, besides run's own.
func (l *Late) StopTime() time.Duration {
	return l.cfg.Handover + l.cfg.Heartbeat + 2*callWait(l.cfg)
}
