package account

import (
	"math/big"
	"testing"
	"time"

	"pgregory.net/rapid"

	"quire.dev/pkg/event"
	"quire.dev/pkg/plan"
)

// dayKey is a day of an account under a quota key and an API key.
type dayKey struct {
	account  uint64
	day      uint32
	quotaKey plan.QuotaKey
	key      uint32
}

type dayCount struct {
	used, overage int
	spent         int64
}

// countDays sums the fold's changes of days.
func (h *history) countDays(deltas []UsageDelta) {
	if h.days == nil {
		h.days = map[dayKey]dayCount{}
	}
	for _, d := range deltas {
		at := dayKey{uint64(d.Account), d.Day, d.QuotaKey, d.Key}
		c := h.days[at]
		c.used, c.overage, c.spent = c.used+int(d.Used), c.overage+int(d.Overage), c.spent+d.SpentMicros
		if h.days[at] = c; c == (dayCount{}) {
			delete(h.days, at)
		}
	}
}

// compareDays compares the days with the model, and with the month if all of it is counted by day.
func (m *machine) compareDays(t *rapid.T, id uint64) {
	want, months := map[dayKey]dayCount{}, map[dayKey]dayCount{}
	for _, r := range m.model.requests {
		if r.account == id && !r.anonymous && r.state != "void" && r.day != 0 {
			at := dayKey{account: id, day: uint32(r.day), quotaKey: r.key, key: r.counts}
			c := want[at]
			c.used++
			if r.uses != nil {
				c.overage, c.spent = c.overage+1, c.spent+r.paid
			}
			want[at] = c
		}
	}
	got := 0
	for at, c := range m.days {
		if at.account != id {
			continue
		}
		if got++; want[at] != c {
			t.Fatalf("%+v: %+v, model %+v", at, c, want[at])
		}
		in := dayKey{day: monthOf(int64(at.day) * dayMillis).number, quotaKey: at.quotaKey}
		sum := months[in]
		months[in] = dayCount{sum.used + c.used, sum.overage + c.overage, sum.spent + c.spent}
	}
	if got != len(want) {
		t.Fatalf("%d days of %x, model %d: %v", got, id, len(want), want)
	}
	a, _ := m.fold.forward(event.AccountID(id), m.model.now)
	for _, of := range []uint32{a.month, a.month - 1} {
		c := &a.current
		if of != a.month {
			c = a.before()
		}
		for _, key := range machineKeys {
			sum := months[dayKey{day: of, quotaKey: key}]
			overage, _, spent, _ := c.charged(key)
			if uint64(sum.used) != c.used[key] || uint64(sum.overage) != overage || uint64(sum.spent) != spent {
				t.Fatalf("%v of %x: the days sum to %+v, the month has %d, %d and %d", key, id, sum, c.used[key], overage, spent)
			}
		}
	}
}

// compareStorageDays compares the days of a month with the model, and their sum with the month.
func (m *machine) compareStorageDays(t *rapid.T, id uint64, a *modelAccount, now *account, of month) {
	s := m.fold.prices.statement(now, of)
	checkStatement(t, s)
	byDay, sum := map[int64]*big.Int{}, new(big.Int)
	for _, d := range s.StorageDays {
		byDay[int64(d.Day)*dayMillis] = signed(uint128{d.ByteMsHigh, d.ByteMsLow})
		sum.Add(sum, byDay[int64(d.Day)*dayMillis])
	}
	for start := of.start; start < of.end; start += dayMillis {
		got := byDay[start]
		if got == nil {
			got = new(big.Int)
		}
		if want := m.model.integralBetween(a, of, start, start+dayMillis); got.Cmp(want) != 0 {
			t.Fatalf("%x on %s: %v byte-milliseconds, model %v of %v", id, time.UnixMilli(start).UTC(), got, want, a.stored)
		}
	}
	if want := m.model.integral(a, of); sum.Cmp(want) != 0 || signed(uint128{s.StorageByteMsHigh, s.StorageByteMsLow}).Cmp(want) != 0 {
		t.Fatalf("%x in %s: the days sum to %v, the month has %v", id, of.period(), sum, want)
	}
}

// signed reads two's complement.
func signed(n uint128) *big.Int {
	b := new(big.Int).SetUint64(n.high)
	b.Lsh(b, 64).Add(b, new(big.Int).SetUint64(n.low))
	if n.negative() {
		b.Sub(b, new(big.Int).Lsh(big.NewInt(1), 128))
	}
	return b
}

func (h *history) onDay(id uint64, when string, key plan.QuotaKey) dayCount {
	return h.days[dayKey{account: id, day: uint32(at(when) / dayMillis), quotaKey: key}]
}

