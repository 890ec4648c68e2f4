// Package compare compares the rows of billing's read model with a projection made again from the journal.
//
// A first pass sums keyed hashes of the rows, expected and found, in buckets: it takes a few megabytes whatever the number of
// rows. The key is drawn for each audit, so that nobody can choose rows whose hashes add up. Only if buckets differ, a second
// pass keeps their rows, and names the differences. Usage by day is hashed linearly, so that the changes of a day add up to the
// hash of its row.
package compare

import (
	"context"
	"crypto/rand"
	"errors"
	"time"

	"quire.dev/pkg/event"
	"quire.dev/pkg/num"
	"quire.dev/pkg/views"
	"quire.dev/services/billing/internal/account"
	"quire.dev/services/billing/internal/projection"
	"quire.dev/services/billing/internal/webhooks"
)

// Names of the tables.
const (
	Ledger     = "ledger"
	AgedLedger = "agedLedger" // what is kept of rows past their retention
	Days       = "days"
	Statements = "statements"
	Events     = "events"
	AdminLog   = "adminLog"
)

// table is the index of a table of the read model.
type table uint8

const (
	ledger table = iota
	agedLedger
	days
	statements
	events
	adminLog
	tables
)

func (t table) name() string {
	return [tables]string{Ledger, AgedLedger, Days, Statements, Events, AdminLog}[t]
}

func (t table) collection() string {
	return [tables]string{projection.Ledger, projection.Aged, projection.Days, projection.Statements, webhooks.AlertsCollection, projection.AdminLog}[t]
}

// Tables returns the names of all tables of the read model.
func Tables() (names []string) {
	for t := range tables {
		names = append(names, t.name())
	}
	return names
}

func tableOf(collection string) (table, bool) {
	for t := range tables {
		if t.collection() == collection {
			return t, true
		}
	}
	return 0, false // of deliveries, which the sender changes
}

const (
	dayMillis = 24 * 60 * 60 * 1000
	// Rows that a sweep may delete while they are compared are left out.
	sweptDays   = 2
	sweptMillis = 24 * 60 * 60 * 1000
	loadIDs     = 1000
)

// Config describes what is compared.
type Config struct {
	Store     views.Store
	Stream    string
	NowMillis int64
	// Exact requires that the journal is folded as a whole. In the fold of a part the ordinals within ids are unknown, and are
	// left out.
	Exact bool
	// Account restricts the comparison to the rows of one account; 0: all.
	Account event.AccountID
	// Table restricts it to one table; empty: all.
	Table string
	// Since restricts it to what is new since a state that is known to be right; nil: to nothing.
	Since *Since
	// End returns the last message of the journal that is known. If a sequence is beyond it, the journal is asked first.
	End func(ctx context.Context, sequence uint64) (uint64, error)
}

// Since is where a comparison of new rows begins. Days that had begun, and rows of earlier messages, are left out.
type Since struct {
	Sequence uint64           // of the last message before
	Day      uint32           // the first day that is compared
	Ledger   uint64           // the oldest message about which the ledger may have new entries
	Months   map[uint64]int64 // by account: beginning of the earliest month whose statement is new
}

// SinceState is the Since of a fold's state.
func SinceState(f *account.Fold) *Since {
	s := &Since{Sequence: f.Sequence(), Day: f.NextDay(), Ledger: f.OldestAdmission(), Months: map[uint64]int64{}}
	for _, a := range f.List() {
		s.Months[a.ID] = a.OpenMillis
	}
	return s
}

// Comparison is one pass. Its methods are called in the order Position, ReadDays, Read, then Apply for each message of the
// journal, in one or more parts. Not safe for concurrent use.
type Comparison struct {
	cfg    Config
	upTo   uint64 // rows of later messages are left out
	oldest uint32 // day
	moved  map[dayKey]uint64
	erased map[uint64]bool
	aged   map[uint64]string // where rows of ledgers are aged, up to which one, by account
	to     sink
}

// dayKey identifies a row of the days.
type dayKey struct {
	account uint64
	day     uint32
}

// sink takes the rows of one side.
type sink interface {
	expect(t table, key string, doc views.Doc)
	find(t table, key string, doc views.Doc)
	expectDay(d account.UsageDelta)
	// findDay takes a row of the days. day is nil if no projection writes such a row. ahead says that its message is beyond the journal's end.
	findDay(k dayKey, day *event.UsageDay, doc views.Doc, ahead bool)
}

// New returns the comparison that sums, and its result.
func New(cfg Config) (*Comparison, *Sums) {
	s := &Sums{buckets: make([]bucket, int(tables)*perTable)}
	rand.Read(s.key[:])
	s.cells = map[cell][4]uint128{}
	return newComparison(cfg, s), s
}

