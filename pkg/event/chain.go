package event

import (
	"crypto/sha256"
	"encoding/binary"

	"quire.dev/pkg/num"
)

// Kinds of the messages of a billing journal: docs/journal.md, Streams and subjects. From KindSettled on there is one for each of
// Documents.
const (
	KindUsage byte = 1 + iota
	KindCommands
	KindPrices
	KindSettled
)

// Kinds returns the kinds of the messages of a billing journal, by subject.
func Kinds(partition int) map[string]byte {
	kinds := map[string]byte{UsageSubject(partition): KindUsage, AccountSubject(partition): KindCommands, PricesSubject(partition): KindPrices}
	for i, domain := range Documents() {
		kinds[domain.SettleSubject(partition)] = KindSettled + num.Uint8(i)
	}
	return kinds
}

// Digest is the SHA-256 of everything about a message of a billing journal: docs/journal.md, Chain. Its time is in nanoseconds.
func Digest(sequence uint64, timeNanos int64, kind byte, subject string, data []byte) [sha256.Size]byte {
	var space [96]byte // a head with any subject of a billing journal
	head := binary.BigEndian.AppendUint64(space[:0], sequence)
	head = binary.BigEndian.AppendUint64(head, num.Bits(timeNanos))
	head = append(head, kind)
	head = binary.BigEndian.AppendUint16(head, num.Uint16(len(subject)))
	head = append(head, subject...)
	h := sha256.New()
	h.Write(head)
	h.Write(data)
	var sum [sha256.Size]byte
	return [sha256.Size]byte(h.Sum(sum[:0]))
}

// Link is the chain after a message with this digest.
func Link(chain, digest [sha256.Size]byte) [sha256.Size]byte {
	var both [2 * sha256.Size]byte
	copy(both[:], chain[:])
	copy(both[sha256.Size:], digest[:])
	return sha256.Sum256(both[:])
}
