package account

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"

	"quire.dev/pkg/event"
	"quire.dev/pkg/plan"
)

// Versions of the rules. The first price book that names a version brings it into force, from the next message on. Earlier
// decisions stand: every version decides its own part of a journal, permanently (docs/adr/0007-rules-have-a-date.md).
const (
	// Rules1 decides a journal from its first message on.
	Rules1 = 1
	// Rules2 keeps the names of an account's live keys unique, and names a key that is created without a name.
	Rules2 = 2
	// Rules3 lets webhooks subscribe to the types of alerts that were added with it.
	Rules3 = 3
	// NewestRules is the newest version that this code knows.
	NewestRules = Rules3
)

// ErrRules means that the journal has reached rules unknown to this code. A newer version of the program wrote it. No later
// message can be folded.
var ErrRules = errors.New("the journal's rules are newer than this program's")

// Rules is the version of the rules for the next message.
func (f *Fold) Rules() uint32 { return f.rules }

// SameTerms reports whether two price books have the same limits and prices.
func SameTerms(a, b *event.PriceBook) bool {
	if a == nil || b == nil {
		return a == b
	}
	return *BookOf(a) == *BookOf(b)
}

// setBook brings a price book into force, and the rules that it names. Only the first book needs no agreement.
func (f *Fold) setBook(book *event.PriceBook) {
	if book.Rules > f.rules {
		f.rules, f.prices.terms = book.Rules, f.sequence
		f.kept.forgetInvalid()
	}
	if have := f.Prices(); have != nil &&
		(!book.Agreed || SameTerms(book, have) || publishedMillis(book) < publishedMillis(have)) { // a repeat of the last one
		return
	}
	f.prices.list = append(f.prices.list, bookFrom{fromMillis: f.time, sequence: f.sequence, book: BookOf(book), event: book})
	f.prices.current = f.prices.list[len(f.prices.list)-1].book
	f.prices.terms = f.sequence
	f.principals.trimAdmitted(f.prices.current.AnonymousWindowMillis)
}

// publishedMillis is when a price book was published, by the instance's clock without an offset.
func publishedMillis(book *event.PriceBook) int64 { return book.StampMs - book.OffsetMs }

// Know makes the fold act as a program that knows no rules after a version. It returns ErrRules if the fold has already reached
// newer ones.
func (f *Fold) Know(rules uint32) error {
	f.newest = rules
	if f.rules > rules {
		f.broken = f.unknown(f.rules)
	}
	return f.broken
}

func (f *Fold) unknown(rules uint32) error {
	return fmt.Errorf("%w: version %d, this program knows %d", ErrRules, rules, f.newest)
}

// BookHash is a hash of a price book as text, for comparison between instances.
func BookHash(book *plan.Book) string {
	data, err := event.Encode(PriceEvent(book))
	if err != nil {
		return "" // equals none
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:16])
}
