// Package billing is the service that owns accounts: tiers, keys, quotas, credits, storage bills,
// and the users behind them. It folds the billing journals and answers the edges.
package billing

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"golang.org/x/sync/errgroup"

	"quire.dev/pkg/blob"
	"quire.dev/pkg/event"
	"quire.dev/pkg/host"
	"quire.dev/pkg/inprocess"
	"quire.dev/pkg/installation"
	"quire.dev/pkg/journal"
	"quire.dev/pkg/num"
	"quire.dev/pkg/plan"
	"quire.dev/pkg/pricebook"
	"quire.dev/pkg/replica"
	"quire.dev/pkg/rpc"
	"quire.dev/pkg/telemetry"
	"quire.dev/pkg/trace"
	"quire.dev/pkg/views"
	"quire.dev/services/billing/internal/account"
	"quire.dev/services/billing/internal/lost"
	"quire.dev/services/billing/internal/mail"
	"quire.dev/services/billing/internal/partition"
	"quire.dev/services/billing/internal/projection"
	"quire.dev/services/billing/internal/snapshots"
	"quire.dev/services/billing/internal/users"
	"quire.dev/services/billing/internal/webhooks"
)

// Config describes one instance. Zero fields take the default given beside them.
type Config struct {
	PartitionCount int           // partitions of every domain; 1
	Partitions     []int         // fixed set to fold if Assigned is nil; all
	ClockOffset    time.Duration // QUIRE_CLOCK_OFFSET; 0 outside development
	// Assigned delivers the partitions for Run to fold. Each set replaces the previous one, and Run folds none until the first.
	Assigned <-chan []int
	// Served, if not nil, is called when a partition starts or stops being served. Calls come from several goroutines, in order
	// for each partition, and must not block.
	Served func(partition int, serving bool)

	// Installation returns the id of the installation, which edges query. It is called while Run works.
	Installation func() string

	Instance string // unique per process: letters, digits, - and _; random
	// Live returns the live instances, including this one, and must not block. An empty result means unknown. nil: only this
	// instance if it folds a fixed set of all partitions, else unknown.
	Live func() []string

	Book *plan.Book // the price book to publish; plan.Published(10)
	// Rules is the newest version of the rules that it folds and, once all live instances do, brings into force; the newest
	// known one. Tests set another one to act as another version of the program.
	Rules uint32

	// Secrets are the master secrets for encrypting the secrets of webhooks: the first one encrypts, all decrypt. Without one
	// no webhook can be created.
	Secrets             [][]byte
	WebhookAllowPrivate bool // allows webhooks in private networks and without TLS

	Mail mail.Config // without a URL no e-mails are sent

	RegisterLimit   int // accounts that one source may register per day; 20
	ProjectionBound int // documents waiting for the read model; 100,000
	AuditPrincipals int // accounts and networks that an audit holds in memory at a time, about 1 KB each; 200,000
	AuditRequests   int // latest requests that an audit holds in memory and compares, about 200 bytes each; 300,000

	AuditProgress    time.Duration // shortest time between two saves of a complete audit's progress; a minute
	RequestRetention time.Duration // how long recent requests of accounts are kept; 30 days
	// LedgerRetention is how long the read model keeps all rows of the ledger, in whole months, and at least since the beginning of the
	// previous month. Older ones are recomputed from the journal. 0: forever.
	LedgerRetention time.Duration

	// JournalRetention is how long closed generations of the journals are kept. If it is not 0 what is new in a journal is audited once a
	// day: only audited messages are deleted.
	JournalRetention time.Duration

	SnapshotMessages int           // messages between two snapshots; 50,000
	SnapshotInterval time.Duration // between two snapshots, if anything was folded; 10 min
	SealInterval     time.Duration // between two seals, while receipts change; 1 min
	// HistoryMessages and HistoryEntries are the distance between snapshots kept permanently, in messages and in their admissions, settlements and
	// commands. An explanation folds from one of them; 100,000 and 4 million.
	HistoryMessages, HistoryEntries int

	StopTimeout time.Duration // for each step of a stop: answering queries, writing the read model and a snapshot; 20 s

	// Progress, if not nil, is called during long folds and audits, by several goroutines at a time.
	Progress func(task string, done, total uint64)
}

