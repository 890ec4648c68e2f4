// Package projection writes the decisions of a billing fold into the read model: ledger entries, the statements of closed
// months, usage by day, recent requests, the entries of chains, the admin log, and alerts to webhooks. It runs behind the fold with a bounded queue. A slow or failing
// store stops verdicts only when the queue is full.
package projection

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"
	"unicode/utf8"

	"quire.dev/pkg/event"
	"quire.dev/pkg/views"
	"quire.dev/pkg/wait"
	"quire.dev/services/billing/internal/account"
	"quire.dev/services/billing/internal/webhooks"
)

// Collections. Partitions share them, since the ids begin with the account.
const (
	Ledger     = "billing_ledger"
	Aged       = "billing_ledger_aged" // what is kept of old rows of the ledger
	Statements = "billing_statements"
	AdminLog   = "billing_admin_log"
	Days       = "billing_days"
	Requests   = "billing_requests"
	Entries    = "billing_entries" // of accounts' chains
	Heads      = "billing_heads"   // of the chains, one document per stream

	byAccount   = "by_account"
	byStream    = "by_stream"
	byStreamDay = "by_stream_day"
)

// Collections returns the collections with their indexes.
func Collections() []views.Collection {
	return []views.Collection{
		{Name: Ledger, Indexes: []views.Index{ledgerIndex()}},
		agedBlocks().declareByAccount(),
		{Name: Statements},
		{Name: AdminLog, Indexes: []views.Index{{Name: byStream, Keys: []string{"stream", "position"}}}},
		{Name: Days, Indexes: []views.Index{{Name: byStreamDay, Keys: []string{"stream", "day"}}}},
		requestBlocks().declare(),
		entryBlocks().declare(),
		{Name: Heads},
	}
}

const (
	batchPuts     = 1000
	batchBytes    = 4 << 20
	commitTimeout = 30 * time.Second
	// idleEvery is how often the checkpoint moves while nothing else needs writing.
	idleEvery    = time.Second
	gatherTime   = 100 * time.Millisecond
	initialPause = 50 * time.Millisecond
	maxPause     = 5 * time.Second
	// DefaultBound is the default of queued documents.
	DefaultBound = 100_000
)

// ErrRewound: the read model's checkpoint went back during writing: it was restored from a backup or replaced. A restart folds
// the missing messages again.
var ErrRewound = errors.New("the read model went back")

// Projection writes one stream's decisions. One goroutine may call Push, any the other methods.
type Projection struct {
	store  views.Store
	stream string
	bound  int
	log    *slog.Logger

	writing sync.Mutex        // held during a commit; before mu
	backlog *webhooks.Backlog // guarded by writing

	mu       sync.Mutex
	queue    []item
	usage    []usageItem
	requests requestLog
	chains   entryLog
	again    Again        // set before the first Page
	wanted   uint64       // sequence up to which a caller waits for the days
	pushed   uint64       // sequence of the last message pushed
	head     account.Head // of the chain, with that message
	done     uint64       // checkpoint in the store
	failing  error

	changes    wait.Changes   // of the queue
	gathering  wait.Gathering // of a batch
	gatherTime time.Duration  // how long a batch gathers if nobody waits for it and it is not full
}

type item struct {
	sequence uint64
	put      views.Put
}

// New returns a projection that continues from the store's checkpoint. bound is the maximum of queued documents; 0:
// DefaultBound.
func New(store views.Store, stream string, checkpoint uint64, bound int, log *slog.Logger) *Projection {
	if bound <= 0 {
		bound = DefaultBound
	}
	return &Projection{
		store: store, stream: stream, bound: bound, log: log,
		pushed: checkpoint, done: checkpoint, requests: newRequestLog(),
		gathering: wait.NewGathering(), gatherTime: gatherTime, backlog: webhooks.NewBacklog(store),
	}
}