// NewNaming returns the comparison of the buckets that differ, and its result. The position may be another one.
func NewNaming(cfg Config, s *Sums) (*Comparison, *Naming) {
	n := newNaming(cfg, s)
	return newComparison(cfg, n), n
}

func newComparison(cfg Config, to sink) *Comparison {
	if cfg.Since == nil {
		cfg.Since = &Since{}
	}
	return &Comparison{
		cfg: cfg, oldest: max(cfg.Since.Day, num.Uint32(max(cfg.NowMillis/dayMillis-projection.DaysKept+1+sweptDays, 0))),
		moved: map[dayKey]uint64{}, erased: map[uint64]bool{}, aged: map[uint64]string{}, to: to,
	}
}

// Position sets the position at which rows are compared. The read model must include the message.
func (c *Comparison) Position(sequence uint64) { c.upTo = sequence }

// later reports whether a row is of a message after the position. One of a message that the journal does not have is not: it is compared, and
// differs from what is expected.
func (c *Comparison) later(ctx context.Context, sequence uint64) (bool, error) {
	if sequence <= c.upTo {
		return false, nil
	}
	end, err := c.cfg.End(ctx, sequence)
	return sequence <= end, err
}

func (c *Comparison) compares(t table) bool { return c.cfg.Table == "" || c.cfg.Table == t.name() }

// ReadDays reads the days, and returns the last message that they include: a day may have changed since the position. The
// journal must be applied up to it at least.
func (c *Comparison) ReadDays(ctx context.Context) (last uint64, err error) {
	last = c.upTo
	if !c.compares(days) {
		return last, nil
	}
	take := func(doc views.Doc) error {
		id, day := dayOfID(doc.ID)
		key := dayKey{uint64(id), day}
		later, err := c.later(ctx, doc.Seq)
		if err != nil {
			return err
		}
		if later {
			c.moved[key] = doc.Seq
			last = max(last, doc.Seq)
		}
		usage := &event.UsageDay{}
		if event.Decode(doc.Head, usage) != nil || !projection.HasForm(usage) || doc.Keys.Get("stream") != views.String(c.cfg.Stream) {
			usage = nil
		}
		c.to.findDay(key, usage, doc, doc.Seq > c.upTo && !later)
		return nil
	}
	if c.cfg.Account == 0 {
		return last, projection.EachDay(ctx, c.cfg.Store, c.cfg.Stream, c.oldest, take)
	}
	var ids []string
	for day := c.oldest; day <= num.Uint32(c.cfg.NowMillis/dayMillis)+31; day++ {
		ids = append(ids, projection.DayID(c.cfg.Account, day))
	}
	return last, c.load(ctx, days, ids, take)
}

// dayOfID parses the id of a day. It is 0 for an id that is none.
func dayOfID(id string) (account event.AccountID, day uint32) {
	if len(id) != accountDigits+1+dayDigits || id[accountDigits] != '.' {
		return 0, 0
	}
	account, err := event.ParseAccountID(id[:accountDigits])
	if err != nil {
		return 0, 0
	}
	for _, c := range []byte(id[accountDigits+1:]) {
		if c < '0' || c > '9' {
			return 0, 0
		}
		day = day*10 + uint32(c-'0')
	}
	return account, day
}

const (
	accountDigits = 11
	dayDigits     = 7
)

func (c *Comparison) load(ctx context.Context, t table, ids []string, do func(views.Doc) error) error {
	for len(ids) > 0 {
		n := min(len(ids), loadIDs)
		docs, err := c.cfg.Store.Load(ctx, t.collection(), ids[:n], views.Heads)
		if err != nil {
			return err
		}
		for _, doc := range docs {
			if err := do(doc); err != nil {
				return err
			}
		}
		ids = ids[n:]
	}
	return nil
}

// Read reads the other tables. accounts are those of the partition, and millis is the journal's time.
func (c *Comparison) Read(ctx context.Context, accounts []account.Listed, millis int64) error {
	if c.compares(adminLog) && c.cfg.Account == 0 {
		if err := projection.EachAdminEntry(ctx, c.cfg.Store, c.cfg.Stream, c.taker(ctx, adminLog)); err != nil {
			return err
		}
	}
	var ids []string // of statements
	for _, a := range accounts {
		id := event.AccountID(a.ID)
		if a.Erased {
			c.erased[a.ID] = true // its events are being deleted
		}
		if c.cfg.Account != 0 && c.cfg.Account != id {
			continue
		}
		if err := c.readLedger(ctx, id); err != nil {
			return err
		}
		if c.compares(events) && !a.Erased {
			if err := webhooks.EachAlert(ctx, c.cfg.Store, id, c.taker(ctx, events)); err != nil {
				return err
			}
		}
		if !c.compares(statements) {
			continue
		}
		for month := firstOfMonth(max(a.CreatedMillis, c.cfg.Since.Months[a.ID])); month.UnixMilli() <= millis; month = month.AddDate(0, 1, 0) {
			ids = append(ids, projection.StatementID(id, month.Format("2006-01")))
		}
		if len(ids) >= loadIDs {
			if err := c.load(ctx, statements, ids, c.taker(ctx, statements)); err != nil {
				return err
			}
			ids = ids[:0]
		}
	}
	return c.load(ctx, statements, ids, c.taker(ctx, statements))
}

