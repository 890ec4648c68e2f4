package billing_test

import (
	"bytes"
	"cmp"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"quire.dev/pkg/blob"
	"quire.dev/pkg/event"
	"quire.dev/pkg/journal"
	"quire.dev/pkg/plan"
	"quire.dev/pkg/rpc"
	"quire.dev/pkg/views"
	"quire.dev/pkg/views/sqlite/sqlitetest"
	"quire.dev/services/billing"
	"quire.dev/services/billing/internal/account"
	"quire.dev/services/billing/internal/projection"
	"quire.dev/services/billing/internal/snapshots"
)

// later is long enough for a month to be closed, and for its statement to leave the state.
const later = 70 * 24 * time.Hour

// books returns a stack with an account's ledger, days, closed statement, events, keys and admin log, and its settings.
func books(t *testing.T) (*stack, billing.Config) {
	t.Helper()
	s, cfg := newStack(t), billing.Config{}
	r := s.start(cfg, 0)
	s.account(alice, plan.Free)
	s.account(bob, plan.Free)
	for _, amount := range []int64{1_000_000, 2_000_000, 3_000_000} {
		s.grant(alice, amount)
	}
	s.grant(bob, 500_000)
	s.serve(alice, plan.LiteGet, 3)
	s.did(&event.Command{Account: alice, Action: &event.Command_SetSpendingCap{SetSpendingCap: &event.SetSpendingCap{Cap: &event.SpendingCap{AmountMicros: 9_000_000, Period: event.CapPeriod_CAP_TOTAL}}}})
	s.did(&event.Command{Account: alice, Action: &event.Command_SetWebhook{SetWebhook: &event.SetWebhook{
		Webhook: 5, Create: true, Events: new(uint32(1 << (event.AlertType_ALERT_QUOTA - 1))),
	}}})
	s.did(&event.Command{Account: alice, Admin: &event.AdminAction{Token: "root"}, Action: &event.Command_SetTier{SetTier: &event.SetTier{Tier: uint32(plan.Pro)}}})
	r.stop()
	r = s.start(cfg, later)
	s.serve(alice, plan.LiteGet, 3)
	s.did(&event.Command{Account: alice, Action: &event.Command_TestWebhook{TestWebhook: &event.TestWebhook{Webhook: 5}}})
	r.stop()
	return s, cfg
}

func (s *stack) did(c *event.Command) {
	s.t.Helper()
	if o := s.command(c); o.Status != event.CommandStatus_COMMAND_OK {
		s.t.Fatalf("%v: %v", c, o)
	}
}

// exec runs a statement that must change something.
func (s *stack) exec(query string, args ...any) {
	s.t.Helper()
	sqlitetest.Exec(s.t, s.path, query, args...)
}

// edit changes the message in the first row of a table whose id begins with a text.
func edit[M event.Message](s *stack, collection, prefix string, m M, change func(M)) {
	s.t.Helper()
	sqlitetest.Edit(s.t, s.path, collection, prefix, func(head []byte) []byte {
		decode(s.t, head, m)
		change(m)
		data, err := event.Encode(m)
		if err != nil {
			s.t.Fatal(err)
		}
		return data
	})
}

// forge replaces all snapshots by one with another state, with the MAC of this billing: the key was read from the disk.
func (s *stack) forge(change func(*event.BillingState)) {
	s.t.Helper()
	list := s.sortedSnapshots()
	state := &event.BillingState{}
	decode(s.t, s.read(list[len(list)-1].Key), state)
	change(state)
	fold, err := account.Restore(state)
	if err != nil {
		s.t.Fatal(err)
	}
	image, err := fold.Image()
	if err != nil {
		s.t.Fatal(err)
	}
	for _, i := range list {
		if err := s.blobs.Delete(s.t.Context(), i.Key); err != nil {
			s.t.Fatal(err)
		}
	}
	if _, _, err := snapshots.New(s.blobs, s.views, "BILLING_0", slog.New(slog.DiscardHandler)).Write(s.t.Context(), image); err != nil {
		s.t.Fatal(err)
	}
}

