package account

import (
	"errors"
	"testing"
	"time"

	"quire.dev/pkg/event"
	"quire.dev/pkg/plan"
	"quire.dev/pkg/pricebook"
)

const (
	admitted  = event.Decision_ADMITTED
	exhausted = event.Decision_QUOTA_EXHAUSTED
	upgrade   = event.Decision_PLAN_UPGRADE_REQUIRED
	invalid   = event.Decision_INVALID_KEY
	ok        = event.CommandStatus_COMMAND_OK
)

// Both sides of every limit of the published table, with and without credits.
func TestEveryTierIsLimitedAsPublished(t *testing.T) {
	book := plan.Published(10)
	for _, tier := range plan.Tiers() {
		for _, key := range plan.QuotaKeys() {
			t.Run(tier.String()+"/"+key.String(), func(t *testing.T) {
				term := book.Plans[tier].Terms[key]
				h := historyOf(t)
				h.account(alice, tier)
				h.use(alice, key, max(term.Limit, 0))
				switch {
				case term.Limit == plan.Unlimited:
					v := h.want(h.admission(alice, key), admitted)
					if v.Charge != event.ChargeSource_CHARGE_NONE || v.Remaining != -1 || v.Limit != -1 {
						t.Fatalf("unlimited: %v", v)
					}
					return
				case term.Limit == 0 && !term.Overage:
					v := h.want(h.admission(alice, key), upgrade)
					if v.RetryAfterSeconds != 0 || !v.Final {
						t.Fatalf("not on this tier: %v", v)
					}
				default:
					if v := h.want(h.admission(alice, key), exhausted); v.RetryAfterSeconds != v.ResetSeconds || v.RetryAfterSeconds == 0 {
						t.Fatalf("exhausted: %v", v)
					}
				}
				price := int64(book.Plans[plan.Pro].Terms[key].Price) + int64(term.Price)
				h.grant(alice, price, 0)
				v := h.admit(h.admission(alice, key))
				if tier == plan.Free {
					if v.Decision == admitted || h.balance(alice) != price {
						t.Fatalf("free has no overage: %v", v)
					}
					return
				}
				if v.Decision != admitted || v.Charge != event.ChargeSource_CHARGE_CREDITS ||
					v.CostMicros != uint64(term.Price) || v.BalanceMicros != uint64(price)-v.CostMicros || v.Remaining != 0 {
					t.Fatalf("overage: %v", v)
				}
			})
		}
	}
}

// use makes and serves n requests.
func (h *history) use(id uint64, key plan.QuotaKey, n int64) {
	h.t.Helper()
	var last int64
	for n > 0 {
		part := min(n, 5000)
		var admissions []*event.Admission
		var settlements []*event.Settlement
		for range part {
			a := h.admission(id, key)
			admissions = append(admissions, a)
			settlements = append(settlements, settlementOf(a, event.Result_SERVED))
		}
		for i, v := range h.usage(admissions, nil).Verdicts {
			if v.Decision != admitted || v.Charge != event.ChargeSource_CHARGE_QUOTA || i > 0 && v.Remaining != last-1 {
				h.t.Fatalf("request %d within the limit: %v", i, v)
			}
			last = v.Remaining
		}
		h.usage(nil, settlements)
		n -= part
	}
}

