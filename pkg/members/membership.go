package members

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
)

// Membership is a Member that joins when Host is called: a service that follows its assignments can be made, and
// operators can be answered, while no server is there yet. Host is called once.
type Membership struct {
	nc     *nats.Conn
	cfg    Config
	out    chan []int
	member atomic.Pointer[Member] // nil until it has joined
}

// NewMembership contacts no server.
func NewMembership(nc *nats.Conn, cfg Config) *Membership {
	return &Membership{nc: nc, cfg: cfg.withDefaults(), out: make(chan []int)}
}

// Instance is as that of a Member.
func (m *Membership) Instance() string { return m.cfg.Instance }

// Live is as that of a Member, and nil before it has joined. Safe for concurrent use.
func (m *Membership) Live() []string {
	if member := m.member.Load(); member != nil {
		return member.Live()
	}
	return nil
}

// Assigned is as that of a Member.
func (m *Membership) Assigned() <-chan []int { return m.out }

// Serving is as that of a Member. Safe for concurrent use.
func (m *Membership) Serving(partition int, serving bool) {
	if member := m.member.Load(); member != nil { // else nothing was assigned
		member.Serving(partition, serving)
	}
}

// Host joins, for which it waits as long as there is no server, and then is as that of a Member. It
// returns nil where ctx ends first, and Join's error where that fails.
func (m *Membership) Host(ctx context.Context, run func(ctx context.Context) error) error {
	member, err := Join(ctx, m.nc, m.cfg)
	if err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	m.member.Store(member)
	passing, stop := context.WithCancel(context.WithoutCancel(ctx))
	passed := make(chan struct{})
	go func() {
		defer close(passed)
		m.pass(passing, member.Assigned())
	}()
	err = member.Host(ctx, run)
	stop()
	<-passed
	return err
}

// pass hands over every set, in order. A partition that is taken away and assigned again must be stopped in between.
func (m *Membership) pass(ctx context.Context, sets <-chan []int) {
	defer close(m.out)
	for set := range sets { // until the member has ended
		select {
		case m.out <- set:
		case <-ctx.Done():
			return
		}
	}
}

// StopTime bounds the time that Host takes to stop, besides run's own.
func (m *Membership) StopTime() time.Duration {
	return m.cfg.Handover + m.cfg.Heartbeat + 2*callTimeout(m.cfg)
}
