// Package sweep cleans up a partition of documents: expired documents, old outcomes, old requests in the journal, and orphaned
// blobs. It also deletes the documents of erased accounts.
package sweep

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"quire.dev/pkg/document/fold"
	"quire.dev/pkg/event"
	"quire.dev/pkg/journal"
	"quire.dev/pkg/views"
)

// pageSize is how many documents, outcomes or blobs a sweep handles at once.
const pageSize = 500

// drainWait bounds how long requests are still stored after a stop. The next sweep repeats the rest.
const drainWait = time.Second

// Sweeper sweeps one partition. To delete a document, a sweep appends a request, which is folded like any other.
type Sweeper struct {
	cfg      *Config
	state    State
	orphans  *orphans
	requests *journal.Appender[*event.Request]
}

// New returns the sweeper of a partition. blobs is the partition's queue of blobs to delete.
func New(cfg *Config, state State, blobs *Blobs) (*Sweeper, error) {
	s := &Sweeper{cfg: cfg, state: state, orphans: &orphans{cfg: cfg, state: state, blobs: blobs}}
	var err error
	s.requests, err = s.newAppender()
	return s, err
}

// Append stores the requests of sweeps in the journal until ctx ends.
func (s *Sweeper) Append(ctx context.Context) error { return s.requests.Run(ctx) }

// Run runs each sweep when it is due, until ctx ends. The sweep of orphaned blobs runs in parallel, so that a slow blob store
// doesn't delay the others. It first runs OrphansEvery after the partition was announced, which gives an operator time to notice
// a wrong configuration.
func (s *Sweeper) Run(ctx context.Context, announced time.Time) {
	b := s.cfg.Bounds
	var group sync.WaitGroup
	defer group.Wait()
	if !b.KeepOrphans {
		group.Go(func() {
			s.cfg.repeat(ctx, &job{name: "orphans", every: b.OrphansEvery, run: s.orphans.sweep, due: announced.Add(b.OrphansEvery)})
		})
	}
	s.cfg.repeat(ctx,
		&job{name: "expiry", every: b.ExpiryEvery, run: s.sweepExpired},
		&job{name: "outcomes", every: b.OutcomesEvery, run: s.sweepOutcomes},
		&job{name: "journal", every: b.PurgeEvery, run: s.purge},
	)
}

type job struct {
	name  string
	every time.Duration
	run   func(context.Context) error
	due   time.Time
}

// repeat runs jobs when they are due by the clock, one at a time, until ctx ends.
func (c *Config) repeat(ctx context.Context, jobs ...*job) {
	poll := time.NewTicker(c.Bounds.Poll)
	defer poll.Stop()
	for {
		for _, j := range jobs {
			now := c.Clock()
			if j.due.After(now) {
				continue
			}
			j.due = now.Add(j.every)
			if err := j.run(ctx); err != nil && ctx.Err() == nil {
				c.Failures.WithLabelValues("sweep").Inc()
				c.Logger.Warn("sweep failed and will be run again", "sweep", j.name, "error", err)
			}
		}
		select {
		case <-poll.C:
		case <-ctx.Done():
			return
		}
	}
}

// newAppender returns the appender of requests. Its batches have no source: they are not answered, and one that is stored
// twice does nothing the second time.
func (s *Sweeper) newAppender() (*journal.Appender[*event.Request], error) {
	return journal.NewAppender(s.cfg.NC, journal.Config[*event.Request]{
		Subject:   s.cfg.Domain.RequestSubject(s.cfg.Partition),
		MaxItems:  pageSize,
		DrainWait: drainWait,
		Size:      func(r *event.Request) int { return r.SizeVT() + 4 },
		Encode: func(_ uint64, requests []*event.Request) ([]byte, error) {
			return event.Encode(&event.RequestBatch{StampMs: s.cfg.now(), OffsetMs: s.cfg.Offset.Milliseconds(), Requests: requests})
		},
		Failed: func(requests []*event.Request, _ uint64, err error) {
			s.cfg.Logger.Debug("requests of sweeps were not stored", "requests", len(requests), "error", err) // the next sweep finds them again
		},
		Files:   s.cfg.Files,
		Metrics: s.cfg.Journals,
		Logger:  s.cfg.Logger,
	})
}

// expire asks the fold to remove an expired document. Without an item the request only moves the fold's time.
func (s *Sweeper) expire(ctx context.Context, item string) error {
	id := event.NewRequestID()
	r := &event.Request{RequestId: id[:], Item: item, Action: &event.Request_Expire{Expire: &event.Expire{}}}
	return journal.WhenFree(ctx, s.requests.Add, r)
}