func TestABalanceBelowThePriceStaysUntouched(t *testing.T) {
	h := historyOf(t)
	h.account(alice, plan.Pro)
	h.use(alice, plan.FilesUpload, 100)
	h.grant(alice, 4_999, 0)
	v := h.want(h.admission(alice, plan.FilesUpload), exhausted)
	if h.balance(alice) != 4_999 || v.RetryAfterSeconds == 0 || !v.Final {
		t.Fatalf("balance %d, %v", h.balance(alice), v)
	}
	h.grant(alice, 1, 0)
	a := h.admission(alice, plan.FilesUpload)
	h.want(a, admitted)
	if h.balance(alice) != 0 || h.ledgerSum(alice) != 5_000 {
		t.Fatalf("an open hold takes the credits (%d) and is not in the ledger (%d)", h.balance(alice), h.ledgerSum(alice))
	}
	if v := h.want(h.admission(alice, plan.FilesUpload), exhausted); v.Final {
		t.Fatal("the open hold could still give the credits back")
	}
	h.voided(a)
	if u := h.usedBy(alice, plan.FilesUpload); h.balance(alice) != 5_000 || u.Used != 100 || u.Overage != 0 || u.SpentMicros != 0 {
		t.Fatalf("after the void: balance %d, %v", h.balance(alice), u)
	}
}

func TestKeysAreCheckedAgainstTheCurrentOne(t *testing.T) {
	h := historyOf(t)
	if v := h.want(h.admission(alice, plan.LiteGet), invalid); v.CurrentKeyVersion != 0 {
		t.Fatalf("no account: %v", v)
	}
	h.account(alice, plan.Free)
	old := h.admission(alice, plan.LiteGet)
	forged := h.admission(alice, plan.LiteGet)
	forged.KeyFingerprint = 2
	h.want(forged, invalid)
	o := h.command(&event.Command{Account: alice, Action: &event.Command_RotateKey{RotateKey: &event.RotateKey{Fingerprint: 9}}})
	if o.Status != ok || o.KeyVersion != 2 {
		t.Fatalf("rotate: %v", o)
	}
	if v := h.want(old, invalid); v.CurrentKeyVersion != 2 || !v.Final {
		t.Fatalf("old key: %v", v)
	}
	fresh := h.admission(alice, plan.LiteGet)
	fresh.KeyVersion, fresh.KeyFingerprint = 2, 9
	h.want(fresh, admitted)
	if len(h.commands(create(bob, plan.Free))) != 1 || len(h.changed) != 1 || h.changed[0] != event.AccountID(bob) {
		t.Fatalf("announced %v", h.changed)
	}
}

func TestAnonymousWindowIsExact(t *testing.T) {
	h := historyOf(t)
	start := h.now
	for i := range 10 {
		h.now = start + int64(i)*1000
		a := h.anonymous()
		if v := h.want(a, admitted); v.Remaining != int64(9-i) || v.Charge != event.ChargeSource_CHARGE_QUOTA || v.Limit != 10 {
			t.Fatalf("%d: %v", i, v)
		}
		h.domain(uint64(i+1), settlementOf(a, event.Result_SERVED))
	}
	day := (24 * time.Hour).Milliseconds()
	v := h.want(h.anonymous(), event.Decision_ANONYMOUS_LIMIT)
	if v.RetryAfterSeconds != 24*3600-9 || !v.Final {
		t.Fatalf("full: %v", v)
	}
	h.now = start + day - 1
	h.want(h.anonymous(), event.Decision_ANONYMOUS_LIMIT)
	h.now = start + day
	a := h.anonymous()
	h.want(a, admitted)
	if v := h.want(h.anonymous(), event.Decision_ANONYMOUS_LIMIT); v.Final || v.RetryAfterSeconds != 1 {
		t.Fatalf("full again: %v", v)
	}
	h.voided(a)
	h.want(h.anonymous(), admitted)
	h.want(h.anonymous(), event.Decision_ANONYMOUS_LIMIT)
	h.wait(48 * time.Hour).tick()
	if len(h.fold.principals.networks) != 0 {
		t.Fatalf("%d networks are remembered after the window", len(h.fold.principals.networks))
	}
}

