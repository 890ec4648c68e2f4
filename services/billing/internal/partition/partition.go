// Package partition runs the billing fold of one partition: it loads a snapshot, follows the
// journal, answers the sources, feeds the read model, writes snapshots and answers queries.
package partition

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"golang.org/x/sync/errgroup"

	"quire.dev/pkg/archived"
	"quire.dev/pkg/blob"
	"quire.dev/pkg/event"
	"quire.dev/pkg/inprocess"
	"quire.dev/pkg/journal"
	"quire.dev/pkg/plan"
	"quire.dev/pkg/replica"
	"quire.dev/pkg/rpc"
	"quire.dev/pkg/trace"
	"quire.dev/pkg/views"
	"quire.dev/pkg/wait"
	"quire.dev/services/billing/internal/account"
	"quire.dev/services/billing/internal/projection"
	"quire.dev/services/billing/internal/snapshots"
	"quire.dev/services/billing/internal/users"
)

// Config describes one partition. All fields are required.
type Config struct {
	Partition        int
	Partitions       int    // of every domain
	Instance         string // of this process
	Book             *plan.Book
	Rules            uint32            // newest version of the rules that this instance folds
	Started          time.Time         // start of this process, by Clock; prices published later are newer than Book
	SnapshotMessages int               // between two snapshots
	SnapshotInterval time.Duration     // between two snapshots, if anything was folded
	History          snapshots.Spacing // of snapshots kept permanently
	SealInterval     time.Duration     // between two seals, while receipts change
	ProjectionBound  int               // documents waiting for the read model
	AuditPrincipals  int               // held in memory by an audit
	AuditRequests    int               // latest ones, which an audit holds in memory and compares
	AuditProgress    time.Duration     // shortest time between two saves of a complete audit's progress
	RequestRetention time.Duration     // how long recent requests of accounts are kept
	LedgerRetention  time.Duration     // how long the read model has all rows of the ledger; 0: forever
	JournalRetention time.Duration     // of closed generations of the journal; 0: forever
	StopTimeout      time.Duration     // for answering queries at a stop, and for the writes after that
	// Progress is called during long folds, by several goroutines.
	Progress func(task string, done, total uint64)
}

// Deps are the connections and stores of a partition. All but Traces are required.
type Deps struct {
	NC     *nats.Conn
	Shared inprocess.Shared
	Views  views.Store
	Blobs  blob.Store
	Users  *users.Users
	Clock  func() time.Time
	Offset time.Duration
	// Announce marks the partition as served until ctx ends or withdraw is called.
	Announce func(ctx context.Context, partition int) (withdraw func())
	// Register registers the partition for health queries.
	Register func(partition int, f replica.Folding) (withdraw func())
	// Stall records why the journal takes no writes; nil clears it.
	Stall   func(partition int, cause error)
	Turns   *Turns
	Logger  *slog.Logger
	Metrics *Metrics
	Traces  *trace.Scope // nil: nothing is traced
}

// ErrJournal: the journal does not match the snapshots or the read model, or it has lost messages. Nothing was changed.
var ErrJournal = errors.New("the journal does not fit what was folded from it")

const (
	queryWorkers = 32
	queryQueue   = "billing"
	// answerAge is the age of a message after which its answer is no longer sent: its source has given up, or repeats the
	// batch.
	answerAge = 2 * time.Minute
)

// Partition is one running fold. Run is called once.
type Partition struct {
	cfg       Config
	deps      Deps
	log       *slog.Logger
	stream    string
	kinds     map[string]account.Kind // of messages, by subject
	journal   *journal.Journal
	end       *journal.Confirmer // of journal
	snapshots *snapshots.Store

	mu         sync.Mutex // guards fold; only the follower changes it
	fold       *account.Fold
	projection *projection.Projection
	storedHead account.Head // of the read model at the start; the fold must come to it

	position     wait.Position // of the last message folded, answered and pushed
	asking       sync.Mutex    // held while probing whether an edge runs
	audits       *audits
	explanations *explanations
	remakes      *remakes
	waiting      chan struct{} // bounds the queries that wait for a slow result
	looks        looks
	sealing      sealing

	// Owned by the goroutine of keepSnapshots, then by stop.
	lastSnapshot snapshots.Snapshot
	observed     [account.Decisions]uint64

	// Owned by serve until keepBook runs, then by that: the last logged reason why prices or rules stay unchanged. Empty: none.
	staying string
}