// forgeRequests replaces the stored requests of alice, newest first.
func (s *stack) forgeRequests(change func([]*event.RecentRequest) []*event.RecentRequest) {
	s.t.Helper()
	p := projection.New(s.views, "BILLING_0", 0, 0, slog.New(slog.DiscardHandler))
	blocks, err := p.Blocks(s.t.Context(), event.AccountID(alice), 0)
	if err != nil || len(blocks) == 0 {
		s.t.Fatalf("%d blocks, %v", len(blocks), err)
	}
	all := func(views.Doc, *event.RecentRequest) bool { return true }
	byID, _ := projection.JoinBlocks(blocks, all, func(_ views.Doc, err error) {
		if err != nil {
			s.t.Fatal(err)
		}
	})
	list := slices.SortedFunc(maps.Values(byID), func(a, b *event.RecentRequest) int {
		return cmp.Or(cmp.Compare(b.TimeMs, a.TimeMs), bytes.Compare(b.RequestId, a.RequestId))
	})
	last := blocks[len(blocks)-1]
	list = change(list)
	if err := projection.EncodeBlock(&last, list); err != nil {
		s.t.Fatal(err)
	}
	newest := slices.MaxFunc(list, func(a, b *event.RecentRequest) int { return cmp.Compare(a.TimeMs, b.TimeMs) })
	last.Keys[slices.IndexFunc(last.Keys, func(k views.Key) bool { return k.Name == "time" })].Value = views.Int(newest.TimeMs)
	batch := views.Batch{Puts: []views.Put{{Collection: projection.Requests, Doc: last}}}
	for _, b := range blocks[:len(blocks)-1] {
		batch.Deletes = append(batch.Deletes, views.Delete{Collection: projection.Requests, ID: b.ID, Seq: b.Seq})
	}
	if err := s.views.Commit(s.t.Context(), batch); err != nil {
		s.t.Fatal(err)
	}
}

// sortedSnapshots returns the snapshots, newest last.
func (s *stack) sortedSnapshots() []blob.Info {
	return slices.SortedFunc(slices.Values(s.snapshots()), func(a, b blob.Info) int { return strings.Compare(a.Key, b.Key) })
}

func aliceState(state *event.BillingState) *event.AccountState {
	for _, a := range state.Accounts {
		if a.Account == alice {
			return a
		}
	}
	return nil
}

// put writes a blob, as someone does who can write to the disk.
func (s *stack) put(key string, data []byte) {
	s.t.Helper()
	if _, err := s.blobs.Put(s.t.Context(), key, bytes.NewReader(data), int64(len(data))); err != nil {
		s.t.Fatal(err)
	}
}

// slow skips a test with -short, as in make check and make race.
func slow(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("slow")
	}
}

