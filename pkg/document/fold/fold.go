// Package fold decides what a request does to a document: a paste, a quick paste or a file.
//
// It is pure: a decision depends only on the document, the kept outcome, the request and the fold's time, which all come from
// the journal. Two replicas that fold the same journal decide the same. Documents and outcomes are immutable: arguments and
// results may be shared.
package fold

import (
	"crypto/subtle"
	"slices"

	"quire.dev/pkg/event"
	"quire.dev/pkg/num"
)

// KeepOutcomeMillis is how long an outcome is replayed for its idempotency id (docs/api.md, Idempotency).
const KeepOutcomeMillis = 24 * 60 * 60 * 1000

// Policy holds the differences between the domains' rules.
type Policy struct {
	Domain event.Domain
	// Updates: documents can be updated, and each update creates a version.
	Updates bool
	// ManageTokens: a document without an owner can be changed with its management token.
	ManageTokens bool
	// CountsStorage: the content counts towards the owner's storage.
	CountsStorage bool
	// OutcomeDocument: the outcome of a create includes the document without its content, since a replayed answer shows more of
	// it than an outcome has fields for.
	OutcomeDocument bool
}

// Pastes is the policy of pastes.
func Pastes() Policy { return Policy{Domain: event.Paste, Updates: true} }

// QuickPastes is the policy of quick pastes, which need no account.
func QuickPastes() Policy { return Policy{Domain: event.Lite, Updates: true, ManageTokens: true} }

// Files is the policy of files.
func Files() Policy {
	return Policy{Domain: event.File, CountsStorage: true, OutcomeDocument: true}
}

// Position is a request's position in the journal, and the fold's time there.
type Position struct {
	Sequence uint64
	Index    uint32
	NowMS    int64
	// StoredMS is when the journal stored the message, plus the clock offset of its source. Deadlines are compared with it,
	// since the two other times may be wrong: the stamp of a delayed message is too early, and the fold's time may be ahead of
	// every clock.
	StoredMS int64
}

// order sorts documents created in the same millisecond.
func (p Position) order() int64 { return num.Int64(p.Sequence<<12 | uint64(p.Index&0xfff)) }

// Change is the effect of a request besides its outcome. The zero Change has none.
type Change struct {
	// Put is the document's new state.
	Put *event.Document
	// Version is the state replaced by Put, kept for its owner.
	Version *event.Document
	// Delete removes the document, Blob and the versions FirstVersion to LastVersion with their blobs.
	Delete       bool
	FirstVersion uint64
	LastVersion  uint64 // below FirstVersion without earlier versions
	// Blob holds the content of the deleted document; empty if it was inline.
	Blob string
	// Burned: the caller of the burn has yet to read Blob, which must outlive the answer.
	Burned bool
	// Deleted is the state of the document before Delete.
	Deleted *event.Document
	// Storage is the change of the owner's storage.
	Storage Storage
}

// Storage is a change of the bytes that an account stores.
type Storage struct {
	Account    uint64
	DeltaBytes int64
	AtMS       int64 // when it takes effect, by the document's own journal; billing may learn of it much later
}

// Decide folds one request and writes the outcome into the empty o. state is the current document, or nil; kept is the outcome
// under the request's idempotency id, or nil. A created document has its own messages, but shares strings and bytes with r.
func Decide(p Policy, state *event.Document, kept *event.Outcome, r *event.Request, at Position, o *event.Outcome) Change {
	o.Index, o.Item, o.BodyHash, o.RequestId, o.DecidedMs, o.Remaining = at.Index, r.Item, r.BodyHash, r.RequestId, at.NowMS, -1
	if r.Charge != nil {
		o.Remaining = r.Charge.Remaining
	}
	if r.DeadlineMs != 0 && at.StoredMS > r.DeadlineMs {
		return refuse(o, event.OutcomeStatus_DEADLINE_EXCEEDED)
	}
	if kept != nil && IsKept(r) && at.NowMS < kept.DecidedMs+KeepOutcomeMillis {
		if kept.BodyHash != r.BodyHash {
			return refuse(o, event.OutcomeStatus_IDEMPOTENCY_MISMATCH)
		}
		copyTo(o, kept)
		o.Replayed, o.Index = true, at.Index
		return Change{}
	}
	switch action := r.Action.(type) {
	case *event.Request_Create:
		return create(p, state, r, action.Create, at, o)
	case *event.Request_Update:
		return update(p, state, r, action.Update, at, o)
	case *event.Request_Delete:
		return remove(p, state, r, action.Delete, at, o)
	case *event.Request_Burn:
		return burn(p, state, r, action.Burn, at, o)
	case *event.Request_Expire:
		return expire(p, state, at, o)
	}
	return refuse(o, event.OutcomeStatus_NOT_FOUND)
}