// New returns a Partition that contacts nothing before Run.
func New(cfg Config, deps Deps) *Partition {
	stream := event.Billing.Stream(cfg.Partition)
	log := deps.Logger.With("stream", stream)
	p := &Partition{
		cfg: cfg, deps: deps, log: log, stream: stream, kinds: KindsOf(cfg.Partition),
		journal:   deps.Shared.Files.Open(deps.NC, stream).With(deps.Metrics.journals).WithOlder(archived.Of(deps.NC, deps.Blobs, cfg.Partitions)),
		snapshots: snapshots.New(deps.Blobs, deps.Views, stream, log),
		audits:    newAudits(), explanations: newExplanations(), remakes: newRemakes(), waiting: make(chan struct{}, maxWaiting),
		looks: looks{byAccount: map[event.AccountID]int{}},
	}
	p.end = p.journal.NewConfirmer(event.UsageSubject(cfg.Partition), p.emptyBatch)
	return p
}

// now is the service's clock with the development offset.
func (p *Partition) now() time.Time { return p.deps.Clock().Add(p.deps.Offset) }

// Run works until ctx ends, then writes the rest of the read model and a snapshot, and returns nil. Errors: a store that did
// not answer at the start; ErrJournal, account.ErrState and projection.ErrRewound, after which it must not continue; a closed
// connection.
func (p *Partition) Run(ctx context.Context) error {
	if err := p.open(ctx); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	defer p.deps.Metrics.forget(p.cfg.Partition) // after the last snapshot, which shows the head of the chain
	defer p.deps.Register(p.cfg.Partition, replica.Folding{Position: p.position.Get, End: p.journal.LastSequence, Holds: p.openHolds})()
	// The projection ends after the follower, which may be waiting for it.
	projecting, stopProjecting := context.WithCancel(context.WithoutCancel(ctx))
	defer stopProjecting()
	projected := make(chan error, 1)
	group, work := errgroup.WithContext(ctx)
	go func() { projected <- p.projection.Run(projecting) }()
	group.Go(func() error { p.deps.Metrics.journals.Observe(work, p.journal); return nil })
	caughtUp := make(chan struct{})
	// The follower ends after the accepted queries, which wait for messages.
	following, stopFollowing := context.WithCancel(context.WithoutCancel(ctx))
	defer stopFollowing()
	group.Go(func() error {
		err := p.follow(following, caughtUp)
		if work.Err() != nil {
			return nil // the partition was stopping
		}
		return err
	})
	group.Go(func() error {
		select {
		case err := <-projected:
			projected <- err
			return err
		case <-work.Done():
			return nil
		}
	})
	group.Go(func() error {
		defer stopFollowing()
		select {
		case <-caughtUp:
			defer p.followToEnd(following)
			return p.serve(work)
		case <-work.Done():
			return nil
		}
	})
	err := group.Wait()
	stopProjecting()
	err = errors.Join(err, <-projected)
	if err == nil {
		p.stop(context.WithoutCancel(ctx))
	}
	return err
}

func (p *Partition) openHolds() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.fold.OpenHolds()
}

// endWait bounds the wait for the last messages at a stop.
const endWait = 2 * time.Second

// followToEnd waits for the messages that the journal has at a stop, such as this replica's last seal: with them the read model is complete.
func (p *Partition) followToEnd(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, endWait)
	defer cancel()
	if err := p.catchUp(ctx); err != nil {
		p.log.Debug("stopping before the end of the journal", "error", err)
	}
}

// follow folds the journal to its end, and new messages after that.
func (p *Partition) follow(ctx context.Context, caughtUp chan<- struct{}) error {
	report := p.reporter("folding " + p.stream)
	err := p.journal.Follow(ctx, p.fold.Sequence(), p.handle, journal.FollowOptions{
		CaughtUp: func() { close(caughtUp) },
		Progress: report,
	})
	switch {
	case ctx.Err() != nil:
		return nil
	case errors.Is(err, ErrJournal):
		return err
	case errors.Is(err, journal.ErrGap), errors.Is(err, journal.ErrTruncated), errors.Is(err, account.ErrGap):
		return p.unfit(lostMessages, err)
	}
	return fmt.Errorf("follow %s: %w", p.stream, err)
}

