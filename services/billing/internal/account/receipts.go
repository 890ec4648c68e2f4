package account

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"

	"quire.dev/pkg/event"
	"quire.dev/pkg/plan"
)

// From Rules5 on each account has a chain of entries: one for each change of a month's counters, and one for each entry of its
// ledger. The number of the last entry and the hash over all are the account's receipt. Whoever kept two receipts detects that an
// entry between them was edited, removed or inserted. docs/journal.md (Receipts) has the encoding and the order.

// EntryBytes is the size of an encoded entry of an account's chain.
const EntryBytes = 43

// entryKind is the first byte of an entry. The values are part of the chain.
type entryKind uint8

const (
	entryBegins   entryKind = iota + 1 // with the settled balance until then
	entryAdmitted                      // counted
	entryUndone                        // counted no more
	entryFree                          // its payment was taken back, and it stays counted
	entryLate                          // counted, or waived, after its hold was voided
	entryLedger                        // of the ledger
)

// chargeWaived stands for the charge of a late request that nothing covers.
const chargeWaived = 0xFF

// entry is an entry of an account's chain.
type entry struct {
	kind    entryKind
	time    int64
	month   uint32 // in which it counts
	key     plan.QuotaKey
	charge  uint8 // event.ChargeSource or chargeWaived; of entryLedger event.LedgerType
	micros  int64
	number  uint32 // of the API key
	request event.RequestID
}

func (e *entry) encode(to *[EntryBytes]byte) {
	to[0] = byte(e.kind)
	binary.BigEndian.PutUint64(to[1:], uint64(e.time))
	binary.BigEndian.PutUint32(to[9:], e.month/12*100+e.month%12+1)
	to[13], to[14] = byte(e.key), e.charge
	binary.BigEndian.PutUint64(to[15:], uint64(e.micros))
	binary.BigEndian.PutUint32(to[23:], e.number)
	copy(to[27:], e.request[:])
}

// receipt is the state of an account's chain: the number of its last entry, 0 before the first, and the hash over all.
type receipt struct {
	number uint64
	hash   Hash
}

// firstHash is the hash of a chain without entries.
func firstHash(account uint64) Hash {
	return sha256.Sum256(binary.BigEndian.AppendUint64([]byte("quire account\n"), account))
}

// append adds an encoded entry.
func (r *receipt) append(data *[EntryBytes]byte) {
	var both [sha256.Size + EntryBytes]byte // two blocks of SHA-256
	copy(both[:], r.hash[:])
	copy(both[sha256.Size:], data[:])
	r.number++
	r.hash = sha256.Sum256(both[:])
}

// String is the receipt as the API has it, empty before the first entry.
func (r *receipt) String() string {
	if r.number == 0 {
		return ""
	}
	return strconv.FormatUint(r.number, 10) + "." + hex.EncodeToString(r.hash[:])
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
	Data    [EntryBytes]byte
}

// link adds an entry to the account's chain, if the message is decided by rules that have one. The first entry is preceded by the
// beginning, so the settled balance must not contain e yet.
func (b *base) link(a *account, e *entry) {
	if b.effects.Rules < Rules5 {
		return
	}
	if a.receipt.number == 0 {
		a.receipt.hash = firstHash(a.id)
		b.add(a, &entry{kind: entryBegins, time: e.time, month: a.month, micros: a.settled})
	}
	b.add(a, e)
}

func (b *base) add(a *account, e *entry) {
	b.effects.Entries = append(b.effects.Entries, AccountEntry{Account: event.AccountID(a.id), Number: a.receipt.number + 1})
	data := &b.effects.Entries[len(b.effects.Entries)-1].Data
	e.encode(data)
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
func (f *Fold) ChangedReceipts() int { return len(f.listed) }

// TakeReceipts returns the receipts that have changed since it was called last, or since the fold was created or restored, in no order. It is
// no part of the state.
func (f *Fold) TakeReceipts() []Receipt {
	list := make([]Receipt, len(f.listed))
	for i, a := range f.listed {
		list[i] = Receipt{Account: event.AccountID(a.id), Number: a.receipt.number, Hash: a.receipt.hash}
		a.listed = false
	}
	f.listed = nil
	return list
}

// linkHold adds an entry about the request of a hold.
func (b *base) linkHold(a *account, kind entryKind, h *hold, at int64) {
	b.link(a, &entry{
		kind: kind, time: at, month: h.month, key: h.key, charge: uint8(h.charge), micros: int64(h.cost), number: h.keyNumber, request: h.request,
	})
}

// linkLedger adds an entry of the ledger that counts in a month.
func (b *base) linkLedger(a *account, month uint32, e *event.LedgerEntry) {
	of := entry{kind: entryLedger, time: e.SettledMs, month: month, key: plan.QuotaKey(e.QuotaKey), charge: uint8(e.Type), micros: e.AmountMicros}
	copy(of.request[:], e.RequestId)
	b.link(a, &of)
}

// setReceipt gives the receipt of an admitted request to its verdict.
func (f *Fold) setReceipt(a *account, v *event.Verdict) {
	if f.effects.Rules < Rules5 {
		return
	}
	v.ReceiptNumber, v.Receipt = a.receipt.number, f.scratch.keep(a.receipt.hash)
}
