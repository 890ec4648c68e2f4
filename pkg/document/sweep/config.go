package sweep

import (
	"context"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"

	"quire.dev/pkg/blob"
	"quire.dev/pkg/event"
	"quire.dev/pkg/journal"
	"quire.dev/pkg/views"
)

// Config is the partition to sweep and what sweeps use. All fields except Offset and Files must be set.
type Config struct {
	Domain    event.Domain
	Partition int
	Expiring  ByTime        // documents by their expiry
	Outcomes  ByTime        // outcomes by when they were decided
	Offset    time.Duration // added to the clock
	Bounds    Bounds
	CallWait  time.Duration // limit of one call of the read model or blob store
	EraseWait time.Duration // limit of one EraseRequest

	NC       *nats.Conn
	Files    *journal.Files   // of a server in this process; nil for none
	Journal  *journal.Journal // of the partition
	Journals *journal.Metrics // of appends; nil: none
	Views    views.Store
	Blobs    blob.Store
	Clock    func() time.Time
	Logger   *slog.Logger
	Failures *prometheus.CounterVec // by call: erase, blob, sweep
	Swept    *prometheus.CounterVec // by what: expired, outcomes, orphans, trash, restored, blobs, erased
}

// now is the service's time of day in Unix milliseconds, with the offset.
func (c *Config) now() int64 { return c.Clock().Add(c.Offset).UnixMilli() }

func (c *Config) stream() string { return c.Domain.Stream(c.Partition) }

// ByTime is a collection, and its index by partition and a time in Unix milliseconds.
type ByTime struct {
	Collection string
	Index      views.Index
}

func (b ByTime) timeOf(d views.Doc) int64 { return d.Keys.Get(b.Index.Keys[1]).Int64() }

// State is what sweeps need from the rest of the partition.
type State struct {
	Folded         func(ctx context.Context, sequence uint64) error // waits until that message is folded
	Projected      func() uint64                                    // the last message whose decisions the read model holds
	ProjectedMS    func() int64                                     // the fold's time at that message
	AwaitProjected func(ctx context.Context, timeMS int64) error    // waits until ProjectedMS is no less
	// NamedBlobs calls name with the key of each blob that the documents with these ids, or their earlier versions, name.
	NamedBlobs func(ctx context.Context, ids []string, name func(key string)) error
	// List lists an account's documents.
	List func(ctx context.Context, request *event.ListRequest) (*event.ListAnswer, error)
}

// Bounds are the intervals and retentions of sweeps. Zero fields take the default given beside them.
type Bounds struct {
	ExpiryEvery      time.Duration // between two sweeps of expired documents; 10 s
	OutcomesEvery    time.Duration // between two sweeps of old outcomes; 10 min
	OrphansEvery     time.Duration // from the start to the first sweep of orphaned blobs, and between two; 1 h
	OrphanAge        time.Duration // of a blob that may be an orphan; 1 h
	TrashRetention   time.Duration // how long orphaned blobs stay in the trash; 7 days
	KeepOrphans      bool          // disables the sweeps of orphaned blobs and of the trash
	PurgeEvery       time.Duration // between two purges of the journal; 10 min
	ContentRetention time.Duration // how long requests stay in the journal; 7 days
	Poll             time.Duration // how often the clock is read; 1 s
}

// SetDefaults fills in the fields that are zero.
func (b *Bounds) SetDefaults() {
	for _, d := range []struct {
		value     *time.Duration
		otherwise time.Duration
	}{
		{&b.ExpiryEvery, 10 * time.Second},
		{&b.OutcomesEvery, 10 * time.Minute},
		{&b.OrphansEvery, time.Hour},
		{&b.OrphanAge, time.Hour},
		{&b.TrashRetention, 7 * 24 * time.Hour},
		{&b.PurgeEvery, 10 * time.Minute},
		{&b.ContentRetention, 7 * 24 * time.Hour},
		{&b.Poll, time.Second},
	} {
		if *d.value <= 0 {
			*d.value = d.otherwise
		}
	}
}