// handle folds one message.
func (p *Partition) handle(ctx context.Context, m journal.Message) error {
	message := p.message(m)
	begun := p.foldBegins(m)
	p.mu.Lock()
	effects, err := p.fold.Apply(message)
	if effects.Seal != nil {
		p.sealing.take(m, effects.Seal, p.fold, p.deps.Clock())
	}
	p.mu.Unlock()
	if changed := p.checkHead(effects.Head); changed != nil {
		return changed
	}
	if err != nil {
		if !errors.Is(err, account.ErrUndecodable) {
			return err
		}
		if m.Subject != journal.ClosedSubject(p.stream) { // the last message of a generation is for no fold
			// Every replica skips it. It is still an incident.
			p.log.Error("undecodable journal message is skipped", "sequence", m.Sequence, "error", err)
			p.deps.Metrics.skipped.Inc()
		}
	}
	if p.deps.Clock().Sub(m.Time) < answerAge {
		p.announce(effects.Changed)
		p.answer(effects)
		p.traceFold(m, begun)
	}
	for _, a := range effects.Recreated {
		p.log.Warn("a document journal was restored, truncated or recreated: it is settled from here on, nothing twice",
			"journal", a.Stream, "settled", a.Watermark, "goes_on_at", a.Sequence)
	}
	for _, q := range effects.Quarantined {
		p.log.Error("an impossible counter was found: the account is in quarantine until an admin resumes it", "account", q.Account.String(),
			"sequence", m.Sequence, "reason", q.Reason)
	}
	p.reportRefused(effects.Refused, m)
	p.deps.Metrics.messages.Inc()
	if err := p.projection.Push(ctx, m.Sequence, effects); err != nil {
		return err
	}
	p.position.Set(m.Sequence)
	return nil
}

// reportRefused counts and logs settlements that the fold refused: a service has sent another's, or one that billing has
// forgotten.
func (p *Partition) reportRefused(refused []account.Refused, m journal.Message) {
	for _, r := range refused {
		p.deps.Metrics.refused[r.Reason].Add(float64(r.Count))
		p.log.Warn("settlements were refused", "subject", m.Subject, "source", r.Source, "reason", string(r.Reason),
			"count", r.Count, "sequence", m.Sequence)
	}
}

// message converts a journal message for the fold.
func (p *Partition) message(m journal.Message) account.Message {
	return MessageOf(m, p.kinds)
}

// MessageOf converts a journal message for the fold.
func MessageOf(m journal.Message, kinds map[string]account.Kind) account.Message {
	return account.Message{Sequence: m.Sequence, TimeNanos: m.Time.UnixNano(), Subject: m.Subject, Kind: kinds[m.Subject], Data: m.Data}
}

// KindsOf returns the kinds of a partition's messages, by subject.
func KindsOf(partition int) map[string]account.Kind {
	kinds := map[string]account.Kind{}
	for subject, kind := range event.Kinds(partition) {
		kinds[subject] = account.Kind(kind)
	}
	return kinds
}

// announce notifies edges of changed accounts. It precedes the answers: an edge that passes an outcome on has then forgotten
// older refusals.
func (p *Partition) announce(changed []event.AccountID) {
	if len(changed) == 0 {
		return
	}
	var announcement event.Announcement
	for _, id := range changed {
		announcement.Accounts = append(announcement.Accounts, uint64(id))
	}
	data, err := event.Encode(&announcement)
	if err != nil {
		p.log.Error("announcement can't be encoded", "error", err)
		return
	}
	p.publish(event.AnnounceSubject, data)
}

// answer sends verdicts and outcomes to their sources. A source that has lost an answer publishes its batch again, and is
// answered from the fold's state.
func (p *Partition) answer(effects account.Effects) {
	for _, a := range effects.Answers {
		subject := event.VerdictSubject(a.Source)
		if a.Kind == account.Outcomes {
			subject = event.CommandOutcomeSubject(a.Source)
		}
		p.publish(subject, a.Data)
	}
}

// publish does not batch: the connection flushes as soon as it has anything to send.
func (p *Partition) publish(subject string, data []byte) {
	if err := p.deps.Shared.Answers.Publish(p.deps.NC, subject, data); err != nil {
		p.deps.Metrics.unsent.Inc()
		p.log.Debug("answer not sent", "subject", subject, "error", err)
	}
}

