package account

import (
	"bytes"
	"cmp"
	"slices"
)

// Listed is an account in a list of all.
type Listed struct {
	ID            uint64
	CreatedMillis int64
	Erased        bool
	OpenMillis    int64 // beginning of the month before the current one, of which the state has the statement, if any
}

// List returns all accounts, sorted by id.
func (s *principals) List() []Listed {
	list := make([]Listed, 0, len(s.accounts))
	for id, a := range s.accounts { // sorted below
		list = append(list, Listed{
			ID: id, CreatedMillis: a.created, Erased: a.erased != 0, OpenMillis: monthNumber(a.month - 1).start,
		})
	}
	slices.SortFunc(list, func(a, b Listed) int { return cmp.Compare(a.ID, b.ID) })
	return list
}

// OldestAdmission is the sequence of the oldest message about whose requests the ledger may still get entries.
func (f *Fold) OldestAdmission() uint64 {
	oldest := f.sequence + 1
	for _, h := range f.holds.byRequest { // the order has no effect
		oldest = min(oldest, h.sequence)
	}
	for _, a := range f.principals.accounts {
		for _, l := range a.paid {
			for _, p := range l.items {
				oldest = min(oldest, p.sequence)
			}
		}
	}
	return oldest
}

// Keeps reports whether the fold decides about a principal: a part passes over the others.
func (f *Fold) Keeps(id uint64) bool { return f.keep.has(id) }

// Compare calls differ for each principal that the fold keeps and whose encoded state differs in an image of the same journal. field is
// AccountsField or NetworksField; expected is the fold's state and found the image's, nil without one. Principals are ordered by id,
// accounts first. It requires a fold without ErrState.
func (f *Fold) Compare(i *Image, differ func(field uint64, id uint64, expected, found []byte)) error {
	if _, err := f.Clean(len(f.dirty)); err != nil {
		return err
	}
	accounts, networks := make([]imagePrincipal, 0, len(f.principals.accounts)), make([]imagePrincipal, 0, len(f.principals.networks))
	for id, a := range f.principals.accounts { // sorted by compare
		accounts = append(accounts, imagePrincipal{id, a.encoded})
	}
	for id, n := range f.principals.networks {
		networks = append(networks, imagePrincipal{id, n.encoded})
	}
	f.keep.compare(AccountsField, accounts, i.accounts, differ)
	f.keep.compare(NetworksField, networks, i.networks, differ)
	return nil
}

// compare is Compare for one kind of principals.
func (keep selection) compare(field uint64, expected, found []imagePrincipal, differ func(uint64, uint64, []byte, []byte)) {
	byID := func(a, b imagePrincipal) int { return cmp.Compare(a.id, b.id) }
	slices.SortFunc(expected, byID)
	if !slices.IsSortedFunc(found, byID) {
		slices.SortFunc(found, byID)
	}
	for len(expected) > 0 || len(found) > 0 {
		switch {
		case len(found) > 0 && !keep.has(found[0].id):
			found = found[1:]
		case len(found) == 0 || len(expected) > 0 && expected[0].id < found[0].id:
			differ(field, expected[0].id, expected[0].data, nil)
			expected = expected[1:]
		case len(expected) == 0 || found[0].id < expected[0].id:
			differ(field, found[0].id, nil, found[0].data)
			found = found[1:]
		default:
			if !bytes.Equal(expected[0].data, found[0].data) {
				differ(field, expected[0].id, expected[0].data, found[0].data)
			}
			expected, found = expected[1:], found[1:]
		}
	}
}
