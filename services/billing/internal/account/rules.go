package account

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"quire.dev/pkg/event"
	"quire.dev/pkg/plan"
	"quire.dev/pkg/pricebook"
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
	// Rules4 takes price books that admins apply, with the time from which on they are in force, and payments with what belongs to
	// them: reversals, refunds, subscriptions, top-ups, changes of plan at the end of a month, and their alerts.
	Rules4 = pricebook.Rules
	// Rules5 begins the accounts' chains of entries. A late write is charged once, whether an edge or its service settles it first.
	Rules5 = 5
	// NewestRules is the newest version that this code knows.
	NewestRules = Rules5
)

// ErrRules means that the journal has reached rules unknown to this code. A newer version of the program wrote it. No later
// message can be folded.
var ErrRules = errors.New("the journal's rules are newer than this program's")

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

// counts reports whether the rules in force count requests under a quota key: so far, all versions count all keys. A key that is added
// comes with a new version of the rules. Until that version is in force, requests under it are decided as if the key were unknown.
func (b *base) counts(key plan.QuotaKey) bool { return key.Valid() }

// set takes a published price book and the rules that it names, and reports whether the book came into force. The first
// configured book needs no agreement. After an applied book, configured ones change only the rules.
func (l *prices) set(book *event.PriceBook) bool {
	if book.Id != "" {
		return l.apply(book)
	}
	if book.Rules > l.rules {
		l.rules, l.terms = book.Rules, l.sequence
	}
	if l.substituted(l.time) {
		return false
	}
	if have := l.Prices(); have != nil &&
		(!book.Agreed || have.Id != "" || pricebook.Same(book, have) || publishedMillis(book) < publishedMillis(have)) { // nothing new, or nothing that the instances agree on
		return false
	}
	l.bringIntoForce(bookFrom{fromMillis: l.time, book: pricebook.Of(book), event: book})
	return true
}

// apply takes an applied price book, or withdraws an upcoming one. A withdrawn one is remembered until its time, so that a duplicate
// of its message does not restore it. After that time, messages that were published before it have no effect. It reports whether the
// book came into force.
func (l *prices) apply(book *event.PriceBook) bool {
	if l.rules < Rules4 || l.current == nil || l.substituted(max(book.EffectiveMs, l.time)) {
		return false
	}
	known := func(b bookFrom) bool { return b.event.Id == book.Id }
	i := slices.IndexFunc(l.upcoming, known)
	switch {
	case book.Withdrawn:
		if i >= 0 {
			l.upcoming[i].book, l.upcoming[i].event = nil, &event.PriceBook{Id: book.Id, Withdrawn: true}
		}
	case i >= 0 || slices.ContainsFunc(l.list, known) || !l.TakesBook(book):
	case book.EffectiveMs <= l.time && book.StampMs < book.EffectiveMs:
	case book.EffectiveMs <= l.time:
		l.bringIntoForce(bookFrom{fromMillis: l.time, book: pricebook.Of(book), event: book})
		return true
	default:
		l.upcoming = append(l.upcoming, bookFrom{fromMillis: book.EffectiveMs, book: pricebook.Of(book), event: book})
		slices.SortStableFunc(l.upcoming, func(a, b bookFrom) int { return cmp.Compare(a.fromMillis, b.fromMillis) })
	}
	return false
}

// TakesBook reports whether an applied book has an effect: there is room for it, and none of its plans clashes with one of another
// book.
func (l *prices) TakesBook(book *event.PriceBook) bool {
	next := pricebook.Of(book)
	clashes := func(b bookFrom) bool { return b.book != nil && pricebook.Clash(b.book, next) }
	return len(l.list)+len(l.upcoming) < pricebook.Max && !slices.ContainsFunc(l.list, clashes) && !slices.ContainsFunc(l.upcoming, clashes)
}

// bringIntoForce makes a price book the current one. The message being folded is the first that it counts for.
func (l *prices) bringIntoForce(b bookFrom) {
	b.sequence = l.sequence
	l.list = append(l.list, b)
	l.current, l.terms = b.book, l.sequence
}

// publishedMillis is when a price book was published, by the instance's clock without an offset.
func publishedMillis(book *event.PriceBook) int64 { return book.StampMs - book.OffsetMs }