// TestACorrectionCountsOnTheDayOfItsRequest, also after midnight and after the month's end.
func TestACorrectionCountsOnTheDayOfItsRequest(t *testing.T) {
	h := historyOf(t)
	h.account(alice, plan.Pro)
	h.grant(alice, 20_000, 0)
	h.now = at("2026-10-31T23:59:30Z")
	h.use(alice, plan.FilesUpload, 99)
	failing, paid := h.admission(alice, plan.FilesUpload), h.admission(alice, plan.FilesUpload)
	h.want(failing, admitted)
	h.want(paid, admitted)
	h.served(paid)
	const last, first = "2026-10-31T00:00:00Z", "2026-11-01T00:00:00Z"
	if c := h.onDay(alice, last, plan.FilesUpload); c != (dayCount{101, 1, 5_000}) {
		t.Fatalf("in flight: %+v", c)
	}
	h.now = at("2026-11-01T00:00:30Z")
	h.use(alice, plan.FilesUpload, 1)
	h.voided(failing) // the paid one is free now
	if c := h.onDay(alice, last, plan.FilesUpload); c != (dayCount{used: 100}) {
		t.Fatalf("the day of the failed request: %+v", c)
	}
	if c := h.onDay(alice, first, plan.FilesUpload); c != (dayCount{used: 1}) {
		t.Fatalf("the day after it: %+v", c)
	}
	if s, held := h.fold.StatementAt(event.AccountID(alice), "2026-10", h.now); !held || s.Usage[plan.FilesUpload-1].Used != 100 || s.SpentMicros != 0 {
		t.Fatalf("the month: %v", s)
	}
}

// TestAClockThatWasAheadLeavesDaysInTheirMonth: requests still count in a month that had begun, on its first day.
func TestAClockThatWasAheadLeavesDaysInTheirMonth(t *testing.T) {
	h := historyOf(t)
	h.account(alice, plan.Pro)
	right := at("2026-10-31T12:00:00Z")
	h.now = at("2026-11-03T12:00:00Z")
	h.use(alice, plan.FilesUpload, 2)
	ahead := h.admission(alice, plan.FilesUpload)
	h.want(ahead, admitted)
	h.now = right
	h.tick()
	h.use(alice, plan.FilesUpload, 3)
	if c := h.onDay(alice, "2026-11-01T00:00:00Z", plan.FilesUpload); c.used != 3 {
		t.Fatalf("the first day of the month that counts them: %+v", c)
	}
	h.voided(ahead) // whose hold has a different time now
	if c := h.onDay(alice, "2026-11-03T00:00:00Z", plan.FilesUpload); c.used != 2 {
		t.Fatalf("the day of the clock that was ahead: %+v", c)
	}
}

// TestClosedMonthsKeepTheirDays: storage by day is part of the record, and later corrections go into the current month.
func TestClosedMonthsKeepTheirDays(t *testing.T) {
	h := historyOf(t)
	h.wait(time.Millisecond)
	h.account(alice, plan.Pro)
	h.now = at("2026-10-30T12:00:00Z")
	h.domain(1, &event.Settlement{Account: alice, StorageDelta: 1_000, StorageAtMs: h.now})
	h.now = at("2026-11-02T00:00:01Z") // October is closed
	h.tick()
	before, _ := h.fold.StatementAt(event.AccountID(alice), "2026-10", h.now)
	if len(before.StorageDays) != 2 || !before.StorageByDay || before.StorageDays[0].ByteMsLow != 1_000*dayMillis/2 || before.StorageDays[1].ByteMsLow != 1_000*dayMillis {
		t.Fatalf("October: %v", before)
	}
	h.domain(2, &event.Settlement{Account: alice, StorageDelta: 500, StorageAtMs: at("2026-10-31T00:00:00Z")})
	after, _ := h.fold.StatementAt(event.AccountID(alice), "2026-10", h.now)
	if len(after.StorageDays) != 2 || after.StorageDays[1].ByteMsLow != before.StorageDays[1].ByteMsLow {
		t.Fatalf("October has changed: %v", after)
	}
	november, _ := h.fold.StatementAt(event.AccountID(alice), "2026-11", h.now)
	if len(november.StorageDays) != 2 || november.StorageDays[0].ByteMsLow != 1_500*dayMillis || november.StorageDays[1].ByteMsLow != 500*dayMillis+1_500*1_000 {
		t.Fatalf("November: %v", november.StorageDays)
	}
	h.now = at("2026-12-05T00:00:00Z")
	h.domain(3, &event.Settlement{Account: alice, StorageDelta: 1, StorageAtMs: h.now}) // October leaves the state
	record := h.closed[len(h.closed)-1].Statement
	if record.Period != "2026-10" || len(record.StorageDays) != 2 || record.StorageDays[1].ByteMsLow != before.StorageDays[1].ByteMsLow || !record.StorageByDay {
		t.Fatalf("the record: %v", record)
	}
}

