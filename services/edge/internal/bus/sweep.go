package bus

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"slices"
	"time"

	"github.com/nats-io/nats.go"

	"quire.dev/pkg/journal"
)

// sweepEvery is the sweep interval, and so the longest delay of a timeout.
const sweepEvery = 20 * time.Millisecond

// sweep times items out and resends unanswered batches. One timer serves all items: at tens of thousands of requests per
// second, one timer each would cost more than the requests.
func (b *Bus) sweep(ctx context.Context) {
	status := b.nc.StatusChanged(nats.CONNECTED)
	defer b.nc.RemoveStatusListener(status)
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for {
		reconnected := false
		select {
		case <-ctx.Done():
			return
		case <-status:
			// Announcements and answers may have been missed.
			reconnected = true
			b.refusals.clear()
		case <-tick.C:
		}
		now := b.elapsed()
		for _, l := range b.lanes {
			l.sweep(now, reconnected)
		}
	}
}

func (l *lane[T, A]) sweep(now time.Duration, reconnected bool) {
	for _, it := range l.takeExpired(now) {
		l.abandon(context.Background(), it)
	}
	unanswered, abandoned := l.takeOverdue(now, reconnected)
	for _, f := range abandoned {
		l.drop(f, true)
	}
	if unanswered != nil {
		l.resend(unanswered)
	}
}

func (l *lane[T, A]) resend(f *flight[T, A]) {
	l.bus.metrics.resends.WithLabelValues(l.kind).Inc()
	err := l.appender.Resend(f.number)
	if err != nil && !errors.Is(err, journal.ErrForgotten) && !errors.Is(err, nats.ErrConnectionClosed) {
		l.bus.cfg.Logger.Warn("batch was not sent again", slog.String("subject", l.subject), slog.Any("error", err))
	}
}

// takeExpired removes timed-out items from the front of the queue.
func (l *lane[T, A]) takeExpired(now time.Duration) (late []*item[T, A]) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for ; n < len(l.fifo); n++ {
		it := l.fifo[n]
		if it.state.Load() == over {
			continue
		}
		if it.expires > now {
			break
		}
		late = append(late, it)
	}
	l.fifo = slices.Delete(l.fifo, 0, n)
	return late
}

// takeOverdue scans the stored batches. It returns the one to resend and removes batches that nobody waits for. A fold keeps
// only the answers to a source's last batch, so resending an older one is useless.
func (l *lane[T, A]) takeOverdue(now time.Duration, reconnected bool) (unanswered *flight[T, A], abandoned []*flight[T, A]) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for number, f := range l.flights {
		if !f.stored {
			continue // the appender is still sending it
		}
		if reconnected {
			f.asked = math.MinInt64 / 2 // resend at once, since its answer may have been lost with the connection
		}
		if f.isAbandoned() {
			delete(l.flights, number)
			abandoned = append(abandoned, f)
		} else if number == l.newest && now-f.asked >= l.bus.cfg.ResendAfter {
			f.asked = now
			unanswered = f
		}
	}
	return unanswered, abandoned
}

// isAbandoned reports whether all unanswered items were abandoned.
func (f *flight[T, A]) isAbandoned() bool {
	return !slices.ContainsFunc(f.items, func(it *item[T, A]) bool { return it != nil && it.state.Load() != over })
}
