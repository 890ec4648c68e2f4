package account

import (
	"cmp"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"quire.dev/pkg/event"
	"quire.dev/pkg/plan"
)

// smallBook has limits and prices within reach of a short history.
func smallBook() *plan.Book { return small(plan.Published(3)) }

func small(b *plan.Book) *plan.Book {
	b.AnonymousWindowMillis = 3_600_000
	for key := range plan.KeyCount {
		for _, tier := range []plan.Tier{plan.Free, plan.Pro, plan.Max} {
			if b.Plans[tier].Terms[key].Limit > 0 {
				b.Plans[tier].Terms[key].Limit = int64(tier) + 1
			}
		}
	}
	return b
}

// firstBook is the built-in book with the quota keys that every book has: recorded messages have no later ones.
func firstBook(anonymousLimit int) *plan.Book {
	b := plan.Published(anonymousLimit)
	for t := range b.Plans {
		clear(b.Plans[t].Terms[plan.FilesList+1:])
	}
	return b
}

// machine drives the fold and the model through the same random history.
type machine struct {
	*history
	model    *model
	restored *Fold // followed from a snapshot taken on the way
	since    int   // messages folded by it
	past     []*event.Admission
	placeOf  map[*event.Admission]*event.Served // of the admissions in past
	grants   int
	sequence uint64
	last     []byte // the last usage batch
	files    []storedFile
	keys     []plan.QuotaKey
	accounts []uint64

	corrections map[string]int // made, by kind
}

// storedFile is a file whose deletion billing does not know yet.
type storedFile struct {
	account uint64
	size    int64
	since   int64
}

var machineKeys = []plan.QuotaKey{plan.PastesDelete, plan.LiteCreate, plan.FilesUpload, plan.LiteList}

func newMachine(t *rapid.T) *machine {
	book := smallBook()
	h := newHistory(t, nil)
	h.know(rules2)
	h.prices(book)
	m := &model{now: h.now, book: book, accounts: map[uint64]*modelAccount{}, networks: map[uint64]*modelParty{}}
	made := &machine{history: h, model: m, keys: machineKeys, accounts: []uint64{alice, bob}, placeOf: map[*event.Admission]*event.Served{}, corrections: map[string]int{}}
	h.after = func() { made.decideTopUps(t) }
	return made
}

// TestFailedCallsCostNothingBesideOthers: many calls of one account at the end of its quota, many of which fail.
func TestFailedCallsCostNothingBesideOthers(t *testing.T) {
	freed := 0
	rapid.Check(t, func(t *rapid.T) {
		m := newMachine(t)
		m.keys, m.accounts = []plan.QuotaKey{plan.FilesUpload, plan.LiteCreate}, []uint64{alice}
		m.commandOf(t, create(alice, plan.Pro))
		m.commandOf(t, grantOf(alice, 12_000, m.now+600_000))
		m.commandOf(t, grantOf(alice, 30_000, 0))
		for range rapid.IntRange(5, 40).Draw(t, "steps") {
			switch step := rapid.IntRange(0, 19).Draw(t, "step"); {
			case step < 8:
				m.admissions(t)
			case step < 16:
				m.settlements(t)
			case step < 17:
				m.correction(t)
			case step < 18:
				m.pass(t)
			default:
				m.step(t)
			}
			m.compare(t)
		}
		m.finish(t)
		freed += m.model.accounts[alice].free
	})
	if freed == 0 {
		t.Error("no payment came back in any history")
	}
}

// TestCrossingsAgreeWithTheModel: one account that webhooks watch, at the ends of its quotas and of its balance.
func TestCrossingsAgreeWithTheModel(t *testing.T) {
	told := 0
	rapid.Check(t, func(t *rapid.T) {
		m := newMachine(t)
		m.keys, m.accounts = []plan.QuotaKey{plan.FilesUpload, plan.LiteCreate}, []uint64{alice}
		m.commandOf(t, create(alice, plan.Pro))
		m.commandOf(t, grantOf(alice, 30_000, 0))
		m.webhookCommand(t)
		for range rapid.IntRange(10, 40).Draw(t, "steps") {
			switch step := rapid.IntRange(0, 19).Draw(t, "step"); {
			case step < 12:
				m.admissions(t)
			case step < 14:
				m.settlements(t)
			case step < 16:
				m.webhookCommand(t)
			default:
				m.step(t)
			}
			m.compare(t)
		}
		m.finish(t)
		told += len(m.alerts)
	})
	if told == 0 {
		t.Error("webhooks were told of nothing in any history")
	}
}

func TestFoldAgreesWithTheModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newMachine(t)
		for range rapid.IntRange(5, 60).Draw(t, "steps") {
			m.step(t)
			m.compare(t)
		}
		m.finish(t)
	})
}

func (m *machine) step(t *rapid.T) {
	switch rapid.IntRange(0, 19).Draw(t, "step") {
	case 15, 18:
		m.webhookCommand(t)
	case 12:
		m.pricesChange(t)
	case 13, 14:
		m.storage(t)
	case 16:
		m.keyCommand(t)
	case 17:
		m.correction(t)
	case 0, 1, 2, 3, 19:
		m.admissions(t)
	case 4, 5, 6:
		m.settlements(t)
	case 7, 8:
		m.accountCommand(t)
	case 9:
		m.pass(t)
	case 10:
		if m.last != nil { // a batch that was stored twice
			before := m.fold.Entries()
			m.appendData(Usage, m.last)
			if m.fold.Entries() != before {
				t.Fatalf("a batch counted twice")
			}
			m.model.advance(m.now - stampMillis) // its own stamp may be older
		}
	case 11:
		m.restored, m.since = restored(t, m.fold), len(m.messages)
	}
}

func (m *machine) pass(t *rapid.T) {
	d := rapid.SampledFrom([]time.Duration{
		time.Second, 30 * time.Second, time.Minute, HoldMillis * time.Millisecond, MemoryMillis * time.Millisecond,
		time.Hour, 24 * time.Hour, 16 * 24 * time.Hour, 70 * 24 * time.Hour, -time.Hour,
	}).Draw(t, "pass")
	if d < 0 { // a source whose clock is behind
		m.append(Usage, &event.UsageBatch{Source: "slow", StampMs: m.now + d.Milliseconds()})
		m.model.advance(m.now - stampMillis)
		return
	}
	if m.wait(d); d >= sourceMillis*time.Millisecond {
		m.last = nil // the source may be forgotten by now
	}
	if rapid.Bool().Draw(t, "tick") {
		m.tick()
		m.model.advance(m.now)
	}
}

func (m *machine) admissions(t *rapid.T) {
	var batch []*event.Admission
	for range rapid.IntRange(1, 6).Draw(t, "admissions") {
		var a *event.Admission
		if rapid.IntRange(0, 3).Draw(t, "who") == 0 {
			a = m.anonymous()
		} else {
			a = m.admission(rapid.SampledFrom(m.accounts).Draw(t, "account"), rapid.SampledFrom(m.keys).Draw(t, "key"))
			if acct := m.model.accounts[a.Account]; acct != nil {
				a.KeyVersion = acct.version
				if acct.keys != nil {
					k := rapid.SampledFrom(acct.keys).Draw(t, "with")
					a.Key, a.KeyVersion, a.KeyFingerprint = k.number, k.version, k.fingerprint
				}
			}
			a.KeyVersion += uint32(rapid.SampledFrom([]int{0, 0, 0, 0, 1}).Draw(t, "version"))
			a.Write = rapid.Bool().Draw(t, "write")
		}
		switch rapid.IntRange(0, 5).Draw(t, "idempotent") {
		case 0, 1:
			a.IdempotencyId = fmt.Appendf(nil, "%016d", rapid.IntRange(0, 3).Draw(t, "idempotency"))
		case 2:
			a.ReadId = fmt.Appendf(nil, "%016d", rapid.IntRange(2, 5).Draw(t, "read"))
			a.ReadHash = rapid.SampledFrom([]uint64{0, 1 << 32, 1 << 32, 1 << 32, 1<<32 | 7, 2 << 32}).Draw(t, "hash")
		}
		batch = append(batch, a)
	}
	m.number["edge"]++
	b := &event.UsageBatch{Source: "edge", Number: m.number["edge"], StampMs: m.now, Admissions: batch}
	m.last, _ = event.Encode(b)
	verdicts := m.verdicts(m.appendData(Usage, m.last)).Verdicts
	m.model.advance(m.now)
	for i, a := range batch {
		decision, remaining, paid := m.model.admit(a)
		v := verdicts[i]
		if v.Decision != decision || decision == admitted && v.Remaining != remaining || v.CostMicros != uint64(paid) {
			t.Fatalf("admission %d of %v: fold %v, model %v remaining %d paid %d", i, a, v, decision, remaining, paid)
		}
		if acct := m.model.accounts[a.Account]; v.Charge == event.ChargeSource_CHARGE_CREDITS && acct.balance() < 0 {
			t.Fatalf("overspent: %d", acct.balance())
		}
		if decision == admitted {
			m.past = append(m.past, a)
			m.placeOf[a] = &event.Served{Sequence: uint64(len(m.messages)), Places: []uint32{uint32(i)}}
		}
	}
	if last := len(batch) - 1; undone(verdicts[last].Decision) {
		m.heldWhileHeld(t, batch[last], verdicts[last])
	}
}

