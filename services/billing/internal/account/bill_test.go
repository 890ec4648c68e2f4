package account

import (
	"math/big"
	"math/rand/v2"
	"testing"
	"time"

	"quire.dev/pkg/event"
	"quire.dev/pkg/plan"
)

// checkStatement computes every total of a statement from its other fields.
func checkStatement(t tester, s *event.StatementAnswer) {
	t.Helper()
	of, ok := parsePeriod(s.Period)
	if !ok || len(s.Periods) == 0 {
		t.Fatalf("statement of %q with %d periods", s.Period, len(s.Periods))
	}
	var used, paid, amount [plan.KeyCount]uint64
	var spent uint64
	for i, p := range s.Periods {
		if p.EndMs < p.StartMs || i > 0 && p.StartMs != s.Periods[i-1].EndMs || len(p.Lines) < int(plan.FilesList) || len(p.Lines) > plan.KeyCount-1 {
			t.Fatalf("period %d: %v after %v", i, p, s.Periods[:i])
		}
		for _, l := range p.Lines {
			if l.Paid > l.Used || l.AmountMicros != l.Paid*l.PriceMicros || l.Paid > 0 && !l.Overage {
				t.Fatalf("line %v", l)
			}
			used[l.QuotaKey] += l.Used
			paid[l.QuotaKey] += l.Paid
			amount[l.QuotaKey] += l.AmountMicros
			spent += l.AmountMicros
		}
	}
	last := s.Periods[len(s.Periods)-1]
	if last.EndMs != of.end || s.Periods[0].StartMs < of.start || last.Tier != s.Tier {
		t.Fatalf("%s has the periods %v", s.Period, s.Periods)
	}
	for _, u := range s.Usage {
		if u.Used != used[u.QuotaKey] || u.Overage != paid[u.QuotaKey] || u.SpentMicros != amount[u.QuotaKey] || u.Limit != last.Lines[u.QuotaKey-1].Limit {
			t.Fatalf("%v, its lines sum to %d, %d paid, %d", u, used[u.QuotaKey], paid[u.QuotaKey], amount[u.QuotaKey])
		}
	}
	c := s.Credits
	closing := c.OpeningMicros + int64(c.GrantedMicros) + int64(c.RefundedMicros) + c.AdjustedMicros - int64(c.ExpiredMicros) - int64(c.ChargedMicros)
	if spent != s.SpentMicros || closing != c.ClosingMicros || int64(spent) != int64(c.ChargedMicros)-int64(c.RefundedMicros)+c.PendingMicros {
		t.Fatalf("spent %d, the lines sum to %d: %v", s.SpentMicros, spent, c)
	}
	checkStorage(t, s, of)
}

func checkStorage(t tester, s *event.StatementAnswer, of month) {
	t.Helper()
	sum := new(big.Int)
	for _, d := range s.StorageDays {
		sum.Add(sum, signed(uint128{d.ByteMsHigh, d.ByteMsLow}))
	}
	if sum.Cmp(signed(uint128{s.StorageByteMsHigh, s.StorageByteMsLow})) != 0 {
		t.Fatalf("the days sum to %v byte-milliseconds: %v", sum, s)
	}
	if sum.Sign() < 0 {
		sum.SetInt64(0)
	}
	millis := big.NewInt(of.end - of.start)
	number := func(n uint64) *big.Int { return new(big.Int).SetUint64(n) }
	above := new(big.Int).Sub(sum, new(big.Int).Mul(number(s.StorageFreeBytes), millis))
	if above.Sign() < 0 {
		above.SetInt64(0)
	}
	cents := new(big.Int).Mul(above, number(s.StorageCentsPerGbMonth))
	cents.Div(cents, new(big.Int).Mul(number(plan.GB), millis))
	if sum.Div(sum, millis).Cmp(number(s.StorageAverageBytes)) != 0 || above.Div(above, millis).Cmp(number(s.StorageBilledBytes)) != 0 ||
		cents.Cmp(number(s.StorageOverageCents)) != 0 {
		t.Fatalf("average %v, billed %v, %v cents: %v", sum, above, cents, s)
	}
}

