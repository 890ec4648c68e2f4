package document

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"quire.dev/pkg/blob"
	"quire.dev/pkg/document/fold"
	"quire.dev/pkg/event"
	"quire.dev/pkg/journal"
	"quire.dev/pkg/views"
)

// sweepPage is how many documents, outcomes or blobs a sweep looks at together.
const sweepPage = 500

// sweeper is something nobody asks for that has to be done now and then.
type sweeper struct {
	what  string
	every time.Duration
	run   func(context.Context) error
	due   time.Time
}

// sweep runs what is due by the engine's clock until ctx ends.
func (s *session) sweep(ctx context.Context) {
	b := s.e.cfg.Bounds
	sweepers := []*sweeper{
		{what: "expiry", every: b.ExpiryEvery, run: s.sweepExpired},
		{what: "outcomes", every: b.OutcomesEvery, run: s.sweepOutcomes},
		{what: "orphans", every: b.OrphansEvery, run: s.sweepOrphans},
		{what: "journal", every: b.PurgeEvery, run: s.purge},
	}
	poll := time.NewTicker(b.SweepPoll)
	defer poll.Stop()
	for {
		for _, w := range sweepers {
			now := s.e.deps.Clock()
			if w.due.After(now) {
				continue
			}
			w.due = now.Add(w.every)
			if err := w.run(ctx); err != nil && ctx.Err() == nil {
				s.e.metrics.failures.WithLabelValues("sweep").Inc()
				s.log.Warn("sweep failed and will be run again", "sweep", w.what, "error", err)
			}
		}
		select {
		case <-poll.C:
		case <-ctx.Done():
			return
		}
	}
}

// newSweepAppender makes the journal's writer of expiries. Its batches have no source: they are not
// answered, and one stored twice does nothing the second time.
func (s *session) newSweepAppender() (*journal.Appender[*event.Request], error) {
	return journal.NewAppender(s.e.deps.NC, journal.Config[*event.Request]{
		Subject:   s.e.cfg.Policy.Domain.RequestSubject(s.partition),
		MaxItems:  sweepPage,
		DrainWait: drainWait,
		Size:      func(r *event.Request) int { return r.SizeVT() + 4 },
		Encode: func(_ uint64, requests []*event.Request) ([]byte, error) {
			return event.Encode(&event.RequestBatch{StampMs: s.e.now(), OffsetMs: s.e.cfg.Offset.Milliseconds(), Requests: requests})
		},
		Failed: func(requests []*event.Request, _ uint64, err error) {
			s.log.Debug("expiries were not stored", "documents", len(requests), "error", err) // the next sweep finds them again
		},
		Logger: s.log,
	})
}

// expire asks the fold to remove a document whose time is over; of no item it only moves the fold's time.
func (s *session) expire(ctx context.Context, item string) error {
	id := event.NewRequestID()
	r := &event.Request{RequestId: id[:], Item: item, Action: &event.Request_Expire{Expire: &event.Expire{}}}
	for retry := newRetry(); ; {
		err := s.sweeps.Add(r)
		if !errors.Is(err, journal.ErrBusy) || ctx.Err() != nil {
			return err
		}
		retry.Wait(ctx)
	}
}

