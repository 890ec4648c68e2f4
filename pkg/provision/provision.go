// Package provision makes what the services find on the journal servers: the streams of all journals, and the bucket in which
// instances announce themselves. In a cluster a job does this, as a NATS user of its own. Services may change neither: whoever
// may change a stream could have it publish to any subject, follow any other stream, or drop what it holds.
package provision

import (
	"context"
	"crypto/rand"
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

// Config describes the journals.
type Config struct {
	Partitions int  // of every domain
	Replicas   int  // of each stream; 1. Existing streams get more, never fewer
	Members    bool // also make the bucket of the members
}

// Streams are the streams of all partitions of a domain, as the services expect them.
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

// Run makes what is missing and brings the rest up to date. It may run at any time, also beside running services, and twice
// at a time. It waits for servers that are not ready yet, until ctx ends. All streams get one id of the installation: the one
// that streams have already, or a new one. Errors are those of journal.Ensure.
func Run(ctx context.Context, nc *nats.Conn, cfg Config) error {
	domains := append([]event.Domain{event.Billing}, event.Documents()...)
	// One stream comes first: of two runs at a time, one of them makes it, and both then find its id.
	first := Stream(event.Billing, 0)
	first.Replicas, first.Installation = cfg.Replicas, strings.ToLower(rand.Text()[:20])
	known, err := installation(ctx, nc, domains, cfg.Partitions)
	if err != nil {
		return err
	}
	if known != "" {
		first.Installation = known
	}
	if err := journal.Ensure(ctx, nc, []journal.Stream{first}, cfg.Partitions); err != nil && (known != "" || !errors.Is(err, journal.ErrStreamConfig)) {
		return err
	}
	if known, err = installation(ctx, nc, domains[:1], 1); err != nil {
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

// installation is the id that the streams have. It is empty where there are no streams, or none has an id.
func installation(ctx context.Context, nc *nats.Conn, domains []event.Domain, partitions int) (string, error) {
	for _, domain := range domains {
		for p := range partitions {
			metadata, err := metadataOf(ctx, nc, domain.Stream(p))
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

// metadataOf waits for servers that are not ready. A stream that does not exist has none.
func metadataOf(ctx context.Context, nc *nats.Conn, stream string) (map[string]string, error) {
	for retry := newRetry(); ; {
		metadata, err := journal.Open(nc, stream).Metadata(ctx)
		switch {
		case err == nil || errors.Is(err, journal.ErrNoStream):
			return metadata, nil
		case nc.IsClosed() || !errors.Is(err, journal.ErrUnavailable) || !retry.Wait(ctx):
			return nil, err
		}
	}
}

// ensureMembers tries until the bucket is there, or ctx ends.
func ensureMembers(ctx context.Context, nc *nats.Conn, cfg members.Config) error {
	for retry := newRetry(); ; {
		err := members.Ensure(ctx, nc, cfg)
		if err == nil || nc.IsClosed() || !retry.Wait(ctx) {
			return err
		}
	}
}

func newRetry() wait.Backoff { return wait.Backoff{First: 100 * time.Millisecond, Most: time.Second} }
