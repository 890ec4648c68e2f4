package account

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"

	"quire.dev/pkg/event"
	"quire.dev/pkg/plan"
)

// Versions of the rules. The first price book that names a version brings it into force, from the next message on. What was
// decided before stays as it was decided: every version decides its own part of a journal, for ever.
const (
	// RulesFirst decides a journal that names no version.
	RulesFirst = 1
	// RulesHeld: failed calls cost nothing, neither themselves nor those beside them. A refusal says whether open holds may
	// undo it. A price book that is not agreed has no effect. A mark knows when its stream was made anew. A month is closed
	// CloseMillis after its end and does not change after that. Times of a clock that was ahead are taken back
	// (docs/adr/0007-rules-have-a-date.md).
	RulesHeld = 2
	// RulesSafe: an account can be suspended, and an admin's action that changes nothing in the fold is noted.
	RulesSafe = 3
	// RulesHolders: what account holders set for themselves. An account can have webhooks, which are told of crossings. It can have
	// several keys, and each request counts for the one that it was sent with. Usage and
	// storage are counted by day too. An account can be deleted. Each domain settles on a subject of its own, and what it may settle is checked (domain.go).
	// The offset of a development clock is the price book's.
	RulesHolders = event.RulesDomains
	// NewestRules are the newest that this code knows.
	NewestRules = RulesHolders
)

// ErrRules means that the journal has come to rules that this code does not know. A newer version of the program wrote it.
// No later message can be folded.
var ErrRules = errors.New("the journal's rules are newer than this program's")

// Rules is the version of the rules that decides the next message.
func (f *Fold) Rules() uint32 { return f.rules }

// SameTerms tells whether two price books have the same limits and prices.
func SameTerms(a, b *event.PriceBook) bool {
	if a == nil || b == nil {
		return a == b
	}
	return *BookOf(a) == *BookOf(b)
}

// setBook brings a price book into force, and the rules that it names.
func (f *Fold) setBook(book *event.PriceBook, stored int64) {
	changed := book.Rules > f.rules
	if changed {
		if f.rules < RulesHolders && book.Rules >= RulesHolders && len(f.books) > 0 {
			f.older = f.time // else no earlier version has ever written to this journal
		}
		f.rules, f.rulesMillis, f.terms = book.Rules, stored, f.sequence
		if f.rules >= RulesHolders && f.daysMillis == 0 {
			f.daysMillis = f.time
			f.forgetInvalid()
		}
	}
	if f.rules >= RulesHolders {
		f.offset = max(f.offset, boundOffset(book.OffsetMs))
	}
	if have := f.Prices(); f.rules >= RulesHeld && have != nil && (!book.Agreed || SameTerms(book, have)) {
		return
	} else if f.rules >= RulesHolders && have != nil && publishedMillis(book) < publishedMillis(have) {
		return // an earlier book that comes again
	}
	f.books = append(f.books, bookFrom{fromMillis: f.time, book: BookOf(book), event: book})
	f.book = f.books[len(f.books)-1].book
	if f.rules >= RulesHeld {
		f.terms = f.sequence
	}
	f.trimAdmitted()
}

// publishedMillis is when a price book was published, by the clock of the instance without an offset.
func publishedMillis(book *event.PriceBook) int64 { return book.StampMs - book.OffsetMs }

// Know makes the fold one of a program that knows no rules after a version. The error is ErrRules if it has come to newer
// ones already.
func (f *Fold) Know(rules uint32) error {
	f.newest = rules
	if f.rules > rules {
		f.broken = fmt.Errorf("%w: version %d, this program knows %d", ErrRules, f.rules, rules)
	}
	return f.broken
}

// BookHash is a hash of a price book as text, by which instances compare theirs.
func BookHash(book *plan.Book) string {
	data, err := event.Encode(PriceEvent(book))
	if err != nil {
		return "" // agrees with none
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:16])
}