// Push queues the effects of a message. It waits while the queue is full, until ctx ends. Messages already in the store are
// skipped.
func (p *Projection) Push(ctx context.Context, sequence uint64, effects account.Effects) error {
	puts, err := documents(p.stream, sequence, effects)
	if err != nil {
		return err
	}
	if len(puts) > 0 || len(effects.Usage)+len(effects.Requests)+len(effects.Entries) > 0 {
		if err := p.gathering.Until(ctx, &p.changes, p.hasRoom); err != nil {
			return err
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if sequence <= p.pushed {
		return nil
	}
	crowded := p.crowded()
	p.pushed, p.head = sequence, effects.Head
	p.requests.push(sequence, effects.Requests)
	p.chains.push(sequence, &effects)
	for _, put := range puts {
		p.queue = append(p.queue, item{sequence, put})
	}
	p.pushUsage(sequence, effects.Usage)
	if len(puts) > 0 || !crowded && p.crowded() {
		p.changes.Notify()
	}
	if p.full() {
		p.gathering.Hurry()
	}
	return nil
}

func documents(stream string, sequence uint64, effects account.Effects) ([]views.Put, error) {
	if len(effects.Ledger)+len(effects.Closed)+len(effects.Admin)+len(effects.Alerts) == 0 {
		return nil, nil
	}
	puts, err := ledgerPuts(sequence, effects)
	if err != nil {
		return nil, err
	}
	for _, c := range effects.Closed {
		head, err := event.Encode(c.Statement)
		if err != nil {
			return nil, err
		}
		puts = append(puts, views.Put{Collection: Statements, Doc: views.Doc{
			ID: c.Account.String() + "." + c.Statement.Period, Seq: sequence, Head: head,
		}})
	}
	for i, e := range effects.Admin {
		e.Id = adminEntryID(e.TimeMs, sequence, i, stream)
		head, err := event.Encode(e)
		if err != nil {
			return nil, err
		}
		puts = append(puts, views.Put{Collection: AdminLog, Doc: views.Doc{
			ID: e.Id, Seq: sequence, Head: head,
			Keys: views.Keys{{Name: "stream", Value: views.String(stream)}, {Name: "position", Value: views.String(e.Id)}},
		}})
	}
	alerts, err := webhooks.Puts(sequence, effects.Alerts)
	return append(puts, alerts...), err
}

// adminEntryID sorts entries of all streams by time, and within a stream in journal order.
func adminEntryID(timeMillis int64, sequence uint64, index int, stream string) string {
	return fmt.Sprintf("%012x-%016x-%04x-%s", max(timeMillis, 0), sequence, index, stream)
}

// maxEntryID is longer than any entry's id.
const maxEntryID = 128

// ValidEntryID reports whether s may be the id of an entry of the admin log.
func ValidEntryID(s string) bool {
	var at, sequence, index uint64
	var stream string
	n, err := fmt.Sscanf(s, "%12x-%16x-%4x-%s", &at, &sequence, &index, &stream)
	return err == nil && n == 4 && len(s) <= maxEntryID && utf8.ValidString(s) // required by the store
}

// Wait returns once all messages up to the sequence are in the store. They must have been pushed.
func (p *Projection) Wait(ctx context.Context, sequence uint64) error {
	err := p.gathering.Until(ctx, &p.changes, func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return len(p.queue) == 0 || p.queue[0].sequence > sequence
	})
	if err != nil {
		return fmt.Errorf("wait for the read model of %s: %w", p.stream, errors.Join(err, p.Failing()))
	}
	return nil
}

// full reports whether the queue fills a batch. mu is held.
func (p *Projection) full() bool { return len(p.queue) >= batchPuts || p.crowded() }

// crowded reports whether the changes of days, requests or entries fill a batch. mu is held.
func (p *Projection) crowded() bool {
	return len(p.usage) >= dayDeltas || p.requests.crowded() || len(p.chains.queue) >= requestChanges
}

// hasRoom reports whether more may be queued.
func (p *Projection) hasRoom() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.queue) < p.bound && len(p.usage) < maxDeltas && max(len(p.requests.queue), len(p.chains.queue)) < maxRequests
}

// Pending returns the number of queued documents, without days, requests and entries.
func (p *Projection) Pending() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.queue)
}

// Failing returns the error of the last attempt to write, or nil.
func (p *Projection) Failing() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.failing
}