// heldWhileHeld retries a refused request after voiding all open holds. That may undo only a refusal marked as held.
func (m *machine) heldWhileHeld(t *rapid.T, a *event.Admission, v *event.Verdict) {
	if v.Held == v.Final || v.Held && v.RetryAfterSeconds != 1 {
		t.Fatalf("refused with %v", v)
	}
	h := &history{t: t, fold: restored(t, m.fold), now: m.now, number: map[string]uint64{}, messages: slices.Clone(m.messages)}
	h.number["edge"] = m.number["edge"]
	var voids []*event.Settlement
	for _, r := range m.model.requests {
		if r.memory == "open" {
			voids = append(voids, &event.Settlement{
				RequestId: []byte(r.id), Result: event.Result_VOID, Account: r.account, QuotaKey: uint32(r.key), Anonymous: r.anonymous,
			})
		}
	}
	h.usage(nil, voids)
	if again := h.admit(a); again.Decision == admitted && !v.Held {
		t.Fatalf("voids undo a refusal that is not held: %v, then %v", v, again)
	} else if again.Decision != admitted && v.Held && v.Decision == exhausted && a.Account == bob && len(m.model.accounts[bob].grants) == 0 {
		t.Fatalf("voids do not undo a refusal that is held: %v, then %v", v, again)
	}
}

// pricesChange publishes other prices, the same again, or newer rules, and applies prices for now or later.
func (m *machine) pricesChange(t *rapid.T) {
	m.tick()
	m.model.advance(m.now)
	if rapid.Bool().Draw(t, "applied") {
		m.pricesApply(t)
		return
	}
	book := *m.model.book
	switch rapid.IntRange(0, 3).Draw(t, "prices") {
	case 0:
		book.Plans[plan.Pro].Terms[plan.FilesUpload].Limit = rapid.Int64Range(1, 4).Draw(t, "limit")
	case 1:
		book.Plans[plan.Pro].Terms[plan.FilesUpload].Price = plan.Micros(rapid.Int64Range(1, 3).Draw(t, "price") * 2_000)
	case 2:
		m.rules = rules2
	}
	rules := m.fold.Rules()
	if len(m.model.applied) > 0 && m.rules > rules { // only the rules change
		m.prices(&book)
		m.model.changeBook(m.model.book, m.model.now)
		return
	}
	if len(m.model.applied) > 0 || book == *m.model.book && m.rules == rules {
		changes := m.fold.prices.terms
		m.prices(&book)
		if m.fold.prices.terms != changes {
			t.Fatal("the same prices again are new terms")
		}
		return
	}
	m.prices(&book)
	m.model.changeBook(&book, m.model.now)
}

// pricesApply applies prices, or withdraws some whose time has not come. It may be that the message comes late, or twice.
func (m *machine) pricesApply(t *rapid.T) {
	if n := len(m.model.upcoming); n > 0 && rapid.Bool().Draw(t, "withdraw") {
		b := m.model.upcoming[rapid.IntRange(0, n-1).Draw(t, "which")]
		m.apply(&event.PriceBook{Id: b.id, Withdrawn: true})
		m.model.upcoming[slices.Index(m.model.upcoming, b)].book = nil
		m.model.advance(m.now)
		return
	}
	book := *m.model.book
	book.Plans[plan.Pro].Terms[plan.FilesUpload].Limit = rapid.Int64Range(1, 4).Draw(t, "limit")
	book.Plans[plan.Max].Terms[plan.LiteCreate].Price = plan.Micros(rapid.Int64Range(1, 3).Draw(t, "price") * 1_000)
	after := rapid.SampledFrom([]int64{-1_000, 0, 1, 1_000, 60_000, 600_000, 20 * 86_400_000}).Draw(t, "after")
	e := applied(m.t, &book, m.now+after)
	for range rapid.IntRange(1, 2).Draw(t, "times") {
		m.apply(e)
		m.model.advance(m.now)
		m.model.apply(modelBook{id: e.Id, at: m.now + after, book: &book}, m.now)
	}
}

