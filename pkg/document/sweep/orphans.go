package sweep

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
)

// orphans moves a partition's unreferenced blobs to the trash: neither a document nor an earlier version names them. They are
// left by refused or abandoned writes, and by deletions interrupted by a crash. After Bounds.TrashRetention the trash is
// deleted. A blob in the trash that a document names is moved back.
type orphans struct {
	cfg   *Config
	state State
	blobs *Blobs
}

// Prefixes of the keys in the blob store. A trashed blob has the rest of its key after trash.
func (o *orphans) live() string { return fmt.Sprintf("%s/%d/", o.cfg.Domain, o.cfg.Partition) }

func (o *orphans) trash() string {
	return fmt.Sprintf("%s-trash/%d/", o.cfg.Domain, o.cfg.Partition)
}

// markKey is the key of the watermark: the highest end of the journal that a sweep has seen. A journal that ends before it is
// an older copy, for example in a restore drill, and does not know the newest blobs.
func (o *orphans) markKey() string {
	return fmt.Sprintf("%s-trash/marks/%d", o.cfg.Domain, o.cfg.Partition)
}

var errOlderJournal = errors.New("the blob store was swept when the journal was longer; this may be an older copy of it, so nothing is moved or deleted until the journal has grown past that")

func (o *orphans) sweep(ctx context.Context) error {
	// A blob is written before the event that names it. So every stored event has to be folded first, and the blob has to
	// be old enough that no such event is still in flight.
	last, err := o.cfg.Journal.LastSequence(ctx)
	if err != nil {
		return fmt.Errorf("read end of %s: %w", o.cfg.stream(), err)
	}
	if err := o.state.Folded(ctx, last); err != nil {
		return fmt.Errorf("wait for message %d: %w", last, err)
	}
	if err := o.passMark(ctx, last); err != nil {
		return err
	}
	now := o.cfg.Clock()
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

// passMark moves the watermark to the journal's end. It fails if the watermark is beyond that.
func (o *orphans) passMark(ctx context.Context, last uint64) error {
	ctx, cancel := context.WithTimeout(ctx, o.cfg.CallWait)
	defer cancel()
	mark, err := o.mark(ctx)
	if err != nil {
		return fmt.Errorf("read the mark of the last sweep: %w", err)
	}
	if mark > last {
		return fmt.Errorf("%w: %s ends at %d, and ended at %d then", errOlderJournal, o.cfg.stream(), last, mark)
	}
	if mark == last {
		return nil
	}
	text := strconv.FormatUint(last, 10)
	if _, err := o.cfg.Blobs.Put(ctx, o.markKey(), strings.NewReader(text), int64(len(text))); err != nil {
		return fmt.Errorf("write the mark of this sweep: %w", err)
	}
	return nil
}

func (o *orphans) mark(ctx context.Context) (uint64, error) {
	const longest = 20 // digits of a uint64
	r, _, err := o.cfg.Blobs.Get(ctx, o.markKey(), 0, longest)
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

// pages calls each with pages of the blobs stored under a prefix before olderThan, and with the keys, without the prefix, that
// documents name.
func (o *orphans) pages(
	ctx context.Context, prefix string, olderThan time.Time, each func(ctx context.Context, page []blob.Info, named map[string]bool) error,
) error {
	var page []blob.Info
	full := func() error {
		named, err := o.namedKeys(ctx, prefix, page)
		if err == nil {
			err = each(ctx, page, named)
		}
		page = page[:0]
		return err
	}
	err := o.cfg.Blobs.Sweep(ctx, prefix, olderThan, func(i blob.Info) error {
		item, _, ok := strings.Cut(strings.TrimPrefix(i.Key, prefix), "/")
		if !ok || !event.ValidItemID(item) {
			return nil
		}
		if page = append(page, i); len(page) < pageSize {
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

func (o *orphans) toTrash(ctx context.Context, page []blob.Info, named map[string]bool) error {
	for _, i := range page {
		rest := strings.TrimPrefix(i.Key, o.live())
		if named[rest] || o.blobs.holds(i.Key) {
			continue
		}
		if err := o.move(ctx, i.Key, o.trash()+rest); err != nil {
			return err
		}
		o.cfg.Swept.WithLabelValues("orphans").Inc()
	}
	return nil
}

func (o *orphans) fromTrash(ctx context.Context, page []blob.Info, named map[string]bool, expired time.Time) error {
	for _, i := range page {
		rest := strings.TrimPrefix(i.Key, o.trash())
		switch {
		case named[rest]:
			if err := o.move(ctx, i.Key, o.live()+rest); err != nil {
				return err
			}
			o.cfg.Logger.Warn("a blob in the trash is named by a document and was moved back", "key", o.live()+rest)
			o.cfg.Swept.WithLabelValues("restored").Inc()
		case i.Modified.Before(expired):
			if err := o.blobs.delete(ctx, i.Key); err != nil {
				return fmt.Errorf("delete %s: %w", i.Key, err)
			}
			o.cfg.Swept.WithLabelValues("trash").Inc()
		}
	}
	return nil
}

func (o *orphans) move(ctx context.Context, from, to string) error {
	ctx, cancel := context.WithTimeout(ctx, o.cfg.CallWait)
	defer cancel()
	if err := o.cfg.Blobs.Move(ctx, from, to); err != nil && !errors.Is(err, blob.ErrNotFound) { // deleted meanwhile
		return fmt.Errorf("move %s to %s: %w", from, to, err)
	}
	return nil
}

// namedKeys returns the keys, without the prefix of live, that the documents of a page's items and their earlier versions name.
func (o *orphans) namedKeys(ctx context.Context, prefix string, page []blob.Info) (map[string]bool, error) {
	items := make([]string, 0, len(page))
	for _, i := range page {
		item, _, _ := strings.Cut(strings.TrimPrefix(i.Key, prefix), "/")
		items = append(items, item)
	}
	slices.Sort(items)
	named := map[string]bool{}
	err := o.state.NamedBlobs(ctx, slices.Compact(items), func(key string) {
		if rest, ok := strings.CutPrefix(key, o.live()); ok {
			named[rest] = true
		}
	})
	return named, err
}