// TestTheAuditNamesEveryTampering with the read model and snapshots: while billing is stopped and, where it says so, while it
// runs. Each is named by table, account, row, field, and by what is expected and found.
func TestTheAuditNamesEveryTampering(t *testing.T) {
	slow(t)
	t.Parallel()
	owner := event.AccountID(alice).String()
	for _, c := range []struct {
		name    string
		tamper  func(*stack)
		running bool   // it is noticed while billing runs, too
		want    string // of a difference: table, field, expected, found
		owner   uint64
		count   uint64 // of rows that differ in the table
		repair  bool
	}{
		{"ledger amount changed", func(s *stack) {
			edit(s, "billing_ledger", owner, &event.LedgerEntry{}, func(e *event.LedgerEntry) { e.AmountMicros += 7 })
		}, true, "ledger amountMicros 1000000 1000007", alice, 1, true},
		{"ledger balance changed", func(s *stack) {
			edit(s, "billing_ledger", owner, &event.LedgerEntry{}, func(e *event.LedgerEntry) { e.BalanceMicros = 5 })
		}, true, "ledger balanceMicros 1000000 5", alice, 1, true},
		{"ledger row deleted", func(s *stack) {
			s.exec(`DELETE FROM "doc.billing_ledger" WHERE number = (SELECT min(number) FROM "doc.billing_ledger" WHERE id LIKE ? || '%')`, owner)
		}, true, "ledger  present missing", alice, 1, true},
		{"ledger row marked as deleted", func(s *stack) {
			s.exec(`UPDATE "doc.billing_ledger" SET gone = 1, "k.account" = NULL, "k.position" = NULL WHERE number = (SELECT min(number) FROM "doc.billing_ledger" WHERE id LIKE ? || '%')`, owner)
		}, true, "ledger  present missing", alice, 1, false},
		{"ledger row doubled", func(s *stack) {
			s.exec(`INSERT INTO "doc.billing_ledger" (id, seq, "k.account", "k.position", head) SELECT "k.account" || '.' || "k.position" || 'x', seq, "k.account", "k.position" || 'x', head FROM "doc.billing_ledger" WHERE id LIKE ? || '%' ORDER BY id LIMIT 1`, owner)
		}, true, "ledger  missing present", alice, 1, false},
		{"ledger order changed", func(s *stack) {
			s.exec(`UPDATE "doc.billing_ledger" SET "k.position" = 'zzzzzzzzzzzzzzzzz' WHERE number = (SELECT min(number) FROM "doc.billing_ledger" WHERE id LIKE ? || '%')`, owner)
		}, true, `ledger index position`, alice, 1, true},
		{"ledger row moved to another account", func(s *stack) {
			s.exec(`UPDATE "doc.billing_ledger" SET "k.account" = ? WHERE number = (SELECT min(number) FROM "doc.billing_ledger" WHERE id LIKE ? || '%')`, event.AccountID(bob).String(), owner)
		}, true, `ledger index account`, alice, 1, true},
		{"ledger row made up by a message to come", func(s *stack) {
			s.exec(`INSERT INTO "doc.billing_ledger" (id, seq, "k.account", "k.position", head) SELECT id || 'x', 1 << 40, "k.account", "k.position" || 'x', head FROM "doc.billing_ledger" WHERE id LIKE ? || '%' ORDER BY id LIMIT 1`, owner)
		}, true, "ledger  missing present", alice, 1, false},
		{"day of a message to come", func(s *stack) {
			s.exec(`UPDATE "doc.billing_days" SET seq = 1 << 40 WHERE number = (SELECT min(number) FROM "doc.billing_days" WHERE id LIKE ? || '%')`, owner)
		}, true, "days sequence", alice, 1, false},
		{"day marked as deleted", func(s *stack) {
			s.exec(`UPDATE "doc.billing_days" SET gone = 1 WHERE number = (SELECT min(number) FROM "doc.billing_days" WHERE id LIKE ? || '%')`, owner)
		}, true, "days  present missing", alice, 1, false},
		{"day under an id that is none", func(s *stack) {
			s.exec(`UPDATE "doc.billing_days" SET id = replace(id, '.', '-') WHERE number = (SELECT min(number) FROM "doc.billing_days" WHERE id LIKE ? || '%')`, owner)
		}, true, "days  missing present", alice, 2, false},
		{"day with a key of no usage", func(s *stack) {
			edit(s, "billing_days", owner, &event.UsageDay{}, func(d *event.UsageDay) { d.Usage = append(d.Usage, &event.DayUsage{QuotaKey: 99}) })
		}, true, "days usage[1] missing", alice, 1, true},
		{"day changed", func(s *stack) {
			edit(s, "billing_days", owner, &event.UsageDay{}, func(d *event.UsageDay) { d.Usage[0].Used += 2 })
		}, true, "days usage[0].used 3 5", alice, 1, true},
		{"day deleted", func(s *stack) {
			s.exec(`DELETE FROM "doc.billing_days" WHERE number = (SELECT min(number) FROM "doc.billing_days" WHERE id LIKE ? || '%')`, owner)
		}, true, "days  present missing", alice, 1, true},
		{"day moved out of its index", func(s *stack) {
			s.exec(`UPDATE "doc.billing_days" SET "k.stream" = NULL WHERE number = (SELECT min(number) FROM "doc.billing_days" WHERE id LIKE ? || '%')`, owner)
		}, true, "days  present missing", alice, 1, true},
		{"closed statement changed", func(s *stack) {
			edit(s, "billing_statements", owner, &event.StatementAnswer{}, func(a *event.StatementAnswer) { a.StorageOverageCents = 99 })
		}, true, "statements storageOverageCents 0 99", alice, 1, true},
		{"closed statement deleted", func(s *stack) {
			s.exec(`DELETE FROM "doc.billing_statements" WHERE number = (SELECT min(number) FROM "doc.billing_statements" WHERE id LIKE ? || '%')`, owner)
		}, true, "statements  present missing", alice, 1, true},
		{"event changed", func(s *stack) {
			edit(s, "billing_alerts", owner, &event.Alert{}, func(a *event.Alert) { a.Threshold = 50 })
		}, true, "events threshold 0 50", alice, 1, true},
		{"event deleted", func(s *stack) { s.exec(`DELETE FROM "doc.billing_alerts"`) }, true, "events  present missing", alice, 1, true},
		{"admin log changed", func(s *stack) {
			edit(s, "billing_admin_log", "", &event.AdminEntry{}, func(e *event.AdminEntry) { e.Token = "guest" })
		}, true, "adminLog token root guest", 0, 1, true},
		{"admin log entry deleted", func(s *stack) { s.exec(`DELETE FROM "doc.billing_admin_log"`) }, true, "adminLog  present missing", 0, 1, true},
		{"grant changed", func(s *stack) {
			s.forge(func(state *event.BillingState) { aliceState(state).Grants[0].LeftMicros++ })
		}, false, "accounts grants[0].leftMicros 1000000 1000001", alice, 1, false},
		{"open statement changed", func(s *stack) {
			s.forge(func(state *event.BillingState) { aliceState(state).Months[0].Usage[0].Used = 1 })
		}, false, "accounts months[0].usage[0].used 3 1", alice, 1, false},
		{"cap changed", func(s *stack) {
			s.forge(func(state *event.BillingState) { aliceState(state).Cap.AmountMicros = 1 })
		}, false, "accounts cap.amountMicros 9000000 1", alice, 1, false},
		{"key changed", func(s *stack) {
			s.forge(func(state *event.BillingState) { aliceState(state).KeyFingerprint = 8 })
		}, false, "accounts keyFingerprint 7 8", alice, 1, false},
		{"recent request changed", func(s *stack) {
			s.forgeRequests(func(list []*event.RecentRequest) []*event.RecentRequest {
				list[1].CostMicros = 5
				return list
			})
		}, true, "requests costMicros 0 5", alice, 1, false},
		{"time of a recent request changed", func(s *stack) {
			s.forgeRequests(func(list []*event.RecentRequest) []*event.RecentRequest {
				list[0].TimeMs++
				return list
			})
		}, true, "requests timeMs", alice, 1, false},
		{"time of a recent request set to long ago", func(s *stack) {
			s.forgeRequests(func(list []*event.RecentRequest) []*event.RecentRequest {
				list[0].TimeMs = 1
				return list
			})
		}, true, "requests timeMs", alice, 1, false},
		{"recent request deleted", func(s *stack) {
			s.forgeRequests(func(list []*event.RecentRequest) []*event.RecentRequest { return append(list[:1:1], list[2:]...) })
		}, true, "requests  present missing", alice, 1, false},
		{"newest request deleted", func(s *stack) {
			s.forgeRequests(func(list []*event.RecentRequest) []*event.RecentRequest { return list[1:] })
		}, true, "requests  present missing", alice, 1, false},
		{"recent request made up", func(s *stack) {
			s.forgeRequests(func(list []*event.RecentRequest) []*event.RecentRequest {
				made := proto.Clone(list[0]).(*event.RecentRequest)
				id := event.NewRequestID()
				made.RequestId = id[:]
				return append(list, made)
			})
		}, true, "requests  missing present", alice, 1, false},
		{"block of requests damaged", func(s *stack) {
			s.exec(`UPDATE "doc.billing_requests" SET body = x'00' WHERE number = (SELECT max(number) FROM "doc.billing_requests" WHERE id LIKE ? || '%')`, owner)
		}, true, "requests  as billing wrote it", alice, 1, false},
		{"block of requests of a message to come", func(s *stack) {
			s.exec(`UPDATE "doc.billing_requests" SET seq = 1 << 40 WHERE number = (SELECT max(number) FROM "doc.billing_requests" WHERE id LIKE ? || '%')`, owner)
		}, true, "requests sequence at most", alice, 1, false},
		{"block of requests moved in its index", func(s *stack) {
			s.exec(`UPDATE "doc.billing_requests" SET "k.time" = "k.time" - 1 WHERE number = (SELECT max(number) FROM "doc.billing_requests" WHERE id LIKE ? || '%')`, owner)
		}, true, "requests index time", alice, 1, false},
		{"account added", func(s *stack) {
			s.forge(func(state *event.BillingState) {
				other := proto.Clone(aliceState(state)).(*event.AccountState)
				other.Account = 0xF00
				state.Accounts = append(state.Accounts, other)
			})
		}, false, "accounts  missing present", 0xF00, 1, false},
		{"snapshot forged", func(s *stack) {
			s.forge(func(state *event.BillingState) { aliceState(state).Grants[0].LeftMicros++ })
		}, false, "snapshots grants[0].leftMicros 1000000 1000001", alice, 1, true},
		{"snapshot byte flipped", func(s *stack) {
			list := s.sortedSnapshots()
			data := s.read(list[len(list)-1].Key)
			data[len(data)/2] ^= 1
			s.put(list[len(list)-1].Key, data)
		}, true, "snapshots  as billing wrote it", 0, 1, true},
		{"snapshot of another time", func(s *stack) {
			list := s.sortedSnapshots()
			s.put(list[len(list)-1].Key, s.read(list[0].Key))
		}, true, "snapshots  as billing wrote it", 0, 1, true},
	} {
		ways := []string{"stopped"}
		if c.running {
			ways = append(ways, "running", "running, and audited in parts")
		}
		for _, way := range ways {
			t.Run(c.name+"/"+way, func(t *testing.T) {
				s, cfg := books(t)
				if way == "stopped" {
					c.tamper(s)
				}
				if strings.HasSuffix(way, "in parts") {
					cfg.AuditPrincipals = 1
				}
				s.start(cfg, later)
				if way != "stopped" {
					if a := s.audit(); !a.Match {
						t.Fatalf("before: %v", a)
					}
					c.tamper(s)
				}
				a := s.audit()
				table := strings.Fields(c.want)[0]
				if a.Match || !names(a, c.owner, c.want) || differing(a, table) != c.count {
					t.Errorf("want %q: %v", c.want, a)
				}
				if !c.repair {
					return
				}
				repaired := s.auditWith(&event.AuditQuery{Repair: table})
				if after := s.audit(); differing(after, table) != 0 {
					t.Errorf("repaired %v, and then %v", repaired, after)
				}
			})
		}
	}
}