// storage creates and deletes files. Billing learns of some late.
func (m *machine) storage(t *rapid.T) {
	id := rapid.SampledFrom([]uint64{alice, bob}).Draw(t, "account")
	late := rapid.SampledFrom([]int64{0, 1_000, 3_600_000, 20 * 3_600_000, 3 * 86_400_000}).Draw(t, "late")
	now := max(m.now, m.model.now)
	from := now - late
	size := rapid.SampledFrom([]int64{1, 50 << 20, 30 * plan.GB}).Draw(t, "size")
	if i := len(m.files) - 1; i >= 0 && rapid.Bool().Draw(t, "delete") {
		f := m.files[i]
		m.files = m.files[:i]
		id, size, from = f.account, -f.size, max(from, f.since)
	} else if m.model.accounts[id] != nil {
		m.files = append(m.files, storedFile{id, size, from})
	}
	m.sequence++
	m.domain(m.sequence, &event.Settlement{Account: id, StorageDelta: size, StorageAtMs: from})
	m.model.advance(m.now)
	if a := m.model.accounts[id]; a != nil {
		a.stored = append(a.stored, modelStorage{delta: size, from: from, learned: m.model.now})
	}
}

func (m *machine) settlements(t *rapid.T) {
	if len(m.past) == 0 {
		return
	}
	if rapid.IntRange(0, 2).Draw(t, "by place") == 0 {
		m.served(t)
		return
	}
	var batch []*event.Settlement
	fromDomain := rapid.Bool().Draw(t, "domain")
	m.sequence++
	for range rapid.IntRange(1, 4).Draw(t, "settlements") {
		first := max(0, len(m.past)-12)
		a := m.past[rapid.IntRange(first, len(m.past)-1).Draw(t, "settled")]
		s := settlementOf(a, rapid.SampledFrom([]event.Result{event.Result_SERVED, event.Result_VOID}).Draw(t, "result"))
		s.Failed = rapid.Bool().Draw(t, "failed")
		if fromDomain {
			s.Sequence = m.sequence
		}
		batch = append(batch, s)
	}
	if fromDomain {
		m.domain(m.sequence, batch...)
		if rapid.Bool().Draw(t, "again") {
			m.domain(m.sequence, batch...)
		}
	} else {
		m.usage(nil, batch)
		m.last = m.messages[len(m.messages)-1].Data
	}
	m.model.advance(m.now)
	if fromDomain {
		slices.SortStableFunc(batch, func(a, b *event.Settlement) int { return cmp.Compare(senderOf(a), senderOf(b)) })
	}
	for _, s := range batch {
		m.model.settle(s)
	}
}

// served settles reads by offset, and some writes, which changes nothing.
func (m *machine) served(t *rapid.T) {
	var admissions []*event.Admission
	b := &event.UsageBatch{Source: "edge", StampMs: m.now}
	for range rapid.IntRange(1, 4).Draw(t, "served") {
		first := max(0, len(m.past)-12)
		a := m.past[rapid.IntRange(first, len(m.past)-1).Draw(t, "settled")]
		admissions, b.Served = append(admissions, a), append(b.Served, m.placeOf[a])
	}
	m.number["edge"]++
	b.Number = m.number["edge"]
	m.append(Usage, b)
	m.last = m.messages[len(m.messages)-1].Data
	m.model.advance(m.now)
	for _, a := range admissions {
		if !a.Write {
			m.model.settle(settlementOf(a, event.Result_SERVED))
		}
	}
}

// senderOf is the index of the domain that sends a settlement, as in history.domain.
func senderOf(s *event.Settlement) int {
	return slices.IndexFunc(event.Documents(), func(d event.Domain) bool { return len(settledBy(d, []*event.Settlement{s})) > 0 })
}

