package account

import (
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"

	"quire.dev/pkg/event"
	"quire.dev/pkg/num"
)

// From Rules5 on each account has a chain of entries: one for each change of a month's counters, and one for each entry of its
// ledger. The number of the last entry and the hash over all are the account's receipt. Whoever kept two receipts detects that an
// entry between them was edited, removed or inserted. docs/journal.md (Receipts) has the encoding and the order.

// receipt is the state of an account's chain: the number of its last entry, 0 before the first, and the hash over all.
type receipt struct {
	number uint64
	hash   Hash
}

func (r *receipt) append(data *[event.EntryBytes]byte) {
	r.number++
	r.hash = event.LinkEntry(r.hash, data)
}

// String is the receipt as the API has it, empty before the first entry.
func (r *receipt) String() string {
	if r.number == 0 {
		return ""
	}
	return strconv.FormatUint(r.number, 10) + "." + hex.EncodeToString(r.hash[:])
}

// Receipt is the number of the last entry of an account's chain, and the hash over all. The number is 0 before the first, and of an
// unknown account.
func (s *principals) Receipt(id event.AccountID) (number uint64, hash Hash) {
	if a := s.accounts[uint64(id)]; a != nil {
		return a.receipt.number, a.receipt.hash
	}
	return 0, hash
}

// state is the hash in a snapshot, nil before the first entry.
func (r *receipt) state() []byte {
	if r.number == 0 {
		return nil
	}
	return slices.Clone(r.hash[:])
}

func restoreReceipt(s *event.AccountState) (r receipt, err error) {
	r.number = s.ReceiptNumber
	if r.number == 0 && len(s.Receipt) == 0 {
		return r, nil
	}
	if r.number == 0 || len(s.Receipt) != len(r.hash) {
		return r, fmt.Errorf("%w: receipt %d of %d bytes", errSnapshot, s.ReceiptNumber, len(s.Receipt))
	}
	r.hash = Hash(s.Receipt)
	return r, nil
}

// AccountEntry is an entry that a message has added to an account's chain.
type AccountEntry struct {
	Account event.AccountID
	Number  uint64
	Before  Hash // of the chain before the entry
	Data    [event.EntryBytes]byte
}

// link adds an entry to the account's chain, if the message is decided by rules that have one. The first entry is preceded by the
// beginning, so the settled balance must not contain e yet.
func (b *base) link(a *account, e *event.Entry) {
	if b.effects.Rules < Rules5 {
		return
	}
	if a.receipt.number == 0 {
		a.receipt.hash = event.FirstEntryHash(event.AccountID(a.id))
		b.add(a, &event.Entry{Kind: event.EntryBegins, TimeMs: e.TimeMs, Month: decimalMonth(a.month), Micros: a.settled})
	}
	b.add(a, e)
}

func (b *base) add(a *account, e *event.Entry) {
	b.effects.Entries = append(b.effects.Entries, AccountEntry{
		Account: event.AccountID(a.id), Number: a.receipt.number + 1, Before: a.receipt.hash,
	})
	data := &b.effects.Entries[len(b.effects.Entries)-1].Data
	e.Encode(data)
	a.receipt.append(data)
	if !a.listed {
		a.listed, b.listed = true, append(b.listed, a)
	}
}

// Receipt is the end of an account's chain.
type Receipt struct {
	Account event.AccountID
	Number  uint64
	Hash    Hash
}

// ChangedReceipts is the number of accounts that TakeReceipts returns.
func (b *base) ChangedReceipts() int { return len(b.listed) }

// TakeReceipts returns the receipts that have changed since the last call, in no order. The first call after a restore returns the
// receipt of every account that has one. The list is not part of the state.
func (b *base) TakeReceipts() []Receipt {
	list := make([]Receipt, len(b.listed))
	for i, a := range b.listed {
		list[i] = Receipt{Account: event.AccountID(a.id), Number: a.receipt.number, Hash: a.receipt.hash}
		a.listed = false
	}
	b.listed = nil
	return list
}

// linkHold adds an entry about the request of a hold.
func (b *base) linkHold(a *account, kind event.EntryKind, h *hold, at int64) {
	b.link(a, &event.Entry{
		Kind: kind, TimeMs: at, Month: decimalMonth(h.month), QuotaKey: num.Uint8(h.key), Charge: num.Uint8(h.charge), Micros: num.Int64(h.cost),
		Key: h.keyNumber, Request: h.request,
	})
}

// linkLedger adds an entry of the ledger that counts in a month.
func (b *base) linkLedger(a *account, month uint32, e *event.LedgerEntry) {
	of := event.Entry{
		Kind: event.EntryLedger, TimeMs: e.SettledMs, Month: decimalMonth(month), QuotaKey: num.Uint8(e.QuotaKey), Charge: num.Uint8(e.Type), Micros: e.AmountMicros,
	}
	copy(of.Request[:], e.RequestId)
	b.link(a, &of)
}

// decimalMonth is a month as entries have it, YYYYMM.
func decimalMonth(month uint32) uint32 { return month/12*100 + month%12 + 1 }

// setReceipt gives the receipt of an admitted request to its verdict.
func (f *Fold) setReceipt(a *account, v *event.Verdict) {
	if f.effects.Rules < Rules5 {
		return
	}
	v.ReceiptNumber, v.Receipt = a.receipt.number, f.scratch.keep(a.receipt.hash)
}