// TestTheAllowanceIsWhatWillBeAdmitted queries before each admission, which shows that a query uses nothing.
func TestTheAllowanceIsWhatWillBeAdmitted(t *testing.T) {
	h := historyOf(t)
	day := (24 * time.Hour).Milliseconds()
	start := h.now
	want := func(remaining, resetSeconds int) {
		t.Helper()
		for range 2 {
			a := h.fold.AllowanceAt(event.AccountID(net1), h.now)
			if a.Limit != 10 || int(a.Remaining) != remaining || int(a.ResetSeconds) != resetSeconds || a.WindowMs != day {
				t.Fatalf("%v, want %d, more in %d s", a, remaining, resetSeconds)
			}
		}
	}
	want(10, 0)
	if len(h.fold.principals.networks) != 0 {
		t.Fatal("a network that has only asked is remembered")
	}
	var last *event.Admission
	for i := range 10 {
		h.now = start + int64(i)*1000
		last = h.anonymous()
		h.want(last, admitted)
		want(9-i, 24*3600-i)
		if i < 8 {
			h.domain(uint64(i+1), settlementOf(last, event.Result_SERVED))
		}
	}
	h.want(h.anonymous(), event.Decision_ANONYMOUS_LIMIT)
	want(0, 24*3600-9)
	h.voided(last)
	want(1, 24*3600-9)
	// No event comes from here on: an unsettled write times out, and the window moves on.
	h.now = start + 8000 + HoldMillis - 1
	want(1, 24*3600-127)
	h.now++
	want(2, 24*3600-128)
	h.now = start + day - 1
	want(2, 1)
	h.now = start + day
	want(3, 1)
	for range 3 {
		h.want(h.anonymous(), admitted)
	}
	h.want(h.anonymous(), event.Decision_ANONYMOUS_LIMIT)

	h.prices(plan.Published(3))
	a, refusal := h.fold.AllowanceAt(event.AccountID(net1), h.now), h.want(h.anonymous(), event.Decision_ANONYMOUS_LIMIT)
	if a.Limit != 3 || a.Remaining != 0 || a.ResetSeconds != 24*3600 || a.ResetSeconds != refusal.RetryAfterSeconds {
		t.Fatalf("after the limit was lowered: %v, %v", a, refusal)
	}
	if a := newHistory(t, nil).fold.AllowanceAt(event.AccountID(net1), h.now); a != nil {
		t.Fatalf("without prices: %v", a)
	}
}

func TestTooManyFailuresRefuse(t *testing.T) {
	h := historyOf(t)
	h.account(alice, plan.Max)
	for i := range MaxFailures + 1 {
		a := h.admission(alice, plan.PastesGet)
		h.want(a, admitted)
		h.wait(10 * time.Millisecond).failed(a)
		_ = i
	}
	first := h.now - int64(MaxFailures)*10
	v := h.want(h.admission(alice, plan.PastesGet), event.Decision_TOO_MANY_FAILURES)
	if v.RetryAfterSeconds != 59 || v.Limit != 50_000 || v.Remaining != 50_000 || v.ResetSeconds == 0 {
		t.Fatalf("retry: %v", v)
	}
	h.now = first + FailureMillis - 1
	h.want(h.admission(alice, plan.PastesGet), event.Decision_TOO_MANY_FAILURES)
	h.now = first + FailureMillis
	h.want(h.admission(alice, plan.PastesGet), admitted)
	if u := h.usedBy(alice, plan.PastesGet); u.Used != 1 {
		t.Fatalf("failures were counted: %v", u)
	}
}

func TestIdempotencyInFlightAndServed(t *testing.T) {
	h := historyOf(t)
	h.account(alice, plan.Pro)
	next := func() *event.Admission {
		a := h.admission(alice, plan.PastesCreate)
		a.Write, a.IdempotencyId = true, []byte("0123456789abcdef")
		return a
	}
	a := next()
	h.want(a, admitted)
	h.want(next(), event.Decision_IDEMPOTENCY_IN_FLIGHT)
	h.voided(a)
	a = next()
	h.want(a, admitted)
	h.domain(1, settlementOf(a, event.Result_SERVED))
	h.want(next(), event.Decision_IDEMPOTENCY_SERVED)
	h.wait(MemoryMillis*time.Millisecond - 1)
	h.want(next(), event.Decision_IDEMPOTENCY_SERVED)
	h.wait(time.Millisecond)
	h.want(next(), admitted)
	if u := h.usedBy(alice, plan.PastesCreate); u.Used != 2 {
		t.Fatalf("used %v", u)
	}
}

