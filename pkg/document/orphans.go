package document

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"quire.dev/pkg/blob"
	"quire.dev/pkg/event"
	"quire.dev/pkg/journal"
	"quire.dev/pkg/views"
	"quire.dev/pkg/wait"
)

// orphanSweeper moves the blobs of a partition that no document or earlier version uses to the trash: blobs of writes that were
// refused or never came, and of deletions interrupted by a crash. It empties the trash after Bounds.TrashRetention, and moves a
// blob that is in use again back from the trash.
type orphanSweeper struct {
	*scope
	journal  *journal.Journal
	model    *readModel
	memory   *memory
	position *wait.Position
	blobs    *blobDeleter
}

// Prefixes of the keys in the blob store. A trashed blob has the rest of its key after trash.
func (o *orphanSweeper) live() string { return fmt.Sprintf("%s/%d/", o.cfg.Policy.Domain, o.number) }

func (o *orphanSweeper) trash() string {
	return fmt.Sprintf("%s-trash/%d/", o.cfg.Policy.Domain, o.number)
}

// markKey is the key of the highest end of the journal seen by a sweep. A journal that ends before it is an older copy, for
// example in a restore drill, which does not know the newest blobs.
func (o *orphanSweeper) markKey() string {
	return fmt.Sprintf("%s-trash/marks/%d", o.cfg.Policy.Domain, o.number)
}

// run sweeps until ctx ends. The first sweep comes OrphansEvery after the partition was announced, so that an operator who has
// started the wrong thing has the time to notice.
func (o *orphanSweeper) run(ctx context.Context, announced time.Time) {
	if o.cfg.Bounds.KeepOrphans {
		return
	}
	due := announced.Add(o.cfg.Bounds.OrphansEvery)
	poll := time.NewTicker(o.cfg.Bounds.SweepPoll)
	defer poll.Stop()
	for {
		select {
		case <-poll.C:
		case <-ctx.Done():
			return
		}
		now := o.deps.Clock()
		if now.Before(due) {
			continue
		}
		due = now.Add(o.cfg.Bounds.OrphansEvery)
		if err := o.sweep(ctx); err != nil && ctx.Err() == nil {
			o.metrics.failures.WithLabelValues("sweep").Inc()
			o.log.Warn("sweep failed and will be retried", "sweep", "orphans", "error", err)
		}
	}
}

var errOlderJournal = errors.New("the blob store was swept when the journal was longer; this may be an older copy, so nothing is moved or deleted until the journal is longer again")

func (o *orphanSweeper) sweep(ctx context.Context) error {
	// A blob is written before the event that names it. So all stored events must be folded first, and the blob must be too old
	// for an event still in transit.
	last, err := o.journal.LastSequence(ctx)
	if err != nil {
		return fmt.Errorf("read end of %s: %w", o.stream, err)
	}
	if err := o.position.Until(ctx, last); err != nil {
		return fmt.Errorf("wait for message %d: %w", last, err)
	}
	if err := o.passMark(ctx, last); err != nil {
		return err
	}
	now := o.deps.Clock()
	err = o.pages(ctx, o.live(), now.Add(-o.cfg.Bounds.OrphanAge), func(ctx context.Context, page []blob.Info, named map[string]bool) error {
		return o.toTrash(ctx, page, named)
	})
	if err != nil {
		return err
	}
	expired := now.Add(-o.cfg.Bounds.TrashRetention)
	return o.pages(ctx, o.trash(), now, func(ctx context.Context, page []blob.Info, named map[string]bool) error {
		return o.fromTrash(ctx, page, named, expired)
	})
}

// passMark advances the mark to the journal's end, or fails if the mark is beyond it.
func (o *orphanSweeper) passMark(ctx context.Context, last uint64) error {
	ctx, cancel := context.WithTimeout(ctx, o.cfg.Bounds.ViewWait)
	defer cancel()
	mark, err := o.mark(ctx)
	if err != nil {
		return fmt.Errorf("read the mark of the last sweep: %w", err)
	}
	if mark > last {
		return fmt.Errorf("%w: %s ends at %d, and ended at %d then", errOlderJournal, o.stream, last, mark)
	}
	if mark == last {
		return nil
	}
	text := strconv.FormatUint(last, 10)
	if _, err := o.deps.Blobs.Put(ctx, o.markKey(), strings.NewReader(text), int64(len(text))); err != nil {
		return fmt.Errorf("write the mark of this sweep: %w", err)
	}
	return nil
}

