package partition

import (
	"context"
	"errors"
	"fmt"
	"time"

	"quire.dev/pkg/event"
	"quire.dev/pkg/num"
	"quire.dev/pkg/rpc"
	"quire.dev/services/billing/internal/account"
	"quire.dev/services/billing/internal/compare"
	"quire.dev/services/billing/internal/snapshots"
)

const (
	// maxDifferences is how many differences an audit names.
	maxDifferences = 20
	// auditedSnapshots is how many snapshots an audit compares unless it is deep: those that a start would use.
	auditedSnapshots = 3
	// failingTimeout is how long the read model may fail before an audit goes on without it.
	failingTimeout = 5 * time.Second
)

// Names of what an audit compares besides the tables of the read model.
const (
	tableAccounts  = "accounts" // the live state, with grants, caps and keys
	tableNetworks  = "networks"
	tableState     = "state"
	tableRequests  = "requests" // of accounts
	tableEntries   = "entries"  // of accounts' chains
	tableSnapshots = "snapshots"
	tableReadModel = "readModel" // as a whole
)

// otherTables are the names above, in the order of an answer.
func otherTables() []string {
	return []string{tableReadModel, tableState, tableAccounts, tableNetworks, tableRequests, tableEntries, tableSnapshots, tableSeals}
}

// auditOptions choose what an audit compares.
type auditOptions struct {
	account event.AccountID // 0: all
	until   uint64          // 0: the end
	head    uint64          // as AuditQuery.head
	deep    bool
	repair  string // table; empty: none
	skipped bool   // another partition is audited
	new     bool   // only what is new since the last complete audit
}

// complete reports whether the audit compares everything.
func (o auditOptions) complete() bool { return o.account == 0 && o.until == 0 && o.repair == "" }

func (p *Partition) auditOptions(q *event.AuditQuery) (o auditOptions, err error) {
	o = auditOptions{account: event.AccountID(q.GetAccount()), until: q.GetUntil(), head: q.GetHead(), deep: q.GetDeep(), repair: q.GetRepair(), new: q.GetNew()}
	o.skipped = q.GetOnly() != 0 && q.GetOnly() != num.Uint32(p.cfg.Partition)+1
	malformed := ""
	switch {
	case o.repair != "" && o.repair != tableSnapshots && !compare.Repairable(o.repair):
		malformed = "no such table"
	case o.repair != "" && o.until != 0:
		malformed = "a repair has no end"
	case o.new && !o.complete():
		malformed = "only a complete audit can be of what is new"
	}
	if malformed != "" {
		return o, &rpc.Error{Code: codeMalformed, Message: malformed}
	}
	return o, nil
}

func (p *Partition) runAudit(ctx context.Context, run *auditRun) {
	run.answer, run.err = p.auditOnce(ctx, run)
}

// auditOnce compares the live fold, the read model and snapshots with a replay. It folds the principals in parts, one after the
// other, so that it holds at most AuditPrincipals at a time. A repair folds all at once.
func (p *Partition) auditOnce(ctx context.Context, run *auditRun) (*event.AuditAnswer, error) {
	t, o := &run.task, run.options
	if o.skipped {
		return &event.AuditAnswer{Stream: p.stream, Partition: num.Uint32(p.cfg.Partition), Match: true, Skipped: true}, nil
	}
	t.total.Store(p.position.Get())
	release, err := take(ctx, p.deps.Turns.audits)
	if err != nil {
		return nil, err
	}
	defer release()
	a := &auditing{Partition: p, task: t, run: run, options: o}
	if o.until > p.position.Get() {
		return nil, &rpc.Error{Code: codeMalformed, Message: fmt.Sprintf("%s ends at %d", p.stream, p.position.Get())}
	}
	p.mu.Lock()
	exists := o.account == 0 || p.fold.Exists(o.account)
	exact := p.fold.Principals() <= p.cfg.AuditPrincipals || o.account != 0 || o.repair != ""
	p.mu.Unlock()
	if !exists {
		return nil, &rpc.Error{Code: codeMalformed, Message: fmt.Sprintf("there is no account %s", o.account)}
	}
	if err := a.begin(ctx, exact); err != nil {
		return nil, err
	}
	exact = exact || a.since != nil
	answer, err := a.pass(ctx, exact)
	for errors.Is(err, errParts) || errors.Is(err, compare.ErrProgress) {
		exact = exact && !errors.Is(err, errParts)
		if a.resumed != nil {
			a.startsOver(err)
		}
		*a = auditing{Partition: p, task: t, run: run, options: o}
		answer, err = a.pass(ctx, exact)
	}
	if err == nil && !answer.Match {
		p.log.Error("audit: something differs from the journal", "sequence", answer.LastSequence,
			"live", fmt.Sprintf("%x", answer.LiveHash), "replay", fmt.Sprintf("%x", answer.ReplayHash), "first", answer.Differences)
	}
	return answer, err
}

