package billing_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"quire.dev/pkg/blob"
	"quire.dev/pkg/blob/disk"
	"quire.dev/pkg/event"
	"quire.dev/pkg/installation"
	"quire.dev/pkg/journal"
	"quire.dev/pkg/journal/journaltest"
	"quire.dev/pkg/plan"
	"quire.dev/pkg/rpc"
	"quire.dev/pkg/telemetry"
	"quire.dev/pkg/views"
	"quire.dev/pkg/views/sqlite"
	"quire.dev/services/billing"
	"quire.dev/services/billing/internal/account"
)

const (
	alice = uint64(0xA11CE)
	bob   = uint64(0xB0B)
)

// stack is the servers and stores that the services of a test use.
type stack struct {
	t      testing.TB
	server *journaltest.Server
	nc     *nats.Conn
	views  *switched
	path   string // of the read model
	blobs  *switchedBlobs
	count  int              // partitions
	log    *lines           // if it is not nil, it gets the log of services that are started
	clock  func() time.Time // of services that are started; nil: the real one

	number   uint64
	commands uint64
	answers  *nats.Subscription

	provisioned *journaltest.Server // the journals are there
}

// provision makes the journals and the bucket of the members, as the provisioning job does.
func (s *stack) provision(partitions int) {
	s.t.Helper()
	if s.provisioned == s.server {
		return
	}
	if err := installation.Provision(s.t.Context(), s.nc, installation.Config{Partitions: max(partitions, 1), Members: true}); err != nil {
		s.t.Fatal(err)
	}
	s.provisioned = s.server
}

// switched is the read model with a switch that makes it fail.
type switched struct {
	views.Store
	down    atomic.Bool  // for commits
	hidden  atomic.Bool  // for reads of the checkpoint
	refused atomic.Int64 // of these
}

var errDown = views.Unavailable("reach", errors.New("switched off"))

func (s *switched) Commit(ctx context.Context, b views.Batch) error {
	if s.down.Load() {
		return errDown
	}
	return s.Store.Commit(ctx, b)
}

func (s *switched) Checkpoint(ctx context.Context, stream string) (uint64, error) {
	if s.hidden.Load() {
		s.refused.Add(1)
		return 0, errDown
	}
	return s.Store.Checkpoint(ctx, stream)
}

// switchedBlobs likewise, for writing.
type switchedBlobs struct {
	blob.Store
	down atomic.Bool
}

func (s *switchedBlobs) Put(ctx context.Context, key string, r io.Reader, size int64) (blob.Info, error) {
	if s.down.Load() {
		return blob.Info{}, blob.ErrUnavailable
	}
	return s.Store.Put(ctx, key, r, size)
}

func newStack(t testing.TB) *stack {
	t.Helper()
	return stackIn(t, t.TempDir())
}

