// Package archive is the service that keeps the log of an installation: an append-only Merkle log, signed once a minute, with the digest
// of every message of the billing journals. Whoever keeps a checkpoint of it can prove any later change of a journal. It also copies the
// journals into segments in the blob store.
//
// It signs with a key that no other service has, and only reads the journals, except that it may delete old generations of them, which are
// archived then.
package archive

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"quire.dev/pkg/archived"
	"quire.dev/pkg/blob"
	"quire.dev/pkg/event"
	"quire.dev/pkg/host"
	"quire.dev/pkg/inprocess"
	"quire.dev/pkg/installation"
	"quire.dev/pkg/journal"
	"quire.dev/pkg/telemetry"
	"quire.dev/pkg/wait"
	"quire.dev/pkg/witness"
)

// Config describes one instance.
type Config struct {
	PartitionCount int           // partitions of every domain; 1
	Interval       time.Duration // between two checkpoints; 1 min
	Secret         string        // the log's key is derived from it; of at least proof.MinSecretBytes
	// Installation returns the id of the installation, which names the log. It is called while Run works.
	Installation func() string
	Witnesses    string        // that cosign every checkpoint, as witness.ParseWitnesses takes them
	SegmentAge   time.Duration // after which a message is in a segment, full or not; 1 h
	// Retention is how long a closed generation of a journal stays on the NATS servers; 0: forever.
	Retention time.Duration
	// CutMessages bounds how many messages are added at a time; 250,000. A checkpoint follows once all are added.
	CutMessages uint64
}

// Configure returns the configuration that the settings ask for.
func Configure(s host.Settings) Config {
	return Config{
		PartitionCount: s.Partitions, Interval: s.CheckpointInterval, Secret: s.CheckpointKey.Reveal(),
		Witnesses: s.Witnesses, SegmentAge: s.SegmentAge, Retention: s.JournalRetention,
	}
}

func (c Config) withDefaults() Config {
	c.PartitionCount = max(c.PartitionCount, 1)
	if c.Interval == 0 {
		c.Interval = time.Minute
	}
	if c.SegmentAge == 0 {
		c.SegmentAge = time.Hour
	}
	if c.CutMessages == 0 {
		c.CutMessages = 250_000
	}
	return c
}

// Deps are the connections and stores of the service, owned by the caller.
type Deps struct {
	NC     *nats.Conn
	Shared inprocess.Shared // with services of the same process
	Blobs  blob.Store
	// Deleting opens a connection that may delete generations of journals, and nothing else. It is needed with a Retention.
	Deleting func() (*nats.Conn, error)
	Folder   string             // for a temporary file of up to 64 MB; empty: the system's
	Clock    func() time.Time   // nil: time.Now
	Logger   *slog.Logger       // nil: silent
	Metrics  *telemetry.Metrics // may be nil
}

// Service is one instance. Any number may work at a time: they write the same log. Run is called once.
type Service struct {
	cfg       Config
	deps      Deps
	journals  []*journal.Journal // by partition
	metrics   *metrics
	witnesses []*witness.Client
	keepCuts  int64 // how many cuts are kept before the last one: see cut

	key    logKey  // set by Run
	keeper *keeper // nil: the log has to be opened
	filer  *filer  // nil: the segments have to be found

	mu     sync.Mutex
	failed error // of the last round; nil: it succeeded; errSeeking before the first one
}

// errSeeking is the state until Run has found the journals.
var errSeeking = errors.New("the journals are not found yet")

// New returns the service. It contacts nothing before Run.
func New(cfg Config, deps Deps) (*Service, error) {
	if deps.NC == nil || deps.Blobs == nil || cfg.Installation == nil {
		return nil, errors.New("configure the archive: a connection, a blob store and an installation are needed")
	}
	if cfg.Retention > 0 && deps.Deleting == nil {
		return nil, errors.New("configure the archive: QUIRE_JOURNAL_RETENTION needs QUIRE_RETENTION_NATS_URL, the user that deletes")
	}
	if deps.Clock == nil {
		deps.Clock = time.Now
	}
	if deps.Logger == nil {
		deps.Logger = slog.New(slog.DiscardHandler)
	}
	witnesses, err := witness.ParseWitnesses(cfg.Witnesses)
	if err != nil {
		return nil, fmt.Errorf("configure the archive: %w", err)
	}
	s := &Service{
		witnesses: witnesses, cfg: cfg.withDefaults(), deps: deps, metrics: newMetrics(deps.Metrics, witnesses), keepCuts: 1000, failed: errSeeking,
	}
	older := archived.NewJournals(deps.Blobs, s.cfg.PartitionCount, func(context.Context) (string, error) { return cfg.Installation(), nil })
	for p := range s.cfg.PartitionCount {
		s.journals = append(s.journals, deps.Shared.Files.Open(deps.NC, event.Billing.Stream(p)).WithOlder(older))
	}
	return s, nil
}