func (m *machine) accountCommand(t *rapid.T) {
	id := rapid.SampledFrom([]uint64{alice, bob}).Draw(t, "account")
	a := m.model.accounts[id]
	var c *event.Command
	kind := rapid.IntRange(0, 12).Draw(t, "command")
	tier := rapid.SampledFrom(plan.Tiers()).Draw(t, "tier")
	amount := rapid.SampledFrom([]int64{500, 5_000, 7_000, 20_000, -1, -6_000}).Draw(t, "amount")
	expires := rapid.SampledFrom([]int64{0, 0, 1, 60_000, 3_600_000, 40 * 86_400_000}).Draw(t, "expires")
	switch {
	case a == nil || kind == 0:
		c = create(id, tier)
	case kind == 1:
		c = setTier(id, tier)
	case kind == 9 && !a.suspended:
		c = setNextTier(id, tier)
	case kind == 6:
		c = &event.Command{Account: id, Action: &event.Command_RotateKey{RotateKey: &event.RotateKey{Fingerprint: 1}}}
	case kind == 7:
		c = suspend(id)
	case kind == 8 || a.suspended && kind == 9:
		c = resume(id)
	case kind == 10:
		c = deleteAccount(id)
	case kind == 11:
		c = keepAccount(id)
	case kind == 12:
		c = eraseAccount(id)
	default:
		if expires != 0 {
			expires += max(m.now, m.fold.time)
		}
		c = grantOf(id, amount, expires)
	}
	m.commandOf(t, c)
}

// commandOf gives a command to the fold and the model.
func (m *machine) commandOf(t *rapid.T, c *event.Command) {
	id, a := c.Account, m.model.accounts[c.Account]
	amount, expires := c.GetGrant().GetAmountMicros(), c.GetGrant().GetExpiresMs()
	o := m.command(c)
	m.model.advance(m.now)
	switch {
	case a == nil:
		m.model.accounts[id] = &modelAccount{tier: plan.Tier(c.GetCreate().GetTier()), version: 1, created: m.model.now, renewed: m.model.now}
	case c.GetCreate() != nil:
		if o.Status != event.CommandStatus_COMMAND_ACCOUNT_EXISTS {
			t.Fatalf("created again: %v", o)
		}
	case a.erased:
		if o.Status != event.CommandStatus_COMMAND_ACCOUNT_NOT_FOUND {
			t.Fatalf("an erased account obeys: %v", o)
		}
	case c.GetDeleteAccount() != nil && a.deletes == 0:
		a.deletes = m.model.now + 14*86_400_000
	case c.GetKeepAccount() != nil:
		a.deletes = 0
	case c.GetEraseAccount() != nil:
		if due := a.deletes != 0 && a.deletes <= m.model.now; due != (o.Status == event.CommandStatus_COMMAND_OK) {
			t.Fatalf("erased at %d, due at %d: %v", m.model.now, a.deletes, o)
		} else if due {
			a.erased, a.deletes, a.suspended, a.hooks, a.topUp = true, 0, false, modelHooks{}, nil
		}
	case c.GetDeleteAccount() != nil:
	case c.GetSetTier() != nil:
		m.model.setTier(a, plan.Tier(c.GetSetTier().Tier))
	case c.GetSetNextTier() != nil:
		a.nextTier, a.nextAt = plan.Tier(c.GetSetNextTier().Tier), monthOf(m.model.now).end
		if a.nextTier == a.tier {
			a.nextTier = 0
		}
	case c.GetRotateKey() != nil:
		a.version++
		a.renewed = m.model.now
		m.regenerated(a)
	case c.GetSuspend() != nil:
		a.suspended = true
	case c.GetResume() != nil:
		a.suspended = false
	case amount < 0 && a.balance() < -amount:
		if o.Status != event.CommandStatus_COMMAND_INSUFFICIENT_CREDITS {
			t.Fatalf("took %d of %d: %v", amount, a.balance(), o)
		}
	case amount < 0:
		defer m.model.tellLow(id, a.balance())
		a.take(-amount)
		a.taken += -amount
		a.ledger += amount
	default:
		m.grants++
		a.grants = append(a.grants, &modelGrant{number: m.grants, left: amount, expires: expires})
		a.granted += amount
		a.ledger += amount
		a.repay()
		a.liftLow()
	}
}