// Configure returns the configuration that the settings ask for. Settings that a program does not read are zero and leave
// the default.
func Configure(s host.Settings) Config {
	var secrets [][]byte
	if s.Secret != "" {
		secrets = append([][]byte{[]byte(s.Secret.Reveal())}, s.SecretPrevious.Bytes()...)
	}
	return Config{
		PartitionCount: s.Partitions, Partitions: s.BillingPartitions, ClockOffset: s.ClockOffset,
		Book: plan.Published(s.AnonymousLimit), RegisterLimit: s.RegisterLimit, RequestRetention: s.RequestRetention,
		LedgerRetention: s.LedgerRetention, JournalRetention: s.JournalRetention,
		SnapshotMessages: s.SnapshotMessages, SnapshotInterval: s.SnapshotInterval, SealInterval: s.CheckpointInterval, StopTimeout: s.StopGrace,
		Secrets: secrets, WebhookAllowPrivate: s.WebhookAllowPrivate,
		Mail: mail.Config{URL: s.SMTPURL, From: s.MailFrom, Public: s.PublicURL},
	}
}

// instanceName matches names that fit one token of a subject.
var instanceName = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)

// Validate reports all faults at once.
func (c Config) Validate() error {
	var errs []error
	if c.PartitionCount < 0 {
		errs = append(errs, fmt.Errorf("%d partitions", c.PartitionCount))
	}
	if c.Instance != "" && !instanceName.MatchString(c.Instance) {
		errs = append(errs, fmt.Errorf("instance %q is not 1 to 64 letters, digits, - and _", c.Instance))
	}
	seen := map[int]bool{}
	for _, p := range c.Partitions {
		if p < 0 || p >= max(c.PartitionCount, 1) || seen[p] {
			errs = append(errs, fmt.Errorf("partition %d of %d", p, max(c.PartitionCount, 1)))
		}
		seen[p] = true
	}
	for _, v := range []struct {
		what  string
		value int64
	}{
		{"register limit", int64(c.RegisterLimit)},
		{"projection bound", int64(c.ProjectionBound)},
		{"audit principals", int64(c.AuditPrincipals)},
		{"audit requests", int64(c.AuditRequests)},
		{"audit progress", int64(c.AuditProgress)},
		{"request retention", int64(c.RequestRetention)},
		{"ledger retention", int64(c.LedgerRetention)},
		{"journal retention", int64(c.JournalRetention)},
		{"snapshot messages", int64(c.SnapshotMessages)},
		{"history messages", int64(c.HistoryMessages)},
		{"history entries", int64(c.HistoryEntries)},
		{"snapshot interval", int64(c.SnapshotInterval)},
		{"seal interval", int64(c.SealInterval)},
		{"stop timeout", int64(c.StopTimeout)},
	} {
		if v.value < 0 {
			errs = append(errs, fmt.Errorf("%s below zero", v.what))
		}
	}
	return errors.Join(errs...)
}