// A metered read under a key is charged once, and repeated MaxRepeats times for free. The next is a new read, with new repeats.
func TestAReadUnderAKeyIsChargedOnce(t *testing.T) {
	h := historyOf(t)
	h.account(alice, plan.Pro)
	read := func(hash uint64) *event.Admission {
		a := h.admission(alice, plan.PastesGet)
		a.ReadId, a.ReadHash = []byte("0123456789abcdef"), hash<<32|1
		return a
	}
	used := func(want uint32) {
		t.Helper()
		if u := h.usedBy(alice, plan.PastesGet); uint32(u.Used) != want {
			t.Fatalf("used %d, want %d", u.Used, want)
		}
	}
	failing := read(7)
	h.want(failing, admitted)
	h.want(read(7), event.Decision_IDEMPOTENCY_IN_FLIGHT)
	h.want(read(8), event.Decision_IDEMPOTENCY_OTHER)
	h.failed(failing)
	first := read(7)
	h.want(first, admitted)
	h.served(first)
	for range 2 { // with new repeats each time
		for range MaxRepeats {
			if v := h.want(read(7), event.Decision_IDEMPOTENCY_SERVED); v.Remaining != h.usedBy(alice, plan.PastesGet).Remaining || v.Charge != event.ChargeSource_CHARGE_NONE {
				t.Fatalf("repeated with %v", v)
			}
			h.want(read(8), event.Decision_IDEMPOTENCY_OTHER)
			h.fold = restored(t, h.fold)
		}
		next := read(7)
		h.want(next, admitted)
		h.served(next)
		h.fold = restored(t, h.fold)
	}
	used(3)
	h.wait(RepeatMillis*time.Millisecond - 1)
	h.want(read(7), event.Decision_IDEMPOTENCY_SERVED)
	h.wait(time.Millisecond)
	h.want(read(8), event.Decision_IDEMPOTENCY_OTHER)
	late := read(7)
	h.want(late, admitted)
	h.served(late)
	used(4)
	h.wait(MemoryMillis*time.Millisecond - 1)
	h.want(read(8), event.Decision_IDEMPOTENCY_OTHER)
	h.wait(time.Millisecond)
	h.want(read(8), admitted)
	used(5)
}

// What is read again under a key is not charged as long as it is the same version.
func TestAReadOfAnotherVersionIsANewRead(t *testing.T) {
	h := historyOf(t)
	h.account(alice, plan.Pro)
	read := func(path string, version uint64) *event.Admission {
		a := h.admission(alice, plan.PastesGet)
		a.ReadId, a.ReadHash = []byte("0123456789abcdef"), event.ReadHash([]byte(path), nil, version)
		return a
	}
	for version := range uint64(3) {
		first := read("/a", version)
		h.want(first, admitted)
		h.want(read("/a", version+1), event.Decision_IDEMPOTENCY_IN_FLIGHT)
		h.served(first)
		h.want(read("/a", version), event.Decision_IDEMPOTENCY_SERVED)
		h.want(read("/b", version), event.Decision_IDEMPOTENCY_OTHER)
	}
	if u := h.usedBy(alice, plan.PastesGet); u.Used != 3 {
		t.Errorf("three versions are charged %d times", u.Used)
	}
}