// pages calls each with the documents of this partition and their times, the earliest first, until it returns false.
func (s *Sweeper) pages(ctx context.Context, by ByTime, each func(d views.Doc, atMS int64) bool) error {
	q := views.Query{Index: by.Index.Name, Equal: []views.Value{views.Int(int64(s.cfg.Partition))}, Limit: pageSize}
	for {
		docs, err := s.listPage(ctx, by.Collection, q)
		if err != nil {
			return err
		}
		for _, d := range docs {
			if !each(d, by.timeOf(d)) {
				return nil
			}
		}
		if len(docs) < q.Limit {
			return nil
		}
		q = q.NextAfter(by.Index, docs[len(docs)-1])
	}
}

func (s *Sweeper) listPage(ctx context.Context, collection string, q views.Query) ([]views.Doc, error) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.CallWait)
	defer cancel()
	docs, err := s.cfg.Views.List(ctx, collection, q)
	if err != nil {
		return nil, fmt.Errorf("list %s by %s: %w", collection, q.Index, err)
	}
	return docs, nil
}

// sweepExpired has the fold remove the documents that are expired by this service's clock.
func (s *Sweeper) sweepExpired(ctx context.Context) error {
	now := s.cfg.now()
	var failed error
	err := s.pages(ctx, s.cfg.Expiring, func(d views.Doc, expires int64) bool {
		if expires > now {
			return false
		}
		if failed = s.expire(ctx, d.ID); failed != nil {
			return false
		}
		s.cfg.Swept.WithLabelValues("expired").Inc()
		return true
	})
	return errors.Join(err, failed)
}

// sweepOutcomes deletes outcomes after 24 hours of the fold's time at the checkpoint. Messages after the checkpoint may be
// folded again, and must then find the same outcomes.
func (s *Sweeper) sweepOutcomes(ctx context.Context) error {
	const keep = fold.KeepOutcomeMillis
	now := s.cfg.now()
	oldest := int64(0)
	err := s.pages(ctx, s.cfg.Outcomes, func(_ views.Doc, decided int64) bool {
		oldest = decided
		return false
	})
	if err != nil || oldest == 0 || oldest > now-keep {
		return err
	}
	if s.state.ProjectedMS() < oldest+keep {
		// No message has moved the time for a while.
		if err := s.expire(ctx, ""); err != nil {
			return err
		}
		bounded, cancel := context.WithTimeout(ctx, s.cfg.CallWait)
		defer cancel()
		if err := s.state.AwaitProjected(bounded, oldest+keep); err != nil {
			return fmt.Errorf("wait for the fold's time: %w", err)
		}
	}
	until := min(now, s.state.ProjectedMS()) - keep
	for {
		if n, err := s.deleteOutcomes(ctx, until); err != nil || n < pageSize {
			return err
		}
	}
}

// deleteOutcomes deletes a page of the oldest outcomes decided up to untilMS, and returns how many. It uses many small
// commits, since the projection may have to wait for each.
func (s *Sweeper) deleteOutcomes(ctx context.Context, untilMS int64) (int, error) {
	var old views.Batch
	err := s.pages(ctx, s.cfg.Outcomes, func(d views.Doc, decided int64) bool {
		if decided > untilMS {
			return false
		}
		old.Deletes = append(old.Deletes, views.Delete{Collection: s.cfg.Outcomes.Collection, ID: d.ID, Seq: d.Seq})
		return len(old.Deletes) < pageSize
	})
	if err != nil || len(old.Deletes) == 0 {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, s.cfg.CallWait)
	defer cancel()
	if err := s.cfg.Views.Commit(ctx, old); err != nil {
		return 0, fmt.Errorf("delete %d outcomes: %w", len(old.Deletes), err)
	}
	s.cfg.Swept.WithLabelValues("outcomes").Add(float64(len(old.Deletes)))
	return len(old.Deletes), nil
}

// purge removes requests from the journal that are projected and older than the retention.
func (s *Sweeper) purge(ctx context.Context) error {
	state, err := s.cfg.Journal.State(ctx)
	if err != nil || state.Messages == 0 {
		return err
	}
	young, err := s.cfg.Journal.SeekTime(ctx, s.cfg.Clock().Add(-s.cfg.Bounds.ContentRetention))
	if err != nil {
		return err
	}
	upTo := min(s.state.Projected(), young-1)
	if young == 0 || upTo < state.First {
		return nil
	}
	return s.cfg.Journal.Purge(ctx, upTo)
}