func (c Config) withDefaults() Config {
	c.PartitionCount = max(c.PartitionCount, 1)
	if c.Book == nil {
		c.Book = plan.Published(10)
	}
	if c.Rules == 0 {
		c.Rules = account.NewestRules
	}
	if c.AuditPrincipals == 0 {
		c.AuditPrincipals = 200_000
	}
	if c.AuditRequests == 0 {
		c.AuditRequests = 300_000
	}
	if c.AuditProgress == 0 {
		c.AuditProgress = time.Minute
	}
	if c.RequestRetention == 0 {
		c.RequestRetention = 30 * 24 * time.Hour
	}
	if c.RegisterLimit == 0 {
		c.RegisterLimit = 20
	}
	if c.SnapshotMessages == 0 {
		c.SnapshotMessages = 50_000
	}
	if c.HistoryMessages == 0 {
		c.HistoryMessages = 100_000
	}
	if c.HistoryEntries == 0 {
		c.HistoryEntries = 4_000_000
	}
	if c.SnapshotInterval == 0 {
		c.SnapshotInterval = 10 * time.Minute
	}
	if c.SealInterval == 0 {
		c.SealInterval = time.Minute
	}
	if c.StopTimeout == 0 {
		c.StopTimeout = 20 * time.Second
	}
	if c.Instance == "" {
		c.Instance = strings.ToLower(rand.Text()[:12])
	}
	if c.Installation == nil {
		c.Installation = func() string { return "" }
	}
	if c.Live == nil {
		var live []string
		if c.Assigned == nil && c.Partitions == nil {
			live = []string{c.Instance}
		}
		c.Live = func() []string { return live }
	}
	if c.Progress == nil {
		c.Progress = func(string, uint64, uint64) {}
	}
	return c
}

// Deps are the connections and stores of the service, owned by the caller.
type Deps struct {
	NC      *nats.Conn
	Shared  inprocess.Shared   // with services of the same process
	Views   views.Store        // opened with Collections; the only store of users, so it must sync its commits
	Blobs   blob.Store         // for snapshots
	Clock   func() time.Time   // nil: time.Now
	Logger  *slog.Logger       // nil: silent
	Metrics *telemetry.Metrics // may be nil
	Traces  *trace.Scope       // nil: nothing is traced
}

func (d Deps) withDefaults() Deps {
	if d.Clock == nil {
		d.Clock = time.Now
	}
	if d.Logger == nil {
		d.Logger = slog.New(slog.DiscardHandler)
	}
	return d
}

// Collections returns the collections of the read model that this service owns.
func Collections() []views.Collection {
	return slices.Concat(
		projection.Collections(), users.Collections(), webhooks.Collections(), snapshots.Collections(), lost.Collections(), []views.Collection{installation.Collection()},
	)
}

// IsAlone reports whether no journal has what is in a collection: users, say, and addresses of webhooks.
func IsAlone(collection string) bool {
	projected := slices.Concat(projection.Collections(), webhooks.Projected())
	return !slices.ContainsFunc(projected, func(c views.Collection) bool { return c.Name == collection })
}

// SendsFrom reports whether webhooks are sent from a collection. A copy without these collections notifies nobody.
func SendsFrom(collection string) bool { return webhooks.SendsFrom(collection) }

const (
	// storeQueue is the queue group that delivers each request about users or webhooks to one instance.
	storeQueue     = "billing"
	userWorkers    = 32
	webhookWorkers = 8
	// instanceWorkers answer queries about this instance. A health query may wait a second for journals.
	instanceWorkers = 4
)

// Service is one instance. Any number of instances may fold the same partitions: they reach the same decisions. Run is called
// once.
type Service struct {
	cfg      Config
	deps     Deps
	replicas *replica.Set
	metrics  *partition.Metrics
	turns    *partition.Turns
	users    *users.Users
	started  time.Time
	webhooks *webhooks.Store
	sender   *webhooks.Sender
}