// drawn drives many accounts through months of random events.
type drawn struct {
	*history
	draw     *rand.Rand
	accounts []uint64
	grants   map[uint64]map[string]*event.StatementCredits // entries without a request, by account and month
	open     []*event.Admission
	sequence uint64
	book     *plan.Book
	entered  int  // ledger entries in grants
	closed   int  // statements checked
	pending  bool // seen in one of them
}

func newDrawn(t *testing.T, seed uint64, accounts int) *drawn {
	d := &drawn{draw: rand.New(rand.NewPCG(seed, 24)), book: smallBook(), grants: map[uint64]map[string]*event.StatementCredits{}}
	d.history = newHistory(t, d.book)
	for i := range accounts {
		id := uint64(0xD0000 + i)
		d.account(id, plan.Tiers()[d.draw.IntN(3)])
		d.accounts = append(d.accounts, id)
	}
	return d
}

func (d *drawn) someone() uint64 { return d.accounts[d.draw.IntN(len(d.accounts))] }

func (d *drawn) step() {
	d.wait(time.Duration(d.draw.Int64N(int64(time.Hour))))
	id := d.someone()
	switch d.draw.IntN(24) {
	case 0, 1:
		expires := int64(0)
		if d.draw.IntN(3) > 0 {
			expires = d.now + 1 + d.draw.Int64N((40 * 24 * time.Hour).Milliseconds())
		}
		d.command(grantOf(id, 1+d.draw.Int64N(60_000), expires))
	case 2:
		d.command(grantOf(id, -1-d.draw.Int64N(20_000), 0)) // refused if the account hasn't as much
	case 3:
		d.command(setTier(id, plan.Tiers()[d.draw.IntN(3)]))
	case 4:
		d.command(setCap(id, event.CapPeriod_CAP_MONTH, 5_000*d.draw.Uint64N(20)))
	case 5, 6:
		d.sequence++
		at := max(0, d.now-d.draw.Int64N((50*time.Hour).Milliseconds()))
		d.domain(d.sequence, &event.Settlement{Account: id, StorageDelta: (d.draw.Int64N(60) - 20) * plan.GB, StorageAtMs: at})
	case 7:
		if d.draw.IntN(20) == 0 {
			changed := *d.book
			d.book = &changed
			key, tier := plan.QuotaKeys()[d.draw.IntN(plan.KeyCount-1)], plan.Tiers()[d.draw.IntN(3)]
			if term := &d.book.Plans[tier].Terms[key]; term.Overage {
				term.Limit, term.Price = d.draw.Int64N(6), plan.Micros(d.draw.Int64N(9_000))
			}
			d.prices(d.book)
		}
	default:
		d.requests(id)
	}
}

// requests makes some requests at once, and settles some that are open.
func (d *drawn) requests(id uint64) {
	var batch []*event.Admission
	key := plan.QuotaKeys()[d.draw.IntN(plan.KeyCount-1)]
	for range 1 + d.draw.IntN(8) {
		a := d.admission(id, key)
		a.Write = d.draw.IntN(2) == 0
		batch = append(batch, a)
	}
	for i, v := range d.usage(batch, nil).Verdicts {
		if v.Decision == event.Decision_ADMITTED {
			d.open = append(d.open, batch[i])
		}
	}
	d.now += d.draw.Int64N(HoldMillis * 5 / 4)
	if d.draw.IntN(6) == 0 {
		d.command(setTier(id, plan.Tiers()[d.draw.IntN(3)])) // while requests are in flight
	}
	d.draw.Shuffle(len(d.open), func(i, j int) { d.open[i], d.open[j] = d.open[j], d.open[i] })
	kept := min(len(d.open), d.draw.IntN(3))
	for _, a := range d.open[kept:] {
		switch d.draw.IntN(3) {
		case 0:
			d.voided(a)
		case 1:
			d.failed(a)
		default:
			d.served(a)
		}
	}
	d.open = d.open[:kept]
}