// readLedger reads what is kept of an account's aged rows, and the later rows. Rows that are aged meanwhile are not deleted before long.
func (c *Comparison) readLedger(ctx context.Context, id event.AccountID) error {
	aged, err := projection.AgedUpTo(ctx, c.cfg.Store, id)
	if errors.Is(err, projection.ErrAgedBlock) { // no ledger is read with it
		if key := id.String() + ".unreadable"; c.compares(agedLedger) {
			c.to.find(agedLedger, key, views.Doc{ID: key})
		}
	} else if err != nil {
		return err
	}
	if aged != "" {
		c.aged[uint64(id)] = aged
	}
	if aged != "" && c.compares(agedLedger) {
		take := c.taker(ctx, agedLedger)
		err := projection.EachAgedRow(ctx, c.cfg.Store, id, c.cfg.Since.Ledger, func(r projection.AgedRow) error { return take(r.Doc(id)) })
		if err != nil {
			return err
		}
	}
	if !c.compares(ledger) {
		return nil
	}
	take := c.taker(ctx, ledger)
	return projection.EachLedgerRow(ctx, c.cfg.Store, id, c.cfg.Since.Ledger, func(doc views.Doc) error {
		if projection.IsAged(doc, aged) { // and not read by anyone any more
			return nil
		}
		return take(doc)
	})
}

// expected is the table in which a row is expected, and as what.
func (c *Comparison) expected(t table, owner uint64, doc views.Doc) (table, views.Doc, error) {
	aged := c.aged[owner]
	if t != ledger || aged == "" || doc.Seq > account.LedgerSequence(aged) {
		return t, doc, nil
	}
	row, err := projection.AgedRowOf(doc)
	return agedLedger, row.Doc(event.AccountID(owner)), err
}

func firstOfMonth(millis int64) time.Time {
	t := time.UnixMilli(millis).UTC()
	return time.Date(t.Year(), t.Month(), 1, 0, 0, 0, 0, time.UTC)
}

// taker passes the rows found up to the position on.
func (c *Comparison) taker(ctx context.Context, t table) func(views.Doc) error {
	keys := ranks{exact: c.cfg.Exact}
	return func(doc views.Doc) error {
		later, err := c.later(ctx, doc.Seq)
		if err != nil || later || doc.Seq <= c.cfg.Since.Sequence || c.passes(t, doc) {
			return err
		}
		c.to.find(t, keys.key(t, doc), keys.normal(t, doc))
		return nil
	}
}

// passes reports whether a row may be deleted meanwhile.
func (c *Comparison) passes(t table, doc views.Doc) bool {
	return t == events && webhooks.ExpiryMillis(doc) <= c.cfg.NowMillis+sweptMillis
}

// Apply adds the rows that a message's effects make. keeps selects the accounts of the part.
func (c *Comparison) Apply(sequence uint64, e account.Effects, keeps func(uint64) bool) error {
	if c.compares(days) {
		for _, d := range e.Usage {
			if c.other(uint64(d.Account)) || d.Day < c.oldest || !keeps(uint64(d.Account)) {
				continue
			}
			if sequence <= c.upTo || sequence <= c.moved[dayKey{uint64(d.Account), d.Day}] {
				c.to.expectDay(d)
			}
		}
	}
	if sequence > c.upTo {
		return nil
	}
	puts, err := projection.Documents(c.cfg.Stream, sequence, e)
	if err != nil {
		return err
	}
	entry := 0
	keys := ranks{exact: c.cfg.Exact}
	for _, put := range puts {
		t, compared := tableOf(put.Collection)
		id, _ := event.ParseAccountID(put.Doc.ID[:min(len(put.Doc.ID), accountDigits)])
		owner := uint64(id)
		if t == adminLog {
			owner = e.Admin[entry].Account
			entry++
		}
		if !compared {
			continue
		}
		t, doc, err := c.expected(t, owner, put.Doc)
		if err != nil {
			return err
		}
		if !c.compares(t) || c.other(owner) || !keeps(owner) || c.passes(t, doc) {
			continue
		}
		if t == adminLog && c.cfg.Account != 0 || t == events && c.erased[owner] {
			continue
		}
		c.to.expect(t, keys.key(t, doc), keys.normal(t, doc))
	}
	return nil
}

func (c *Comparison) other(id uint64) bool { return c.cfg.Account != 0 && uint64(c.cfg.Account) != id }