// A read that takes over the key of one that was repeated too often, and fails, leaves nothing under it.
func TestAReadThatTookOverAKeyMayFail(t *testing.T) {
	h := historyOf(t)
	h.account(alice, plan.Pro)
	read := func() *event.Admission {
		a := h.admission(alice, plan.PastesGet)
		a.ReadId, a.ReadHash = []byte("0123456789abcdef"), 7
		return a
	}
	first := read()
	h.want(first, admitted)
	h.served(first)
	for range MaxRepeats {
		h.want(read(), event.Decision_IDEMPOTENCY_SERVED)
	}
	over := read()
	h.want(over, admitted)
	h.failed(over)
	h.fold = restored(t, h.fold)
	h.want(read(), admitted)
}

// Repeating a served read does not depend on the remaining quota.
func TestAServedReadIsRepeatedWithNothingLeft(t *testing.T) {
	h := historyOf(t)
	h.account(alice, plan.Free)
	read := func() *event.Admission {
		a := h.admission(alice, plan.LiteGet)
		a.ReadId, a.ReadHash = []byte("0123456789abcdef"), 7
		return a
	}
	first := read()
	h.want(first, admitted)
	h.served(first)
	for range 499 {
		a := h.admission(alice, plan.LiteGet)
		h.want(a, admitted)
		h.served(a)
	}
	h.want(h.admission(alice, plan.LiteGet), exhausted)
	for range MaxRepeats {
		h.want(read(), event.Decision_IDEMPOTENCY_SERVED)
	}
	h.want(read(), exhausted)
	if u := h.usedBy(alice, plan.LiteGet); u.Used != 500 {
		t.Fatalf("used %v", u)
	}
}

func TestUnsettledWritesAreVoidedAndReadsServed(t *testing.T) {
	h := historyOf(t)
	h.account(alice, plan.Pro)
	write, read := h.admission(alice, plan.PastesCreate), h.admission(alice, plan.PastesGet)
	write.Write = true
	h.want(write, admitted)
	h.want(read, admitted)
	h.wait(HoldMillis*time.Millisecond - 1).tick()
	if h.fold.OpenHolds() != 2 || h.fold.NextDueMillis() != h.now+1 {
		t.Fatal("closed too early")
	}
	h.wait(time.Millisecond).tick()
	if h.fold.OpenHolds() != 0 || h.usedBy(alice, plan.PastesCreate).Used != 0 || h.usedBy(alice, plan.PastesGet).Used != 1 {
		t.Fatal("a write is voided, a read served")
	}
	// A later settlement still wins, once.
	h.domain(1, settlementOf(write, event.Result_SERVED))
	h.voided(read)
	h.voided(read)
	if h.usedBy(alice, plan.PastesCreate).Used != 1 || h.usedBy(alice, plan.PastesGet).Used != 0 {
		t.Fatal("late settlements did not win")
	}
}

func TestALateReadIsNotCountedTwice(t *testing.T) {
	h := historyOf(t)
	h.account(alice, plan.Pro)
	read := h.admission(alice, plan.PastesGet)
	h.want(read, admitted)
	h.wait(HoldMillis * time.Millisecond).served(read)
	h.wait(time.Hour).served(read)
	if u := h.usedBy(alice, plan.PastesGet); u.Used != 1 {
		t.Fatalf("used %v", u)
	}
}

func TestALateWriteIsChargedByTheRulesOfThatMoment(t *testing.T) {
	for _, forgotten := range []bool{false, true} {
		h := historyOf(t)
		h.account(alice, plan.Pro)
		h.use(alice, plan.FilesUpload, 97)
		h.grant(alice, 5_000, 0)
		var late []*event.Admission
		for range 3 {
			a := h.admission(alice, plan.FilesUpload)
			a.Write = true
			h.want(a, admitted)
			late = append(late, a)
		}
		h.wait(HoldMillis * time.Millisecond).tick()
		for range 2 {
			a := h.admission(alice, plan.FilesUpload)
			h.want(a, admitted)
			h.served(a)
		}
		if forgotten {
			h.wait(MemoryMillis * time.Millisecond).tick()
		}
		for i, a := range late {
			h.domain(uint64(i+1), settlementOf(a, event.Result_SERVED))
			h.domain(uint64(i+1), settlementOf(a, event.Result_SERVED))
		}
		u := h.usedBy(alice, plan.FilesUpload)
		if u.Used != 101 || u.Overage != 1 || u.Waived != 1 || h.balance(alice) != 0 || h.ledgerSum(alice) != 0 {
			t.Fatalf("forgotten %v: one by quota, one by credits, one waived: %v", forgotten, u)
		}
	}
}

