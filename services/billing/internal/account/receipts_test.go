package account

import (
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"testing"
	"time"

	"quire.dev/pkg/event"
	"quire.dev/pkg/plan"
)

// chains are the accounts' chains as docs/journal.md describes them, with the sums of their entries.
type chains map[uint64]*chainSums

type chainSums struct {
	number  uint64
	hash    [32]byte
	begins  uint32 // month, as YYYYMM
	settled int64
	months  map[uint32]map[plan.QuotaKey]*chainCount
}

// chainCount is what the entries of a month and quota key sum to.
type chainCount struct{ used, overage, spent, waived int64 }

// add reads the entries of a message by the document alone.
func (c chains) add(t tester, entries []AccountEntry) {
	t.Helper()
	for _, e := range entries {
		id := uint64(e.Account)
		if c[id] == nil {
			c[id] = &chainSums{hash: sha256.Sum256(binary.BigEndian.AppendUint64([]byte("quire account\n"), id)), months: map[uint32]map[plan.QuotaKey]*chainCount{}}
		}
		s := c[id]
		s.number++
		if s.number != e.Number || (e.Number == 1) != (e.Data[0] == 1) {
			t.Fatalf("entry %d of %x is number %d: %x", s.number, id, e.Number, e.Data)
		}
		s.hash = sha256.Sum256(append(s.hash[:], e.Data[:]...))
		s.sum(t, e.Data[:])
	}
}

func (s *chainSums) sum(t tester, e []byte) {
	t.Helper()
	month, key, charge := binary.BigEndian.Uint32(e[9:]), plan.QuotaKey(e[13]), e[14]
	amount := int64(binary.BigEndian.Uint64(e[15:]))
	if s.months[month] == nil {
		s.months[month] = map[plan.QuotaKey]*chainCount{}
	}
	if s.months[month][key] == nil {
		s.months[month][key] = &chainCount{}
	}
	of, paid := s.months[month][key], int64(0)
	if charge == byte(event.ChargeSource_CHARGE_CREDITS) {
		paid = 1
	} else if amount != 0 && e[0] > 1 && e[0] < 6 {
		t.Fatalf("%x: an amount without credits", e)
	}
	switch e[0] {
	case 1:
		s.begins, s.settled = month, amount
	case 2, 5:
		if charge == 0xFF {
			of.waived++
			return
		}
		of.used, of.overage, of.spent = of.used+1, of.overage+paid, of.spent+amount
	case 3:
		of.used, of.overage, of.spent = of.used-1, of.overage-paid, of.spent-amount
	case 4:
		of.overage, of.spent = of.overage-1, of.spent-amount
	case 6:
		s.settled += amount
	default:
		t.Fatalf("kind %d", e[0])
	}
}

// agree compares the chains with the fold's accounts: the receipt, the balance, and the counters of months after the first.
func (c chains) agree(t tester, f *Fold) {
	t.Helper()
	for id, a := range f.principals.accounts {
		s := c[id]
		if s == nil {
			if a.receipt.number != 0 {
				t.Fatalf("%x has a receipt and no entries", id)
			}
			continue
		}
		if a.receipt.number != s.number || a.receipt.hash != s.hash {
			t.Fatalf("%x: receipt %v, its entries come to %d.%x", id, a.receipt.String(), s.number, s.hash)
		}
		if a.quarantined != 0 {
			continue
		}
		if a.settled != s.settled {
			t.Fatalf("%x: %d settled, its entries sum to %d", id, a.settled, s.settled)
		}
		for month, counted := range map[uint32]*counters{a.month: &a.current, a.month - 1: a.previous} {
			if name := month/12*100 + month%12 + 1; name > s.begins && counted != nil {
				s.agreeIn(t, name, counted)
			}
		}
	}
}