// compare compares the fold with the model, and its totals with its parts.
func (m *machine) compare(t *rapid.T) {
	month := monthOf(m.model.now)
	for id, a := range m.model.accounts {
		u := m.fold.UsageAt(event.AccountID(id), m.model.now)
		waived := 0
		var spent int64
		for _, key := range machineKeys {
			used, overage, paid := m.model.counted(id, key, month.number)
			got := u.Usage[key-1]
			if got.Used != uint64(used) || got.Overage != uint64(overage) || got.SpentMicros != uint64(paid) {
				t.Fatalf("%v of %x: fold %v, model used %d overage %d spent %d", key, id, got, used, overage, paid)
			}
			if want := a.refunded[modelLine{month.number, key}]; got.RefundedMicros != uint64(want) {
				t.Fatalf("%v of %x: %d refunded, model %d", key, id, got.RefundedMicros, want)
			}
			waived += int(got.Waived)
			limit := m.model.book.Plans[a.tier].Terms[key].Limit
			if limit != plan.Unlimited && a.changed < month.start && int64(overage) != max(0, int64(used)-limit) {
				t.Fatalf("%v of %x: %d of %d are paid, the limit is %d", key, id, overage, used, limit)
			}
		}
		m.compareStorage(t, id, a)
		m.compareKeys(t, id, a)
		m.compareDays(t, id)
		m.comparePlan(t, id, a)
		if u.BalanceMicros != a.balance()-a.owed || a.owed > 0 && a.balance() > 0 || waived > a.waived {
			t.Fatalf("%x: balance %d, model %d; waived %d, model %d", id, u.BalanceMicros, a.balance(), waived, a.waived)
		}
		open := int64(0)
		for _, r := range m.model.requests {
			if r.account == id && !r.anonymous && r.state != "void" {
				spent += r.paid
				if r.state == "open" {
					open += r.paid
				}
			}
		}
		if a.balance() != a.granted-a.taken-a.expired-spent || a.balance() < 0 {
			t.Fatalf("%x: balance %d is not %d granted - %d taken - %d expired - %d spent", id, a.balance(), a.granted, a.taken, a.expired, spent)
		}
		if sum := m.ledgerSum(id); sum != a.ledger || sum != a.balance()+open-a.owed || m.fold.principals.accounts[id].settled != sum {
			t.Fatalf("%x: ledger %d, model %d, balance %d with %d in flight", id, sum, a.ledger, a.balance(), open)
		}
	}
	m.compareAlerts(t)
	m.compareLedger(t)
	m.chains.agree(t, m.fold)
}

// compareLedger checks that entries are made in order, and that in the order of admission no balance is below zero, times never
// go back, and the entries about the requests of a month sum to what the month's counters have spent.
func (m *machine) compareLedger(t *rapid.T) {
	for i, e := range m.ledger {
		if i > 0 && (e.Id <= m.ledger[i-1].Id || e.SettledMs < m.ledger[i-1].SettledMs) || e.SettledMs < e.TimeMs {
			t.Fatalf("entry %d is out of order: %v", i, e)
		}
	}
	listed := slices.SortedFunc(slices.Values(m.ledger), func(a, b *event.LedgerEntry) int {
		return strings.Compare(LedgerOrder(a), LedgerOrder(b))
	})
	balances, spent := map[uint64]int64{}, map[uint64]map[uint32]int64{}
	last := int64(0)
	for _, e := range listed {
		if balances[e.Account] += e.AmountMicros; balances[e.Account] < 0 && !m.model.accounts[e.Account].reversed {
			t.Fatalf("balance %d after %v", balances[e.Account], e)
		}
		if e.TimeMs < last {
			t.Fatalf("%v is older than the entry before it, of %d", e, last)
		}
		last = e.TimeMs
		if e.AdmittedIndex == 0 {
			continue
		}
		if spent[e.Account] == nil {
			spent[e.Account] = map[uint32]int64{}
		}
		spent[e.Account][monthOf(e.TimeMs).number] -= e.AmountMicros
	}
	for id := range m.model.accounts {
		a := m.fold.principals.accounts[id]
		open := map[uint32]int64{}
		for h := a.open.head; h != nil; h = h.after() {
			open[h.month] += int64(h.cost)
		}
		for month, c := range map[uint32]*counters{a.month: &a.current, a.month - 1: a.previous} {
			if c != nil && int64(c.spentSum())-open[month] != spent[id][month] {
				t.Fatalf("%x spent %d in month %d with %d in flight, by its ledger %d", id, c.spentSum(), month, open[month], spent[id][month])
			}
		}
	}
}

