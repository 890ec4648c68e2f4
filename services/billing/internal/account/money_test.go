package account

import (
	"fmt"
	"math"
	"math/big"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"quire.dev/pkg/event"
	"quire.dev/pkg/plan"
)

func TestGrantsAreSpentSoonestToExpireFirst(t *testing.T) {
	h := historyOf(t)
	h.account(alice, plan.Pro)
	h.use(alice, plan.FilesUpload, 100)
	day := (24 * time.Hour).Milliseconds()
	h.grant(alice, 3_000, 0)           // last
	h.grant(alice, 4_000, h.now+2*day) // second
	h.grant(alice, 2_000, h.now+day)   // first
	h.grant(alice, 4_000, h.now+2*day) // third: younger
	for range 2 {
		a := h.admission(alice, plan.FilesUpload)
		h.want(a, admitted)
		h.served(a)
	}
	var left []uint64
	for _, g := range h.fold.principals.accounts[alice].grants {
		left = append(left, g.left)
	}
	// 10,000 of 13,000 are spent: 2,000 + 4,000 + 4,000.
	if len(left) != 1 || left[0] != 3_000 || h.balance(alice) != 3_000 || h.ledgerSum(alice) != 3_000 {
		t.Fatalf("left %v, balance %d, ledger %d", left, h.balance(alice), h.ledgerSum(alice))
	}
}

func TestWhatIsLeftOfAGrantExpires(t *testing.T) {
	h := historyOf(t)
	h.account(alice, plan.Pro)
	expires := h.now + 3_600_000
	h.grant(alice, 7_000, expires)
	h.grant(alice, 1_000, 0)
	h.now = expires - 1
	h.tick()
	if h.balance(alice) != 8_000 || h.fold.NextDueMillis() != expires {
		t.Fatal("expired too early")
	}
	h.now = expires
	if h.balance(alice) != 1_000 {
		t.Fatal("a query after the expiry still shows the grant")
	}
	h.tick()
	last := h.ledger[len(h.ledger)-1]
	if h.balance(alice) != 1_000 || last.AmountMicros != -7_000 || last.BalanceMicros != 1_000 || last.TimeMs != expires {
		t.Fatalf("last entry %v", last)
	}
}

func TestNegativeGrantsNeverGoBelowZero(t *testing.T) {
	h := historyOf(t)
	h.account(alice, plan.Pro)
	for _, c := range []struct {
		amount int64
		want   event.CommandStatus
		left   int64
	}{
		{0, event.CommandStatus_COMMAND_INVALID, 0},
		{-1, event.CommandStatus_COMMAND_INSUFFICIENT_CREDITS, 0},
		{500, ok, 500},
		{-501, event.CommandStatus_COMMAND_INSUFFICIENT_CREDITS, 500},
		{-500, ok, 0},
		{maxBalance + 1, event.CommandStatus_COMMAND_INVALID, 0},
		{math.MinInt64, event.CommandStatus_COMMAND_INVALID, 0},
		{maxBalance, ok, maxBalance},
		{1, event.CommandStatus_COMMAND_INVALID, maxBalance},
	} {
		if o := h.command(grantOf(alice, c.amount, 0)); o.Status != c.want || o.BalanceMicros != c.left {
			t.Fatalf("%d: %v", c.amount, o)
		}
	}
	if o := h.command(grantOf(bob, 5, 0)); o.Status != event.CommandStatus_COMMAND_ACCOUNT_NOT_FOUND {
		t.Fatalf("nobody's: %v", o)
	}
	if o := h.command(grantOf(alice, 5, h.now)); o.Status != event.CommandStatus_COMMAND_INVALID {
		t.Fatalf("already expired: %v", o)
	}
}

func TestCommandsAreIdempotentForADay(t *testing.T) {
	h := historyOf(t)
	h.account(alice, plan.Pro)
	send := func(amount int64, body uint64) *event.CommandOutcome {
		c := grantOf(alice, amount, 0)
		c.IdempotencyId, c.BodyHash = []byte("idempotency-id-1"), body
		return h.command(c)
	}
	if o := send(100, 1); o.Status != ok || o.Replayed {
		t.Fatalf("first: %v", o)
	}
	if o := send(100, 1); o.Status != ok || !o.Replayed || o.BalanceMicros != 100 {
		t.Fatalf("again: %v", o)
	}
	if o := send(200, 2); o.Status != event.CommandStatus_COMMAND_IDEMPOTENCY_MISMATCH {
		t.Fatalf("other body: %v", o)
	}
	h.wait(24*time.Hour - time.Millisecond)
	if o := send(100, 1); !o.Replayed {
		t.Fatalf("within a day: %v", o)
	}
	h.wait(time.Millisecond)
	if o := send(100, 1); o.Replayed || h.balance(alice) != 200 {
		t.Fatalf("after a day: %v", o)
	}
	if o := h.command(create(alice, plan.Free)); o.Status != event.CommandStatus_COMMAND_ACCOUNT_EXISTS {
		t.Fatalf("exists: %v", o)
	}
	if o := h.command(create(bob, 77)); o.Status != event.CommandStatus_COMMAND_INVALID {
		t.Fatalf("tier 77: %v", o)
	}
	if o := h.command(setTier(alice, 0)); o.Status != event.CommandStatus_COMMAND_INVALID {
		t.Fatalf("tier 0: %v", o)
	}
	if o := h.command(&event.Command{Account: alice}); o.Status != event.CommandStatus_COMMAND_INVALID {
		t.Fatalf("no action: %v", o)
	}
}

