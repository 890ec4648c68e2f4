package account

import (
	"maps"
	"slices"

	"quire.dev/pkg/event"
	"quire.dev/pkg/pricebook"
)

// substituteID is none of an applied book, so that no message withdraws it.
const substituteID = "substitute"

// Substitute replaces all price books of the journal from a time on, to compute what another book would have charged. Call it before
// the first message; it takes ownership of the book. The fold's states are then not the journal's. refused are the requests that were
// refused: no service has settled a write among them, so one that the book admits counts as served.
func (l *prices) Substitute(book *event.PriceBook, fromMillis int64, refused map[event.RequestID]struct{}) {
	book.Id = substituteID
	l.substitute, l.refused = max(1, fromMillis), refused
	l.upcoming = []bookFrom{{fromMillis: l.substitute, book: pricebook.Of(book), event: book}}
}

// substituted reports whether the journal's books don't count at a time.
func (l *prices) substituted(millis int64) bool { return l.substitute != 0 && millis >= l.substitute }

// admitsMore reports whether only the substitute has admitted a request.
func (l *prices) admitsMore(request event.RequestID) bool {
	_, more := l.refused[request]
	return more
}

// Pass advances the time without a message, for a simulation. The state is then no longer the journal's.
func (f *Fold) Pass(millis int64) {
	f.resetEffects()
	f.advance(millis)
}

// Month is the start of a month and of the next one, in Unix milliseconds. period is its name in the API, such as "2026-11".
func Month(period string) (start, end int64, ok bool) {
	m, ok := parsePeriod(period)
	return m.start, m.end, ok
}

// AccountIDs are the accounts that have ever been, in order.
func (s *principals) AccountIDs() []event.AccountID {
	ids := make([]event.AccountID, 0, s.Accounts())
	for _, id := range slices.Sorted(maps.Keys(s.accounts)) {
		ids = append(ids, event.AccountID(id))
	}
	return ids
}
