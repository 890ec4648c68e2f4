package document

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"quire.dev/pkg/document/fold"
	"quire.dev/pkg/event"
	"quire.dev/pkg/journal"
	"quire.dev/pkg/views"
)

// sweepPage is how many documents, outcomes or blobs a sweep handles together.
const sweepPage = 500

// sweeper removes from a partition what no request removes: expired documents, old outcomes and old requests in the journal.
// The orphanSweeper works beside it, so that a slow blob store delays none of this.
type sweeper struct {
	*scope
	journal    *journal.Journal
	model      *readModel
	projection *projection
	appender   *journal.Appender[*event.Request] // of expiries
}

// run runs each sweep when it is due by the engine's clock, until ctx ends.
func (s *sweeper) run(ctx context.Context) {
	b := s.cfg.Bounds
	sweeps := []*struct {
		name  string
		every time.Duration
		run   func(context.Context) error
		due   time.Time
	}{
		{name: "expiry", every: b.ExpiryEvery, run: s.sweepExpired},
		{name: "outcomes", every: b.OutcomesEvery, run: s.sweepOutcomes},
		{name: "journal", every: b.PurgeEvery, run: s.purge},
	}
	poll := time.NewTicker(b.SweepPoll)
	defer poll.Stop()
	for {
		for _, w := range sweeps {
			now := s.deps.Clock()
			if w.due.After(now) {
				continue
			}
			w.due = now.Add(w.every)
			if err := w.run(ctx); err != nil && ctx.Err() == nil {
				s.metrics.failures.WithLabelValues("sweep").Inc()
				s.log.Warn("sweep failed and will be retried", "sweep", w.name, "error", err)
			}
		}
		select {
		case <-poll.C:
		case <-ctx.Done():
			return
		}
	}
}

// newAppender returns the appender of expiries. Its batches have no source: they are not answered, and storing one twice is
// harmless.
func (s *sweeper) newAppender() (appender *journal.Appender[*event.Request], err error) {
	s.appender, err = journal.NewAppender(s.deps.NC, journal.Config[*event.Request]{
		Subject:   s.cfg.Policy.Domain.RequestSubject(s.number),
		MaxItems:  sweepPage,
		DrainWait: drainWait,
		Size:      func(r *event.Request) int { return r.SizeVT() + 4 },
		Encode: func(_ uint64, requests []*event.Request) ([]byte, error) {
			return event.Encode(&event.RequestBatch{StampMs: s.now(), OffsetMs: s.cfg.Offset.Milliseconds(), Requests: requests})
		},
		Failed: func(requests []*event.Request, _ uint64, err error) {
			s.log.Debug("expiries could not be stored", "documents", len(requests), "error", err) // the next sweep finds them again
		},
		Logger: s.log,
	})
	return s.appender, err
}

// expire asks the fold to remove an expired document. Without an item the request only moves the fold's time.
func (s *sweeper) expire(ctx context.Context, item string) error {
	id := event.NewRequestID()
	r := &event.Request{RequestId: id[:], Item: item, Action: &event.Request_Expire{Expire: &event.Expire{}}}
	return add(ctx, s.appender.Add, r)
}

// pages calls each with pages of documents of an index of this partition, in order, until it returns false.
func (s *sweeper) pages(ctx context.Context, collection, index string, each func(views.Doc) bool) error {
	q := views.Query{Index: index, Equal: []views.Value{views.Int(int64(s.number))}, Limit: sweepPage}
	at := slices.IndexFunc(Collections(s.cfg.Policy.Domain), func(c views.Collection) bool { return c.Name == collection })
	c := Collections(s.cfg.Policy.Domain)[at]
	order := c.Indexes[slices.IndexFunc(c.Indexes, func(i views.Index) bool { return i.Name == index })]
	for {
		docs, err := s.listPage(ctx, collection, q)
		if err != nil {
			return err
		}
		for _, d := range docs {
			if !each(d) {
				return nil
			}
		}
		if len(docs) < q.Limit {
			return nil
		}
		q = q.NextAfter(order, docs[len(docs)-1])
	}
}

