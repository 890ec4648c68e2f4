package account

import (
	"crypto/sha256"

	"quire.dev/pkg/event"
)

// Kind is the kind of a message.
type Kind uint8

// Kinds, by the subject of a message.
const (
	Unknown  = Kind(0)
	Usage    = Kind(event.KindUsage)
	Commands = Kind(event.KindCommands)
	Prices   = Kind(event.KindPrices)
	// Settlements of the domains, each on its own subject.
	SettledPaste = Kind(event.KindSettled)
	SettledLite  = SettledPaste + 1
	SettledFile  = SettledPaste + 2
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
	Sequence  uint64
	TimeNanos int64 // the journal's clock, since 1970
	Subject   string
	Kind      Kind   // by the subject
	Data      []byte // not kept
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
	Requests    []RequestChange     // in order; see Fold.Record
	Refused     []Refused
	Quarantined []Quarantined
	Entries     []AccountEntry // in order
	Seal        *event.Seal    // of the message; nil: none
	TimeMillis  int64          // of the fold, with the message
	Rules       uint32         // that decided the message
	Head        Head           // of the chain, with the message
}

// millis is the time that decisions use.
func (m Message) millis() int64 { return m.TimeNanos / nanosPerMilli }

const nanosPerMilli = 1_000_000

// Digest is the SHA-256 of everything about a message, a link of the chain.
func Digest(m Message) [sha256.Size]byte {
	return event.Digest(m.Sequence, m.TimeNanos, byte(m.Kind), m.Subject, m.Data)
}

func nextChain(chain Hash, digest [sha256.Size]byte) Hash { return event.Link(chain, digest) }