// errParts means that the principals turned out to need more than one part.
var errParts = errors.New("the principals need parts")

// auditing is one audit.
type auditing struct {
	*Partition
	*task
	run     *auditRun
	options auditOptions
	answer  *event.AuditAnswer

	before   uint64              // messages read by earlier passes
	since    *snapshots.Snapshot // the audited one that the audit begins with; nil: it begins with the first message
	start    *account.Fold       // of since, until the first pass
	resumed  *resumed            // nil: the audit begins anew
	begun    int64               // Unix milliseconds
	known    []byte              // as AuditProgress.known
	sums     *compare.Sums       // of the first pass; nil: its progress is not saved
	lastSave time.Time           // of its progress
	earlier  int                 // snapshots up to resumed whose MACs were checked
	kept     []found
	part     []found                       // of the part being folded
	newest   *snapshots.Snapshot           // of those compared
	marks    map[uint64]snapshots.Snapshot // by sequence, with states of this version
	sum      account.Sum                   // of the parts' states at it
	partSum  *account.Sum                  // of the part being folded
	skipped  map[string]bool
	reached  uint64 // a message that the journal has
	beyond   uint64 // the first sequence that it has not, after repeated questions; 0: none
	accounts int
	requests int
	entries  int
	seals    int
	tables   []*event.AuditTable
	first    []*event.AuditDifference
}

// found is a principal or snapshot that differs.
type found struct {
	table    string
	list     []*event.AuditDifference
	snapshot *snapshots.Snapshot
}

// results are a pass's rows: compare.Sums or compare.Naming.
type results interface {
	Begin(first bool)
	Keep()
}

// position is the live state with which a pass compares.
type position struct {
	hash     account.Hash
	chain    account.Hash
	image    *account.Image
	requests bool   // whether they are compared
	stored   uint64 // what the read model includes
	at       uint64
	about    int
	accounts []account.Listed
	millis   int64
	entries  uint64 // admissions, settlements and commands
}

