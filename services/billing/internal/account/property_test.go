package account

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"quire.dev/pkg/event"
	"quire.dev/pkg/plan"
)

// smallBook has limits and prices that a short history reaches.
func smallBook() *plan.Book {
	b := plan.Published(3)
	b.AnonymousWindowMillis = 3_600_000
	for key := range plan.KeyCount {
		for _, tier := range []plan.Tier{plan.Free, plan.Pro, plan.Max} {
			if b.Terms[tier][key].Limit > 0 {
				b.Terms[tier][key].Limit = int64(tier) + 1
			}
		}
	}
	return b
}

// machine drives the fold and the model through the same random history.
type machine struct {
	*history
	model    *model
	restored *Fold // followed from a snapshot taken on the way
	since    int   // messages that it has folded
	past     []*event.Admission
	grants   int
	sequence uint64
	last     []byte // the last usage batch
}

var machineKeys = []plan.QuotaKey{plan.PastesDelete, plan.LiteCreate, plan.FilesUpload, plan.LiteList}

func TestFoldAgreesWithTheModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		book := smallBook()
		h := newHistory(t, book)
		m := &machine{history: h, model: newModel(h.now, book)}
		steps := rapid.IntRange(5, 60).Draw(t, "steps")
		for range steps {
			m.step(t)
			m.compare(t)
		}
		m.finish(t)
	})
}

func (m *machine) step(t *rapid.T) {
	switch rapid.IntRange(0, 11).Draw(t, "step") {
	case 0, 1, 2, 3:
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
		m.model.advance(m.now + d.Milliseconds())
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
			a = m.admission(rapid.SampledFrom([]uint64{alice, bob}).Draw(t, "account"), rapid.SampledFrom(machineKeys).Draw(t, "key"))
			a.KeyVersion = uint32(rapid.SampledFrom([]int{1, 1, 1, 1, 2}).Draw(t, "version"))
			a.Write = rapid.Bool().Draw(t, "write")
		}
		if rapid.IntRange(0, 2).Draw(t, "idempotent") == 0 {
			a.IdempotencyId = fmt.Appendf(nil, "%016d", rapid.IntRange(0, 3).Draw(t, "idempotency"))
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
		}
	}
}

func (m *machine) settlements(t *rapid.T) {
	if len(m.past) == 0 {
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
	for _, s := range batch {
		m.model.settle(s)
	}
}

func (m *machine) accountCommand(t *rapid.T) {
	id := rapid.SampledFrom([]uint64{alice, bob}).Draw(t, "account")
	a := m.model.accounts[id]
	var c *event.Command
	kind := rapid.IntRange(0, 5).Draw(t, "command")
	tier := rapid.SampledFrom(plan.Tiers()).Draw(t, "tier")
	amount := rapid.SampledFrom([]int64{500, 5_000, 7_000, 20_000, -1, -6_000}).Draw(t, "amount")
	expires := rapid.SampledFrom([]int64{0, 0, 1, 60_000, 3_600_000, 40 * 86_400_000}).Draw(t, "expires")
	switch {
	case a == nil || kind == 0:
		c = create(id, tier)
	case kind == 1:
		c = setTier(id, tier)
	default:
		if expires != 0 {
			expires += max(m.now, m.fold.time)
		}
		c = grantOf(id, amount, expires)
	}
	o := m.command(c)
	m.model.advance(m.now)
	switch {
	case a == nil:
		m.model.accounts[id] = &modelAccount{tier: tier, version: 1}
	case kind == 0:
		if o.Status != event.CommandStatus_COMMAND_ACCOUNT_EXISTS {
			t.Fatalf("created again: %v", o)
		}
	case kind == 1:
		a.tier = tier
	case amount < 0 && a.balance() < -amount:
		if o.Status != event.CommandStatus_COMMAND_INSUFFICIENT_CREDITS {
			t.Fatalf("took %d of %d: %v", amount, a.balance(), o)
		}
	case amount < 0:
		a.take(-amount)
		a.taken += -amount
		a.ledger += amount
	default:
		m.grants++
		a.grants = append(a.grants, &modelGrant{number: m.grants, left: amount, expires: expires})
		a.granted += amount
		a.ledger += amount
	}
}

// compare holds the fold to the model, and its totals to its parts.
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
			waived += int(got.Waived)
		}
		if u.BalanceMicros != uint64(a.balance()) || waived > a.waived {
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
		if sum := m.ledgerSum(id); sum != a.ledger || sum != a.balance()+open || m.fold.accounts[id].settled != sum {
			t.Fatalf("%x: ledger %d, model %d, balance %d with %d in flight", id, sum, a.ledger, a.balance(), open)
		}
	}
	if !slices.IsSortedFunc(m.ledger, func(a, b *event.LedgerEntry) int {
		if a.Id < b.Id && a.TimeMs <= b.TimeMs {
			return -1
		}
		return 1
	}) {
		t.Fatalf("ledger is not in order")
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

func (f *Fold) grantHeap() expiryHeap { return f.expiries }