// New checks the configuration. It contacts nothing before Run.
func New(cfg Config, deps Deps) (*Service, error) {
	err := cfg.Validate()
	if deps.NC == nil || deps.Views == nil || deps.Blobs == nil {
		err = errors.Join(err, errors.New("a connection, a read model and a blob store are needed"))
	}
	if err != nil {
		return nil, fmt.Errorf("configure billing: %w", err)
	}
	deps = deps.withDefaults()
	s := &Service{cfg: cfg.withDefaults(), deps: deps, metrics: partition.NewMetrics(deps.Metrics), turns: partition.NewTurns(), started: deps.Clock()}
	s.users = users.New(deps.Views, s.now, s.cfg.RegisterLimit, deps.Logger)
	if s.webhooks, err = webhooks.NewStore(deps.Views, s.now, webhooks.Config{
		Partitions: s.cfg.PartitionCount, Secrets: cfg.Secrets, AllowPrivate: cfg.WebhookAllowPrivate,
	}); err != nil {
		return nil, fmt.Errorf("configure billing: %w", err)
	}
	sendMail, err := s.mail()
	if err != nil {
		return nil, fmt.Errorf("configure billing: %w", err)
	}
	s.sender = webhooks.NewSender(s.webhooks, s.cfg.Instance, sendMail, deps.Logger, deps.Metrics)
	s.replicas = replica.NewSet(replica.Config{
		Count: s.cfg.PartitionCount, Partitions: s.cfg.Partitions, Assigned: s.cfg.Assigned, Served: s.cfg.Served,
		Start: s.fold, NC: deps.NC, Logger: deps.Logger,
	})
	return s, nil
}

// mail returns what sends e-mails to account holders; nil: none are sent.
func (s *Service) mail() (webhooks.Mail, error) {
	if s.cfg.Mail.URL == "" {
		return nil, nil
	}
	m, err := mail.New(s.cfg.Mail, s.users.Email)
	return m.Send, err
}

// Ready is closed once every assigned partition has caught up with its journal for the first time; at once if none is assigned.
func (s *Service) Ready() <-chan struct{} { return s.replicas.Ready() }

// Serving reports whether all assigned partitions are served. It is true if none is assigned.
func (s *Service) Serving() bool { return s.replicas.Serving() }

// Unready is the reason for operators why assigned partitions are not served, or nil.
func (s *Service) Unready() error { return s.replicas.Unready() }

// Run waits for the streams, and serves the assigned partitions until ctx ends. Then it writes snapshots and the rest of the
// read model, and returns nil. It returns an error if it must not continue: a journal does not fit its snapshots or read model,
// a stream could lose messages or was created for another number of partitions, or the connection is closed.
func (s *Service) Run(ctx context.Context) error {
	// All of them, including those folded elsewhere: the first instance to append must find them.
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
	stopStores, err := s.serveStores()
	if err != nil {
		return err
	}
	defer stopStores()
	stopInstance, err := s.serveInstance()
	if err != nil {
		return err
	}
	defer stopInstance()
	group, work := errgroup.WithContext(ctx)
	group.Go(func() error { return s.replicas.Run(work) })
	group.Go(func() error { return s.users.Run(work) })
	group.Go(func() error { return s.sender.Run(work) })
	return group.Wait()
}

// now is the clock with the development offset.
func (s *Service) now() time.Time { return s.deps.Clock().Add(s.cfg.ClockOffset) }

// fold works on one partition until ctx ends.
func (s *Service) fold(ctx context.Context, number int) error {
	err := partition.New(partition.Config{
		Partition: number, Partitions: s.cfg.PartitionCount, Instance: s.cfg.Instance, Book: s.cfg.Book,
		SnapshotMessages: s.cfg.SnapshotMessages, SnapshotInterval: s.cfg.SnapshotInterval, SealInterval: s.cfg.SealInterval,
		ProjectionBound: s.cfg.ProjectionBound, AuditPrincipals: s.cfg.AuditPrincipals, AuditRequests: s.cfg.AuditRequests,
		AuditProgress: s.cfg.AuditProgress, StopTimeout: s.cfg.StopTimeout, Progress: s.cfg.Progress,
		Rules: s.cfg.Rules, Started: s.started, RequestRetention: s.cfg.RequestRetention, LedgerRetention: s.cfg.LedgerRetention,
		JournalRetention: s.cfg.JournalRetention,
		History:          snapshots.Spacing{Messages: num.Uint64(s.cfg.HistoryMessages), Entries: num.Uint64(s.cfg.HistoryEntries)},
	}, partition.Deps{
		NC: s.deps.NC, Shared: s.deps.Shared, Views: s.deps.Views, Blobs: s.deps.Blobs, Users: s.users, Clock: s.deps.Clock, Offset: s.cfg.ClockOffset,
		Announce: s.replicas.Announce, Register: s.replicas.Register, Stall: s.replicas.Stall, Turns: s.turns, Logger: s.deps.Logger, Metrics: s.metrics,
		Traces: s.deps.Traces,
	}).Run(ctx)
	if err != nil && !temporary(err) {
		return replica.Fatal(err)
	}
	return err
}

