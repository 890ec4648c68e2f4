package projection

import (
	"context"
	"errors"
	"slices"
	"strings"

	"quire.dev/pkg/event"
	"quire.dev/services/billing/internal/account"
)

// Rows are stored in the order of settlement, which only appends. A ledger is listed in the order of admission, newest first,
// by account.LedgerOrder. An entry is settled after its admission. So once the rows of a message are read, everything admitted
// after that message is known.

// listing lists a ledger. Each entry gets the balance after it in the order of the list: the sum of this entry and those before.
type listing struct {
	p        *Projection
	id       event.AccountID
	pageSize int // entries read at a time: a few more than listed show what is to be listed first

	aged  string // rows up to here have to be recomputed; empty: none
	none  bool   // none of them can match
	old   bool   // all rows after it are read
	again int    // how often some were recomputed but not listed
	taken bool   // take was called

	before  string // rows from here on are read; empty: the newest
	last    string // id of the last entry read
	listed  string // position of the last entry listed, before which all are to be skipped; empty: none
	pending []pendingEntry
	balance int64 // after the next entry
	begun   bool  // balance is known
	ended   bool  // all rows are read
}

// pendingEntry is read and not listed. The next one to list comes first.
type pendingEntry struct {
	*event.LedgerEntry
	order string
}

// The parts of a cursor: the position of the last entry listed, and the id of the last settled one that is not listed. Reading
// again from there skips those listed, which were settled later and admitted in the minutes before.
const (
	idChars    = account.LedgerIDChars
	orderChars = 2 * idChars
)

// ValidLedgerCursor reports whether s has the form of a cursor of Page.
func ValidLedgerCursor(s string) bool {
	return len(s) == orderChars+idChars &&
		account.ValidLedgerID(s[:idChars]) && account.ValidLedgerID(s[idChars:orderChars]) && account.ValidLedgerID(s[orderChars:])
}

func (l *listing) from(cursor string) {
	l.listed, l.before = cursor[:orderChars], cursor[orderChars:]+"0" // sorts right after the id
}

// start begins where the cursor or the search says.
func (l *listing) start(ctx context.Context, search Search, cursor string) error {
	newest, err := newestAged(ctx, l.p.store, l.id)
	if err == nil && newest != nil {
		l.aged, err = agedUpTo(*newest)
	}
	if err != nil {
		return err
	}
	if newest != nil && search.since() != 0 {
		l.none = timesOf(*newest).last < search.since()-aheadMillis
	}
	if cursor != "" {
		l.from(cursor)
		return nil
	}
	if search.ToMillis == 0 {
		return nil
	}
	to := search.ToMillis + aheadMillis
	if newest != nil && timesOf(*newest).last >= to {
		l.before, err = l.p.agedAt(ctx, l.id, to)
		return err
	}
	l.before, err = l.p.ledgerAt(ctx, l.id, l.aged, to)
	return err
}

// errPageEnds means that the next rows are for another page.
var errPageEnds = errors.New("the next rows have to be recomputed")

// cursor continues with the entry of peek, or with the rows that come next if that has returned errPageEnds.
func (l *listing) cursor() string {
	if len(l.pending) == 0 {
		return l.listed + l.before[:idChars] // read again, and skipped as listed
	}
	newest := slices.MaxFunc(l.pending, func(a, b pendingEntry) int { return strings.Compare(a.Id, b.Id) })
	return l.listed + newest.Id
}

// peek returns the next entry, or nil at the end. It returns errPageEnds before rows that have to be recomputed, if the page has entries, or
// has advanced and the next page should recompute them.
func (l *listing) peek(ctx context.Context, has bool) (*event.LedgerEntry, error) {
	for !l.ended && (len(l.pending) == 0 || l.pending[0].order <= account.LedgerPosition(account.LedgerSequence(l.last)+1)) {
		if l.old && l.taken && (has || l.again >= maxAgain) {
			return nil, errPageEnds
		}
		err := l.read(ctx)
		if l.taken && errors.Is(err, ErrMaking) {
			return nil, errPageEnds
		}
		if err != nil {
			return nil, err
		}
	}
	if len(l.pending) == 0 {
		return nil, nil
	}
	l.pending[0].BalanceMicros = l.balance
	return l.pending[0].LedgerEntry, nil
}

// take moves on to the entry after peek's.
func (l *listing) take() {
	l.listed, l.taken = l.pending[0].order, true
	l.balance -= l.pending[0].AmountMicros
	l.pending = l.pending[1:]
}

// read reads the next entries: the stored ones, and then the ones that have to be recomputed.
func (l *listing) read(ctx context.Context) error {
	if l.old {
		entries, more, err := l.p.agedEntries(ctx, l.id, l.before)
		if err != nil {
			return err
		}
		l.ended = !more
		if pending := len(l.pending); l.add(entries) > pending {
			l.again++
		}
		return nil
	}
	entries, err := l.p.entries(ctx, l.id, span{l.aged, l.before}, l.pageSize)
	if err != nil {
		return err
	}
	l.add(entries)
	if len(entries) < l.pageSize {
		l.old, l.ended = true, l.aged == "" || l.none
	}
	if l.old && !l.ended {
		l.last = l.aged // nothing is between
	}
	return nil
}

// add adds the entries that are not listed to the pending ones, and returns how many these are then.
func (l *listing) add(entries []*event.LedgerEntry) int {
	for _, e := range entries {
		if !l.begun {
			l.begun, l.balance = true, e.BalanceMicros
		}
		l.before, l.last = e.Id, e.Id
		order := account.LedgerOrder(e)
		if l.listed != "" && order >= l.listed {
			l.balance -= e.AmountMicros
			continue
		}
		at := len(l.pending)
		for at > 0 && l.pending[at-1].order < order {
			at--
		}
		l.pending = slices.Insert(l.pending, at, pendingEntry{e, order})
	}
	return len(l.pending)
}
