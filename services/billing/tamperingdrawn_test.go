package billing_test

import (
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"quire.dev/pkg/event"
	"quire.dev/pkg/eventually"
	"quire.dev/pkg/plan"
	"quire.dev/pkg/views"
	"quire.dev/pkg/views/sqlite/sqlitetest"
	"quire.dev/services/billing"
	"quire.dev/services/billing/internal/projection"
)

var (
	forgerySeed  = flag.Uint64("forgery.seed", 0, "seed of TestTheAuditNamesDrawnTamperings, to repeat its draws with other ids and times; 0: a drawn one")
	forgeryCount = flag.Int("forgery.count", 120, "how many tamperings it draws, half of them for audits in parts")
)

// forger tampers with what billing has stored of a journal.
type forger struct {
	*stack
	random *rand.Rand
	model  *readModel
	tables []tampered
	rows   map[string]rows // by collection, as billing wrote them
	cfg    billing.Config
	offset time.Duration
	counts map[string]int

	running *running
}

// newForger has the stores of accounts with keys, plans, payments, webhooks, refunds, caps and admins' actions, used in four months. Rows of
// the first ones are aged. With parts an audit folds the accounts in parts.
func newForger(t *testing.T, random *rand.Rand, parts bool) *forger {
	t.Helper()
	f := &forger{
		stack: newStack(t), random: random, tables: tamperedTables(), rows: map[string]rows{}, counts: map[string]int{},
		model: &readModel{accounts: map[uint64]bool{alice: true, bob: true, carol: true}, parts: parts},
		cfg:   billing.Config{SnapshotMessages: 20, HistoryMessages: 10, RequestRetention: 365 * 24 * time.Hour, SealInterval: 24 * time.Hour},
	}
	if parts {
		f.cfg.AuditPrincipals = 1 + random.IntN(len(f.model.accounts)-1)
	}
	f.use()
	for len(f.snapshots()) < 3 {
		r := f.start(f.cfg, f.offset)
		f.grant(alice, 1)
		r.stop()
	}
	f.running = f.start(f.cfg, f.offset)
	if a := f.audit(); !a.Match {
		t.Fatalf("before any tampering: %v", a)
	}
	f.model.end = f.lastSequence()
	now := time.Now().Add(f.offset)
	f.model.from, f.model.to = now.Add(-3*aMonth).Format("2006-01"), now.Format("2006-01")
	for _, of := range f.tables {
		if f.rows[of.collection] = sqlitetest.Rows(t, f.path, of.collection); len(f.rows[of.collection]) == 0 {
			t.Fatalf("%s has no rows", of.table)
		}
	}
	f.rows[projection.Heads] = sqlitetest.Rows(t, f.path, projection.Heads)
	return f
}

// use uses the accounts, and ages their old rows.
func (f *forger) use() {
	f.t.Helper()
	var ahead atomic.Int64
	f.clock = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	ids := slices.Sorted(maps.Keys(f.model.accounts))
	f.offset = f.traffic(f.random, f.cfg, ids)
	aging := f.cfg
	aging.LedgerRetention = time.Hour
	r := f.start(aging, f.offset)
	for _, id := range ids {
		f.deeds(id)
		eventually.True(f.t, "old rows are aged", func() bool { return f.stack.rows(projection.Aged, id) >= 2 })
	}
	r.stop()
	ahead.Store(int64(3 * time.Hour)) // aged rows are deleted then
	r = f.start(aging, f.offset)
	eventually.True(f.t, "aged rows are deleted", func() bool {
		return !slices.ContainsFunc(ids, func(id uint64) bool { return f.hasAged(event.AccountID(id)) })
	})
	r.stop()
	ahead.Store(0) // nothing becomes due
}

// hasAged reports whether aged rows of a ledger are still stored.
func (f *forger) hasAged(id event.AccountID) bool {
	upTo, err := projection.AgedUpTo(f.t.Context(), f.views, id)
	if err != nil {
		f.t.Fatal(err)
	}
	found := false
	err = projection.EachLedgerRow(f.t.Context(), f.views, id, 0, func(doc views.Doc) error {
		found = found || projection.IsAged(doc, upTo)
		return nil
	})
	if err != nil {
		f.t.Fatal(err)
	}
	return found
}