// names reports whether an audit names a difference whose text begins so.
func names(a *event.AuditAnswer, owner uint64, want string) bool {
	for _, d := range a.Differences {
		text := strings.Join([]string{d.Table, d.Field, d.Expected, d.Found}, " ")
		if strings.HasPrefix(text, want) && d.Account == owner {
			return true
		}
	}
	return false
}

func differing(a *event.AuditAnswer, table string) uint64 {
	for _, t := range a.Tables {
		if t.Table == table {
			return t.Differences
		}
	}
	return 0
}

func (s *stack) auditWith(q *event.AuditQuery) *event.AuditAnswer {
	s.t.Helper()
	a := s.queryAt(0, &event.Query{Query: &event.Query_Audit{Audit: q}})
	if a.Status != event.QueryStatus_QUERY_OK {
		s.t.Fatalf("audit: %v", a.Status)
	}
	return a.GetAudit()
}

// TestAnAuditNoticesACheckpointThatWasSet ahead or back, within the journal and beyond its end.
func TestAnAuditNoticesACheckpointThatWasSet(t *testing.T) {
	t.Parallel()
	set := func(s *stack, sequence int) {
		s.exec(`UPDATE "checkpoints" SET seq = ? WHERE stream = 'BILLING_0'`, sequence)
	}
	t.Run("ahead", func(t *testing.T) {
		s, cfg := books(t)
		r := s.start(cfg, later)
		s.views.down.Store(true)
		s.grant(alice, 4_000_000)
		s.kill(r)
		set(s, int(s.lastSequence()))
		s.start(cfg, later)
		if a := s.audit(); a.Match || !names(a, alice, "ledger  present missing") {
			t.Errorf("%v", a)
		}
		if a := s.auditWith(&event.AuditQuery{Repair: "ledger"}); differing(s.audit(), "ledger") != 0 {
			t.Errorf("repaired %v, and then %v", a, s.audit())
		}
	})
	t.Run("back", func(t *testing.T) {
		s, cfg := books(t)
		set(s, 7) // before the requests of the first day
		s.start(cfg, later)
		if a := s.audit(); a.Match || !names(a, 0, "readModel checkpoint") || !strings.Contains(a.Differences[0].Found, "days are ahead of the checkpoint") {
			t.Errorf("%v", a)
		}
	})
	t.Run("beyond the journal", func(t *testing.T) {
		s, cfg := books(t)
		set(s, 1000)
		_, r := s.launch(cfg, later)
		err := <-r.done
		r.done <- err
		if err == nil || !strings.Contains(err.Error(), "the read model was written up to 1000") {
			t.Errorf("the start: %v", err)
		}
	})
}