// stackIn has everything in a folder, which may be a copy of an earlier stack's.
func stackIn(t testing.TB, dir string) *stack {
	t.Helper()
	store, err := sqlite.Open(t.Context(), sqlite.Config{Path: filepath.Join(dir, "billing.db"), Collections: billing.Collections()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	blobs, err := disk.Open(filepath.Join(dir, "blobs"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := blobs.Close(); err != nil {
			t.Error(err)
		}
	})
	s := &stack{t: t, path: filepath.Join(dir, "billing.db"), views: &switched{Store: store}, blobs: &switchedBlobs{Store: blobs}, count: 1}
	s.journal(journaltest.Start(t, journaltest.WithFolder(filepath.Join(dir, "nats"))))
	return s
}

// journal has the stack use a server from now on.
func (s *stack) journal(server *journaltest.Server) {
	s.t.Helper()
	s.server, s.nc = server, server.Conn(s.t)
	var err error
	if s.answers, err = s.nc.SubscribeSync(event.AnswerSubjects("test")); err != nil {
		s.t.Fatal(err)
	}
}

// running is a service that was started.
type running struct {
	*billing.Service
	t       testing.TB
	cancel  context.CancelFunc
	done    chan error
	metrics *telemetry.Metrics
}

func (s *stack) launch(cfg billing.Config, offset time.Duration) (*billing.Service, *running) {
	s.t.Helper()
	s.provision(cfg.PartitionCount)
	cfg.ClockOffset = offset
	metrics := telemetry.NewMetrics()
	service, err := billing.New(cfg, billing.Deps{
		NC: s.nc, Views: s.views, Blobs: s.blobs, Metrics: metrics, Clock: s.clock,
		Logger: slog.New(slog.NewTextHandler(io.MultiWriter(testWriter{s.t}, s.log), nil)),
	})
	if err != nil {
		s.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	r := &running{Service: service, t: s.t, cancel: cancel, done: make(chan error, 1), metrics: metrics}
	go func() { r.done <- service.Run(ctx) }()
	s.t.Cleanup(func() {
		cancel()
		r.done <- <-r.done
	})
	return service, r
}

// exposed is the service's page of metrics.
func (r *running) exposed() string {
	answer := httptest.NewRecorder()
	telemetry.Handler(r.metrics, telemetry.NewHealth()).ServeHTTP(answer, httptest.NewRequest("GET", "/metrics", nil))
	return answer.Body.String()
}

// lines keeps a log.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) Write(line []byte) (int, error) {
	if l == nil {
		return len(line), nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(line)
}

func (l *lines) has(text string) func() bool {
	return func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return strings.Contains(l.text.String(), text)
	}
}

// testWriter shows the services' log with the test that fails.
type testWriter struct{ t testing.TB }

func (w testWriter) Write(line []byte) (int, error) {
	w.t.Logf("%s", line)
	return len(line), nil
}

func (s *stack) start(cfg billing.Config, offset time.Duration) *running {
	s.t.Helper()
	service, r := s.launch(cfg, offset)
	select {
	case <-service.Ready():
	case err := <-r.done:
		r.done <- err
		s.t.Fatalf("ended before it was ready: %v", err)
	case <-time.After(time.Minute):
		s.t.Fatal("not ready in a minute")
	}
	return r
}

func (r *running) stop() {
	r.t.Helper()
	r.cancel()
	err := <-r.done
	r.done <- err
	if err != nil {
		r.t.Fatalf("stop: %v", err)
	}
}

// kill ends the service without its last writes.
func (s *stack) kill(r *running) {
	s.t.Helper()
	s.views.down.Store(true)
	s.blobs.down.Store(true)
	r.stop()
	s.views.down.Store(false)
	s.blobs.down.Store(false)
}

func (s *stack) next(subject string) []byte {
	s.t.Helper()
	for {
		m, err := s.answers.NextMsg(30 * time.Second)
		if err != nil {
			s.t.Fatalf("no answer on %s: %v", subject, err)
		}
		if m.Subject == subject {
			return m.Data
		}
	}
}

func (s *stack) publish(subject string, m event.Message) {
	s.t.Helper()
	data, err := event.Encode(m)
	if err != nil {
		s.t.Fatal(err)
	}
	if err := s.nc.Publish(subject, data); err != nil {
		s.t.Fatal(err)
	}
}

// partition is the one of an account.
func (s *stack) partition(id uint64) int { return event.AccountPartition(event.AccountID(id), s.count) }

// usage publishes a batch of an edge, about accounts of one partition, and waits for its verdicts.
func (s *stack) usage(admissions []*event.Admission, settlements []*event.Settlement) *event.VerdictBatch {
	s.t.Helper()
	s.number++
	id := uint64(0)
	if len(admissions) > 0 {
		id = admissions[0].Account
	} else if len(settlements) > 0 {
		id = settlements[0].Account
	}
	s.publish(event.UsageSubject(s.partition(id)), &event.UsageBatch{
		Source: "test", Number: s.number, StampMs: time.Now().UnixMilli(), Admissions: admissions, Settlements: settlements,
	})
	for {
		b := &event.VerdictBatch{}
		decode(s.t, s.next(event.VerdictSubject("test")), b)
		if b.Number == s.number { // otherwise of the other replica
			return b
		}
	}
}

func decode(t testing.TB, data []byte, m event.Message) {
	t.Helper()
	if err := event.Decode(data, m); err != nil {
		t.Fatal(err)
	}
}

func (s *stack) command(c *event.Command) *event.CommandOutcome {
	s.t.Helper()
	s.commands++
	s.publish(event.AccountSubject(s.partition(c.Account)), &event.CommandBatch{
		Source: "test", Number: s.commands, StampMs: time.Now().UnixMilli(), Commands: []*event.Command{c},
	})
	for {
		b := &event.CommandOutcomeBatch{}
		decode(s.t, s.next(event.CommandOutcomeSubject("test")), b)
		if b.Number == s.commands {
			return b.Outcomes[0]
		}
	}
}

func (s *stack) account(id uint64, tier plan.Tier) {
	s.t.Helper()
	o := s.command(&event.Command{Account: id, Action: &event.Command_Create{Create: &event.CreateAccount{
		Tier: uint32(tier), Key: &event.RotateKey{Fingerprint: 7, Prefix: "qk_abcdef"},
	}}})
	if o.Status != event.CommandStatus_COMMAND_OK {
		s.t.Fatalf("create: %v", o)
	}
}

func (s *stack) grant(id uint64, amount int64) {
	s.t.Helper()
	o := s.command(&event.Command{Account: id, Action: &event.Command_Grant{Grant: &event.Grant{AmountMicros: amount, Reason: "gift"}}})
	if o.Status != event.CommandStatus_COMMAND_OK {
		s.t.Fatalf("grant: %v", o)
	}
}

func admission(id uint64, key plan.QuotaKey) *event.Admission {
	request := event.NewRequestID()
	return &event.Admission{RequestId: request[:], Account: id, QuotaKey: uint32(key), KeyVersion: 1, KeyFingerprint: 7}
}

// serve admits and settles n requests and returns them.
func (s *stack) serve(id uint64, key plan.QuotaKey, n int) []*event.Admission {
	s.t.Helper()
	var admissions []*event.Admission
	var settlements []*event.Settlement
	for range n {
		a := admission(id, key)
		admissions = append(admissions, a)
		settlements = append(settlements, &event.Settlement{RequestId: a.RequestId, Result: event.Result_SERVED, Account: id, QuotaKey: uint32(key)})
	}
	for i, v := range s.usage(admissions, nil).Verdicts {
		if v.Decision != event.Decision_ADMITTED {
			s.t.Fatalf("request %d: %v", i, v)
		}
	}
	s.usage(nil, settlements)
	return admissions
}

func (s *stack) query(q *event.Query) *event.QueryAnswer {
	s.t.Helper()
	return s.queryAt(s.partition(q.Account), q)
}

func (s *stack) queryAt(partition int, q *event.Query) *event.QueryAnswer {
	s.t.Helper()
	return s.ask(event.QuerySubject(partition), q)
}

func (s *stack) ask(subject string, q *event.Query) *event.QueryAnswer {
	s.t.Helper()
	payload, err := event.Encode(q)
	if err != nil {
		s.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(s.t.Context(), 30*time.Second)
	defer cancel()
	data, err := rpc.Call(ctx, s.nc, subject, payload)
	if err != nil {
		s.t.Fatalf("query: %v", err)
	}
	a := &event.QueryAnswer{}
	decode(s.t, data, a)
	return a
}

func (s *stack) usageOf(id uint64) *event.UsageAnswer {
	s.t.Helper()
	a := s.query(&event.Query{Account: id, Query: &event.Query_Usage{Usage: &event.UsageQuery{}}})
	if a.Status != event.QueryStatus_QUERY_OK {
		s.t.Fatalf("usage: %v", a.Status)
	}
	return a.GetUsage()
}

// ledger reads all pages of an account's ledger and checks the rules of every ledger.
func (s *stack) ledger(id uint64, page uint32) []*event.LedgerEntry {
	s.t.Helper()
	var entries []*event.LedgerEntry
	var cursor []byte
	for {
		a := s.query(&event.Query{Account: id, Query: &event.Query_Ledger{Ledger: &event.LedgerQuery{Limit: page, Cursor: cursor}}})
		if a.Status != event.QueryStatus_QUERY_OK {
			s.t.Fatalf("ledger: %v", a.Status)
		}
		entries = append(entries, a.GetLedger().Entries...)
		if cursor = a.GetLedger().NextCursor; len(cursor) == 0 {
			break
		}
	}
	var sum int64
	for i, e := range entries {
		sum += e.AmountMicros
		if i > 0 && account.LedgerOrder(e) >= account.LedgerOrder(entries[i-1]) {
			s.t.Fatalf("entry %d is not older than the one before", i)
		}
	}
	if len(entries) > 0 && sum != entries[0].BalanceMicros {
		s.t.Fatalf("entries sum to %d, balance %d", sum, entries[0].BalanceMicros)
	}
	return entries
}

func (s *stack) audit() *event.AuditAnswer {
	s.t.Helper()
	return s.auditAt(0)
}

func (s *stack) auditAt(partition int) *event.AuditAnswer {
	s.t.Helper()
	return s.auditOf(partition, &event.AuditQuery{})
}

func (s *stack) auditOf(partition int, q *event.AuditQuery) *event.AuditAnswer {
	s.t.Helper()
	a := s.queryAt(partition, &event.Query{Query: &event.Query_Audit{Audit: q}})
	if a.Status != event.QueryStatus_QUERY_OK {
		s.t.Fatalf("audit: %v", a.Status)
	}
	return a.GetAudit()
}

// replay folds the journal of partition 0 from its first message.
func (s *stack) replay(fold *account.Fold) {
	s.t.Helper()
	s.fold(fold, func(uint64, account.Effects) {})
}

// fold folds the journal up to its present end, and calls visit after each message.
func (s *stack) fold(fold *account.Fold, visit func(sequence uint64, effects account.Effects)) {
	s.t.Helper()
	kinds := map[string]account.Kind{
		event.UsageSubject(0): account.Usage, event.AccountSubject(0): account.Commands, event.PricesSubject(0): account.Prices,
	}
	var list []account.Message
	err := journal.Open(s.nc, event.Billing.Stream(0)).Replay(s.t.Context(), 0, s.lastSequence(), func(m journal.Message) error {
		list = append(list, account.Message{
			Sequence: m.Sequence, TimeNanos: m.Time.UnixNano(), Subject: m.Subject, Kind: kinds[m.Subject], Data: bytes.Clone(m.Data),
		})
		return nil
	}, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	for _, m := range list { // visit may end the test, which only its own goroutine can
		effects, err := fold.Apply(m)
		visit(m.Sequence, effects)
		if err != nil {
			s.t.Fatal(err)
		}
	}
}

func (s *stack) snapshots() []blob.Info {
	s.t.Helper()
	var list []blob.Info
	err := s.blobs.Sweep(s.t.Context(), "billing/", time.Now().Add(time.Hour), func(i blob.Info) error {
		if !strings.HasPrefix(i.Key, "billing/audited/") && !strings.HasPrefix(i.Key, "billing/seals/") {
			list = append(list, i)
		}
		return nil
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return list
}
