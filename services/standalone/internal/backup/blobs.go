package backup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"quire.dev/pkg/blob"
	"quire.dev/pkg/event"
	"quire.dev/pkg/journal"
	"quire.dev/pkg/proof"
	"quire.dev/services/archive"
)

const (
	blobPrefix = "blobs/"
	// copies is how many blobs are copied at a time.
	copies = 8
	// saveEvery is how often the draft is written while blobs are copied.
	saveEvery = 15 * time.Second
)

// blobs copies blobs.
type blobs struct {
	from  blob.Store
	to    *target
	known map[string]Blob // of earlier runs, by name

	mu   sync.Mutex
	done map[string]Blob // of this run, by name
}

func newBlobs(from blob.Store, to *target) *blobs {
	b := &blobs{from: from, to: to, known: map[string]Blob{}, done: map[string]Blob{}}
	for _, m := range slices.Backward(to.earlier()) {
		for _, one := range m.Blobs {
			b.known[one.Name] = one
		}
	}
	return b
}

// list returns the blobs of this run.
func (b *blobs) list() []Blob {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.SortedFunc(maps.Values(b.done), func(x, y Blob) int { return cmp.Compare(x.Name, y.Name) })
}

// listAll returns the blobs of this run, and the blobs of earlier runs that it has not reached.
func (b *blobs) listAll() []Blob {
	list := b.list()
	for name, one := range b.known {
		if !b.isDone(name) {
			list = append(list, one)
		}
	}
	return list
}

func (b *blobs) isDone(name string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	_, ok := b.done[name]
	return ok
}

// copy copies a blob, or keeps an earlier copy of the same. ErrNotFound if it was deleted.
func (b *blobs) copy(ctx context.Context, name string) error {
	if b.isDone(name) {
		return nil
	}
	r, info, err := b.from.Get(ctx, name, 0, -1)
	if err != nil {
		return err
	}
	defer r.Close() // only read
	one, ok := b.known[name]
	if !ok || one.Bytes != info.Size || !one.Modified.Equal(info.Modified) || !b.to.has(one.Part) {
		part, err := b.to.put(ctx, blobPrefix+name, r, info.Size)
		if err != nil {
			return fmt.Errorf("copy the blob %s: %w", name, err)
		}
		one = Blob{Part: part, Name: name, Modified: info.Modified}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.done[name] = one
	return nil
}

// copyAll copies the blobs whose names begin with prefix, except billing's snapshots and exports unless asked for.
func (b *blobs) copyAll(ctx context.Context, prefix string) error {
	group, working := errgroup.WithContext(ctx)
	group.SetLimit(copies)
	err := sweepAll(working, b.from, prefix, func(info blob.Info) error {
		snapshot := strings.HasPrefix(info.Key, "billing/") && !strings.HasPrefix(info.Key, "billing/seals/")
		if prefix == "" && (snapshot || strings.HasPrefix(info.Key, "exports/")) {
			return nil
		}
		group.Go(func() error {
			if err := b.copy(working, info.Key); !errors.Is(err, blob.ErrNotFound) {
				return err
			}
			return nil // deleted meanwhile, and so before the cut
		})
		return nil
	})
	return errors.Join(group.Wait(), err)
}

// copyBlobs copies all blobs of documents, and saves now and then what is done.
func (w *work) copyBlobs(ctx context.Context) error {
	group, working := errgroup.WithContext(ctx)
	done := make(chan struct{})
	group.Go(func() error {
		tick := time.NewTicker(saveEvery)
		defer tick.Stop()
		for {
			select {
			case <-done:
				return w.save(working)
			case <-working.Done():
				return nil
			case <-tick.C:
				w.from.Progress("copying blobs", uint64(len(w.blobs.list())), 0)
				if err := w.save(working); err != nil {
					return err
				}
			}
		}
	})
	group.Go(func() error {
		defer close(done)
		for _, name := range archive.Beginning() {
			if err := w.blobs.copyAll(working, name); err != nil {
				return err
			}
		}
		if err := w.blobs.copyAll(working, ""); err != nil {
			return err
		}
		return w.blobs.copyAll(working, proof.LogPrefix) // tiles that were not full when the state was copied, and are now
	})
	return group.Wait()
}

// lost is a blob that was deleted before it was copied.
type lost struct {
	stream stream
	item   string // of the document that named it
}

// followBlobs copies the blobs named by the documents' journals up to the ends, and returns those that were deleted already.
func (w *work) followBlobs(ctx context.Context, ends map[string]uint64) (gone []lost, err error) {
	var mu sync.Mutex
	err = w.eachStream(ctx, event.Documents(), func(ctx context.Context, s stream) error {
		mu.Lock()
		from := w.followed[s.name]
		mu.Unlock()
		err := w.journals[s.name].Replay(ctx, from, ends[s.name], func(m journal.Message) error {
			for _, r := range requestsOf(s, m) {
				name := cmp.Or(r.GetCreate().GetDocument().GetContent().GetBlob(), r.GetUpdate().GetContent().GetBlob())
				if name == "" {
					continue
				}
				err := w.blobs.copy(ctx, name)
				if errors.Is(err, blob.ErrNotFound) {
					mu.Lock()
					gone = append(gone, lost{s, r.Item})
					mu.Unlock()
				} else if err != nil {
					return err
				}
			}
			return nil
		}, nil)
		mu.Lock()
		defer mu.Unlock()
		w.followed[s.name] = max(from, ends[s.name])
		return err
	})
	return gone, err
}

// areNeeded reports whether one of the lost blobs may have been there at the cut: its document was written to after it.
func (w *work) areNeeded(ctx context.Context, gone []lost, cut map[string]uint64) (bool, error) {
	if len(gone) == 0 {
		return false, nil
	}
	ends, err := w.ends(ctx, event.Documents()...) // whatever deleted them is before these
	if err != nil {
		return false, err
	}
	items := map[lost]bool{}
	for _, l := range gone {
		items[l] = true
	}
	var needed atomic.Bool
	err = w.eachStream(ctx, event.Documents(), func(ctx context.Context, s stream) error {
		return w.journals[s.name].Replay(ctx, cut[s.name], ends[s.name], func(m journal.Message) error {
			for _, r := range requestsOf(s, m) {
				if items[lost{s, r.Item}] {
					needed.Store(true)
				}
			}
			return nil
		}, nil)
	})
	return needed.Load(), err
}

// copySnapshots copies the snapshots of billing up to the cut.
func (w *work) copySnapshots(ctx context.Context, m *moment) error {
	return sweepAll(ctx, w.from.Blobs, "billing/", func(info blob.Info) error {
		parts := strings.Split(info.Key, "/")
		if len(parts) != 3 {
			return nil
		}
		number, _, _ := strings.Cut(parts[2], "-")
		sequence, err := strconv.ParseUint(number, 10, 64)
		if err != nil || sequence > m.cut[parts[1]] {
			return nil
		}
		if err := w.blobs.copy(ctx, info.Key); !errors.Is(err, blob.ErrNotFound) {
			return err
		}
		return nil // thinned out meanwhile
	})
}
