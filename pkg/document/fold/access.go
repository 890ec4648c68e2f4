package fold

import "quire.dev/pkg/event"

// Reader is the caller of a read, the requested version, and the time.
type Reader struct {
	Account uint64 // 0: anonymous
	Version uint64 // 0: the current one
	NowMS   int64
	ByLink  bool // a valid signed link, which grants access to the current version
}

// MayRead reports whether the reader may read d; nil is a missing document. Anyone may read public and unlisted documents, only
// the owner and holders of a link private ones, only the owner earlier versions, and nobody expired ones.
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

// MayOwn returns OK if the reader's account owns d and so may update it and list its versions. Otherwise it returns the
// refusal: NOT_OWNER for a document that the reader may read.
func MayOwn(d *event.Document, r Reader) event.OutcomeStatus {
	switch {
	case !MayRead(d, r):
		return event.OutcomeStatus_NOT_FOUND
	case !owns(d, r.Account):
		return event.OutcomeStatus_NOT_OWNER
	}
	return event.OutcomeStatus_OK
}

// Expired reports whether d has expired at nowMS.
func Expired(d *event.Document, nowMS int64) bool { return d.ExpiresMs != 0 && d.ExpiresMs <= nowMS }

// Burns reports whether a read by the account burns d: d is burn-after-read, and the account is not its owner.
func Burns(d *event.Document, account uint64) bool { return d.BurnAfterRead && !owns(d, account) }

// owns reports whether the account owns d. Account 0, anonymous callers, owns nothing.
func owns(d *event.Document, account uint64) bool { return account != 0 && d.Owner == account }