// check compares all statements that the state holds with the arithmetic and with the ledger.
func (d *drawn) check(t *testing.T) {
	t.Helper()
	for ; d.entered < len(d.ledger); d.entered++ {
		e := d.ledger[d.entered]
		if len(e.RequestId) > 0 {
			continue
		}
		months := d.grants[e.Account]
		if months == nil {
			months = map[string]*event.StatementCredits{}
			d.grants[e.Account] = months
		}
		period := monthOf(e.TimeMs).period()
		if months[period] == nil {
			months[period] = &event.StatementCredits{}
		}
		switch e.Type {
		case event.LedgerType_LEDGER_GRANT:
			months[period].GrantedMicros += uint64(e.AmountMicros)
		case event.LedgerType_LEDGER_EXPIRY:
			months[period].ExpiredMicros += uint64(-e.AmountMicros)
		default:
			months[period].AdjustedMicros += e.AmountMicros
		}
	}
	sums := map[uint64]int64{}
	for _, e := range d.ledger {
		sums[e.Account] += e.AmountMicros
	}
	for _, id := range d.accounts {
		this := monthOf(d.fold.time)
		s, _ := d.fold.StatementAt(event.AccountID(id), this.period(), d.fold.time)
		checkStatement(t, s)
		d.checkGranted(t, id, s)
		d.pending = d.pending || s.Credits.PendingMicros > 0
		if s.Credits.ClosingMicros != sums[id] {
			t.Fatalf("%x closes with %d, its ledger sums to %d", id, s.Credits.ClosingMicros, sums[id])
		}
		before, held := d.fold.StatementAt(event.AccountID(id), monthNumber(this.number-1).period(), d.fold.time)
		if !held || before == nil {
			continue
		}
		checkStatement(t, before)
		d.checkGranted(t, id, before)
		if before.Credits.ClosingMicros != s.Credits.OpeningMicros {
			t.Fatalf("%x opens with %d after %d", id, s.Credits.OpeningMicros, before.Credits.ClosingMicros)
		}
	}
	for _, c := range d.history.closed[d.closed:] {
		checkStatement(t, c.Statement)
		d.checkGranted(t, uint64(c.Account), c.Statement)
	}
	d.closed = len(d.history.closed)
}

// checkGranted compares what has no request with the ledger of the month.
func (d *drawn) checkGranted(t *testing.T, id uint64, s *event.StatementAnswer) {
	t.Helper()
	want := d.grants[id][s.Period]
	if want == nil {
		want = &event.StatementCredits{}
	}
	c := s.Credits
	if c.GrantedMicros != want.GrantedMicros || c.AdjustedMicros != want.AdjustedMicros || c.ExpiredMicros != want.ExpiredMicros {
		t.Fatalf("%x in %s: %v, the ledger has %v", id, s.Period, c, want)
	}
}

// TestAStatementCanBeCheckedFromItsOwnFields, for 10,000 drawn accounts over three months: plans that change in mid month and
// with requests in flight, prices that change, caps, voids, grants, expiries, adjustments, refunds and storage.
func TestAStatementCanBeCheckedFromItsOwnFields(t *testing.T) {
	const accounts, at, limit = 10_000, 250, 100_000 // a rare kind may take more than 10,000
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	type kinds struct{ split, refunded, expired, adjusted, pending, stored bool }
	var seen kinds
	all := kinds{true, true, true, true, true, true}
	for i := 0; i < accounts/at || seen != all && i < limit/at; i++ {
		d := newDrawn(t, seed+uint64(i), at)
		for step := range 2600 {
			if d.step(); step%800 == 799 {
				d.check(t)
			}
			if step == 1300 {
				d.fold = restored(t, d.fold)
			}
		}
		d.check(t)
		for _, c := range d.history.closed {
			s := c.Statement
			seen.split = seen.split || len(s.Periods) > 1
			seen.refunded = seen.refunded || s.Credits.RefundedMicros > 0
			seen.expired = seen.expired || s.Credits.ExpiredMicros > 0
			seen.adjusted = seen.adjusted || s.Credits.AdjustedMicros < 0
			seen.stored = seen.stored || s.StorageOverageCents > 0
		}
		seen.pending = seen.pending || d.pending
		if i == 0 {
			d.sound()
		}
	}
	if seen != all {
		t.Errorf("some kind of statement was not drawn: %+v", seen)
	}
}

