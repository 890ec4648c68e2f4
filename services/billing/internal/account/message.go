package account

import (
	"crypto/sha256"
	"encoding/binary"

	"quire.dev/pkg/event"
)

// Kind is the kind of a message.
type Kind uint8

// Kinds, by the subject of a message.
const (
	Unknown Kind = iota
	Usage
	Commands
	Prices
	// Settlements of the domains, each on its own subject.
	SettledPaste
	SettledLite
	SettledFile
)

// SettledBy is the kind of a domain's settlements.
func SettledBy(d event.Domain) Kind {
	switch d {
	case event.Paste:
		return SettledPaste
	case event.Lite:
		return SettledLite
	case event.File:
		return SettledFile
	}
	return Unknown
}

// domain returns the domain whose settlements have this kind, or "".
func (k Kind) domain() event.Domain {
	for _, d := range event.Documents() {
		if SettledBy(d) == k {
			return d
		}
	}
	return ""
}

// Message is one message of the journal.
type Message struct {
	Sequence   uint64
	TimeMillis int64 // the journal's clock
	Kind       Kind
	Data       []byte // not kept
}

// AnswerKind is the kind of an answer.
type AnswerKind uint8

// Kinds of answers.
const (
	Verdicts AnswerKind = iota
	Outcomes
)

// Answer is an answer to the source of a batch.
type Answer struct {
	Source string
	Kind   AnswerKind
	Data   []byte // an encoded VerdictBatch or CommandOutcomeBatch; not to be changed
}

// Closed is the statement of a month that has left an account's state.
type Closed struct {
	Account   event.AccountID
	Statement *event.StatementAnswer
}

// Effects are the caller's tasks after a message. The slices belong to the fold and are overwritten by the next Apply; the
// values they point to are not.
type Effects struct {
	Answers     []Answer
	Ledger      []*event.LedgerEntry // in order
	Closed      []Closed
	Changed     []event.AccountID // accounts whose refusals cached by edges may be outdated
	Recreated   []Recreated
	Admin       []*event.AdminEntry // in order; without ids
	Alerts      []*event.Alert      // in order
	Usage       []UsageDelta        // in order
	Refused     []Refused
	Quarantined []Quarantined
	Rules       uint32 // that decided the message
}

// Digest is the SHA-256 of a message, a link of the chain.
func Digest(m Message) [sha256.Size]byte {
	var head [17]byte
	binary.BigEndian.PutUint64(head[:], m.Sequence)
	binary.BigEndian.PutUint64(head[8:], uint64(m.TimeMillis))
	head[16] = byte(m.Kind)
	h := sha256.New()
	h.Write(head[:])
	h.Write(m.Data)
	var sum [sha256.Size]byte
	return [sha256.Size]byte(h.Sum(sum[:0]))
}

func nextChain(chain, digest [sha256.Size]byte) [sha256.Size]byte {
	var both [2 * sha256.Size]byte
	copy(both[:], chain[:])
	copy(both[sha256.Size:], digest[:])
	return sha256.Sum256(both[:])
}