// temporary reports whether the error is an unavailable store, which waiting may cure.
func temporary(err error) bool {
	for _, known := range []error{views.ErrUnavailable, blob.ErrUnavailable, journal.ErrUnavailable, context.DeadlineExceeded} {
		if errors.Is(err, known) {
			return true
		}
	}
	return false
}

// serveStores answers requests about users and webhooks, which are in the read model only, until stop is called.
func (s *Service) serveStores() (stop func(), err error) {
	log := rpc.WithLogger(s.deps.Logger)
	users, err := rpc.Serve(s.deps.NC, event.UserSubject, storeQueue, userWorkers, encoded[event.UserRequest](s.users.Answer), log)
	if err != nil {
		return nil, fmt.Errorf("serve users: %w", err)
	}
	webhooks, err := rpc.Serve(s.deps.NC, event.WebhookSubject, storeQueue, webhookWorkers, encoded[event.WebhookRequest](s.webhooks.Answer), log)
	if err != nil {
		rpc.Stop(s.cfg.StopTimeout, users)
		return nil, fmt.Errorf("serve webhooks: %w", err)
	}
	return func() { rpc.Stop(s.cfg.StopTimeout, users, webhooks) }, nil
}

// encoded makes a handler of encoded requests. One that can't be decoded is refused as malformed.
func encoded[R any, Request interface {
	*R
	event.Message
}, Answer event.Message](answer func(context.Context, Request) (Answer, error)) func(context.Context, []byte) ([]byte, error) {
	return func(ctx context.Context, payload []byte) ([]byte, error) {
		request := Request(new(R))
		if err := event.Decode(payload, request); err != nil {
			return nil, &rpc.Error{Code: "malformed", Message: err.Error()}
		}
		a, err := answer(ctx, request)
		if err != nil {
			return nil, err
		}
		return event.Encode(a)
	}
}

// serveInstance answers with the name and partitions of this instance until stop is called. All instances answer.
func (s *Service) serveInstance() (stop func(), err error) {
	answer := func(ctx context.Context, asked []byte) ([]byte, error) {
		var folds []event.Fold
		if string(asked) == event.AskHealth {
			folds = s.replicas.Health(ctx)
		}
		return json.Marshal(event.Instance{
			Name: s.cfg.Instance, Partitions: s.cfg.PartitionCount, Serves: s.replicas.Served(), Stalled: s.replicas.Stalled(), Live: s.cfg.Live(),
			Installation: s.cfg.Installation(), Rules: s.cfg.Rules, Book: pricebook.Hash(s.cfg.Book), Folds: folds,
		})
	}
	server, err := rpc.Serve(s.deps.NC, event.InstancesSubject, s.cfg.Instance, instanceWorkers, answer, rpc.WithLogger(s.deps.Logger))
	if err != nil {
		return nil, fmt.Errorf("serve queries about this instance: %w", err)
	}
	return func() { rpc.Stop(s.cfg.StopTimeout, server) }, nil
}

// ErrJournal: a journal does not match its snapshots or read model, or it has lost messages. Run changes nothing then. The
// error's text tells operators what to do.
var ErrJournal = partition.ErrJournal