// TestAPeriodEndsWithAChangeOfPlanOrPrices: each has its own limits and prices, also where nothing was requested.
func TestAPeriodEndsWithAChangeOfPlanOrPrices(t *testing.T) {
	book := plan.Published(10)
	h := newHistory(t, book)
	t.Cleanup(h.sound)
	h.now = at("2026-10-16T12:00:00Z")
	h.account(alice, plan.Pro)
	h.grant(alice, 100_000, 0)
	h.use(alice, plan.FilesUpload, 100)
	paid := func() {
		a := h.admission(alice, plan.FilesUpload)
		h.want(a, admitted)
		h.served(a)
	}
	paid()
	failing := h.admission(alice, plan.FilesUpload)
	h.want(failing, admitted)
	h.now = at("2026-10-16T12:01:00Z")
	h.command(setTier(alice, plan.Max))
	h.voided(failing) // taken back from its own period
	h.now = at("2026-10-20T00:00:00Z")
	dearer := *book
	dearer.Plans[plan.Max].Terms[plan.FilesUpload] = plan.Term{Limit: 50, Price: 9_000, Overage: true}
	h.prices(&dearer)
	h.now = at("2026-10-25T00:00:00Z")
	paid()
	paid()
	h.now = at("2026-11-25T00:00:00Z")
	cheaper := dearer
	cheaper.Plans[plan.Max].Terms[plan.FilesUpload].Price = 1
	h.prices(&cheaper)
	for _, c := range []struct {
		month string
		want  []event.StatementPeriod
		lines []event.StatementLine
	}{
		{
			"2026-10",
			[]event.StatementPeriod{
				{StartMs: at("2026-10-16T12:00:00Z"), EndMs: at("2026-10-16T12:01:00Z"), Tier: uint32(plan.Pro)},
				{StartMs: at("2026-10-16T12:01:00Z"), EndMs: at("2026-10-20T00:00:00Z"), Tier: uint32(plan.Max)},
				{StartMs: at("2026-10-20T00:00:00Z"), EndMs: at("2026-11-01T00:00:00Z"), Tier: uint32(plan.Max)},
			},
			[]event.StatementLine{{Limit: 100, PriceMicros: 5_000, Used: 101, Paid: 1}, {Limit: 1_000, PriceMicros: 3_000}, {Limit: 50, PriceMicros: 9_000, Used: 2, Paid: 2}},
		},
		{
			"2026-11",
			[]event.StatementPeriod{
				{StartMs: at("2026-11-01T00:00:00Z"), EndMs: at("2026-11-25T00:00:00Z"), Tier: uint32(plan.Max)},
				{StartMs: at("2026-11-25T00:00:00Z"), EndMs: at("2026-12-01T00:00:00Z"), Tier: uint32(plan.Max)},
			},
			[]event.StatementLine{{Limit: 50, PriceMicros: 9_000}, {Limit: 50, PriceMicros: 1}},
		},
	} {
		s, _ := h.fold.StatementAt(event.AccountID(alice), c.month, h.now)
		checkStatement(t, s)
		if len(s.Periods) != len(c.want) {
			t.Fatalf("%s: %v", c.month, s.Periods)
		}
		for i, p := range s.Periods {
			line, want := p.Lines[plan.FilesUpload-1], &c.lines[i]
			if p.StartMs != c.want[i].StartMs || p.EndMs != c.want[i].EndMs || p.Tier != c.want[i].Tier {
				t.Errorf("%s: period %d is %v", c.month, i, p)
			}
			if line.Limit != want.Limit || line.PriceMicros != want.PriceMicros || line.Used != want.Used || line.Paid != want.Paid {
				t.Errorf("%s: line %d is %v", c.month, i, line)
			}
		}
	}
}

// TestATierChangesAHundredTimesAMonth and not once more.
func TestATierChangesAHundredTimesAMonth(t *testing.T) {
	h := historyOf(t)
	h.account(alice, plan.Pro)
	tiers := []plan.Tier{plan.Max, plan.Pro}
	for i := range maxPeriods {
		h.now++
		if o := h.command(setTier(alice, tiers[i%2])); o.Status != ok {
			t.Fatalf("change %d: %v", i, o)
		}
	}
	h.now++
	if o := h.command(setTier(alice, plan.Max)); o.Status != event.CommandStatus_COMMAND_INVALID || o.Tier != uint32(plan.Pro) {
		t.Fatalf("one more: %v", o)
	}
	if o := h.command(setTier(alice, plan.Pro)); o.Status != ok {
		t.Fatalf("the same again: %v", o)
	}
	h.now = monthOf(h.now).end
	if o := h.command(setTier(alice, plan.Max)); o.Status != ok {
		t.Fatalf("in the next month: %v", o)
	}
}