func (m *machine) compareStorage(t *rapid.T, id uint64, a *modelAccount) {
	now, _ := m.fold.forward(event.AccountID(id), m.model.now)
	check := func(c *counters, of month) {
		want, got := m.model.integral(a, of), new(big.Int)
		if c != nil {
			got.SetUint64(c.byteMillis.high)
			got.Lsh(got, 64).Add(got, new(big.Int).SetUint64(c.byteMillis.low))
			if c.byteMillis.negative() {
				got.Sub(got, new(big.Int).Lsh(big.NewInt(1), 128))
			}
		}
		if got.Cmp(want) != 0 {
			t.Fatalf("%x in %s: %v byte-milliseconds, model %v of %v", id, of.period(), got, want, a.stored)
		}
	}
	check(&now.current, monthNumber(now.month))
	m.compareStorageDays(t, id, a, now, monthNumber(now.month))
	if now.month > monthOf(a.created).number {
		check(now.previous, monthNumber(now.month-1))
		m.compareStorageDays(t, id, a, now, monthNumber(now.month-1))
	}
}

// finish compares the live fold with a replay from the start, and with a snapshot and the messages after it.
func (m *machine) finish(t *rapid.T) {
	m.sound()
	if m.restored == nil {
		return
	}
	for _, msg := range m.messages[m.since:] {
		if _, err := m.restored.Apply(msg); err != nil {
			t.Fatalf("%v", err)
		}
	}
	if live, tail := stateHash(t, m.fold), stateHash(t, m.restored); live != tail {
		t.Fatalf("snapshot and tail come to %x, live to %x", tail, live)
	}
	if len(m.fold.grantHeap()) != len(m.restored.grantHeap()) {
		t.Fatalf("%d grants wait for expiry, %d in the restored fold", len(m.fold.grantHeap()), len(m.restored.grantHeap()))
	}
}

func (f *Fold) grantHeap() expiryHeap { return f.credits.expiries }

// undone reports whether open holds may undo such a refusal.
func undone(d event.Decision) bool {
	switch d {
	case exhausted, keyExhausted, capReached, event.Decision_ANONYMOUS_LIMIT:
		return true
	}
	return false
}

// regenerated records that the default key was replaced at once.
func (m *machine) regenerated(a *modelAccount) {
	if a.keys == nil {
		return
	}
	for _, k := range a.keys {
		if k.number == 0 && k.live(m.model.now) {
			k.ends = m.model.now
		}
	}
	a.keys = slices.DeleteFunc(a.keys, func(k *modelKey) bool { return k.counts == 0 })
	a.keys = append(a.keys, &modelKey{version: a.version, fingerprint: 1, created: m.model.now})
}

// namesAreUnique checks the names of the live keys after a command with rules, and that a name was refused only if another key has it.
func (m *machine) namesAreUnique(t *rapid.T, id uint64, o *event.CommandOutcome, rules *event.KeyRules) {
	live := map[string]int{}
	for _, k := range m.fold.keyViews(m.fold.principals.accounts[id], m.fold.time) {
		if !k.Replaced && (k.Number == 0 || k.RevokedMs == 0 && (k.ExpiresMs == 0 || m.fold.time < k.ExpiresMs)) {
			live[k.Name]++
		}
	}
	for name, n := range live {
		if n > 1 {
			t.Fatalf("%d live keys are named %q", n, name)
		}
	}
	if o.Status == event.CommandStatus_COMMAND_KEY_NAME_TAKEN && live[rules.GetName()] == 0 && rules.GetName() != defaultKeyName {
		t.Fatalf("%q is refused, live are %v", rules.GetName(), live)
	}
}