// deeds has an account do what has an effect on any table.
func (f *forger) deeds(id uint64) {
	f.t.Helper()
	root := &event.AdminAction{Token: "root"}
	named := func(name string) *event.KeyRules { return &event.KeyRules{Name: &name} }
	for _, c := range []*event.Command{
		{Action: &event.Command_CreateKey{CreateKey: &event.CreateKey{Fingerprint: 8, Prefix: "qk_second", Rules: named("second")}}},
		{Action: &event.Command_SetSpendingCap{SetSpendingCap: &event.SetSpendingCap{Cap: &event.SpendingCap{AmountMicros: 9_000_000_000, Period: event.CapPeriod_CAP_TOTAL}}}},
		{Action: &event.Command_SetWebhook{SetWebhook: &event.SetWebhook{
			Webhook: id + 5, Create: true, Events: new(uint32(1<<(event.AlertType_ALERT_QUOTA-1) | 1<<(event.AlertType_ALERT_KEY_CREATED-1))),
		}}},
		{Action: &event.Command_TestWebhook{TestWebhook: &event.TestWebhook{Webhook: id + 5}}},
		{Action: &event.Command_CreateKey{CreateKey: &event.CreateKey{Fingerprint: 9, Prefix: "qk_third", Rules: named("third")}}},
		{Action: &event.Command_RevokeKey{RevokeKey: &event.RevokeKey{Key: 1}}},
		{Action: &event.Command_SetSubscription{SetSubscription: &event.SetSubscription{Provider: "bank", Id: fmt.Sprintf("sub_%x", id), Tier: uint32(plan.Max), Active: true, AsOfMs: 1}}},
		{Action: &event.Command_Payment{Payment: &event.Payment{Provider: "bank", Id: fmt.Sprintf("in_%x", id), CreditsMicros: 4_000_000, AmountCents: 400}}},
		{Action: &event.Command_SetTopUp{SetTopUp: &event.SetTopUp{BelowMicros: 5_000_000, CreditsMicros: 10_000_000, MonthMicros: 30_000_000}}},
		{Admin: root, Action: &event.Command_Grant{Grant: &event.Grant{AmountMicros: 1 + f.random.Int64N(1000), Reason: "sorry"}}},
		{Admin: root, Action: &event.Command_Suspend{Suspend: &event.Suspend{Reason: "a doubt"}}},
		{Admin: root, Action: &event.Command_Resume{Resume: &event.Resume{Reason: "none"}}},
		{Admin: root, Action: &event.Command_Note{Note: &event.Note{Action: "audit.start"}}},
	} {
		c.Account = id
		f.did(c)
	}
	f.serve(id, plan.LiteGet, 1+f.random.IntN(5))
	f.serve(id, plan.PastesGet, 1+f.random.IntN(5))
	network := admission(id+1, plan.LiteGet)
	network.Anonymous, network.KeyVersion, network.KeyFingerprint = true, 0, 0
	f.usage([]*event.Admission{network}, nil)
	f.usage(nil, servedAll([]*event.Admission{network}))
}

// tamper tampers with a table so that something else is read, audits, and restores it.
func (f *forger) tamper() {
	f.t.Helper()
	of := f.tables[f.random.IntN(len(f.tables))]
	before := f.rows[of.collection]
	was := of.read(f.model, before)
	for range 1000 {
		after, name := editRow(f.random, of, before)
		all, must := was.differs(of.read(f.model, after))
		if len(must) == 0 || of.loaded() && !unique(after) {
			continue // nobody reads anything else
		}
		f.write(of, before, after)
		q, exact := &event.AuditQuery{}, of.message != nil && !f.model.parts
		if id, owned := f.owned(of, was, must); len(owned) > 0 && f.random.IntN(4) == 0 && (of.table != "days" || name != "doubled") { // it loads days by their ids
			q.Account, must, exact = id, owned, false
		}
		if fault := named(of, f.auditOf(0, q), all, must, exact); fault != "" {
			f.t.Errorf("tampering %d, %s %s, audit %v: %s\n%s", f.total(), of.table, name, q, fault, difference(before, after))
		}
		sqlitetest.Replace(f.t, f.path, of.collection, before)
		f.counts[of.table+", "+name]++
		return
	}
	f.t.Fatalf("%s can't be tampered with", of.table)
}

// owned draws an account, and returns which of its places an audit of it alone has to name. It does not look for documents under ids that the
// account did not have.
func (f *forger) owned(of tampered, was, must reading) (id uint64, owned reading) {
	ids := slices.Sorted(maps.Keys(f.model.accounts))
	id, owned = ids[f.random.IntN(len(ids))], maps.Clone(must)
	maps.DeleteFunc(owned, func(at place, _ content) bool {
		_, before := was[at]
		return at.account != id || !before && of.message != nil
	})
	return id, owned
}

func (f *forger) total() (n int) {
	for _, c := range f.counts {
		n += c
	}
	return n
}