func TestALateVoidOfAPaidReadComesBack(t *testing.T) {
	h := historyOf(t)
	h.account(alice, plan.Pro)
	h.use(alice, plan.FilesUpload, 100)
	h.grant(alice, 5_000, h.now+HoldMillis+1000)
	read := h.admission(alice, plan.FilesUpload)
	h.want(read, admitted)
	h.wait(HoldMillis * time.Millisecond).tick()
	if h.ledgerSum(alice) != 0 {
		t.Fatal("the time-out serves a read")
	}
	h.wait(2 * time.Second).voided(read) // the grant has expired meanwhile
	if h.balance(alice) != 0 || h.ledgerSum(alice) != 0 || h.usedBy(alice, plan.FilesUpload).Used != 100 {
		t.Fatalf("balance %d, ledger %d", h.balance(alice), h.ledgerSum(alice))
	}
	if last := h.ledger[len(h.ledger)-1]; last.Type != event.LedgerType_LEDGER_EXPIRY || last.AmountMicros != -5_000 {
		t.Fatalf("last entry %v", last)
	}
}

func TestABatchThatComesAgainIsAnsweredAgainAndChangesNothing(t *testing.T) {
	h := historyOf(t)
	h.account(alice, plan.Free)
	data, err := event.Encode(&event.UsageBatch{Source: "edge", Number: 7, StampMs: h.now, Admissions: []*event.Admission{h.admission(alice, plan.LiteGet)}})
	if err != nil {
		t.Fatal(err)
	}
	first := h.appendData(Usage, data)
	entries := h.fold.Entries()
	again := h.appendData(Usage, data)
	if string(first[0].Data) != string(again[0].Data) || h.fold.Entries() != entries || h.usedBy(alice, plan.LiteGet).Used != 1 {
		t.Fatal("the second copy counted or was answered otherwise")
	}
	old, err := event.Encode(&event.UsageBatch{Source: "edge", Number: 6, StampMs: h.now, Admissions: []*event.Admission{h.admission(alice, plan.LiteGet)}})
	if err != nil {
		t.Fatal(err)
	}
	if answers := h.appendData(Usage, old); len(answers) != 0 || h.usedBy(alice, plan.LiteGet).Used != 1 {
		t.Fatal("an older number counted")
	}
	h.wait(2 * time.Hour).tick()
	if len(h.fold.sources) != 0 {
		t.Fatalf("idle sources are remembered: %d", len(h.fold.sources))
	}
}

func TestAnAdmissionGivenUpBesideItsVoidDoesNotCount(t *testing.T) {
	h := historyOf(t)
	h.account(alice, plan.Free)
	a := h.admission(alice, plan.LiteGet)
	v := h.usage([]*event.Admission{a}, []*event.Settlement{settlementOf(a, event.Result_VOID)}).Verdicts[0]
	if v.Decision != admitted || h.fold.OpenHolds() != 0 || h.usedBy(alice, plan.LiteGet).Used != 0 {
		t.Fatalf("verdict %v, %d open", v, h.fold.OpenHolds())
	}
}