func (s *chainSums) agreeIn(t tester, month uint32, counted *counters) {
	t.Helper()
	for _, key := range plan.QuotaKeys() {
		of := s.months[month][key]
		if of == nil {
			of = &chainCount{}
		}
		overage, _, spent, waived := counted.charged(key)
		if got := (chainCount{int64(counted.used[key]), int64(overage), int64(spent), int64(waived)}); got != *of {
			t.Fatalf("%v in %d: counted %+v, its entries sum to %+v", key, month, got, *of)
		}
	}
}

// TestReceiptsNeedRules5, and the message that brings them into force has none.
func TestReceiptsNeedRules5(t *testing.T) {
	for _, rules := range []uint32{Rules4, Rules5} {
		h := newHistory(t, nil)
		h.rules = Rules4
		h.begin(100_000)
		h.rules = rules
		h.prices(smallBook())
		v := h.want(h.admission(alice, plan.LiteGet), admitted)
		want := map[uint32]uint64{Rules4: 0, Rules5: 2}[rules]
		if v.ReceiptNumber != want || len(v.Receipt) != 32*min(int(want), 1) || (h.fold.UsageAt(event.AccountID(alice), 0).Receipt == "") != (want == 0) {
			t.Errorf("under rules %d: %v", rules, v)
		}
		h.sound()
	}
}

// TestReceiptsOfABatchStayApart: each verdict has the chain as of its own admission.
func TestReceiptsOfABatchStayApart(t *testing.T) {
	h := newHistory(t, plan.Published(10))
	h.account(alice, plan.Pro)
	h.account(bob, plan.Pro)
	var batch []*event.Admission
	for i := range 64 {
		batch = append(batch, h.admission([]uint64{alice, bob}[i%2], plan.LiteGet))
	}
	seen := map[string]bool{}
	for i, v := range h.usage(batch, nil).Verdicts {
		if v.Decision != admitted || v.ReceiptNumber != uint64(i/2)+2 || seen[string(v.Receipt)] {
			t.Errorf("admission %d: %v", i, v)
		}
		seen[string(v.Receipt)] = true
	}
	for _, id := range []uint64{alice, bob} {
		if a := h.fold.principals.accounts[id]; !seen[string(a.receipt.hash[:])] {
			t.Errorf("%x: %v is in no verdict", id, a.receipt.String())
		}
	}
}

// TestALateWriteIsChargedOnceWhoeverSettlesIt, from Rules5 on; before, its service's settlement charged it again once the hold was
// forgotten.
func TestALateWriteIsChargedOnceWhoeverSettlesIt(t *testing.T) {
	for _, rules := range []uint32{Rules4, Rules5} {
		h := newHistory(t, nil)
		h.rules = rules
		h.begin(0)
		write := h.admission(alice, plan.FilesUpload)
		write.Write = true
		h.want(write, admitted)
		h.wait(HoldMillis * time.Millisecond).tick()
		h.served(write)
		h.wait(MemoryMillis * time.Millisecond).tick()
		h.domain(1, settlementOf(write, event.Result_SERVED))
		if used, want := h.usedBy(alice, plan.FilesUpload).Used, map[uint32]uint64{Rules4: 2, Rules5: 1}[rules]; used != want {
			t.Errorf("under rules %d it counts %d times, want %d", rules, used, want)
		}
		h.sound()
	}
}

// TestADamagedReceiptIsNotRestored: a snapshot has number and hash, or neither.
func TestADamagedReceiptIsNotRestored(t *testing.T) {
	for _, s := range []*event.AccountState{{ReceiptNumber: 1}, {Receipt: make([]byte, 32)}, {ReceiptNumber: 1, Receipt: make([]byte, 31)}} {
		if _, err := restoreReceipt(s); err == nil {
			t.Errorf("%v is restored", s)
		}
	}
	full := receipt{number: 1, hash: event.FirstEntryHash(event.AccountID(alice))}
	if again, err := restoreReceipt(&event.AccountState{ReceiptNumber: 1, Receipt: full.state()}); err != nil || again != full || !slices.Equal(full.state(), full.hash[:]) {
		t.Errorf("%v: %v", again, err)
	}
}