func TestTierChangesKeepTheCountersAndCountAtOnce(t *testing.T) {
	h := historyOf(t)
	h.account(alice, plan.Free)
	h.use(alice, plan.LiteCreate, 100)
	h.want(h.admission(alice, plan.LiteCreate), exhausted)
	h.command(setTier(alice, plan.Pro))
	a := h.admission(alice, plan.LiteCreate)
	if v := h.want(a, admitted); v.Remaining != 5000-101 {
		t.Fatalf("after the upgrade: %v", v)
	}
	h.served(a)
	h.command(setTier(alice, plan.Free))
	if v := h.want(h.admission(alice, plan.LiteCreate), exhausted); v.Limit != 100 {
		t.Fatalf("after the downgrade: %v", v)
	}
	h.command(setTier(alice, plan.Admin))
	if v := h.want(h.admission(alice, plan.LiteCreate), admitted); v.Remaining != -1 || v.Charge != event.ChargeSource_CHARGE_NONE {
		t.Fatalf("admin: %v", v)
	}
	if u := h.usedBy(alice, plan.LiteCreate); u.Used != 102 || u.Remaining != -1 {
		t.Fatalf("admin is counted: %v", u)
	}
}

func TestMonthsStartAgainAndCloseOnce(t *testing.T) {
	h := historyOf(t)
	h.now = at("2026-11-30T23:59:59Z")
	h.account(alice, plan.Free)
	h.use(alice, plan.PastesDelete, 10)
	v := h.want(h.admission(alice, plan.PastesDelete), exhausted)
	if v.RetryAfterSeconds != 1 {
		t.Fatalf("retry: %v", v)
	}
	h.now = at("2026-12-01T00:00:00Z")
	a := h.admission(alice, plan.PastesDelete)
	if v := h.want(a, admitted); v.Remaining != 9 {
		t.Fatalf("new month: %v", v)
	}
	s, held := h.fold.StatementAt(event.AccountID(alice), "2026-11", h.now)
	if !held || s.Closed || s.Usage[plan.PastesDelete-1].Used != 10 || len(h.closed) != 0 {
		t.Fatalf("statement of a month that may still be corrected: %v", s)
	}
	h.now = at("2026-12-01T23:59:59.999Z")
	h.tick()
	if s, _ := h.fold.StatementAt(event.AccountID(alice), "2026-11", h.now+1); s.Closed || h.fold.NextDueMillis() != h.now+1 {
		t.Fatalf("the fold is not so far: due %d, %v", h.fold.NextDueMillis(), s)
	}
	h.now++
	h.tick()
	if s, _ := h.fold.StatementAt(event.AccountID(alice), "2026-11", h.now); !s.Closed {
		t.Fatalf("a day after the month: %v", s)
	}
	h.command(setTier(alice, plan.Pro))
	h.now = at("2027-03-02T00:00:00Z")
	h.tick()
	if len(h.closed) != 0 {
		t.Fatal("an idle account was rolled")
	}
	for period, used := range map[string]uint64{"2026-11": 10, "2026-12": 1, "2027-01": 0, "2027-02": 0, "2027-03": 0} {
		s, held := h.fold.StatementAt(event.AccountID(alice), period, h.now)
		if !held || s == nil || s.Usage[plan.PastesDelete-1].Used != used || s.Closed != (period != "2027-03") {
			t.Fatalf("%s: %v", period, s)
		}
		if tier := plan.Tier(s.Tier); (tier == plan.Free) != (period == "2026-11") {
			t.Fatalf("%s: tier %v", period, tier)
		}
	}
	h.want(h.admission(alice, plan.PastesDelete), admitted)
	var periods []string
	for _, c := range h.closed {
		periods = append(periods, c.Statement.Period)
	}
	if len(periods) != 3 || periods[0] != "2026-11" || periods[2] != "2027-01" {
		t.Fatalf("closed %v", periods)
	}
	h.want(h.admission(alice, plan.PastesDelete), admitted)
	if len(h.closed) != 3 {
		t.Fatal("a month was closed twice")
	}
	for _, period := range []string{"2026-10", "2027-04", "rubbish", "2027-3"} {
		if s, held := h.fold.StatementAt(event.AccountID(alice), period, h.now); s != nil || !held {
			t.Fatalf("%s: %v", period, s)
		}
	}
	if _, held := h.fold.StatementAt(event.AccountID(alice), "2026-12", h.now); held {
		t.Fatal("a month that has left is still held")
	}
}

