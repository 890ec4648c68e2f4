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

// sweepEvery is how late a time-out may be noticed.
const sweepEvery = 20 * time.Millisecond

// sweep ends what is out of time and sends unanswered batches again. There is one timer for all: at tens of
// thousands of requests a second a timer each costs more than the requests.
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
	for _, it := range l.expired(now) {
		l.abandon(context.Background(), it)
	}
	unanswered, abandoned := l.overdue(now, reconnected)
	for _, f := range abandoned {
		l.dropped(f, true)
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

// expired takes those whose time is over from the front of the queue.
func (l *lane[T, A]) expired(now time.Duration) (late []*item[T, A]) {
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

// overdue looks through the stored batches. It returns the one to ask for again, and removes those that
// nobody waits for any more. A fold keeps the answer to a source's last batch only: an older batch would be
// stored once more for nothing.
func (l *lane[T, A]) overdue(now time.Duration, reconnected bool) (unanswered *flight[T, A], abandoned []*flight[T, A]) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for number, f := range l.flights {
		if !f.stored {
			continue // the appender is at it
		}
		if reconnected {
			f.asked = math.MinInt64 / 2 // long ago: its answer may have been lost with the connection
		}
		if f.abandoned() {
			delete(l.flights, number)
			abandoned = append(abandoned, f)
		} else if number == l.newest && now-f.asked >= l.bus.cfg.ResendAfter {
			f.asked = now
			unanswered = f
		}
	}
	return unanswered, abandoned
}

// abandoned tells whether all items that are not answered were given up.
func (f *flight[T, A]) abandoned() bool {
	return !slices.ContainsFunc(f.items, func(it *item[T, A]) bool { return it != nil && it.state.Load() != over })
}