func (o *orphanSweeper) mark(ctx context.Context) (uint64, error) {
	const longest = 20 // digits of a uint64
	r, _, err := o.deps.Blobs.Get(ctx, o.markKey(), 0, longest)
	if errors.Is(err, blob.ErrNotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	text, err := io.ReadAll(r)
	if err := errors.Join(err, r.Close()); err != nil {
		return 0, err
	}
	return strconv.ParseUint(string(text), 10, 64)
}

// pages calls each with pages of the blobs under a prefix that were put before olderThan, and with the keys, without the
// prefix, that documents use.
func (o *orphanSweeper) pages(
	ctx context.Context, prefix string, olderThan time.Time, each func(ctx context.Context, page []blob.Info, named map[string]bool) error,
) error {
	var page []blob.Info
	full := func() error {
		named, err := o.named(ctx, prefix, page)
		if err == nil {
			err = each(ctx, page, named)
		}
		page = page[:0]
		return err
	}
	err := o.deps.Blobs.Sweep(ctx, prefix, olderThan, func(i blob.Info) error {
		item, _, ok := strings.Cut(strings.TrimPrefix(i.Key, prefix), "/")
		if !ok || !event.ValidItemID(item) {
			return nil
		}
		if page = append(page, i); len(page) < sweepPage {
			return nil
		}
		return full()
	})
	if err == nil {
		err = full()
	}
	if err != nil {
		return fmt.Errorf("sweep %s: %w", prefix, err)
	}
	return nil
}

func (o *orphanSweeper) toTrash(ctx context.Context, page []blob.Info, named map[string]bool) error {
	for _, i := range page {
		rest := strings.TrimPrefix(i.Key, o.live())
		if named[rest] || o.blobs.holds(i.Key) {
			continue
		}
		if err := o.move(ctx, i.Key, o.trash()+rest); err != nil {
			return err
		}
		o.metrics.swept.WithLabelValues("orphans").Inc()
	}
	return nil
}

func (o *orphanSweeper) fromTrash(ctx context.Context, page []blob.Info, named map[string]bool, expired time.Time) error {
	for _, i := range page {
		rest := strings.TrimPrefix(i.Key, o.trash())
		switch {
		case named[rest]:
			if err := o.move(ctx, i.Key, o.live()+rest); err != nil {
				return err
			}
			o.log.Warn("a blob in the trash was still in use and was moved back", "key", o.live()+rest)
			o.metrics.swept.WithLabelValues("restored").Inc()
		case i.Modified.Before(expired):
			if err := o.blobs.delete(ctx, i.Key); err != nil {
				return fmt.Errorf("delete %s: %w", i.Key, err)
			}
			o.metrics.swept.WithLabelValues("trash").Inc()
		}
	}
	return nil
}

func (o *orphanSweeper) move(ctx context.Context, from, to string) error {
	ctx, cancel := context.WithTimeout(ctx, o.cfg.Bounds.ViewWait)
	defer cancel()
	if err := o.deps.Blobs.Move(ctx, from, to); err != nil && !errors.Is(err, blob.ErrNotFound) { // deleted meanwhile
		return fmt.Errorf("move %s to %s: %w", from, to, err)
	}
	return nil
}

// named returns the keys, without the live prefix, used by the documents of a page's items and their earlier versions. It
// queries the read model once for all documents, and once for each views.MaxLoad versions.
func (o *orphanSweeper) named(ctx context.Context, prefix string, page []blob.Info) (map[string]bool, error) {
	named := map[string]bool{}
	name := func(d *event.Document) {
		if key, ok := strings.CutPrefix(d.GetContent().GetBlob(), o.live()); ok {
			named[key] = true
		}
	}
	var versions []string // not in memory
	known := func(item string, d *event.Document) {
		if d == nil {
			return
		}
		name(d)
		for v := max(d.FirstVersionKept, 1); v < d.Version; v++ {
			id := versionID(item, v)
			if e, _ := o.memory.get(id); e != nil {
				name(e.doc)
			} else {
				versions = append(versions, id)
			}
		}
	}
	seen := map[string]bool{}
	var missing []string
	for _, i := range page {
		item, _, _ := strings.Cut(strings.TrimPrefix(i.Key, prefix), "/")
		if seen[item] {
			continue
		}
		seen[item] = true
		if e, _ := o.memory.get(item); e != nil {
			known(item, e.doc)
		} else {
			missing = append(missing, item)
		}
	}
	if err := o.heads(ctx, o.names.documents, missing, known); err != nil {
		return nil, err
	}
	err := o.heads(ctx, o.names.versions, versions, func(_ string, d *event.Document) { name(d) })
	return named, err
}

// heads calls take with the heads of the documents in the read model.
func (o *orphanSweeper) heads(ctx context.Context, collection string, ids []string, take func(id string, d *event.Document)) error {
	for chunk := range slices.Chunk(ids, views.MaxLoad) {
		bounded, cancel := context.WithTimeout(ctx, o.cfg.Bounds.ViewWait)
		err := o.model.loadCurrent(bounded, collection, chunk, views.Heads, func(d views.Doc) error {
			doc, err := readDocument(d)
			if err == nil {
				take(d.ID, doc)
			}
			return err
		})
		cancel()
		if err != nil {
			return err
		}
	}
	return nil
}
