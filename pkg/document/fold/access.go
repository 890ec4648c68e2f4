package fold

import "quire.dev/pkg/event"

// Reader is the caller of a read, the version asked for, and the time.
type Reader struct {
	Account uint64 // 0: keyless
	Version uint64 // 0: the current one
	NowMS   int64
	ByLink  bool // a signed link shows that the reader may read the current version
}

// MayRead tells whether the reader may read d, which is nil where there is no document. Anyone may
// read public and unlisted documents, only the owner and the holder of a link private ones, only the owner earlier versions,
// and nobody expired ones.
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
	return r.ByLink || v == event.Public || v == event.Unlisted
}

// MayOwn returns OK where the reader has an account and d is that account's: it may update d, and list its versions.
// Otherwise it returns the refusal: NOT_OWNER for a document that the reader may read.
func MayOwn(d *event.Document, r Reader) event.OutcomeStatus {
	switch {
	case !MayRead(d, r):
		return event.OutcomeStatus_NOT_FOUND
	case !owns(d, r.Account):
		return event.OutcomeStatus_NOT_OWNER
	}
	return event.OutcomeStatus_OK
}

// Expired tells whether d has expired at nowMS.
func Expired(d *event.Document, nowMS int64) bool { return d.ExpiresMs != 0 && d.ExpiresMs <= nowMS }

// Burns tells whether a read by the account is the last one of d: d is to be burned after reading, and
// the account is not its owner.
func Burns(d *event.Document, account uint64) bool { return d.BurnAfterRead && !owns(d, account) }

// owns tells whether d is the account's. A keyless caller, account 0, owns nothing.
func owns(d *event.Document, account uint64) bool { return account != 0 && d.Owner == account }
