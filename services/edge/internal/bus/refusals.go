package bus

import (
	"slices"
	"time"

	"github.com/maypok86/otter/v2"

	"quire.dev/pkg/event"
	"quire.dev/pkg/plan"
)

const (
	// maxRefusalTTL bounds how long a refusal outlives a change whose announcement was lost.
	maxRefusalTTL      = time.Second
	refusalAccounts    = 65536 // least recently used accounts are evicted beyond that
	refusalsPerAccount = 32    // by quota key and API key
)

// refusals caches refusals that billing would repeat, so that a client that hammers an exhausted quota does not fill the
// journal. Occasional requests bypass the cache: another edge may have confirmed a change of the account before its
// announcement arrives here, and the client's next request must see the change.
type refusals struct {
	ttl       time.Duration
	threshold int // refusals of a kind before one is cached
	accounts  *otter.Cache[event.AccountID, accountRefusals]
}

// accountRefusals holds the refusals of one account. It is replaced, never changed.
type accountRefusals struct {
	final []refusal
	// oldKey is the refusal of the default key with the highest current version. Versions only grow, so older keys stay
	// refused.
	oldKey *Verdict
}

type refusal struct {
	key         plan.QuotaKey
	anonymous   bool
	number      uint32
	version     uint32
	fingerprint uint64
	id          string // idempotency id that it applies to; empty for all
	count       int    // consecutive refusals, each within the lifetime of the last
	until       time.Time
	verdict     *Verdict
}

// answers reports whether the refusal applies to a.
func (r *refusal) answers(a *Admission) bool {
	return (r.id == "" || r.id == string(a.IdempotencyID)) && r.key == a.Key && r.anonymous == a.Anonymous && r.number == a.KeyNumber && r.version == a.KeyVersion && r.fingerprint == a.KeyFingerprint
}

func newRefusals(ttl time.Duration, threshold int) *refusals {
	return &refusals{ttl: ttl, threshold: threshold, accounts: otter.Must(&otter.Options[event.AccountID, accountRefusals]{MaximumSize: refusalAccounts})}
}

// find returns the refusal that billing would repeat for a, or nil. now is the edge's time: in another month the
// quota is a new one. A request that a repeats may have been served before the refusal: see PendingVerdict.checkCached.
func (r *refusals) find(a *Admission, now time.Time) *Verdict {
	known, ok := r.accounts.GetIfPresent(a.Account)
	if !ok {
		return nil
	}
	if v := known.oldKey; v != nil && !a.Anonymous && a.KeyNumber == 0 && a.KeyVersion > 0 && a.KeyVersion < v.CurrentKeyVersion {
		return v
	}
	for i := range known.final {
		if f := &known.final[i]; f.answers(a) && f.count >= r.threshold && time.Now().Before(f.until) && sameMonth(now, f.verdict.TimeMs) {
			return f.verdict
		}
	}
	return nil
}

func sameMonth(now time.Time, ms int64) bool {
	a, b := now.UTC(), time.UnixMilli(ms).UTC()
	return a.Year() == b.Year() && a.Month() == b.Month()
}

// remember caches a refusal that billing would repeat: of an old key, by idempotency id, or final. Final means that no open
// hold of the account could refund enough quota.
func (r *refusals) remember(a *Admission, v *Verdict, now time.Time) {
	old := v.Decision == event.Decision_INVALID_KEY && a.KeyNumber == 0 && v.CurrentKeyVersion > a.KeyVersion
	// The seconds until the quota resets may have been rounded up.
	resets := v.ResetSeconds
	if v.Decision == event.Decision_SPENDING_CAP_REACHED && v.RetryAfterSeconds > 0 {
		resets = v.RetryAfterSeconds // the end of the day
	}
	life := min(r.ttl, time.Duration(resets)*time.Second-time.Second)
	if v.ResetSeconds == 0 {
		life = r.ttl
	}
	id := ""
	if isOfOneID(v.Decision) {
		id, life = string(a.IdempotencyID), r.ttl
	}
	final := (v.Final || id != "") && life > 0 && sameMonth(now, v.TimeMs)
	if !old && !final {
		return
	}
	kept := *v // v is a field of its request, which must not stay in memory, and neither may the other verdicts of its batch
	kept.Verdict = v.Verdict.Clone()
	r.accounts.Compute(a.Account, func(known accountRefusals, _ bool) (accountRefusals, otter.ComputeOp) {
		switch {
		case !old:
			known.final = known.with(refusal{
				key: a.Key, anonymous: a.Anonymous, number: a.KeyNumber, version: a.KeyVersion, fingerprint: a.KeyFingerprint,
				id: id, count: 1, until: time.Now().Add(life), verdict: &kept,
			}, a)
		case known.oldKey == nil || known.oldKey.CurrentKeyVersion < kept.CurrentKeyVersion:
			known.oldKey = &kept
		}
		return known, otter.WriteOp
	})
}

// with returns the final refusals, without expired ones, plus f, the refusal of a. A full list drops f.
func (k *accountRefusals) with(f refusal, a *Admission) []refusal {
	live := slices.DeleteFunc(slices.Clone(k.final), func(old refusal) bool {
		over := !time.Now().Before(old.until)
		if !over && old.id == f.id && old.answers(a) {
			f.count += old.count
			return true
		}
		return over
	})
	if len(live) == refusalsPerAccount {
		return live
	}
	return append(live, f)
}

// forget drops refusals that a change of the account may have lifted. Old keys stay refused.
func (r *refusals) forget(account event.AccountID) {
	r.accounts.ComputeIfPresent(account, func(known accountRefusals) (accountRefusals, otter.ComputeOp) {
		if known.oldKey == nil {
			return known, otter.InvalidateOp
		}
		return accountRefusals{oldKey: known.oldKey}, otter.WriteOp
	})
}

// clear forgets all accounts, since announcements may have been missed.
func (r *refusals) clear() {
	for account := range r.accounts.Keys() {
		r.forget(account)
	}
}