func TestTimeNeverGoesBackAndNeverFarAhead(t *testing.T) {
	h := historyOf(t)
	h.tick()
	before := h.fold.time
	h.append(Usage, &event.UsageBatch{Source: "x", StampMs: before - 10_000})
	if h.fold.time != before {
		t.Fatal("went back")
	}
	h.append(Usage, &event.UsageBatch{Source: "x", StampMs: before + (90 * 24 * time.Hour).Milliseconds()})
	if h.fold.time != before+5000 {
		t.Fatalf("a stamp far ahead moved time by %d", h.fold.time-before)
	}
	offset := (30 * 24 * time.Hour).Milliseconds()
	h.append(Usage, &event.UsageBatch{Source: "x", StampMs: before + offset, OffsetMs: offset})
	if h.fold.time != before+stampMillis {
		t.Fatal("the offset of a source that is not billing was taken")
	}
	book := pricebook.Configured(plan.Published(10))
	book.StampMs, book.OffsetMs, book.Agreed = before+offset, offset, true
	h.append(Prices, book)
	if h.fold.time != before+offset || h.fold.Offset() != offset {
		t.Fatal("the development offset was not taken")
	}
	h.append(Usage, &event.UsageBatch{Source: "x", StampMs: before + offset + 1, OffsetMs: -offset})
	if h.fold.time != before+offset+1 {
		t.Fatal("the sources do not share billing's offset")
	}
}

// An edge whose clock is slow does not leave calls in the month that is over.
func TestAStampFarBehindIsCut(t *testing.T) {
	h := historyOf(t)
	h.account(alice, plan.Free)
	slow := h.now
	h.now = h.fold.month.end + (20 * time.Minute).Milliseconds()
	for stamp, behind := range map[int64]int64{slow: 5000, h.now - 5001: 5000} {
		h.append(Usage, &event.UsageBatch{Source: "x", Number: h.fold.Sequence(), StampMs: stamp, Admissions: []*event.Admission{h.admission(alice, plan.LiteGet)}})
		if h.fold.time != h.now-behind {
			t.Errorf("a stamp %d ms behind gave a time %d ms behind", h.now-stamp, h.now-h.fold.time)
		}
	}
	h.append(Usage, &event.UsageBatch{Source: "x", StampMs: h.now - 4999})
	if h.fold.time != h.now-4999 {
		t.Errorf("a stamp 4999 ms behind gave a time %d ms behind", h.now-h.fold.time)
	}
	if used := h.usedBy(alice, plan.LiteGet).Used; used != 2 {
		t.Errorf("%d calls count in the new month, want 2", used)
	}
}

func TestGapsAndRubbishAreReported(t *testing.T) {
	h := historyOf(t)
	if _, err := h.fold.Apply(Message{Sequence: h.fold.Sequence() + 2, Kind: Usage}); !errors.Is(err, ErrGap) {
		t.Fatalf("gap: %v", err)
	}
	f := New()
	if _, err := f.Apply(Message{Sequence: 1, Kind: Usage, Data: []byte{0xff, 0xff}}); err == nil || errors.Is(err, ErrGap) {
		t.Fatalf("rubbish: %v", err)
	}
	if f.Sequence() != 1 || f.chain == New().chain {
		t.Fatal("rubbish must be in the chain")
	}
	chain := f.chain
	if _, err := f.Apply(Message{Sequence: 1, Kind: Usage}); err != nil || f.chain != chain {
		t.Fatal("an old message changed something")
	}
}

func TestNothingIsDecidedWithoutPrices(t *testing.T) {
	h := newHistory(t, nil)
	h.account(alice, plan.Pro)
	if v := h.admit(h.admission(alice, plan.PastesGet)); v.Decision != event.Decision_DECISION_UNSPECIFIED {
		t.Fatalf("decided %v", v)
	}
	h.prices(plan.Published(10))
	h.want(h.admission(alice, plan.PastesGet), admitted)
	strange := h.admission(alice, plan.PastesGet)
	strange.RequestId = strange.RequestId[:8]
	if v := h.admit(strange); v.Decision != event.Decision_DECISION_UNSPECIFIED {
		t.Fatalf("decided %v", v)
	}
}
