package projection

import (
	"context"
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

// cursor continues with the entry of peek, which is not nil.
func (l *listing) cursor() string {
	newest := slices.MaxFunc(l.pending, func(a, b pendingEntry) int { return strings.Compare(a.Id, b.Id) })
	return l.listed + newest.Id
}

// peek returns the next entry, or nil at the end.
func (l *listing) peek(ctx context.Context) (*event.LedgerEntry, error) {
	for !l.ended && (len(l.pending) == 0 || l.pending[0].order <= account.LedgerPosition(account.LedgerSequence(l.last)+1)) {
		if err := l.read(ctx); err != nil {
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
	l.listed = l.pending[0].order
	l.balance -= l.pending[0].AmountMicros
	l.pending = l.pending[1:]
}

func (l *listing) read(ctx context.Context) error {
	entries, err := l.p.entries(ctx, l.id, l.before, l.pageSize)
	if err != nil {
		return err
	}
	l.ended = len(entries) < l.pageSize
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
	return nil
}
