package fold

import "quire.dev/pkg/event"

// Reader is who reads, when, and which version.
type Reader struct {
	Account uint64 // 0: keyless
	Version uint64 // 0: the current one
	NowMS   int64
}

// MayRead tells whether d, nil where there is none, is there for the reader: public and unlisted
// documents for anyone, private ones and all earlier versions for the owner, expired ones for nobody.
func MayRead(d *event.Document, r Reader) bool {
	if d == nil || Expired(d, r.NowMS) || r.Version > d.Version {
		return false
	}
	if owns(d, r.Account) {
		return true
	}
	if r.Version != 0 && r.Version != d.Version {
		return false
	}
	v := event.Visibility(d.Visibility)
	return v == event.Public || v == event.Unlisted
}

// Expired tells whether d is over at nowMS.
func Expired(d *event.Document, nowMS int64) bool { return d.ExpiresMs != 0 && d.ExpiresMs <= nowMS }

// Burns tells whether a read of d by the account is its last: one of burn-after-read by someone other
// than its owner.
func Burns(d *event.Document, account uint64) bool { return d.BurnAfterRead && !owns(d, account) }

// owns tells whether d is the account's. Nobody's documents are not a keyless caller's.
func owns(d *event.Document, account uint64) bool { return account != 0 && d.Owner == account }