// TestStorageByDaySumsToTheMonth: files come and go around the ends of months, and billing learns of some late.
func TestStorageByDaySumsToTheMonth(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newMachine(t)
		m.commandOf(t, create(alice, plan.Pro))
		m.commandOf(t, create(bob, plan.Max))
		m.wait(15 * 24 * time.Hour)
		for range rapid.IntRange(5, 40).Draw(t, "steps") {
			switch rapid.IntRange(0, 4).Draw(t, "step") {
			case 0, 1, 2:
				m.storage(t)
			case 3:
				m.wait(rapid.SampledFrom([]time.Duration{time.Second, 7 * time.Hour, 24 * time.Hour, 29 * 24 * time.Hour}).Draw(t, "wait"))
			case 4:
				m.restored, m.since = restored(t, m.fold), len(m.messages)
			}
			m.compare(t)
		}
		m.finish(t)
	})
}

// TestAChargeIsOfTheMonthOfItsAdmission: in the ledger as in statement and days, and so is its refund.
func TestAChargeIsOfTheMonthOfItsAdmission(t *testing.T) {
	h := historyOf(t)
	h.account(alice, plan.Pro)
	h.grant(alice, 20_000, 0)
	h.now = at("2026-11-30T12:00:00Z")
	h.use(alice, plan.FilesUpload, 99)
	const began, ended = "2026-11-30T23:59:49Z", "2026-12-01T00:00:07Z"
	h.now = at(began)
	failing, refunded, paid := h.admission(alice, plan.FilesUpload), h.admission(alice, plan.FilesUpload), h.admission(alice, plan.FilesUpload)
	for _, a := range []*event.Admission{failing, paid, refunded} {
		a.Write = true
		h.want(a, admitted)
	}
	before := len(h.ledger)
	h.now = at(ended)
	h.domain(1, settlementOf(paid, event.Result_SERVED))
	h.domain(2, settlementOf(refunded, event.Result_SERVED))
	h.domain(3, settlementOf(failing, event.Result_VOID)) // the newest paid one becomes free
	want := []struct {
		of     *event.Admission
		amount int64
	}{{paid, -5_000}, {refunded, -5_000}, {refunded, 5_000}}
	if len(h.ledger) != before+len(want) {
		t.Fatalf("entries %v", h.ledger[before:])
	}
	for i, w := range want {
		e := h.ledger[before+i]
		if e.AmountMicros != w.amount || string(e.RequestId) != string(w.of.RequestId) || e.TimeMs != at(began) || e.SettledMs != at(ended) {
			t.Errorf("entry %d is %v", i, e)
		}
	}
	if order := LedgerOrder(h.ledger[before+1]); order <= LedgerOrder(h.ledger[before]) || order >= LedgerOrder(h.ledger[before+2]) {
		t.Errorf("a charge is not after the call before it and before its refund: %s", order)
	}
	for _, month := range []struct {
		period, day string
		used        uint64
		spent       uint64
	}{{"2026-11", "2026-11-30T00:00:00Z", 101, 5_000}, {"2026-12", "2026-12-01T00:00:00Z", 0, 0}} {
		s, _ := h.fold.StatementAt(event.AccountID(alice), month.period, h.now)
		if s.Usage[plan.FilesUpload-1].Used != month.used || s.SpentMicros != month.spent {
			t.Errorf("%s: %v", month.period, s)
		}
		if c := h.onDay(alice, month.day, plan.FilesUpload); c.used != int(month.used) || c.spent != int64(month.spent) {
			t.Errorf("%s: %+v", month.day, c)
		}
	}
	h.sound()
}

// TestCallsAreUnsettledUntilTheyEnd, if they were admitted up to a message and after a time.
func TestCallsAreUnsettledUntilTheyEnd(t *testing.T) {
	h := historyOf(t)
	h.account(alice, plan.Pro)
	h.account(bob, plan.Pro)
	first, second := h.admission(alice, plan.LiteGet), h.admission(alice, plan.LiteGet)
	h.want(first, admitted)
	then, sequence := h.now, h.fold.Sequence()
	h.wait(time.Second)
	h.want(second, admitted)
	unsettled := func(id uint64, upTo uint64, after int64, want bool) {
		t.Helper()
		if got := h.fold.Unsettled(event.AccountID(id), upTo, after); got != want {
			t.Errorf("up to %d after %d: %v", upTo, after, got)
		}
	}
	unsettled(alice, sequence, then-1, true)
	unsettled(alice, sequence, then, false)
	unsettled(alice, sequence-1, then-1, false)
	unsettled(alice, sequence+1, h.now-1, true)
	unsettled(alice, sequence+1, h.now, false)
	unsettled(bob, sequence+1, 0, false)
	unsettled(net1, sequence+1, 0, false)
	h.served(second)
	unsettled(alice, sequence+1, then, false)
	unsettled(alice, sequence+1, then-1, true)
	h.voided(first)
	unsettled(alice, sequence+1, 0, false)
}