// pass folds the journal and compares, a second time if rows differ.
func (a *auditing) pass(ctx context.Context, exact bool) (*event.AuditAnswer, error) {
	a.lastSave = time.Now()
	if a.begun = a.now().UnixMilli(); a.resumed != nil {
		a.begun = a.resumed.BegunMs
	}
	cfg := compare.Config{
		Store: a.deps.Views, Stream: a.stream, NowMillis: a.begun, Exact: exact, Account: a.options.account, End: a.journalEnd,
	}
	if a.options.repair != tableSnapshots {
		cfg.Table = a.options.repair
	}
	answer := &event.AuditAnswer{Stream: a.stream, Partition: num.Uint32(a.cfg.Partition)}
	a.answer = answer
	if a.since != nil {
		cfg.Since, answer.FromSequence = compare.SinceState(a.start), a.since.Sequence
	}
	c, sums, err := a.comparison(cfg)
	if err != nil {
		return nil, err
	}
	live, upTo, err := a.read(ctx, c)
	if err != nil {
		return nil, err
	}
	if err := a.knows(c.Known(), upTo); err != nil {
		return nil, err
	}
	if a.resumable() && upTo > 0 {
		a.sums = sums
	}
	stored, err := a.stored(ctx, live.at, upTo)
	if err != nil {
		return nil, err
	}
	answer.LastSequence, answer.ComparedSequence = live.at, upTo
	whole, err := a.fold(ctx, live, exact, c, sums, stored)
	if err != nil {
		return nil, err
	}
	answer.Entries = whole.Entries
	if a.options.until == 0 {
		answer.Chain = live.chain[:] // of the state that answers; until has the replay's
	}
	a.tables = sums.Tables()
	a.resumed, a.sums = nil, nil
	if !sums.Match() {
		if err := a.name(ctx, cfg, exact, sums); err != nil {
			return nil, err
		}
	}
	if a.options.account == 0 {
		answer.ReplayHash = whole.Hash[:]
		if a.options.until == 0 {
			answer.LiveHash = live.hash[:]
		}
	}
	if err := a.conclude(ctx, answer, len(stored)+a.earlier); err != nil {
		return nil, err
	}
	answer.Folded = a.task.read.Load()
	if answer.Match && a.options.complete() {
		if err := a.note(ctx); err != nil {
			a.log.Warn("the audited snapshot could not be noted: the next audit begins as this one", "error", err)
		}
	}
	return answer, nil
}

// written waits for the read model to include everything folded so far, and returns its position; 0 if its store keeps failing.
func (a *auditing) written(ctx context.Context) (upTo uint64, err error) {
	return a.writtenUpTo(ctx, a.position.Get())
}

// writtenUpTo waits for the read model to include everything up to a sequence, and returns that; 0 if its store keeps failing.
func (a *auditing) writtenUpTo(ctx context.Context, upTo uint64) (uint64, error) {
	for {
		limited, cancel := context.WithTimeout(ctx, failingTimeout)
		err := a.projection.Written(limited, upTo)
		cancel()
		if err == nil || ctx.Err() != nil {
			return upTo, err
		}
		if cause := a.projection.Failing(); cause != nil {
			a.kept = append(a.kept, found{table: tableReadModel, list: []*event.AuditDifference{{
				Table: tableReadModel, Field: "checkpoint", Expected: fmt.Sprint(upTo), Found: cause.Error(),
			}}})
			return 0, nil
		}
	}
}

// read reads the live state and the read model, each at a position of its own: upTo is that of the read model, 0 if it is not
// compared.
func (a *auditing) read(ctx context.Context, c *compare.Comparison) (live position, upTo uint64, err error) {
	if a.options.until == 0 {
		if upTo, err = a.written(ctx); err != nil {
			return live, 0, err
		}
	}
	if upTo > 0 {
		c.Position(upTo)
		last, err := c.ReadDays(ctx)
		if err == nil {
			err = a.position.Until(ctx, last)
		}
		if err != nil {
			return live, 0, err
		}
	}
	if err := a.clean(ctx); err != nil {
		return live, 0, err
	}
	a.mu.Lock()
	live.image, err = a.Partition.fold.Image()
	if err == nil {
		live.chain, live.at, live.about = live.image.Chain, live.image.Sequence, a.Partition.fold.Principals()
		live.accounts, live.millis = a.Partition.fold.List(), a.Partition.fold.TimeMillis()
		live.entries = a.Partition.fold.Entries()
		live.requests, live.stored = a.options.repair == "" && upTo > 0, upTo
	}
	a.mu.Unlock()
	if err == nil {
		live.hash = live.image.Hash()
	}
	a.accounts = len(live.accounts)
	if err == nil && upTo > 0 {
		err = c.Read(ctx, live.accounts, live.millis)
	}
	if a.options.until != 0 {
		live.at, live.image, live.requests, live.chain = a.options.until, nil, false, account.Hash{}
	}
	return live, upTo, err
}

