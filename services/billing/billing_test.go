package billing_test

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"quire.dev/pkg/event"
	"quire.dev/pkg/eventually"
	"quire.dev/pkg/journal"
	"quire.dev/pkg/journal/journaltest"
	"quire.dev/pkg/plan"
	"quire.dev/pkg/pricebook"
	"quire.dev/pkg/rpc"
	"quire.dev/services/billing"
)

func TestARestartGoesOnWhereItStopped(t *testing.T) {
	s := newStack(t)
	first := s.start(billing.Config{}, 0)
	s.account(alice, plan.Pro)
	s.grant(alice, 1_000_000)
	s.serve(alice, plan.FilesUpload, 103) // 100 by quota, 3 by credits
	before := s.usageOf(alice)
	first.stop()
	if n := len(s.snapshots()); n != 1 {
		t.Fatalf("%d snapshots after an orderly stop", n)
	}
	s.start(billing.Config{}, 0)
	after := s.usageOf(alice)
	key := plan.FilesUpload - 1
	if after.Usage[key].Used != 103 || after.Usage[key].Overage != 3 || after.BalanceMicros != before.BalanceMicros || after.BalanceMicros != 985_000 {
		t.Fatalf("before %v\nafter %v", before, after)
	}
	s.serve(alice, plan.FilesUpload, 1)
	if entries := s.ledger(alice, 2); len(entries) != 5 {
		t.Fatalf("%d ledger entries, want the grant and four charges", len(entries))
	}
	if a := s.audit(); !a.Match || a.Entries != 2+2*104 || a.Stream != "BILLING_0" {
		t.Fatalf("audit %v", a)
	}
}

func TestNothingIsLostOrDoubledByAKill(t *testing.T) {
	s := newStack(t)
	cfg := billing.Config{SnapshotMessages: 3}
	r := s.start(cfg, 0)
	s.account(alice, plan.Pro)
	s.grant(alice, 10_000_000)
	s.serve(alice, plan.FilesUpload, 100)
	charges := 0
	for range 4 {
		for range 5 {
			s.serve(alice, plan.FilesUpload, 2)
			charges += 2
		}
		s.kill(r)
		r = s.start(cfg, 0)
		if u := s.usageOf(alice); u.Usage[plan.FilesUpload-1].Used != uint64(100+charges) || u.BalanceMicros != int64(10_000_000-5_000*charges) {
			t.Fatalf("after %d charges: %v", charges, u)
		}
		if n := len(s.ledger(alice, 7)); n != charges+1 {
			t.Fatalf("%d ledger entries after %d charges and a grant", n, charges)
		}
	}
	if a := s.audit(); !a.Match {
		t.Fatalf("audit %v", a)
	}
}

func TestAStartGoesOnOnceTheReadModelAnswers(t *testing.T) {
	s := newStack(t)
	s.views.hidden.Store(true)
	service, r := s.launch(billing.Config{}, 0)
	eventually.True(t, "a second attempt", func() bool { return s.views.refused.Load() >= 2 })
	if service.Serving() {
		t.Error("it serves without its read model")
	}
	s.views.hidden.Store(false)
	<-service.Ready()
	s.account(alice, plan.Free)
	r.stop()
}