// keyCommand makes, changes, replaces and revokes keys, and sets caps.
func (m *machine) keyCommand(t *rapid.T) {
	id := rapid.SampledFrom(m.accounts).Draw(t, "account")
	a := m.model.accounts[id]
	if a == nil || a.erased {
		return
	}
	set := &event.SpendingCap{
		Period:       rapid.SampledFrom([]event.CapPeriod{event.CapPeriod_CAP_DAY, event.CapPeriod_CAP_MONTH, event.CapPeriod_CAP_TOTAL}).Draw(t, "period"),
		AmountMicros: rapid.SampledFrom([]uint64{0, 5_000, 9_999, 15_000, 1_000_000}).Draw(t, "cap"),
	}
	if rapid.IntRange(0, 3).Draw(t, "uncapped") == 0 {
		set = &event.SpendingCap{}
	}
	rules := &event.KeyRules{Cap: set, Quotas: &event.KeyQuotas{}, Scopes: &event.KeyScopes{}}
	if rapid.IntRange(0, 2).Draw(t, "limited") == 0 {
		rules.Quotas = quotasOf(plan.FilesUpload, uint32(rapid.IntRange(0, 4).Draw(t, "quota")))
	}
	if rapid.IntRange(0, 3).Draw(t, "scoped") == 0 {
		rules.Scopes = scopesOf(rapid.SampledFrom(machineKeys).Draw(t, "scope"))
	}
	if rapid.IntRange(0, 2).Draw(t, "named") == 0 {
		rules.Name = new(rapid.SampledFrom([]string{"key", "default", "default 2"}).Draw(t, "name"))
	}
	if days := rapid.SampledFrom([]int64{0, 0, 1, 9, 60}).Draw(t, "lives"); days != 0 {
		rules.ExpiresInMs = new(days * 86_400_000)
	}
	numbers := []uint32{0}
	for _, k := range a.keys {
		if !k.replaced && k.counts != 0 {
			numbers = append(numbers, k.counts)
		}
	}
	number := rapid.SampledFrom(numbers).Draw(t, "number")
	m.grants++
	fingerprint := uint64(1000 + m.grants)
	var c *event.Command
	switch rapid.IntRange(0, 6).Draw(t, "keys") {
	case 0, 1:
		c = setCap(id, set.Period, set.AmountMicros)
	case 2, 3:
		c = createKey(id, fingerprint, rules)
	case 4:
		c = updateKey(id, number, rules)
	case 5:
		c = replaceKey(id, number, fingerprint, rapid.SampledFrom([]time.Duration{0, time.Minute, 24 * time.Hour}).Draw(t, "overlap"))
	default:
		c = revokeKey(id, number)
	}
	o := m.command(c)
	m.model.advance(m.now)
	m.namesAreUnique(t, id, o, rules)
	switch o.Status {
	case event.CommandStatus_COMMAND_OK:
		m.model.keyCommand(a, c)
	case event.CommandStatus_COMMAND_KEY_NOT_FOUND, event.CommandStatus_COMMAND_TOO_MANY_KEYS, event.CommandStatus_COMMAND_KEY_NAME_TAKEN:
	default:
		t.Fatalf("%v: %v", c, o)
	}
}

// compareKeys compares the counters of keys and caps with the model.
func (m *machine) compareKeys(t *rapid.T, id uint64, a *modelAccount) {
	u := m.fold.UsageAt(event.AccountID(id), m.model.now)
	m.fold.Describe(u, &event.UsageQuery{Keys: true}, m.model.now)
	if a.erased {
		return
	}
	if a.cap.period != event.CapPeriod_CAP_NONE && int64(u.Cap.SpentMicros) != m.model.spentFor(a.cap, id, nil) {
		t.Fatalf("%x: cap %v, model %d", id, u.Cap, m.model.spentFor(a.cap, id, nil))
	}
	if a.keys == nil {
		return
	}
	month := monthOf(m.model.now).number
	for _, k := range u.Keys {
		at := slices.IndexFunc(a.keys, func(o *modelKey) bool { return o.counts == k.Number })
		if at < 0 {
			t.Fatalf("%x: the model has no key %v", id, k)
		}
		o := a.keys[at]
		used := map[uint32]uint64{}
		for _, n := range k.Usage {
			used[n.QuotaKey] = n.Used
		}
		for _, key := range machineKeys {
			if want := m.model.countedBy(&modelRequest{account: id, key: key, month: month}, o.lineage); used[uint32(key)] != uint64(want) {
				t.Fatalf("%v of %x with %v: model %d", key, id, k, want)
			}
		}
		l := a.lineages[o.lineage]
		if l.cap.period != event.CapPeriod_CAP_NONE && int64(k.Cap.SpentMicros) != m.model.spentFor(l.cap, id, &o.lineage) {
			t.Fatalf("%x: %v, model %d", id, k, m.model.spentFor(l.cap, id, &o.lineage))
		}
	}
}
