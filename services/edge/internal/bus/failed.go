package bus

import (
	"context"
	"errors"
	"log/slog"

	"quire.dev/pkg/journal"
)

// onFailure ends a batch that the appender gave up on. It runs on the appender's goroutine.
func (l *lane[T, A]) onFailure(items []*item[T, A], number uint64, cause error) {
	l.mu.Lock()
	f, confirmed := l.flights[number], number > 0 && l.confirmed == number
	if !confirmed {
		delete(l.flights, number)
	}
	l.mu.Unlock()
	if confirmed {
		l.onStored(items, number, 0) // the answer arrived just as the appender gave up
		return
	}
	unknown := errors.Is(cause, journal.ErrUnknown)
	err := appendFault(cause)
	var settlements []*item[T, A]
	for _, it := range items {
		if it.settlement {
			settlements = append(settlements, it)
			continue
		}
		l.end(it, err)
	}
	if f != nil {
		l.drop(f, unknown)
	}
	l.bus.cfg.Logger.Warn("batch failed", slog.String("subject", l.subject), slog.Uint64("number", number),
		slog.Int("items", len(items)), slog.Int("settlements", len(settlements)), slog.Any("error", cause))
	if number == 0 && !errors.Is(cause, journal.ErrClosed) {
		settlements = l.keep(settlements)
	}
	if len(settlements) > 0 {
		l.store(settlements, number, f, unknown, cause)
	}
}

// keep requeues settlements that found no connection. It returns settlements that the appender no longer accepts.
func (l *lane[T, A]) keep(settlements []*item[T, A]) (refused []*item[T, A]) {
	for _, it := range settlements {
		if l.appender.Add(it) != nil {
			refused = append(refused, it)
		}
	}
	return refused
}

// store retries until the settlements of a failed batch are stored, or the bus stops. If the batch may have been stored, it
// publishes the same bytes again, since a settlement in another batch would count twice. If it was not stored, its number
// is free for a batch without the admissions, which have failed.
func (l *lane[T, A]) store(settlements []*item[T, A], number uint64, f *flight[T, A], unknown bool, cause error) {
	if f == nil || errors.Is(cause, journal.ErrClosed) || l.stopping.Err() != nil {
		l.lose(settlements, cause)
		return
	}
	l.stuck.Store(true)
	defer l.stuck.Store(false)
	data := f.data
	var err error
	if !unknown {
		data, err = l.encode(number, settlements)
	}
	if err == nil {
		err = l.insist(data)
	}
	if err != nil {
		l.lose(settlements, err)
		return
	}
	l.bus.metrics.batches.WithLabelValues(l.kind).Inc()
	l.journal.stored.Store(true)
	for _, it := range settlements {
		l.end(it, nil)
	}
}

func (l *lane[T, A]) lose(settlements []*item[T, A], cause error) {
	l.bus.cfg.Logger.Error("settlements were not stored", slog.String("subject", l.subject),
		slog.Int("settlements", len(settlements)), slog.Any("error", cause))
	l.lost += len(settlements)
	for _, it := range settlements {
		l.end(it, outcomeUnknown(cause))
	}
}

// insist retries one message until it is stored, or until DrainTimeout after the bus stops.
func (l *lane[T, A]) insist(data []byte) error {
	var failure error
	ctx, done := context.WithCancel(l.stopping)
	defer done()
	once, err := journal.NewAppender(l.bus.nc, journal.Config[[]byte]{
		Subject:   l.subject,
		AckWait:   l.bus.cfg.ResendAfter,
		DrainWait: l.bus.cfg.DrainTimeout,
		Encode:    func(_ uint64, items [][]byte) ([]byte, error) { return items[0], nil },
		Size:      func([]byte) int { return 0 },
		Acked:     func([][]byte, uint64, uint64) { done() },
		Failed:    func(_ [][]byte, _ uint64, err error) { failure = err; done() },
		Files:     l.bus.cfg.Shared.Files,
		Metrics:   l.bus.metrics.journals,
		Logger:    l.bus.cfg.Logger,
	})
	if err != nil {
		return err
	}
	if err := once.Add(data); err != nil {
		return err
	}
	return errors.Join(once.Run(ctx), failure)
}