// IsKept reports whether outcomes of the request are kept under its idempotency id. A burn's is not: it holds the content just
// read for the last time.
func IsKept(r *event.Request) bool {
	switch r.Action.(type) {
	case *event.Request_Create, *event.Request_Update, *event.Request_Delete:
		return len(r.IdempotencyId) == len(event.IdempotencyID{})
	}
	return false
}

// Keeps reports whether o is the outcome to keep for r: the first decision about it.
func Keeps(r *event.Request, o *event.Outcome) bool {
	decided := o.Status != event.OutcomeStatus_DEADLINE_EXCEEDED && o.Status != event.OutcomeStatus_IDEMPOTENCY_MISMATCH
	return IsKept(r) && decided && !o.Replayed
}

func refuse(o *event.Outcome, status event.OutcomeStatus) Change {
	o.Status = status
	return Change{}
}

// done makes o the outcome of a request carried out on d.
func done(o *event.Outcome, d *event.Document) {
	o.Status = event.OutcomeStatus_OK
	o.Version, o.CreatedMs, o.UpdatedMs, o.ExpiresMs, o.Owner = d.Version, d.CreatedMs, d.UpdatedMs, d.ExpiresMs, d.Owner
}

// Defaults of a new paste, to which an update can reset a field.
const (
	DefaultLanguage   = "plaintext"
	DefaultVisibility = event.Unlisted
)

// Create builds the event of a new paste: defaults into which the draft is merged, like an update. It takes ownership of made,
// which has the fields that clients can't set: the id, the owner and the management token.
//
// The event carries the whole document instead of the draft. During a rollout an instance of an earlier version may fold it,
// and must reach the same document; and later defaults must not change what is in a journal.
func Create(made *event.Document, draft *event.Update) *event.Create {
	made.Language, made.Visibility = DefaultLanguage, uint32(DefaultVisibility)
	merge(made, draft)
	return &event.Create{Document: made, ExpiresInMs: draft.GetExpiresInMs()}
}

func create(p Policy, state *event.Document, r *event.Request, c *event.Create, at Position, o *event.Outcome) Change {
	if state != nil {
		return refuse(o, event.OutcomeStatus_ID_TAKEN)
	}
	d := new(Space).clone(c.Document)
	d.Id = r.Item
	d.Version, d.FirstVersionKept = 1, 1
	d.CreatedMs, d.UpdatedMs = at.NowMS, at.NowMS
	d.CreatedOrder = at.order()
	expireIn(d, c.ExpiresInMs, at)
	done(o, d)
	if p.OutcomeDocument {
		o.Document = Head(d)
	}
	return Change{Put: d, Storage: storageOf(p, d, 1, at.NowMS)}
}

// storageOf is the change of storage by times the size of d: 1 adds it, -1 frees it.
func storageOf(p Policy, d *event.Document, times, atMS int64) Storage {
	size := d.GetContent().Length()
	if !p.CountsStorage || d.Owner == 0 || size == 0 {
		return Storage{}
	}
	return Storage{Account: d.Owner, DeltaBytes: times * size, AtMS: atMS}
}

func update(p Policy, state *event.Document, r *event.Request, u *event.Update, at Position, o *event.Outcome) Change {
	if refusal := mayChange(p, state, r.Account, u.ManageTokenHash, at.NowMS); refusal != event.OutcomeStatus_OK {
		return refuse(o, refusal)
	}
	if !p.Updates {
		return refuse(o, event.OutcomeStatus_NOT_FOUND)
	}
	if !matches(u.IfMatch, state.Version) {
		return refuse(o, event.OutcomeStatus_VERSION_MISMATCH)
	}
	d := clone(state)
	merge(d, u)
	expireIn(d, u.GetExpiresInMs(), at)
	limitLifetime(d, state, u.MaxLifetimeMs)
	d.Version++
	d.UpdatedMs = at.NowMS
	done(o, d)
	return Change{Put: d, Version: state}
}

// expireIn sets the expiry of d to lifetimeMS after the fold's time. A lifetime of 0 changes nothing.
func expireIn(d *event.Document, lifetimeMS int64, at Position) {
	if lifetimeMS > 0 {
		d.ExpiresMs = at.NowMS + lifetimeMS
	}
}