// Run writes until ctx ends, then returns nil. Flush, or the next start, writes the documents still queued. Its error is
// ErrRewound, or a bug.
func (p *Projection) Run(ctx context.Context) error {
	idle := time.NewTicker(idleEvery)
	defer idle.Stop()
	retry := wait.Backoff{Initial: initialPause, Max: maxPause}
	var rested time.Duration // since only days, requests and entries are queued
	for ctx.Err() == nil {
		next := p.changes.Next()
		if pressing, full := p.pressing(); !pressing {
			select {
			case <-next:
				continue
			case <-idle.C:
				if rested += idleEvery; rested < daysEvery && p.changesWait() {
					continue
				}
			case <-ctx.Done():
				return nil
			}
		} else if !full && !p.gathering.For(ctx, p.gatherTime) {
			return nil
		}
		rested = 0
		err := p.write(ctx)
		if p.logChange(ctx, err); err == nil {
			retry.Reset()
			continue
		}
		if errors.Is(err, ErrRewound) || errors.Is(err, views.ErrInvalid) {
			return err
		}
		retry.Wait(ctx)
	}
	return nil
}

// pressing reports whether there is anything to write before the next idle moment, and whether it fills a batch.
func (p *Projection) pressing() (pressing, full bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	full = p.full()
	return full || len(p.queue) > 0 || p.done < p.wanted && p.done < p.pushed, full
}

// settled reports whether no changes of days, requests or entries are queued. mu is held.
func (p *Projection) settled() bool {
	return len(p.usage) == 0 && p.requests.empty() && len(p.chains.queue) == 0
}

func (p *Projection) changesWait() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.settled()
}

// logChange logs when the store begins to fail and when it works again.
func (p *Projection) logChange(ctx context.Context, err error) {
	p.mu.Lock()
	before := p.failing
	p.failing = err
	pending := len(p.queue)
	p.mu.Unlock()
	switch {
	case err != nil && before == nil && ctx.Err() == nil:
		p.log.Warn("the read model fails, verdicts continue", "stream", p.stream, "pending", pending, "error", err)
	case err == nil && before != nil:
		p.log.Info("the read model works again", "stream", p.stream, "pending", pending)
	}
}

// Flush writes all queued documents, once Run has returned.
func (p *Projection) Flush(ctx context.Context) error {
	for {
		p.mu.Lock()
		finished := len(p.queue) == 0 && p.settled() && p.done == p.pushed
		p.mu.Unlock()
		if finished {
			return nil
		}
		if err := p.write(ctx); err != nil {
			return fmt.Errorf("flush the read model of %s: %w", p.stream, err)
		}
	}
}

// write commits one batch: whole messages with the checkpoint after them, or a part of a message too large for one batch.
// Writing such a part twice is harmless.
func (p *Projection) write(ctx context.Context) error {
	p.writing.Lock()
	defer p.writing.Unlock()
	p.mu.Lock()
	batch, n := p.next()
	var byDay map[dayOf][]usageItem
	var changes blockChanges
	days, sequence := 0, p.done
	if batch.Stream != "" {
		byDay, days, batch.To = p.daysOf(batch.To)
		for n > 0 && p.queue[n-1].sequence > batch.To {
			n--
		}
		batch.Puts = batch.Puts[:n]
		changes, sequence = p.changesUntil(batch.To), batch.To
		changes.reports = p.requests.reports
		if batch.To == p.head.Sequence {
			batch.Puts = append(batch.Puts, p.headPut())
		}
	}
	p.mu.Unlock()
	if batch.Stream != "" && batch.From == batch.To {
		if len(changes.reports) == 0 {
			return nil
		}
		batch = views.Batch{} // reports are from no message
	}
	ctx, cancel := context.WithTimeout(ctx, commitTimeout)
	defer cancel()
	err := p.backlog.Limit(ctx, batch.Puts)
	if err == nil {
		err = p.addDays(ctx, &batch, byDay)
	}
	var added map[event.AccountID]int
	if err == nil {
		added, err = p.addBlocks(&batch, sequence, changes)
	}
	if err == nil {
		err = p.store.Commit(ctx, batch)
	}
	if errors.Is(err, views.ErrConflict) || errors.Is(err, errDaysAhead) {
		return p.resume(ctx, err)
	}
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.taken(n, days)
	for id, n := range added {
		p.requests.count(id, n)
	}
	p.changesTaken(changes)
	if batch.Stream != "" {
		p.done = batch.To
	}
	p.changes.Notify()
	return nil
}

