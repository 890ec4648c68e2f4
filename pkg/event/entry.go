package event

import (
	"crypto/sha256"
	"encoding/binary"

	"quire.dev/pkg/num"
)

// EntryBytes is the size of an encoded entry of an account's chain.
const EntryBytes = 43

// EntryKind is what an entry of an account's chain records. The values are part of the chain.
type EntryKind uint8

const (
	EntryBegins   EntryKind = iota + 1 // with the settled balance until then
	EntryAdmitted                      // counted
	EntryUndone                        // counted no more
	EntryFree                          // its payment was taken back, and it stays counted
	EntryLate                          // counted, or waived, after its hold was voided
	EntryLedger                        // of the ledger
)

// ChargeWaived stands for the charge of a late request that nothing covers.
const ChargeWaived = 0xFF

// Entry is an entry of an account's chain. docs/journal.md (Receipts) has the encoding.
type Entry struct {
	Kind     EntryKind
	TimeMs   int64
	Month    uint32 // in which it counts, as YYYYMM
	QuotaKey uint8
	Charge   uint8 // ChargeSource or ChargeWaived; of EntryLedger a LedgerType
	Micros   int64
	Key      uint32    // number of the API key; 0: the default one, or none
	Request  RequestID // zero: none
}

// Encode writes the entry as the chain has it.
func (e *Entry) Encode(to *[EntryBytes]byte) {
	to[0] = byte(e.Kind)
	binary.BigEndian.PutUint64(to[1:], num.Bits(e.TimeMs))
	binary.BigEndian.PutUint32(to[9:], e.Month)
	to[13], to[14] = e.QuotaKey, e.Charge
	binary.BigEndian.PutUint64(to[15:], num.Bits(e.Micros))
	binary.BigEndian.PutUint32(to[23:], e.Key)
	copy(to[27:], e.Request[:])
}

// DecodeEntry reads an encoded entry. Every value is possible: only the chain tells whether an entry is right.
func DecodeEntry(data *[EntryBytes]byte) Entry {
	return Entry{
		Kind: EntryKind(data[0]), TimeMs: num.FromBits(binary.BigEndian.Uint64(data[1:])), Month: binary.BigEndian.Uint32(data[9:]),
		QuotaKey: data[13], Charge: data[14], Micros: num.FromBits(binary.BigEndian.Uint64(data[15:])),
		Key: binary.BigEndian.Uint32(data[23:]), Request: RequestID(data[27:]),
	}
}

// FirstEntryHash is the hash of an account's chain without entries.
func FirstEntryHash(account AccountID) [sha256.Size]byte {
	return sha256.Sum256(binary.BigEndian.AppendUint64([]byte("quire account\n"), uint64(account)))
}

// LinkEntry is the hash of an account's chain after an encoded entry.
func LinkEntry(chain [sha256.Size]byte, data *[EntryBytes]byte) [sha256.Size]byte {
	var both [sha256.Size + EntryBytes]byte // two blocks of SHA-256
	copy(both[:], chain[:])
	copy(both[sha256.Size:], data[:])
	return sha256.Sum256(both[:])
}