// serve answers queries, ticks and takes snapshots until ctx ends. It begins once the fold has caught up.
func (p *Partition) serve(ctx context.Context) error {
	if err := p.publishPrices(ctx); err != nil {
		return err
	}
	stop, err := p.serveQueries()
	if err != nil {
		return err
	}
	defer stop()
	stopReports, err := p.takeReports()
	if err != nil {
		return err
	}
	defer stopReports()
	defer p.deps.Announce(ctx, p.cfg.Partition)()
	group, work := errgroup.WithContext(ctx)
	group.Go(func() error { return p.tick(work) })
	group.Go(func() error { p.watch(work); return nil })
	group.Go(func() error { return p.keepSnapshots(work) })
	group.Go(func() error { return p.keepSeals(work) })
	group.Go(func() error { return p.keepBook(work) })
	group.Go(func() error { return p.keepBooks(work) })
	group.Go(func() error { p.compareWatermarks(work); return nil })
	group.Go(func() error { p.sweepDays(work); return nil })
	group.Go(func() error { p.sweepRequests(work); return nil })
	group.Go(func() error { p.ageLedgers(work); return nil })
	group.Go(func() error { p.keepAudited(work); return nil })
	group.Go(func() error { p.eraseAccounts(work); return nil })
	group.Go(func() error { p.sweepWebhooks(work); return nil })
	group.Go(func() error { p.lookForMissing(work); return nil })
	return group.Wait()
}

// serveQueries answers the queries for any replica of the partition, and for this one, until stop is called.
func (p *Partition) serveQueries() (stop func(), err error) {
	var servers []*rpc.Server
	stop = func() {
		rpc.Stop(p.cfg.StopTimeout, servers...)
		p.audits.stop()
		p.explanations.stop()
		p.remakes.stop()
	}
	for subject, queue := range map[string]string{
		event.QuerySubject(p.cfg.Partition):                   queryQueue,
		event.ReplicaSubject(p.cfg.Partition, p.cfg.Instance): p.cfg.Instance,
	} {
		server, err := rpc.Serve(p.deps.NC, subject, queue, queryWorkers+maxLooks, p.query, rpc.WithLogger(p.log))
		if err != nil {
			stop()
			return nil, fmt.Errorf("serve queries of %s: %w", p.stream, err)
		}
		servers = append(servers, server)
	}
	return stop, nil
}

// tick appends an empty batch when a hold or grant is due and no other message moves the fold's time.
func (p *Partition) tick(ctx context.Context) error {
	// The other replicas of this partition tick too. With random graces one tick serves them all.
	grace := 200*time.Millisecond + rand.N(800*time.Millisecond)
	const every, most = 100 * time.Millisecond, time.Minute
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	pause := wait.Backoff{Initial: time.Second, Max: most}
	next, last := time.Time{}, int64(0)
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return nil
		}
		p.mu.Lock()
		due := p.fold.NextDueMillis()
		p.mu.Unlock()
		now := p.now()
		if due == 0 || now.Add(-grace).UnixMilli() < due || now.Before(next) {
			continue
		}
		if due != last { // else the last tick did not help, as with a clock far ahead of the journal's
			pause.Reset()
		}
		next, last = now.Add(pause.Next()), due
		data, err := p.emptyBatch()
		if err != nil {
			return err
		}
		p.publish(event.UsageSubject(p.cfg.Partition), data)
	}
}

// watch records whether the journal takes writes, until ctx ends.
func (p *Partition) watch(ctx context.Context) {
	defer p.stall(nil)
	p.end.Watch(ctx, journal.Watch{Position: p.position.Get, Quiet: p.deps.Shared.Files != nil, Changed: p.stall})
}

func (p *Partition) stall(cause error) { p.deps.Stall(p.cfg.Partition, cause) }

// emptyBatch is a message that only moves the fold's time.
func (p *Partition) emptyBatch() ([]byte, error) { return event.Encode(p.tickBatch()) }

func (p *Partition) tickBatch() *event.UsageBatch {
	return &event.UsageBatch{Source: "tick", StampMs: p.now().UnixMilli(), OffsetMs: p.deps.Offset.Milliseconds()}
}