// next returns the next batch and the number of queued items in it. mu is held.
func (p *Projection) next() (views.Batch, int) {
	size, n := 0, 0
	for n < len(p.queue) && n < batchPuts {
		if size += p.queue[n].put.Doc.SizeBytes(); size > batchBytes && n > 0 {
			break
		}
		n++
	}
	b := views.Batch{Stream: p.stream, From: p.done, To: p.pushed}
	if n < len(p.queue) {
		whole := n
		for whole > 0 && p.queue[whole-1].sequence == p.queue[n].sequence {
			whole--
		}
		if whole > 0 {
			n = whole
			b.To = p.queue[n].sequence - 1
		} else {
			b.Stream, b.From, b.To = "", 0, 0
		}
	}
	for _, it := range p.queue[:n] {
		b.Puts = append(b.Puts, it.put)
	}
	return b, n
}

// taken removes the first n items, and the first changes of days. mu is held.
func (p *Projection) taken(n, days int) {
	if p.usage = p.usage[days:]; len(p.usage) == 0 {
		p.usage = nil
	}
	clear(p.queue[:n])
	p.queue = p.queue[n:]
	if len(p.queue) == 0 {
		p.queue = nil
	}
}

// resume continues from a checkpoint that was moved by another replica, or by a commit of this one whose response was lost.
func (p *Projection) resume(ctx context.Context, cause error) error {
	at, err := p.store.Checkpoint(ctx, p.stream)
	if err != nil {
		return err
	}
	p.backlog.Forget()
	p.mu.Lock()
	defer p.mu.Unlock()
	if at < p.done {
		return fmt.Errorf("%w: its checkpoint of %s is %d and was %d; restart to fold the missing messages", ErrRewound, p.stream, at, p.done)
	}
	if at == p.done && errors.Is(cause, errDaysAhead) {
		return cause // the store answered with its state before an election: retry
	}
	n, days := 0, 0
	for n < len(p.queue) && p.queue[n].sequence <= at {
		n++
	}
	for days < len(p.usage) && p.usage[days].sequence <= at {
		days++
	}
	p.taken(n, days)
	taken := p.changesUntil(at)
	for i := range taken.requests {
		p.requests.count(taken.requests[i].Account, 1) // by the other replica, which may stop before it trims
	}
	for i := range taken.entries {
		p.requests.count(taken.entries[i].Account, 0)
	}
	p.changesTaken(taken)
	p.done, p.pushed = at, max(p.pushed, at)
	p.changes.Notify()
	return nil
}

// AdminPage reads a page of the stream's part of the admin log, newest entry first. before is the id of an entry of any stream,
// empty for the first page. more reports whether there are older entries.
func (p *Projection) AdminPage(ctx context.Context, before string, limit int) (entries []*event.AdminEntry, more bool, err error) {
	query := views.Query{Index: byStream, Equal: []views.Value{views.String(p.stream)}, Desc: true, Limit: limit + 1}
	if before != "" {
		query.After = []views.Value{views.String(before)}
	}
	docs, err := p.store.List(ctx, AdminLog, query)
	if err != nil {
		return nil, false, fmt.Errorf("list the admin log: %w", err)
	}
	if more = len(docs) > limit; more {
		docs = docs[:limit]
	}
	for _, d := range docs {
		e := &event.AdminEntry{}
		if err := event.Decode(d.Head, e); err != nil {
			return nil, false, err
		}
		entries = append(entries, e)
	}
	return entries, more, nil
}

// Statement reads the record of a closed month, or returns nil.
func (p *Projection) Statement(ctx context.Context, id event.AccountID, period string) (*event.StatementAnswer, error) {
	docs, err := p.store.Load(ctx, Statements, []string{id.String() + "." + period}, views.Heads)
	if err != nil || len(docs) == 0 {
		return nil, err
	}
	s := &event.StatementAnswer{}
	if err := event.Decode(docs[0].Head, s); err != nil {
		return nil, err
	}
	return s, nil
}