// compareStates compares the principals of an image with those of the fold. snapshot is the image's key, empty for the live
// state.
func (a *auditing) compareStates(fold *account.Fold, image *account.Image, snapshot string) error {
	return fold.Compare(image, func(field, id uint64, expected, have []byte) {
		f := found{table: tableAccounts}
		if field == account.NetworksField {
			f.table = tableNetworks
			f.list = compare.StateDifferences(f.table, id, expected, have, func() *event.NetworkState { return &event.NetworkState{} })
		} else {
			f.list = compare.StateDifferences(f.table, id, expected, have, func() *event.AccountState { return &event.AccountState{} })
		}
		for _, d := range f.list {
			if d.Row = snapshot; snapshot != "" {
				d.Table, f.table = tableSnapshots, tableSnapshots
			}
		}
		a.part = append(a.part, f)
	})
}

// name is the second pass. It names the rows of the read model that differ, and repairs them.
func (a *auditing) name(ctx context.Context, cfg compare.Config, exact bool, sums *compare.Sums) error {
	kept := a.kept
	cfg.NowMillis = max(a.begun, a.now().UnixMilli()-compare.ResumeMillis) // rows that expired since may be gone
	c, naming := compare.NewNaming(cfg, sums)
	live, upTo, err := a.read(ctx, c)
	if err == nil {
		live.image, live.requests = nil, false
		_, err = a.fold(ctx, live, exact, c, naming, nil)
	}
	if err == nil {
		a.first, err = naming.Differences(upTo, a.tables, maxDifferences)
		if err == nil && len(a.first) == 0 {
			a.log.Warn("rows of the read model differed from the journal, and no longer do: audit again", "sequence", upTo)
		}
	}
	if err == nil && a.options.repair != "" && a.options.repair != tableSnapshots {
		err = naming.Repair(ctx, upTo, a.projection.Repair, a.tables)
	}
	a.kept = kept
	return err
}

// conclude adds what was found to the answer.
func (a *auditing) conclude(ctx context.Context, answer *event.AuditAnswer, compared int) error {
	counts := map[string]*event.AuditTable{}
	rows := map[string]int{
		tableAccounts: a.accounts, tableRequests: a.requests, tableEntries: a.entries, tableSnapshots: compared - len(a.skipped), tableSeals: a.seals,
	}
	for _, name := range otherTables() {
		counts[name] = &event.AuditTable{Table: name, Rows: uint64(max(rows[name], 0))}
	}
	if a.options.repair == "" && string(answer.LiveHash) != string(answer.ReplayHash) && len(answer.LiveHash) > 0 && len(a.kept) == 0 {
		a.kept = append(a.kept, found{table: tableState, list: []*event.AuditDifference{{
			Table: tableState, Field: "hash", Expected: fmt.Sprintf("%x", answer.ReplayHash), Found: fmt.Sprintf("%x", answer.LiveHash),
		}}})
	}
	deleted := map[string]bool{}
	for _, f := range a.kept {
		counts[f.table].Differences++
		answer.Differences = append(answer.Differences, f.list[:min(len(f.list), maxDifferences-len(answer.Differences))]...)
		if a.options.repair != tableSnapshots || f.snapshot == nil || deleted[f.snapshot.Key] {
			continue
		}
		if err := a.snapshots.Delete(ctx, *f.snapshot); err != nil {
			return err
		}
		deleted[f.snapshot.Key] = true
		counts[tableSnapshots].Repaired++
	}
	answer.Differences = append(answer.Differences, a.first[:min(len(a.first), maxDifferences-len(answer.Differences))]...)
	for _, name := range otherTables() {
		a.tables = append(a.tables, counts[name])
	}
	answer.Match = true
	for _, t := range a.tables {
		if t.Rows > 0 || t.Differences > 0 {
			answer.Tables = append(answer.Tables, t)
		}
		answer.Match = answer.Match && t.Differences == 0
	}
	return nil
}