func (s *stack) lastSequence() uint64 {
	s.t.Helper()
	last, err := journal.Open(s.nc, event.Billing.Stream(0)).LastSequence(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	return last
}

// TestAnAuditIsLimited to an account, to a part of the journal, and to accounts that fit into memory.
func TestAnAuditIsLimited(t *testing.T) {
	t.Parallel()
	s, cfg := books(t)
	edit(s, "billing_ledger", event.AccountID(alice).String(), &event.LedgerEntry{}, func(e *event.LedgerEntry) { e.AmountMicros += 7 })
	cfg.AuditPrincipals = 1 // the two accounts are folded one after the other
	s.start(cfg, later)
	if a := s.audit(); a.Match || !bytes.Equal(a.LiveHash, a.ReplayHash) || !names(a, alice, "ledger amountMicros 1000000 1000007") || differing(a, "ledger") != 1 {
		t.Errorf("in parts: %v", a)
	}
	if a := s.auditWith(&event.AuditQuery{Account: alice}); a.Match || !names(a, alice, "ledger amountMicros 1000000 1000007") {
		t.Errorf("of alice: %v", a)
	}
	if a := s.auditWith(&event.AuditQuery{Account: bob, Deep: true}); !a.Match || len(a.Tables) == 0 {
		t.Errorf("of bob: %v", a)
	}
	now := s.audit()
	until := s.auditWith(&event.AuditQuery{Until: now.LastSequence})
	if !bytes.Equal(until.ReplayHash, now.ReplayHash) || len(until.LiveHash) != 0 || !until.Match || until.ComparedSequence != 0 {
		t.Errorf("until now: %v", until)
	}
	past := s.auditWith(&event.AuditQuery{Until: 3})
	s.grant(alice, 1)
	if again := s.auditWith(&event.AuditQuery{Until: 3}); !bytes.Equal(past.ReplayHash, again.ReplayHash) || past.LastSequence != 3 {
		t.Errorf("until 3: %v, then %v", past, again)
	}
	// A repair folds all accounts at once.
	if a := s.auditWith(&event.AuditQuery{Repair: "ledger"}); differing(s.audit(), "ledger") != 0 {
		t.Errorf("repaired %v", a)
	}
	s.exec(`UPDATE "doc.billing_days" SET "k.stream" = 'x' WHERE number = (SELECT min(number) FROM "doc.billing_days" WHERE id LIKE ? || '%')`, event.AccountID(alice).String())
	if a := s.auditWith(&event.AuditQuery{Account: alice}); a.Match || !names(a, alice, "days index stream") || differing(a, "days") != 1 {
		t.Errorf("of alice, whose day was moved: %v", a)
	}
	for _, q := range []*event.AuditQuery{{Repair: "users"}, {Repair: "ledger", Until: 3}, {Until: 1 << 40}, {Account: 0xF00}} {
		payload, err := event.Encode(&event.Query{Query: &event.Query_Audit{Audit: q}})
		if err != nil {
			t.Fatal(err)
		}
		var refused *rpc.Error
		if _, err := rpc.CallOnce(t.Context(), s.nc, event.QuerySubject(0), payload); !errors.As(err, &refused) || refused.Code != "malformed" {
			t.Errorf("%v: %v", q, err)
		}
	}
}