// pages lists an index of this partition from its beginning, until each returns false.
func (s *session) pages(ctx context.Context, collection, index string, each func(views.Doc) bool) error {
	q := views.Query{Index: index, Equal: []views.Value{views.Int(int64(s.partition))}, Limit: sweepPage}
	at := slices.IndexFunc(Collections(s.e.cfg.Policy.Domain), func(c views.Collection) bool { return c.Name == collection })
	c := Collections(s.e.cfg.Policy.Domain)[at]
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

func (s *session) listPage(ctx context.Context, collection string, q views.Query) ([]views.Doc, error) {
	ctx, cancel := context.WithTimeout(ctx, s.e.cfg.Bounds.ViewWait)
	defer cancel()
	docs, err := s.e.deps.Views.List(ctx, collection, q)
	if err != nil {
		return nil, fmt.Errorf("list %s by %s: %w", collection, q.Index, err)
	}
	return docs, nil
}

// sweepExpired has the fold remove what is over by this service's clock.
func (s *session) sweepExpired(ctx context.Context) error {
	now := s.e.now()
	var failed error
	err := s.pages(ctx, s.names.documents, indexExpiry, func(d views.Doc) bool {
		if d.Keys[keyExpires].Int64() > now {
			return false
		}
		if failed = s.expire(ctx, d.ID); failed != nil {
			return false
		}
		s.e.metrics.swept.WithLabelValues("expired").Inc()
		return true
	})
	return errors.Join(err, failed)
}

// sweepOutcomes forgets outcomes after 24 hours of the fold's time, as far as that is projected: folded
// once more, nobody may find one missing that was there the first time.
func (s *session) sweepOutcomes(ctx context.Context) error {
	const keep = fold.KeepOutcomeMillis
	now := s.e.now()
	oldest := int64(0)
	err := s.pages(ctx, s.names.outcomes, indexDecided, func(d views.Doc) bool {
		oldest = d.Keys[keyDecided].Int64()
		return false
	})
	if err != nil || oldest == 0 || oldest > now-keep {
		return err
	}
	if s.pending.projectedTime() < oldest+keep {
		// No traffic has moved the time.
		if err := s.expire(ctx, ""); err != nil {
			return err
		}
		wait, cancel := context.WithTimeout(ctx, s.e.cfg.Bounds.ViewWait)
		defer cancel()
		if err := s.pending.waitTime(wait, oldest+keep); err != nil {
			return fmt.Errorf("wait for the fold's time: %w", err)
		}
	}
	until := min(now, s.pending.projectedTime()) - keep
	var old views.Batch
	err = s.pages(ctx, s.names.outcomes, indexDecided, func(d views.Doc) bool {
		if d.Keys[keyDecided].Int64() > until {
			return false
		}
		old.Deletes = append(old.Deletes, views.Delete{Collection: s.names.outcomes, ID: d.ID, Seq: d.Seq})
		return len(old.Deletes) < 10*sweepPage
	})
	if err != nil || len(old.Deletes) == 0 {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, s.e.cfg.Bounds.ViewWait)
	defer cancel()
	if err := s.e.deps.Views.Commit(ctx, old); err != nil {
		return fmt.Errorf("delete %d outcomes: %w", len(old.Deletes), err)
	}
	s.e.metrics.swept.WithLabelValues("outcomes").Add(float64(len(old.Deletes)))
	return nil
}

// sweepOrphans deletes blobs that neither a document nor an earlier version names: of writes that were
// refused or never came, and of deletions that a crash cut short.
func (s *session) sweepOrphans(ctx context.Context) error {
	// A blob is written before the event that names it, so this session must know every event there is;
	// the age says that none is still on its way.
	last, err := s.journal.LastSequence(ctx)
	if err != nil {
		return fmt.Errorf("read end of %s: %w", s.stream, err)
	}
	if err := s.folded.Until(ctx, last); err != nil {
		return fmt.Errorf("wait for message %d: %w", last, err)
	}
	prefix := fmt.Sprintf("%s/%d/", s.e.cfg.Policy.Domain, s.partition)
	var keys []string
	check := func() error {
		err := s.deleteOrphans(ctx, prefix, keys)
		keys = keys[:0]
		return err
	}
	err = s.e.deps.Blobs.Sweep(ctx, prefix, s.e.deps.Clock().Add(-s.e.cfg.Bounds.OrphanAge), func(i blob.Info) error {
		if keys = append(keys, i.Key); len(keys) < sweepPage {
			return nil
		}
		return check()
	})
	if err != nil {
		return fmt.Errorf("sweep %s: %w", prefix, err)
	}
	return check()
}

func (s *session) deleteOrphans(ctx context.Context, prefix string, keys []string) error {
	items := map[string][]string{}
	for _, key := range keys {
		item, _, ok := strings.Cut(strings.TrimPrefix(key, prefix), "/")
		if ok && event.ValidItemID(item) && !s.blobs.holds(key) {
			items[item] = append(items[item], key)
		}
	}
	for item, candidates := range items {
		named, err := s.blobsOf(ctx, item)
		if err != nil {
			return err
		}
		for _, key := range candidates {
			if named[key] {
				continue
			}
			if err := s.deleteBlob(ctx, key); err != nil {
				return fmt.Errorf("delete orphan %s: %w", key, err)
			}
			s.e.metrics.swept.WithLabelValues("orphans").Inc()
		}
	}
	return nil
}

// blobsOf are the blobs that a document and its earlier versions name.
func (s *session) blobsOf(ctx context.Context, item string) (map[string]bool, error) {
	ctx, cancel := context.WithTimeout(ctx, s.e.cfg.Bounds.ViewWait)
	defer cancel()
	named := map[string]bool{}
	var doc *event.Document
	if e, _ := s.mem.get(item); e != nil {
		doc = e.doc
	} else {
		err := s.loadCurrent(ctx, s.names.documents, []string{item}, views.Heads, func(d views.Doc) (err error) {
			doc, err = readDocument(d)
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	if doc == nil {
		return named, nil
	}
	named[doc.GetContent().GetBlob()] = true
	var ids []string
	for v := max(doc.FirstVersionKept, 1); v < doc.Version; v++ {
		id := versionID(item, v)
		if e, _ := s.mem.get(id); e != nil {
			named[e.doc.GetContent().GetBlob()] = true
			continue
		}
		ids = append(ids, id)
	}
	err := s.loadCurrent(ctx, s.names.versions, ids, views.Heads, func(d views.Doc) error {
		doc, err := readDocument(d)
		named[doc.GetContent().GetBlob()] = true
		return err
	})
	return named, err
}

// purge lets go of requests that are projected and older than the retention.
func (s *session) purge(ctx context.Context) error {
	state, err := s.journal.State(ctx)
	if err != nil || state.Messages == 0 {
		return err
	}
	young, err := s.journal.SeekTime(ctx, s.e.deps.Clock().Add(-s.e.cfg.Bounds.ContentRetention))
	if err != nil {
		return err
	}
	upTo := min(s.pending.projectedTo(), young-1)
	if young == 0 || upTo < state.First {
		return nil
	}
	return s.journal.Purge(ctx, upTo)
}