// limitLifetime limits the expiry of d to maxMS after its creation, whatever the update says. A later expiry that it already
// had, from an event before this limit existed, remains allowed. 0 means no limit.
func limitLifetime(d, before *event.Document, maxMS int64) {
	latest := max(d.CreatedMs+maxMS, before.ExpiresMs)
	if maxMS > 0 && (d.ExpiresMs == 0 || d.ExpiresMs > latest) {
		d.ExpiresMs = latest
	}
}

// merge writes the fields set in u into d, except the lifetime, which counts from the fold's time: see expireIn.
func merge(d *event.Document, u *event.Update) {
	if u.Content != nil {
		d.Content = u.Content
	}
	if u.Title != nil {
		d.Title = *u.Title
	}
	if u.Language != nil {
		d.Language = *u.Language
	}
	if u.Visibility != nil {
		d.Visibility = *u.Visibility
	}
	if u.BurnAfterRead != nil {
		d.BurnAfterRead = *u.BurnAfterRead
	}
	if u.PasswordHash != nil {
		d.PasswordHash = u.PasswordHash
		if len(u.PasswordHash) == 0 {
			d.PasswordHash = nil
		}
	}
	if u.Tags != nil {
		d.Tags = u.Tags.Values
	}
	switch {
	case u.ExpiresInMs != nil:
		d.ExpiresMs = 0
	case u.ExpiresMs != nil:
		d.ExpiresMs = *u.ExpiresMs
	}
}

func matches(versions []uint64, version uint64) bool {
	return len(versions) == 0 || slices.Contains(versions, version)
}

func remove(p Policy, state *event.Document, r *event.Request, d *event.Delete, at Position, o *event.Outcome) Change {
	if refusal := mayChange(p, state, r.Account, d.ManageTokenHash, at.NowMS); refusal != event.OutcomeStatus_OK {
		return refuse(o, refusal)
	}
	if !matches(d.IfMatch, state.Version) {
		return refuse(o, event.OutcomeStatus_VERSION_MISMATCH)
	}
	done(o, state)
	return gone(p, state, at.NowMS)
}

// gone is the change that deletes d with all its versions. Its storage is freed at atMS.
func gone(p Policy, d *event.Document, atMS int64) Change {
	return Change{
		Delete: true, FirstVersion: max(d.FirstVersionKept, 1), LastVersion: max(d.Version, 1) - 1,
		Blob: d.GetContent().GetBlob(), Deleted: d, Storage: storageOf(p, d, -1, atMS),
	}
}

// burn makes exactly one read the last. The edge checked the password of one version; a newer version may have another
// password, so that the edge has to read again.
func burn(p Policy, state *event.Document, r *event.Request, b *event.Burn, at Position, o *event.Outcome) Change {
	if !MayRead(state, Reader{Account: r.Account, NowMS: at.NowMS}) {
		return refuse(o, event.OutcomeStatus_NOT_FOUND)
	}
	if b.Version != state.Version {
		return refuse(o, event.OutcomeStatus_VERSION_MISMATCH)
	}
	done(o, state)
	o.Document = state
	if !Burns(state, r.Account) {
		return Change{}
	}
	c := gone(p, state, at.NowMS)
	c.Burned = true
	return c
}

// expire deletes an expired document. Its storage is freed as of its expiry, however late the sweep is.
func expire(p Policy, state *event.Document, at Position, o *event.Outcome) Change {
	if state == nil || !Expired(state, at.NowMS) {
		return refuse(o, event.OutcomeStatus_NOT_FOUND)
	}
	done(o, state)
	return gone(p, state, state.ExpiresMs)
}

// mayChange returns OK if the caller may update and delete d, and otherwise the refusal.
func mayChange(p Policy, d *event.Document, account uint64, tokenHash []byte, nowMS int64) event.OutcomeStatus {
	refusal := MayOwn(d, Reader{Account: account, NowMS: nowMS})
	if account != 0 || refusal == event.OutcomeStatus_NOT_FOUND {
		return refusal // a management token is for anonymous callers only
	}
	if p.ManageTokens && d.Owner == 0 && len(d.ManageTokenHash) > 0 &&
		subtle.ConstantTimeCompare(d.ManageTokenHash, tokenHash) == 1 {
		return event.OutcomeStatus_OK
	}
	return event.OutcomeStatus_INVALID_MANAGE_TOKEN
}