// Unready is the reason for operators why the log has not grown lately, or nil. It is not nil until Run has found journals with this number
// of partitions.
func (s *Service) Unready() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.failed
}

func (s *Service) setFailed(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failed = err
}

// Run keeps the log until ctx ends, and returns nil. A failed round is retried. It returns an error if the key is invalid, or the
// journals don't match the configuration.
func (s *Service) Run(ctx context.Context) error {
	streams := installation.Streams(event.Billing, s.cfg.PartitionCount)
	waiting := func(err error) {
		s.deps.Logger.Warn("waiting for the journals, which provisioning creates", "cause", err)
	}
	if err := journal.Await(ctx, s.deps.NC, streams, s.cfg.PartitionCount, waiting); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	var err error
	if s.key, err = deriveKey(s.cfg.Secret, s.cfg.Installation()); err != nil {
		return err
	}
	s.setFailed(nil)
	var retaining sync.WaitGroup
	defer retaining.Wait()
	retaining.Go(func() { s.retain(ctx) })
	s.repeat(ctx, s.round)
	return nil
}

// repeat runs rounds until ctx ends, with an interval between them.
func (s *Service) repeat(ctx context.Context, round func(context.Context) error) {
	for {
		s.report(ctx, round(ctx))
		if !wait.For(ctx, s.cfg.Interval) {
			return
		}
	}
}

// report logs a failed round once, and that a round succeeds again.
func (s *Service) report(ctx context.Context, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case ctx.Err() != nil:
		return
	case err != nil && (s.failed == nil || s.failed.Error() != err.Error()):
		s.deps.Logger.Error("the archive is behind the journals", "error", err)
	case err == nil && s.failed != nil:
		s.deps.Logger.Info("the archive has the journals again", "size", s.keeper.log.Tree().N)
	}
	s.failed = err
}

// round adds what the journals have to the log, signs it, and archives what is due. Between two segments the log goes on.
func (s *Service) round(ctx context.Context) error {
	for archived := true; archived; {
		if err := s.keep(ctx); err != nil {
			s.metrics.failures.Inc()
			return fmt.Errorf("keep the log: %w", err)
		}
		var err error
		if archived, err = s.file(ctx); err != nil {
			s.metrics.unarchived.Inc()
			return fmt.Errorf("copy the journals into segments: %w", err)
		}
	}
	return nil
}

// keep brings the log up to the ends that the journals have now, and publishes it. If others have gone on, it opens the log again.
func (s *Service) keep(ctx context.Context) error {
	wasOpen := s.keeper != nil
	err := s.grow(ctx)
	if errors.Is(err, errOvertaken) && wasOpen {
		err = s.grow(ctx)
	}
	if errors.Is(err, errOvertaken) {
		err = fmt.Errorf("%s is older than the cuts that others have made: %w", stateKey, err)
	}
	return err
}

// grow brings the log up to the ends of the journals. After an error it has to be opened again.
func (s *Service) grow(ctx context.Context) (err error) {
	if s.keeper == nil {
		if s.keeper, err = s.open(ctx); err != nil {
			return err
		}
	}
	if err = s.keeper.grow(ctx); err != nil {
		s.keeper.log.Close()
		s.keeper = nil
	}
	return err
}

// file writes a segment of what the log has, if one is due. After an error the segments have to be found again.
func (s *Service) file(ctx context.Context) (written bool, err error) {
	if s.filer == nil {
		if s.filer, err = s.openFiler(ctx); err != nil {
			return false, err
		}
	}
	if written, err = s.filer.file(ctx, s.keeper.positions); err != nil {
		s.filer = nil
	}
	return written, err
}