func TestAHoldOfLastMonthIsVoidedThere(t *testing.T) {
	h := historyOf(t)
	h.now = at("2026-11-30T23:59:30Z")
	h.account(alice, plan.Free)
	a := h.admission(alice, plan.PastesDelete)
	h.want(a, admitted)
	h.now = at("2026-12-01T00:00:30Z")
	h.use(alice, plan.PastesDelete, 10)
	h.voided(a)
	s, _ := h.fold.StatementAt(event.AccountID(alice), "2026-11", h.now)
	if s.Usage[plan.PastesDelete-1].Used != 0 || h.usedBy(alice, plan.PastesDelete).Used != 10 {
		t.Fatalf("november %v", s)
	}
}

func (h *history) store(sequence uint64, delta, from int64) {
	h.t.Helper()
	h.domain(sequence, &event.Settlement{Account: alice, StorageDelta: delta, StorageAtMs: from})
}

func TestStorageIsBilledByTheExactIntegral(t *testing.T) {
	h := historyOf(t)
	h.now = at("2026-11-01T00:00:00Z")
	h.account(alice, plan.Max)
	h.store(1, 30*plan.GB, 0)
	h.now = at("2026-11-16T00:00:00Z") // half of November
	h.store(2, -30*plan.GB, 0)
	h.now = at("2026-12-01T00:00:00Z")
	s, _ := h.fold.StatementAt(event.AccountID(alice), "2026-11", h.now)
	if s.StorageAverageBytes != 15*plan.GB || s.StorageBilledBytes != 5*plan.GB || s.StorageOverageCents != 15 {
		t.Fatalf("november: %v", s)
	}
	// Known only now: it was deleted on the 21st, not the 16th, and one byte less stayed in the following days.
	h.store(3, 30*plan.GB, at("2026-11-16T00:00:00Z"))
	h.store(4, -30*plan.GB, at("2026-11-21T00:00:00Z"))
	s, _ = h.fold.StatementAt(event.AccountID(alice), "2026-11", h.now)
	if s.StorageAverageBytes != 20*plan.GB || s.StorageOverageCents != 30 {
		t.Fatalf("corrected: %v", s)
	}
	if u := h.fold.UsageAt(event.AccountID(alice), h.now); u.StorageUsedBytes != 0 || u.StorageAverageBytes != 0 {
		t.Fatalf("december: %v", u)
	}
	h.store(4, 30*plan.GB, 0) // the same domain message again
	if h.fold.principals.accounts[alice].storageBytes != 0 {
		t.Fatal("a settlement that came again was counted")
	}
}

// The bill against arbitrary precision.
func TestStorageBillRoundsOnceAndDown(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := monthNumber(uint32(rapid.IntRange(2020*12, 2040*12).Draw(t, "month")))
		size := rapid.Uint64Range(0, 1<<60).Draw(t, "size")
		millis := rapid.Uint64Range(0, m.millis()).Draw(t, "millis")
		book := &plan.Plan{FreeStorageBytes: rapid.Uint64Range(0, 1<<40).Draw(t, "free"), StorageCentsPerGBMonth: rapid.Uint64Range(0, 1000).Draw(t, "cents")}
		average, billed, cents := storageBill(product(size, millis), m, book)

		n := func(v uint64) *big.Int { return new(big.Int).SetUint64(v) }
		integral := new(big.Int).Mul(n(size), n(millis))
		above := new(big.Int).Sub(integral, new(big.Int).Mul(n(book.FreeStorageBytes), n(m.millis())))
		if above.Sign() < 0 {
			above.SetInt64(0)
		}
		wantCents := new(big.Int).Mul(above, n(book.StorageCentsPerGBMonth))
		wantCents.Div(wantCents, new(big.Int).Mul(n(plan.GB), n(m.millis())))
		if n(average).Cmp(new(big.Int).Div(integral, n(m.millis()))) != 0 ||
			n(billed).Cmp(new(big.Int).Div(above, n(m.millis()))) != 0 || n(cents).Cmp(wantCents) != 0 {
			t.Fatalf("average %d billed %d cents %d, want cents %v", average, billed, cents, wantCents)
		}
	})
}

