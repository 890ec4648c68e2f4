package backup

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/nats-io/nats.go"
	"golang.org/x/sync/errgroup"

	"quire.dev/pkg/blob"
	"quire.dev/pkg/event"
	"quire.dev/pkg/installation"
	"quire.dev/pkg/journal"
	"quire.dev/pkg/views"
)

// Destination is an installation without data.
type Destination struct {
	NC       *nats.Conn
	Replicas int // of each journal
	Blobs    blob.Store
	Models   map[event.Domain]views.Store
	// Without, if not nil, reports whether the documents of a collection are left out.
	Without func(collection string) bool
	// Progress, if not nil, is called by one goroutine at a time.
	Progress func(what string, done, total uint64)
}

// Check reads all parts of a backup. It returns ErrDamaged if one is not as it was written.
func Check(ctx context.Context, m *Manifest, store blob.Store, progress func(what string, done, total uint64)) error {
	parts := m.Parts()
	for i, p := range parts {
		if progress != nil {
			progress("checking the backup", uint64(i), uint64(len(parts)))
		}
		r, err := p.Open(ctx, store)
		if err != nil {
			return err
		}
		_, err = io.Copy(io.Discard, r)
		if err := errors.Join(err, r.Close()); err != nil {
			return err
		}
	}
	return nil
}

// Restore fills an empty installation, the journals last, so that services that run already wait until all of it is there. The errors are
// ErrNotEmpty, with what is not, and ErrDamaged. After an error the stores have to be emptied before the next attempt.
func Restore(ctx context.Context, m *Manifest, from blob.Store, to Destination) error {
	if to.Progress == nil {
		to.Progress = func(string, uint64, uint64) {}
	}
	if err := to.checkEmpty(ctx, m); err != nil {
		return err
	}
	if err := Check(ctx, m, from, to.Progress); err != nil {
		return err
	}
	for _, model := range m.Models {
		to.Progress("restoring the read model of "+model.Service, 0, model.Documents)
		if err := to.restoreModel(ctx, model, from); err != nil {
			return fmt.Errorf("restore the read model of %s: %w", model.Service, err)
		}
	}
	if err := to.restoreBlobs(ctx, m, from); err != nil {
		return err
	}
	streams := streamsOf(m.Partitions, event.Domains()...)
	for i, s := range streams {
		to.Progress("restoring journals", uint64(i), uint64(len(streams)))
		j := m.journal(s.name)
		description := installation.Stream(s.domain, s.partition)
		description.Replicas, description.Installation = to.Replicas, m.Installation
		err := journal.Restore(ctx, to.NC, description, m.Partitions, j.Created, j.Last, j.reader(ctx, from))
		if err != nil {
			return err
		}
	}
	return nil
}

// checkEmpty looks for data in every store.
func (to Destination) checkEmpty(ctx context.Context, m *Manifest) error {
	for _, s := range streamsOf(m.Partitions, event.Domains()...) {
		_, err := journal.Open(to.NC, s.name).State(ctx)
		if err == nil {
			return fmt.Errorf("the journal server %w: it has %s", ErrNotEmpty, s.name)
		}
		if !errors.Is(err, journal.ErrNoStream) {
			return err
		}
	}
	for service, store := range to.Models {
		owner, err := installation.ReadModel(string(service), store).Owner(ctx)
		if err != nil {
			return err
		}
		if owner != "" {
			return fmt.Errorf("the read model of %s %w: it belongs to installation %s", service, ErrNotEmpty, owner)
		}
	}
	return sweepAll(ctx, to.Blobs, "", func(info blob.Info) error {
		return fmt.Errorf("the blob store %w: it has %s", ErrNotEmpty, info.Key)
	})
}

func (to Destination) restoreModel(ctx context.Context, model Model, from blob.Store) (err error) {
	store := to.Models[event.Domain(model.Service)]
	if store == nil {
		return fmt.Errorf("%w: no service has this read model", ErrDamaged)
	}
	r, err := model.Open(ctx, from)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	return model.load(ctx, r, store, to.Without)
}

func (to Destination) restoreBlobs(ctx context.Context, m *Manifest, from blob.Store) error {
	group, working := errgroup.WithContext(ctx)
	group.SetLimit(copies)
	for i, b := range m.Blobs {
		if working.Err() != nil {
			break
		}
		to.Progress("restoring blobs", uint64(i), uint64(len(m.Blobs)))
		group.Go(func() error {
			r, err := b.Open(working, from)
			if err != nil {
				return err
			}
			_, err = to.Blobs.Put(working, b.Name, r, b.Bytes)
			return errors.Join(err, r.Close())
		})
	}
	return group.Wait()
}

// copyFolder copies the files of the data folder.
func (w *work) copyFolder(ctx context.Context) error {
	w.manifest.Folder = nil
	for name, data := range w.from.Folder {
		part, err := w.to.put(ctx, "folder/"+name+"-"+w.name, bytes.NewReader(data), int64(len(data)))
		if err != nil {
			return err
		}
		w.manifest.Folder = append(w.manifest.Folder, File{Part: part, Name: name})
	}
	return nil
}

// Files returns the files of the data folder, by name; none of a cluster.
func (m *Manifest) Files(ctx context.Context, from blob.Store) (map[string][]byte, error) {
	files := map[string][]byte{}
	for _, f := range m.Folder {
		r, err := f.Open(ctx, from)
		if err != nil {
			return nil, err
		}
		data, err := io.ReadAll(r)
		if err := errors.Join(err, r.Close()); err != nil {
			return nil, err
		}
		files[f.Name] = data
	}
	return files, nil
}

// Streams are the names of the journals.
func Streams(partitions int) []string {
	var names []string
	for _, s := range streamsOf(partitions, event.Domains()...) {
		names = append(names, s.name)
	}
	slices.Sort(names)
	return names
}
