package account

import (
	"crypto/sha256"
	"errors"
	"fmt"

	"quire.dev/pkg/event"
)

// base is what all parts of a fold share: where it is in its journal, what the present message has had as effects, and which
// principals have changed.
type base struct {
	sequence uint64
	time     int64             // of the journal: it decides months, time-outs and expiries
	peak     int64             // the latest that time ever was
	offset   int64             // the largest development clock offset of the price books
	month    month             // of time
	chain    [sha256.Size]byte // over all messages folded
	digest   [sha256.Size]byte // of the last message

	effects Effects
	dirty   []*principal
	broken  error // ErrState, ErrRules or a CoupledError; nothing can be folded after it
}

// ErrState means that the state contradicts itself: there is less of something than a message takes from it. No journal
// leads to that; memory that went bad or a mistake of this package does.
var ErrState = errors.New("state of the fold is wrong")

// take subtracts n, the amount of a hold or grant for example, from the counter that it was added to before. A counter
// that is smaller keeps its value, which would wrap round otherwise, and Apply fails.
func take[N int | int64 | uint32 | uint64](b *base, name string, counter *N, n N) {
	if *counter >= n {
		*counter -= n
		return
	}
	b.fault("%d %s, %d are taken", *counter, name, n)
}

// fault makes Apply fail with ErrState.
func (b *base) fault(format string, args ...any) {
	if b.broken == nil {
		b.broken = fmt.Errorf("fold message %d: %w: %s", b.sequence, ErrState, fmt.Sprintf(format, args...))
	}
}

func (b *base) answer(source string, kind AnswerKind, data []byte) {
	b.effects.Answers = append(b.effects.Answers, Answer{Source: source, Kind: kind, Data: data})
}

func (b *base) changed(id uint64) {
	b.effects.Changed = append(b.effects.Changed, event.AccountID(id))
}