func (s *sweeper) listPage(ctx context.Context, collection string, q views.Query) ([]views.Doc, error) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Bounds.ViewWait)
	defer cancel()
	docs, err := s.deps.Views.List(ctx, collection, q)
	if err != nil {
		return nil, fmt.Errorf("list %s by %s: %w", collection, q.Index, err)
	}
	return docs, nil
}

// sweepExpired removes the documents expired by this service's clock.
func (s *sweeper) sweepExpired(ctx context.Context) error {
	now := s.now()
	var failed error
	err := s.pages(ctx, s.names.documents, indexExpiry, func(d views.Doc) bool {
		if d.Keys.Get(keyExpires).Int64() > now {
			return false
		}
		if failed = s.expire(ctx, d.ID); failed != nil {
			return false
		}
		s.metrics.swept.WithLabelValues("expired").Inc()
		return true
	})
	return errors.Join(err, failed)
}

// sweepOutcomes deletes outcomes after 24 hours of the fold's time at the checkpoint. Messages after the checkpoint may be
// folded again, and must then find the same outcomes.
func (s *sweeper) sweepOutcomes(ctx context.Context) error {
	const keep = fold.KeepOutcomeMillis
	now := s.now()
	oldest := int64(0)
	err := s.pages(ctx, s.names.outcomes, indexDecided, func(d views.Doc) bool {
		oldest = d.Keys.Get(keyDecided).Int64()
		return false
	})
	if err != nil || oldest == 0 || oldest > now-keep {
		return err
	}
	if s.projection.time() < oldest+keep {
		// No message has moved the time for a while.
		if err := s.expire(ctx, ""); err != nil {
			return err
		}
		bounded, cancel := context.WithTimeout(ctx, s.cfg.Bounds.ViewWait)
		defer cancel()
		if err := s.projection.waitTime(bounded, oldest+keep); err != nil {
			return fmt.Errorf("wait for the fold's time: %w", err)
		}
	}
	until := min(now, s.projection.time()) - keep
	for {
		if n, err := s.deleteOutcomes(ctx, until); err != nil || n < sweepPage {
			return err
		}
	}
}

// deleteOutcomes deletes a page of the oldest outcomes decided up to untilMS, and returns how many. It uses many small commits,
// since the projection may have to wait for each.
func (s *sweeper) deleteOutcomes(ctx context.Context, untilMS int64) (int, error) {
	var old views.Batch
	err := s.pages(ctx, s.names.outcomes, indexDecided, func(d views.Doc) bool {
		if d.Keys.Get(keyDecided).Int64() > untilMS {
			return false
		}
		old.Deletes = append(old.Deletes, views.Delete{Collection: s.names.outcomes, ID: d.ID, Seq: d.Seq})
		return len(old.Deletes) < sweepPage
	})
	if err != nil || len(old.Deletes) == 0 {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Bounds.ViewWait)
	defer cancel()
	if err := s.deps.Views.Commit(ctx, old); err != nil {
		return 0, fmt.Errorf("delete %d outcomes: %w", len(old.Deletes), err)
	}
	s.metrics.swept.WithLabelValues("outcomes").Add(float64(len(old.Deletes)))
	return len(old.Deletes), nil
}

// purge removes projected requests past their retention from the journal.
func (s *sweeper) purge(ctx context.Context) error {
	state, err := s.journal.State(ctx)
	if err != nil || state.Messages == 0 {
		return err
	}
	young, err := s.journal.SeekTime(ctx, s.deps.Clock().Add(-s.cfg.Bounds.ContentRetention))
	if err != nil {
		return err
	}
	upTo := min(s.model.projected.Load(), young-1)
	if young == 0 || upTo < state.First {
		return nil
	}
	return s.journal.Purge(ctx, upTo)
}