func TestVerdictsGoOnWhileTheReadModelFails(t *testing.T) {
	s := newStack(t)
	s.start(billing.Config{}, 0)
	s.account(alice, plan.Max)
	s.views.down.Store(true)
	s.grant(alice, 500)
	s.serve(alice, plan.PastesGet, 50)
	if u := s.usageOf(alice); u.Usage[plan.PastesGet-1].Used != 50 || u.BalanceMicros != 500 {
		t.Fatalf("usage %v", u)
	}
	payload, err := event.Encode(&event.Query{Account: alice, Query: &event.Query_Ledger{Ledger: &event.LedgerQuery{}}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if _, err := rpc.Call(ctx, s.nc, event.QuerySubject(0), payload); err == nil {
		t.Fatal("a ledger was answered that lacks what is acknowledged")
	}
	s.views.down.Store(false)
	if entries := s.ledger(alice, 10); len(entries) != 1 {
		t.Fatalf("ledger %v", entries)
	}
}

func TestTheBoundOfTheReadModelHoldsTheFoldAndLetsGo(t *testing.T) {
	s := newStack(t)
	s.start(billing.Config{ProjectionBound: 2}, 0)
	s.account(alice, plan.Max)
	s.views.down.Store(true)
	for range 3 {
		s.grant(alice, 100) // each is answered; the third then waits for room
	}
	s.views.down.Store(false)
	s.grant(alice, 100)
	if entries := s.ledger(alice, 10); len(entries) != 4 {
		t.Fatalf("ledger %v", entries)
	}
}

func TestReplicasFoldTheSame(t *testing.T) {
	s := newStack(t)
	a, b := s.start(billing.Config{}, 0), s.start(billing.Config{}, 0)
	s.account(alice, plan.Pro)
	s.grant(alice, 1_000_000)
	for range 30 {
		s.serve(alice, plan.FilesUpload, 5)
	}
	// The verdicts of one batch come twice, and are the same.
	s.number++
	s.publish(event.UsageSubject(0), &event.UsageBatch{
		Source: "test", Number: s.number, StampMs: time.Now().UnixMilli(), Admissions: []*event.Admission{admission(alice, plan.FilesUpload)},
	})
	var copies [][]byte
	for len(copies) < 2 {
		v := &event.VerdictBatch{}
		data := s.next(event.VerdictSubject("test"))
		if decode(t, data, v); v.Number == s.number {
			copies = append(copies, data)
		}
	}
	if !bytes.Equal(copies[0], copies[1]) {
		t.Fatal("twins answered differently")
	}
	if n := len(s.ledger(alice, 50)); n != 51 {
		t.Fatalf("%d entries: twins project each entry once", n)
	}
	for range 4 { // either may answer
		if audit := s.audit(); !audit.Match {
			t.Fatalf("audit %v", audit)
		}
	}
	a.stop()
	b.stop()
	if list := s.snapshots(); len(list) != 1 {
		t.Fatalf("the state at one sequence has one hash: %v", list)
	}
}

func TestADamagedSnapshotIsPassedOver(t *testing.T) {
	s := newStack(t)
	r := s.start(billing.Config{}, 0)
	s.account(alice, plan.Free)
	s.serve(alice, plan.LiteGet, 5)
	r.stop()
	r = s.start(billing.Config{}, 0)
	s.serve(alice, plan.LiteGet, 5)
	r.stop()
	list := s.snapshots()
	if len(list) != 2 {
		t.Fatalf("snapshots %v", list)
	}
	newest := list[0]
	if list[1].Key > newest.Key {
		newest = list[1]
	}
	if _, err := s.blobs.Put(t.Context(), newest.Key, strings.NewReader("rubbish"), 7); err != nil {
		t.Fatal(err)
	}
	other := strings.Replace(newest.Key, "-1-", "-999-", 1)
	if _, err := s.blobs.Put(t.Context(), other, strings.NewReader("of the future"), 13); err != nil {
		t.Fatal(err)
	}
	s.start(billing.Config{}, 0)
	if u := s.usageOf(alice); u.Usage[plan.LiteGet-1].Used != 10 {
		t.Fatalf("usage %v", u)
	}
	if a := s.audit(); a.Match || !bytes.Equal(a.LiveHash, a.ReplayHash) || differing(a, "snapshots") != 1 {
		t.Fatalf("audit %v", a)
	}
}

func TestAnotherJournalIsRefused(t *testing.T) {
	s := newStack(t)
	r := s.start(billing.Config{}, 0)
	s.account(alice, plan.Free)
	s.serve(alice, plan.LiteGet, 5)
	r.stop()
	kept := len(s.snapshots())
	s.number, s.commands = 0, 0
	s.journal(journaltest.Start(t)) // empty

	refused := func() {
		t.Helper()
		_, r := s.launch(billing.Config{}, 0)
		err := <-r.done
		r.done <- err
		if !errors.Is(err, billing.ErrJournal) || !strings.Contains(err.Error(), "Nothing was changed or deleted") {
			t.Fatalf("started on another journal: %v", err)
		}
		if n := len(s.snapshots()); n != kept {
			t.Fatalf("%d snapshots were there, %d are", kept, n)
		}
	}
	refused()
	for range 10 { // long enough, but another one
		s.publish(event.UsageSubject(0), &event.UsageBatch{Source: "tick", StampMs: time.Now().UnixMilli()})
	}
	if err := s.nc.Flush(); err != nil {
		t.Fatal(err)
	}
	eventually.True(t, "the messages are stored", func() bool {
		m, err := s.nc.Request("$JS.API.STREAM.MSG.GET.BILLING_0", []byte(`{"seq":10}`), 5*time.Second)
		return err == nil && !bytes.Contains(m.Data, []byte(`"error"`))
	})
	refused()
}

func TestExplainFindsTheDecision(t *testing.T) {
	began := time.Now().UnixMilli()
	s := newStack(t)
	s.start(billing.Config{SnapshotMessages: 5}, 0)
	s.account(alice, plan.Pro)
	s.account(bob, plan.Free)
	s.grant(alice, 20_000)
	s.serve(alice, plan.FilesUpload, 100)
	paid := s.serve(alice, plan.FilesUpload, 1)[0]
	for range 10 {
		s.serve(bob, plan.LiteGet, 1)
	}
	refused := admission(bob, plan.PastesGet)
	s.usage([]*event.Admission{refused}, nil)
	explain := func(account uint64, request []byte, anybody bool) *event.QueryAnswer {
		return s.query(&event.Query{Account: account, Query: &event.Query_Explain{Explain: &event.ExplainQuery{RequestId: request, AnyAccount: anybody}}})
	}
	e := explain(alice, paid.RequestId, false).GetExplain()
	if e == nil || e.UsedBefore != 100 || e.UsedAfter != 101 || e.PriceMicros != 5_000 || len(e.Grants) != 1 || e.Grants[0].Reason != "gift" ||
		e.Settlement != "served" || e.Stream != "BILLING_0" || e.Sequence == 0 || e.SettlementSequence != e.Sequence+1 {
		t.Fatalf("explained as %v", e)
	}
	if e.StoredMs < began || e.SettlementStoredMs < e.StoredMs || time.Now().UnixMilli() < e.SettlementStoredMs {
		t.Errorf("stored at %d and %d, in a test that began at %d", e.StoredMs, e.SettlementStoredMs, began)
	}
	e = explain(0, refused.RequestId, true).GetExplain()
	if e == nil || e.Verdict.Decision != event.Decision_PLAN_UPGRADE_REQUIRED || e.Settlement != "" || e.Account != bob || e.StoredMs < began || e.SettlementStoredMs != 0 {
		t.Fatalf("explained as %v", e)
	}
	unknown, early, late, never := event.NewRequestID(), event.NewRequestID(), event.NewRequestID(), event.NewRequestID()
	copy(early[:], make([]byte, 6))
	late[0], never[0] = late[0]+1, 0xff
	for what, a := range map[string]*event.QueryAnswer{
		"another account's":       explain(bob, paid.RequestId, false),
		"unknown":                 explain(alice, unknown[:], true),
		"from before the journal": explain(alice, early[:], true),
		"from the future":         explain(alice, late[:], true),
		"beyond the year 9999":    explain(alice, never[:], true),
	} {
		if a.Status != event.QueryStatus_QUERY_NOT_FOUND {
			t.Fatalf("%s: %v", what, a)
		}
	}
}

func TestTimeGoesOnWithoutTraffic(t *testing.T) {
	s := newStack(t)
	r := s.start(billing.Config{}, 0)
	s.account(alice, plan.Pro)
	write := admission(alice, plan.PastesCreate)
	write.Write = true
	s.usage([]*event.Admission{write}, nil)
	if u := s.usageOf(alice); u.Usage[plan.PastesCreate-1].Used != 1 {
		t.Fatalf("usage %v", u)
	}
	r.stop()
	s.start(billing.Config{}, 3*time.Minute)
	eventually.True(t, "the hold is voided", func() bool {
		return s.usageOf(alice).Usage[plan.PastesCreate-1].Used == 0
	})
}

func TestANewPriceBookCountsFromTheNextStart(t *testing.T) {
	s := newStack(t)
	r := s.start(billing.Config{}, 0)
	s.account(alice, plan.Pro)
	r.stop()
	book := plan.Published(10)
	book.Plans[plan.Pro].Terms[plan.PastesGet].Limit = 1
	r = s.start(billing.Config{Book: book}, 0)
	s.serve(alice, plan.PastesGet, 1)
	if v := s.usage([]*event.Admission{admission(alice, plan.PastesGet)}, nil).Verdicts[0]; v.Decision != event.Decision_QUOTA_EXHAUSTED {
		t.Fatalf("verdict %v", v)
	}
	prices := s.query(&event.Query{Query: &event.Query_Prices{Prices: &event.PricesQuery{}}}).GetPrices()
	if got := pricebook.Of(prices); got.Plans[plan.Pro].Terms[plan.PastesGet] != book.Plans[plan.Pro].Terms[plan.PastesGet] || got.AnonymousLimit != 10 {
		t.Fatalf("prices %v", prices)
	}
	r.stop()
	before := s.last()
	r = s.start(billing.Config{Book: book}, 0)
	r.stop()
	if after := s.last(); after != before {
		t.Fatalf("the same book was published again: %d, %d", before, after)
	}
}

func TestQueriesThatFindNothing(t *testing.T) {
	s := newStack(t)
	r := s.start(billing.Config{}, 0)
	s.account(alice, plan.Free)
	month := time.Now().UTC().Format("2006-01")
	for _, c := range []struct {
		name string
		q    *event.Query
		want event.QueryStatus
	}{
		{"usage of nobody", &event.Query{Account: bob, Query: &event.Query_Usage{Usage: &event.UsageQuery{}}}, event.QueryStatus_QUERY_NOT_FOUND},
		{"usage with the key", &event.Query{Account: alice, Query: &event.Query_Usage{Usage: &event.UsageQuery{CheckKey: true, KeyVersion: 1, KeyFingerprint: 7}}}, event.QueryStatus_QUERY_OK},
		{"usage with another key", &event.Query{Account: alice, Query: &event.Query_Usage{Usage: &event.UsageQuery{CheckKey: true, KeyVersion: 2, KeyFingerprint: 7}}}, event.QueryStatus_QUERY_INVALID_KEY},
		{"ledger of nobody", &event.Query{Account: bob, Query: &event.Query_Ledger{Ledger: &event.LedgerQuery{}}}, event.QueryStatus_QUERY_NOT_FOUND},
		{"bad cursor", &event.Query{Account: alice, Query: &event.Query_Ledger{Ledger: &event.LedgerQuery{Cursor: []byte("rubbish")}}}, event.QueryStatus_QUERY_INVALID_CURSOR},
		{"this month", &event.Query{Account: alice, Query: &event.Query_Statement{Statement: &event.StatementQuery{Period: month}}}, event.QueryStatus_QUERY_OK},
		{"before the account", &event.Query{Account: alice, Query: &event.Query_Statement{Statement: &event.StatementQuery{Period: "2020-01"}}}, event.QueryStatus_QUERY_NOT_FOUND},
		{"allowance of a network that is not known", &event.Query{Account: bob, Query: &event.Query_Allowance{Allowance: &event.AllowanceQuery{}}}, event.QueryStatus_QUERY_OK},
		{"no month", &event.Query{Account: alice, Query: &event.Query_Statement{Statement: &event.StatementQuery{Period: "x"}}}, event.QueryStatus_QUERY_NOT_FOUND},
	} {
		if a := s.query(c.q); a.Status != c.want {
			t.Errorf("%s: %v", c.name, a)
		}
	}
	if !r.Serving() {
		t.Error("not ready")
	}
}

func TestClosedMonthsAreStillThere(t *testing.T) {
	s := newStack(t)
	r := s.start(billing.Config{}, 0)
	s.account(alice, plan.Free)
	s.serve(alice, plan.LiteGet, 5)
	period := s.monthOf(alice)
	r.stop()
	offset := 100 * 24 * time.Hour // three months on
	s.start(billing.Config{}, offset)
	statement := func() *event.StatementAnswer {
		return s.query(&event.Query{Account: alice, NowMs: time.Now().Add(offset).UnixMilli(), Query: &event.Query_Statement{
			Statement: &event.StatementQuery{Period: period},
		}}).GetStatement()
	}
	check := func(when string) {
		t.Helper()
		if st := statement(); st == nil || !st.Closed || st.Usage[plan.LiteGet-1].Used != 5 {
			t.Fatalf("%s: %v", when, st)
		}
	}
	check("while the account is idle")
	s.number++
	s.publish(event.UsageSubject(0), &event.UsageBatch{
		Source: "test", Number: s.number, StampMs: time.Now().Add(offset).UnixMilli(), OffsetMs: offset.Milliseconds(),
		Admissions: []*event.Admission{admission(alice, plan.LiteGet)},
	})
	s.next(event.VerdictSubject("test"))
	check("after it has left the state")
}

func (s *stack) monthOf(id uint64) string {
	return time.UnixMilli(s.usageOf(id).PeriodStartMs).UTC().Format("2006-01")
}

// last is the sequence of the journal's last message.
func (s *stack) last() uint64 {
	s.t.Helper()
	last, err := journal.Open(s.nc, event.Billing.Stream(0)).LastSequence(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	return last
}

func (s *stack) user(r *event.UserRequest) *event.UserAnswer {
	s.t.Helper()
	payload, err := event.Encode(r)
	if err != nil {
		s.t.Fatal(err)
	}
	data, err := rpc.Call(s.t.Context(), s.nc, event.UserSubject, payload)
	if err != nil {
		s.t.Fatal(err)
	}
	a := &event.UserAnswer{}
	decode(s.t, data, a)
	return a
}

// TestARequestThatCannotBeReadIsMalformed: undecodable, without an action, or meant for another subject.
func TestARequestThatCannotBeReadIsMalformed(t *testing.T) {
	s := newStack(t)
	s.start(billing.Config{}, 0)
	register, err := event.Encode(&event.UserRequest{Action: &event.UserRequest_Register{Register: &event.RegisterUser{Email: "a@b.c", Account: alice}}})
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		subject string
		payload []byte
	}{
		"undecodable user request":    {event.UserSubject, []byte("{}")},
		"undecodable webhook request": {event.WebhookSubject, []byte("{}")},
		"user request without action": {event.UserSubject, nil},
		"webhook request without one": {event.WebhookSubject, nil},
		"user request about webhooks": {event.WebhookSubject, register},
	} {
		var refused *rpc.Error
		if data, err := rpc.Call(t.Context(), s.nc, c.subject, c.payload); !errors.As(err, &refused) || refused.Code != "malformed" {
			t.Errorf("%s: %q, %v", name, data, err)
		}
	}
}

func TestUsersAndSessions(t *testing.T) {
	s := newStack(t)
	s.start(billing.Config{}, 0)
	register := func(email string, id uint64) *event.UserAnswer {
		return s.user(&event.UserRequest{Action: &event.UserRequest_Register{Register: &event.RegisterUser{Email: email, Account: id, PasswordHash: "hash"}}})
	}
	find := func(f *event.FindUser) *event.UserAnswer {
		return s.user(&event.UserRequest{Action: &event.UserRequest_Find{Find: f}})
	}
	if a := register("Ann@Example.com", alice); a.Status != event.UserStatus_USER_OK || a.User.Account != alice {
		t.Fatalf("register: %v", a)
	}
	if a := register("ann@example.COM", bob); a.Status != event.UserStatus_USER_EXISTS || a.User.Account != alice {
		t.Fatalf("the address is taken: %v", a)
	}
	if a := register("ann@example.com", alice); a.Status != event.UserStatus_USER_OK {
		t.Fatalf("the same again: %v", a)
	}
	if a := find(&event.FindUser{Email: "ANN@example.com"}); a.User.GetPasswordHash() != "hash" || a.User.Email != "Ann@Example.com" {
		t.Fatalf("find: %v", a)
	}
	if a := find(&event.FindUser{Account: alice}); a.User.GetAccount() != alice {
		t.Fatalf("find by account: %v", a)
	}
	if a := find(&event.FindUser{Account: bob}); a.Status != event.UserStatus_USER_NOT_FOUND {
		t.Fatalf("find nobody: %v", a)
	}

	now := time.Now().UnixMilli()
	open := func(hash string, expires int64) {
		t.Helper()
		a := s.user(&event.UserRequest{Action: &event.UserRequest_OpenSession{OpenSession: &event.OpenSession{
			SessionHash: []byte(hash), Account: alice, ExpiresMs: expires,
		}}})
		if a.Status != event.UserStatus_USER_OK {
			t.Fatalf("open session: %v", a)
		}
	}
	check := func(hash string, at int64) event.UserStatus {
		return s.user(&event.UserRequest{NowMs: at, Action: &event.UserRequest_CheckSession{CheckSession: &event.CheckSession{SessionHash: []byte(hash)}}}).Status
	}
	open("session 1", now+60_000)
	open("session 2", now+60_000)
	if check("session 1", now+59_999) != event.UserStatus_USER_OK || check("session 1", now+60_000) != event.UserStatus_USER_NOT_FOUND {
		t.Fatal("a session ends at its time")
	}
	s.user(&event.UserRequest{Action: &event.UserRequest_CloseSession{CloseSession: &event.CloseSession{SessionHash: []byte("session 1")}}})
	if check("session 1", now) != event.UserStatus_USER_NOT_FOUND || check("session 2", now) != event.UserStatus_USER_OK || check("session 3", now) != event.UserStatus_USER_NOT_FOUND {
		t.Fatal("a session ends by logging out, and only that one")
	}
}

// TestAMarkBeyondItsStreamIsToldAndStopsNothing: a document journal was recreated. The start reports it, and new writes are
// settled.
func TestAMarkBeyondItsStreamIsToldAndStopsNothing(t *testing.T) {
	s := newStack(t)
	stream := journal.Stream{Domain: string(event.File), Name: event.File.Stream(0), Subjects: event.File.Subjects(0)}
	if err := journal.Ensure(t.Context(), s.nc, []journal.Stream{stream}, 1); err != nil {
		t.Fatal(err)
	}
	r := s.start(billing.Config{}, 0)
	s.account(alice, plan.Pro)
	upload := func(sequence uint64) {
		t.Helper()
		a := admission(alice, plan.FilesUpload)
		a.Write = true
		s.usage([]*event.Admission{a}, nil)
		s.publish(event.File.SettleSubject(0), &event.UsageBatch{Source: stream.Name, StampMs: time.Now().UnixMilli(), Settlements: []*event.Settlement{{
			RequestId: a.RequestId, Result: event.Result_SERVED, Account: alice, QuotaKey: a.QuotaKey, Sequence: sequence,
			StoredMs: time.Now().Add(time.Minute).UnixMilli() + int64(s.number), StorageDelta: 1,
		}}})
	}
	upload(900)
	eventually.True(t, "it is settled", func() bool { return s.usageOf(alice).StorageUsedBytes == 1 })
	r.stop()

	s.log = &lines{}
	s.start(billing.Config{}, 0)
	eventually.True(t, "the start tells of it", s.log.has("ends before its settled position"))
	upload(1)
	eventually.True(t, "the next one is settled too", func() bool { return s.usageOf(alice).StorageUsedBytes == 2 })
	eventually.True(t, "and told", s.log.has("goes_on_at=1"))
	if a := s.audit(); !a.Match {
		t.Errorf("audit %v", a)
	}
}

// TestASettlementOfAnothersWriteIsRefused: it is counted and logged, and the audit of all replicas agrees.
func TestASettlementOfAnothersWriteIsRefused(t *testing.T) {
	s := newStack(t)
	s.log = &lines{}
	r := s.start(billing.Config{}, 0)
	s.account(alice, plan.Pro)
	a := admission(alice, plan.FilesUpload)
	a.Write = true
	s.usage([]*event.Admission{a}, nil)
	send := func(domain event.Domain, storage int64) {
		s.publish(domain.SettleSubject(0), &event.UsageBatch{Source: domain.Stream(0), StampMs: time.Now().UnixMilli(), Settlements: []*event.Settlement{{
			RequestId: a.RequestId, Result: event.Result_VOID, Account: alice, QuotaKey: a.QuotaKey, Sequence: 7, StorageDelta: storage,
			StoredMs: time.Now().UnixMilli(),
		}}})
	}
	send(event.Lite, 0)
	send(event.Lite, 1)
	for _, want := range []string{`reason="quota_key"} 1`, `reason="storage"} 1`, `reason="hold"} 0`} {
		eventually.True(t, want, func() bool { return strings.Contains(r.exposed(), "quire_billing_settlements_refused_total{"+want) })
	}
	eventually.True(t, "it is logged", s.log.has("subject=billing.0.settle.lite source=LITE_0 reason=quota_key count=1"))
	if u := s.usageOf(alice); u.StorageUsedBytes != 0 || u.Usage[plan.FilesUpload-1].Used != 1 {
		t.Fatalf("it had an effect: %v", u)
	}
	send(event.File, 0)
	eventually.True(t, "its own service settles it", func() bool { return s.usageOf(alice).Usage[plan.FilesUpload-1].Used == 0 })
	if a := s.audit(); !a.Match {
		t.Errorf("audit %v", a)
	}
}

func TestAHoldOfAnEdgeThatHasEndedIsAbandoned(t *testing.T) {
	s := newStack(t)
	s.start(billing.Config{}, 0)
	s.account(alice, plan.Pro)
	admit := func(key string) (*event.Admission, []byte) {
		t.Helper()
		id := event.NewIdempotencyID(event.AccountID(alice).Bytes(), "POST", "/", key)
		a := admission(alice, plan.PastesCreate)
		a.Write, a.IdempotencyId = true, id[:]
		if v := s.usage([]*event.Admission{a}, nil).Verdicts[0]; v.Decision != event.Decision_ADMITTED {
			t.Fatalf("admission: %v", v)
		}
		return a, id[:]
	}
	hold := func(account uint64, id []byte) *event.QueryAnswer {
		t.Helper()
		return s.query(&event.Query{Account: account, NowMs: time.Now().UnixMilli(), Query: &event.Query_Hold{Hold: &event.HoldQuery{IdempotencyId: id}}})
	}
	open, id := admit("open")
	alive := hold(alice, id).GetHold()
	if alive == nil || alive.Abandoned || !bytes.Equal(alive.RequestId, open.RequestId) || alive.AgeSeconds+alive.ClosesInSeconds < 119 || alive.ClosesInSeconds > 120 {
		t.Errorf("while its edge is there: %v", alive)
	}
	settled, closed := admit("closed")
	s.usage(nil, []*event.Settlement{{RequestId: settled.RequestId, Account: alice, QuotaKey: settled.QuotaKey, Result: event.Result_SERVED}})
	other := event.NewIdempotencyID(event.AccountID(alice).Bytes(), "POST", "/", "never used")
	for name, a := range map[string]*event.QueryAnswer{
		"that is closed": hold(alice, closed), "never used": hold(alice, other[:]), "of another account": hold(bob, id), "that is no id": hold(alice, id[:3]),
	} {
		if a.Status != event.QueryStatus_QUERY_NOT_FOUND {
			t.Errorf("one %s: %v", name, a)
		}
	}
	orServed := func(account uint64, id []byte) *event.QueryAnswer {
		t.Helper()
		return s.query(&event.Query{Account: account, NowMs: time.Now().UnixMilli(), Query: &event.Query_Hold{Hold: &event.HoldQuery{IdempotencyId: id, OrServed: true}}})
	}
	if done := orServed(alice, closed).GetHold(); !done.GetServed() || !bytes.Equal(done.RequestId, settled.RequestId) {
		t.Errorf("one that was served: %v", done)
	}
	if still := orServed(alice, id).GetHold(); still == nil || still.Served || still.ClosesInSeconds == 0 {
		t.Errorf("one that is open: %v", still)
	}
	given, back := admit("given back")
	s.usage(nil, []*event.Settlement{{RequestId: given.RequestId, Account: alice, QuotaKey: given.QuotaKey, Result: event.Result_VOID}})
	for name, a := range map[string]*event.QueryAnswer{
		"given back": orServed(alice, back), "never used": orServed(alice, other[:]), "of another account": orServed(bob, closed),
	} {
		if a.Status != event.QueryStatus_QUERY_NOT_FOUND {
			t.Errorf("or served, one %s: %v", name, a)
		}
	}
	if err := s.answers.Unsubscribe(); err != nil { // the edge ends
		t.Fatal(err)
	}
	if gone := hold(alice, id).GetHold(); gone == nil || !gone.Abandoned || !bytes.Equal(gone.RequestId, open.RequestId) {
		t.Errorf("once its edge has ended: %v", gone)
	}
}

// TestAnExplanationReadsFewMessagesAtAnyAge: where the snapshots of an hour and a day are thinned, there is one not far before each
// request, by messages and by what they have.
func TestAnExplanationReadsFewMessagesAtAnyAge(t *testing.T) {
	const apart = 60
	t.Run("messages", func(t *testing.T) {
		explainAtAnyAge(t, apart, billing.Config{SnapshotMessages: 20, HistoryMessages: apart})
	})
	t.Run("entries", func(t *testing.T) { explainAtAnyAge(t, apart, billing.Config{HistoryEntries: apart}) })
}

func explainAtAnyAge(t *testing.T, apart uint64, cfg billing.Config) {
	t.Helper()
	s := newStack(t)
	r := s.start(cfg, 0)
	s.account(alice, plan.Pro)
	var asked []*event.Admission
	for range 10 {
		before := s.snapshots()
		for range 15 {
			asked = append(asked, s.serve(alice, plan.LiteGet, 1)...)
		}
		eventually.True(t, "a snapshot is taken", func() bool { return !slices.Equal(s.snapshots(), before) })
	}
	r.stop()
	if n := len(s.snapshots()); n > 9 {
		t.Errorf("%d of more than 10 snapshots are kept", n)
	}
	s.start(cfg, 0)
	last := uint64(0)
	for i, a := range asked {
		if i%11 != 0 { // one account has one at a time, and so many a minute
			continue
		}
		e := s.query(&event.Query{Query: &event.Query_Explain{Explain: &event.ExplainQuery{RequestId: a.RequestId, AnyAccount: true}}}).GetExplain()
		if e == nil || e.UsedAfter != uint64(i+1) || e.Settlement != "served" {
			t.Fatalf("request %d: %v", i, e)
		}
		if e.Folded > apart+2 { // and its settlement, and what comes after it
			t.Errorf("%d messages were folded for message %d", e.Folded, e.Sequence)
		}
		last = e.Sequence
	}
	if last < 4*apart {
		t.Errorf("the journal has %d messages only", last)
	}
}
