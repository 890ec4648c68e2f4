package account

import (
	"crypto/sha256"
	"errors"
	"fmt"

	"quire.dev/pkg/event"
	"quire.dev/pkg/num"
)

// base is what all parts of a fold share: the position in the journal, the effects of the present message, and the changed
// principals.
type base struct {
	sequence uint64
	time     int64             // of the journal: decides months, time-outs and expiries
	peak     int64             // latest value of time
	offset   int64             // largest development clock offset of the price books
	month    month             // of time
	rules    uint32            // version of the rules for the next message
	chain    Hash              // over all messages folded
	digest   [sha256.Size]byte // of the last message

	effects Effects
	dirty   []*principal
	broken  error // such as ErrState and ErrRules; after it nothing can be folded

	changing *principal   // the last one touched by this message
	faulty   []*principal // found by this message to be impossible

	quarantines int        // accounts in quarantine
	watched     []*account // touched by this message, with a rule for top-ups
	listed      []*account // for TakeReceipts
}

// ErrState means that the state contradicts itself in a place that belongs to no principal. No journal causes that, only bad
// memory or a bug in this package.
var ErrState = errors.New("state of the fold is wrong")

// take subtracts n, for example the amount of a hold or grant, from the counter that it was added to. A smaller counter would
// wrap around; it keeps its value, and its principal is quarantined. It reports whether the counter was large enough.
func take[N int | int64 | uint32 | uint64](b *base, name string, counter *N, n N) bool {
	if *counter >= n {
		*counter -= n
		return true
	}
	b.fault("%d %s, %d are taken", *counter, name, n)
	return false
}

// fault quarantines the principal that the message changes, since its state contradicts itself. Without one, Apply fails with
// ErrState.
func (b *base) fault(format string, args ...any) {
	text := fmt.Sprintf("message %d: "+format, append([]any{b.sequence}, args...)...)
	if b.changing == nil {
		if b.broken == nil {
			b.broken = fmt.Errorf("%w: %s", ErrState, text)
		}
		return
	}
	b.quarantine(b.changing, text)
}

func (b *base) answer(source string, kind AnswerKind, data []byte) {
	b.effects.Answers = append(b.effects.Answers, Answer{Source: source, Kind: kind, Data: data})
}

func (b *base) changed(id uint64) {
	b.effects.Changed = append(b.effects.Changed, event.AccountID(id))
}

// Sequence is the sequence of the last message folded.
func (b *base) Sequence() uint64 { return b.sequence }

// Head is the head of the chain. It is equal in every fold of the same messages, and in no fold of others.
func (b *base) Head() Head { return Head{Sequence: b.sequence, Chain: b.chain} }

// LastDigest is the Digest of the last message folded, zero before the first one.
func (b *base) LastDigest() [sha256.Size]byte { return b.digest }

// TimeMillis is the journal's time at the last message folded.
func (b *base) TimeMillis() int64 { return b.time }

// NextDay is the first day, since 1970, in which no request counts yet, whichever clock was ahead.
func (b *base) NextDay() uint32 { return num.Uint32(b.peak/dayMillis) + 1 }

// NextMillis is after the time of every request so far, whichever clock was ahead.
func (b *base) NextMillis() int64 { return b.peak + 1 }

// Offset is the development clock's offset, in milliseconds.
func (b *base) Offset() int64 { return b.offset }

// Rules is the version of the rules for the next message.
func (b *base) Rules() uint32 { return b.rules }