func TestPricesOfTheTimeDecide(t *testing.T) {
	h := historyOf(t)
	h.account(alice, plan.Pro)
	h.use(alice, plan.FilesUpload, 100)
	h.grant(alice, 100_000, 0)
	dear := plan.Published(2)
	dear.Plans[plan.Pro].Terms[plan.FilesUpload].Price = 70_000
	for tier := range dear.Plans {
		dear.Plans[tier].FreeStorageBytes = 1
	}
	h.wait(time.Hour).prices(dear)
	if v := h.want(h.admission(alice, plan.FilesUpload), admitted); v.CostMicros != 70_000 {
		t.Fatalf("cost %v", v)
	}
	h.want(h.anonymous(), admitted)
	h.want(h.anonymous(), admitted)
	h.want(h.anonymous(), event.Decision_ANONYMOUS_LIMIT)
	h.now = at("2026-12-05T00:00:00Z")
	h.prices(plan.Published(10))
	if s, _ := h.fold.StatementAt(event.AccountID(alice), "2026-11", h.now); s.StorageFreeBytes != 1 {
		t.Fatalf("november is billed by its own book: %v", s)
	}
}

func TestExplainShowsTheDecision(t *testing.T) {
	h := historyOf(t)
	h.account(alice, plan.Pro)
	h.use(alice, plan.FilesUpload, 99)
	h.grant(alice, 3_000, h.now+3_600_000)
	h.grant(alice, 3_000, 0)
	beside, a := h.admission(alice, plan.FilesUpload), h.admission(alice, plan.FilesUpload)
	h.want(beside, admitted)
	h.want(a, admitted)
	h.served(a)
	f := New()
	trace := f.Watch(event.RequestID(a.RequestId))
	settled := uint64(len(h.messages))
	h.served(beside) // until then the payment may be refunded
	for _, m := range h.messages {
		if trace.Done(f) {
			t.Fatal("done while the payment could come back")
		}
		if _, err := f.Apply(m); err != nil {
			t.Fatal(err)
		}
	}
	e := trace.Answer()
	if !trace.Done(f) || e.Charge != event.ChargeSource_CHARGE_CREDITS || e.CostMicros != 5_000 || e.UsedBefore != 100 || e.UsedAfter != 101 || e.PriceMicros != 5_000 || e.Settlement != SettlementServed ||
		e.Sequence != settled-1 || e.SettlementSequence != settled || e.Verdict.CostMicros != 5_000 ||
		len(e.Grants) != 2 || e.Grants[0].AmountMicros != 3_000 || e.Grants[1].AmountMicros != 2_000 || e.Grants[0].Reason == "" {
		t.Fatalf("explained as %v", e)
	}
	if stateHash(t, f) != stateHash(t, h.fold) {
		t.Fatal("watching changed the state")
	}
}

// TestGrantsAreShownInTheOrderInWhichTheyAreSpent: grants with credits left, until they expire.
func TestGrantsAreShownInTheOrderInWhichTheyAreSpent(t *testing.T) {
	h := historyOf(t)
	h.account(alice, plan.Pro)
	soon, later := h.now+dayMillis, h.now+2*dayMillis
	h.grant(alice, 1_000_000, 0)
	h.grant(alice, 7_000, later)
	h.grant(alice, 5_000, soon)
	shown := func(most uint32) (list []string, count uint32) {
		u := h.fold.UsageAt(event.AccountID(alice), h.now)
		h.fold.Describe(u, &event.UsageQuery{Grants: most}, h.now)
		for _, g := range u.Grants {
			if g.CreatedMs == 0 || g.CreatedMs > h.now {
				t.Errorf("made at %d", g.CreatedMs)
			}
			list = append(list, fmt.Sprintf("%s: %d of %d until %d", g.Reason, g.LeftMicros, g.AmountMicros, g.ExpiresMs))
		}
		return list, u.GrantCount
	}
	wants := func(most, count uint32, want ...string) {
		t.Helper()
		if got, n := shown(most); !slices.Equal(got, want) || n != count {
			t.Errorf("%d: %q, want %d: %q", n, got, count, want)
		}
	}
	first, second := fmt.Sprintf("grant of 5000: 5000 of 5000 until %d", soon), fmt.Sprintf("grant of 7000: 7000 of 7000 until %d", later)
	last := "grant of 1000000: 1000000 of 1000000 until 0"
	wants(0, 0)
	wants(2, 3, first, second)
	wants(3, 3, first, second, last)
	h.use(alice, plan.FilesUpload, 100)
	wants(3, 3, first, second, last)
	paid := h.admission(alice, plan.FilesUpload) // takes all of the first
	h.want(paid, admitted)
	h.served(paid)
	wants(3, 2, second, last)
	h.now = later - 1
	wants(3, 2, second, last)
	h.now = later // no message has come
	wants(3, 1, last)
}
