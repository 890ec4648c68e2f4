// Package installation creates the journals of an installation, and keeps the stores of different installations apart. The journals
// have an id, which Provision draws once. Each read model and the blob store keep a copy of it, from the first service that uses
// them. A service whose stores have different ids must not start: it would treat one installation's blobs as orphans of the other's.
package installation

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"quire.dev/pkg/blob"
	"quire.dev/pkg/journal"
	"quire.dev/pkg/views"
	"quire.dev/pkg/wait"
)

// ErrMixed: stores belong to different installations. The text says which. Nothing was changed.
var ErrMixed = errors.New("the stores belong to different installations; nothing was changed")

// BlobKey is the key of the blob with the id.
const BlobKey = "installation"

const (
	collection = "installation"
	document   = "id"
	maxIDBytes = 64
)

// Collection is the collection of a read model that holds the id.
func Collection() views.Collection { return views.Collection{Name: collection} }

// Place is a store that belongs to an installation.
type Place struct {
	Name  string                                    // for operators, such as "the blob store"
	Owner func(ctx context.Context) (string, error) // the store's id; empty: none yet
	// Take sets the store's id, unless it already has one. It is nil if only another service may do that.
	Take func(ctx context.Context, id string) error
}

// Journals is the Place of the journals, represented by one of them.
func Journals(nc *nats.Conn, stream string) Place {
	return Place{
		Name: "the journals (" + stream + ")",
		Owner: func(ctx context.Context) (string, error) {
			metadata, err := journal.Open(nc, stream).Metadata(ctx)
			return metadata[journal.InstallationKey], err
		},
	}
}

// ReadModel is the Place of a service's read model, opened with Collection.
func ReadModel(service string, store views.Store) Place {
	return Place{
		Name: "the read model of " + service,
		Owner: func(ctx context.Context) (string, error) {
			docs, err := store.Load(ctx, collection, []string{document}, views.Heads)
			if err != nil || len(docs) == 0 {
				return "", err
			}
			return string(docs[0].Head), nil
		},
		Take: func(ctx context.Context, id string) error {
			err := store.Insert(ctx, collection, views.Doc{ID: document, Head: []byte(id)})
			if errors.Is(err, views.ErrExists) {
				return nil
			}
			return err
		},
	}
}

// Blobs is the Place of the blob store. take allows this service to set its id.
func Blobs(store blob.Store, take bool) Place {
	place := Place{
		Name: "the blob store",
		Owner: func(ctx context.Context) (string, error) {
			r, _, err := store.Get(ctx, BlobKey, 0, maxIDBytes)
			if errors.Is(err, blob.ErrNotFound) {
				return "", nil
			}
			if err != nil {
				return "", err
			}
			id, err := io.ReadAll(r)
			return string(id), errors.Join(err, r.Close())
		},
	}
	if take {
		place.Take = func(ctx context.Context, id string) error {
			if err := store.Create(ctx, BlobKey, []byte(id)); !errors.Is(err, blob.ErrExists) {
				return err
			}
			return nil
		}
	}
	return place
}

const (
	initialPause = 20 * time.Millisecond
	maxPause     = time.Second
	askWait      = 10 * time.Second // for one query
	logEvery     = 10 * time.Second // between log lines about the wait
)

// Await makes the places, of which the first one is the journals, belong to the journals' installation, and returns its id. It
// sets the id of places without one, unless another place has a different id, which is ErrMixed. It waits for stores that do
// not respond, for journals without an id, and for places whose id only another service may set, until ctx ends.
func Await(ctx context.Context, log *slog.Logger, journals Place, others ...Place) (id string, err error) {
	lastLog := time.Now()
	for retry := (wait.Backoff{Initial: initialPause, Max: maxPause}); ; {
		asked, cancel := context.WithTimeout(ctx, askWait)
		id, err := agree(asked, journals, others)
		cancel()
		if err == nil || !temporary(err) {
			return id, err
		}
		if time.Since(lastLog) >= logEvery {
			lastLog = time.Now()
			log.Warn("waiting until all stores belong to one installation", "cause", err)
		}
		if !retry.Wait(ctx) {
			return "", errors.Join(err, ctx.Err())
		}
	}
}

// errUnowned: a place has no id yet, and another process sets it.
var errUnowned = errors.New("it has no installation id yet")

func temporary(err error) bool {
	for _, known := range []error{
		errUnowned, journal.ErrUnavailable, journal.ErrNoStream, views.ErrUnavailable, blob.ErrUnavailable, context.DeadlineExceeded,
	} {
		if errors.Is(err, known) {
			return true
		}
	}
	return false
}

// agree queries all places before it sets the id of any.
func agree(ctx context.Context, journals Place, others []Place) (string, error) {
	all := append([]Place{journals}, others...)
	owners, err := Owners(ctx, all...)
	if err != nil {
		return "", err
	}
	id := owners[0]
	if id == "" {
		return "", fmt.Errorf("%s: %w: provisioning will set it", journals.Name, errUnowned)
	}
	for i, place := range all {
		if owners[i] != "" {
			continue
		}
		if place.Take == nil {
			return "", fmt.Errorf("%s: %w: billing will set it", place.Name, errUnowned)
		}
		if err := place.Take(ctx, id); err != nil {
			return "", fmt.Errorf("give %s the installation's id: %w", place.Name, err)
		}
	}
	// Another process may have set its id first.
	_, err = Owners(ctx, all...)
	return id, err
}

// Owners returns the installation id of each place, empty for a place without one. The error is ErrMixed if they differ.
func Owners(ctx context.Context, places ...Place) ([]string, error) {
	owners := make([]string, len(places))
	for i, place := range places {
		owner, err := place.Owner(ctx)
		if err != nil {
			return nil, fmt.Errorf("read the installation's id of %s: %w", place.Name, err)
		}
		owners[i] = owner
	}
	return owners, same(places, owners)
}

// same returns ErrMixed unless all known owners are equal. A place with an owner is left over from other journals if these have
// none.
func same(places []Place, owners []string) error {
	mixed := false
	var list []string
	for i, place := range places {
		if owners[i] == "" {
			continue
		}
		mixed = mixed || owners[i] != owners[0] && owners[0] != ""
		list = append(list, fmt.Sprintf("%s to %s", place.Name, owners[i]))
	}
	if !mixed {
		return nil
	}
	return fmt.Errorf("%w: %s. Correct the wrong address", ErrMixed, strings.Join(list, ", "))
}