// write stores rows that were tampered with. Where documents are loaded by their ids, new ids are added to the index of ids.
func (f *forger) write(of tampered, before, after rows) {
	f.t.Helper()
	var b views.Batch
	kept := slices.DeleteFunc(slices.Clone(after), func(row sqlitetest.Row) bool {
		isNew := of.loaded() && !slices.ContainsFunc(before, func(r sqlitetest.Row) bool { return r.Number == row.Number && r.Doc.ID == row.Doc.ID })
		if isNew {
			b.Puts = append(b.Puts, views.Put{Collection: of.collection, Doc: row.Doc})
		}
		return isNew
	})
	sqlitetest.Replace(f.t, f.path, of.collection, kept)
	if len(b.Puts) > 0 {
		if err := f.views.Commit(f.t.Context(), b); err != nil {
			f.t.Fatal(err)
		}
	}
}

// named reports what is wrong with an audit's answer; empty: it names what it must, and nothing else. exact says that a difference is of one
// place, and each place has to be named.
func named(of tampered, a *event.AuditAnswer, all, must reading, exact bool) string {
	if a.Match {
		return fmt.Sprintf("the audit finds nothing at %v", slices.Collect(maps.Keys(must)))
	}
	found := map[place]bool{}
	for _, d := range a.Differences {
		places := of.names(all, d)
		if len(places) == 0 {
			return fmt.Sprintf("the audit names %v besides %v", d, all)
		}
		for _, at := range places {
			found[at] = true
		}
	}
	for _, t := range a.Tables {
		if t.Differences > 0 && !of.covers(t.Table) {
			return fmt.Sprintf("the audit finds differences of %v", t)
		}
	}
	if !exact {
		if !slices.ContainsFunc(slices.Collect(maps.Keys(must)), func(at place) bool { return found[at] }) {
			return fmt.Sprintf("the audit names %v, none of %v", a.Differences, must)
		}
		return ""
	}
	if n := differing(a, of.table); n != uint64(len(must)) || len(found) < len(must) && len(a.Differences) < 20 {
		return fmt.Sprintf("the audit finds %d rows, %v; want %v", n, a.Differences, must)
	}
	return ""
}

// covers reports whether an audit may name a table: rows that no block says are aged are expected in the ledger.
func (t *tampered) covers(table string) bool {
	return table == t.table || t.table == "agedLedger" && table == "ledger"
}

// loaded reports whether documents are loaded by their ids.
func (t *tampered) loaded() bool { return t.message == nil || t.table == "statements" }

// names are the places that a difference may name.
func (t *tampered) names(all reading, d *event.AuditDifference) (places []place) {
	if !t.covers(d.Table) {
		return nil
	}
	for at, c := range all {
		named := slices.Contains(c.names, d.Row)
		if t.number != nil && !named {
			n, ok := t.number(d.Row)
			named = ok && n >= c.first && n <= c.last
		}
		if named && at.account == d.Account {
			places = append(places, at)
		}
	}
	return places
}

// difference shows rows that were tampered with.
func difference(before, after rows) string {
	var b strings.Builder
	text := func(r sqlitetest.Row) string {
		return fmt.Sprintf("%d %s %d %v %x, %d bytes, %d", r.Number, r.Doc.ID, r.Doc.Seq, r.Doc.Keys, r.Doc.Head, len(r.Doc.Body), r.Gone)
	}
	known := map[string]bool{}
	for _, r := range before {
		known[text(r)] = true
	}
	for _, r := range after {
		if s := text(r); !known[s] {
			fmt.Fprintf(&b, "is  %s\n", s)
		}
		delete(known, text(r))
	}
	for s := range known {
		fmt.Fprintf(&b, "was %s\n", s)
	}
	return b.String()
}

// TestTheAuditNamesDrawnTamperings with any table of the read model, with snapshots, and with the state that billing starts with: any edit of
// what is read is found by table, account and row, and nothing else is named. The fields of an edge's report are in no journal, and what is
// deleted of the oldest requests and entries of an account is not missed. Nor does an audit in parts know the ordinals of entries and events.
func TestTheAuditNamesDrawnTamperings(t *testing.T) {
	slow(t)
	seed := *forgerySeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("-forgery.seed %d -forgery.count %d", seed, *forgeryCount)
	for name, parts := range map[string]bool{"whole": false, "in parts": true} {
		t.Run(name, func(t *testing.T) {
			f := newForger(t, rand.New(rand.NewPCG(seed, uint64(len(name)))), parts)
			for range *forgeryCount / 2 {
				if f.draw(); t.Failed() {
					break
				}
			}
			for _, name := range slices.Sorted(maps.Keys(f.counts)) {
				t.Logf("%s: %d", name, f.counts[name])
			}
			if a := f.audit(); !a.Match {
				t.Errorf("after all: %v", a)
			}
		})
	}
}

func (f *forger) draw() {
	switch n := f.random.IntN(100); {
	case n < 2:
		f.tamperState()
	case n < 15:
		f.tamperSnapshots()
	default:
		f.tamper()
	}
}
