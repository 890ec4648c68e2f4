package installation

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"quire.dev/pkg/event"
	"quire.dev/pkg/journal"
	"quire.dev/pkg/members"
	"quire.dev/pkg/wait"
)

// Config describes the journals that Provision makes.
type Config struct {
	Partitions int  // of every domain
	Replicas   int  // of each stream; 1. Existing streams get more, never fewer
	Members    bool // also create the members' bucket
}

// Streams returns the streams of all partitions of a domain, as the services expect them.
func Streams(domain event.Domain, partitions int) []journal.Stream {
	var streams []journal.Stream
	for p := range partitions {
		streams = append(streams, Stream(domain, p))
	}
	return streams
}

// Stream is the stream of one partition.
func Stream(domain event.Domain, partition int) journal.Stream {
	return journal.Stream{
		Domain: string(domain), Partition: partition, Name: domain.Stream(partition), Subjects: domain.Subjects(partition),
		KeepForever: domain == event.Billing,
	}
}

// Provision creates what services expect on the journal servers, the streams of all journals and the bucket in which instances announce
// themselves, and upgrades what exists. In a cluster a job does this, as a separate NATS user. Services may change neither: anyone who
// may change a stream may have it publish to any subject, follow any other stream, or drop its messages.
//
// It may run at any time, beside running services and beside another Provision. It waits for servers that are not ready yet, until ctx
// ends. All streams get one installation id: the existing one, or a new one. It returns the errors of journal.Ensure.
func Provision(ctx context.Context, nc *nats.Conn, cfg Config) error {
	domains := event.Domains()
	// One stream comes first: of two concurrent runs one creates it, and both then find its id.
	first := Stream(event.Billing, 0)
	known, err := givenID(ctx, nc, domains, cfg.Partitions)
	if err != nil {
		return err
	}
	first.Replicas, first.Installation = cfg.Replicas, known
	if known == "" {
		if first.Installation, err = newID(ctx, nc, first.Name); err != nil {
			return err
		}
	}
	if err := journal.Ensure(ctx, nc, []journal.Stream{first}, cfg.Partitions); err != nil && (known != "" || !errors.Is(err, journal.ErrStreamConfig)) {
		return err
	}
	if known, err = givenID(ctx, nc, domains[:1], 1); err != nil {
		return err
	}
	for _, domain := range domains {
		streams := Streams(domain, cfg.Partitions)
		for i := range streams {
			streams[i].Replicas, streams[i].Installation = cfg.Replicas, known
		}
		if err := journal.Ensure(ctx, nc, streams, cfg.Partitions); err != nil {
			return err
		}
	}
	if !cfg.Members {
		return nil
	}
	return ensureMembers(ctx, nc, members.Config{BucketReplicas: cfg.Replicas})
}

// givenID returns the streams' id, or "" without streams or id.
func givenID(ctx context.Context, nc *nats.Conn, domains []event.Domain, partitions int) (string, error) {
	for _, domain := range domains {
		for p := range partitions {
			metadata, _, err := made(ctx, nc, domain.Stream(p))
			if err != nil {
				return "", fmt.Errorf("read the installation's id: %w", err)
			}
			if id := metadata[journal.InstallationKey]; id != "" {
				return id, nil
			}
		}
	}
	return "", nil
}

// newID returns an id for an installation without one: random if there are no streams yet, and otherwise derived from the creation
// time of the first stream. A stream is created once, but gets its id by an update, of which the last of two wins. So concurrent
// runs set the same id.
func newID(ctx context.Context, nc *nats.Conn, stream string) (string, error) {
	_, created, err := made(ctx, nc, stream)
	if err != nil {
		return "", fmt.Errorf("read the creation time of %s: %w", stream, err)
	}
	if created.IsZero() {
		return strings.ToLower(rand.Text()[:idLetters]), nil
	}
	sum := sha256.Sum256([]byte(stream + " made at " + created.UTC().Format(time.RFC3339Nano)))
	return strings.ToLower(base32.StdEncoding.EncodeToString(sum[:])[:idLetters]), nil
}

const idLetters = 20

// made returns the metadata of a stream and its creation time, zero if it does not exist. It waits for servers that are not
// ready.
func made(ctx context.Context, nc *nats.Conn, stream string) (metadata map[string]string, created time.Time, err error) {
	for retry := newRetry(); ; {
		metadata, created, err = journal.Open(nc, stream).Made(ctx)
		switch {
		case err == nil || errors.Is(err, journal.ErrNoStream):
			return metadata, created, nil
		case nc.IsClosed() || !errors.Is(err, journal.ErrUnavailable) || !retry.Wait(ctx):
			return nil, time.Time{}, err
		}
	}
}

// ensureMembers retries until the bucket exists, or ctx ends.
func ensureMembers(ctx context.Context, nc *nats.Conn, cfg members.Config) error {
	for retry := newRetry(); ; {
		err := members.Ensure(ctx, nc, cfg)
		if err == nil || nc.IsClosed() || !retry.Wait(ctx) {
			return err
		}
	}
}

func newRetry() wait.Backoff { return wait.Backoff{Initial: 100 * time.Millisecond, Max: time.Second} }
