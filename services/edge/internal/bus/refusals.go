package bus

import (
	"slices"
	"time"

	"github.com/maypok86/otter/v2"

	"quire.dev/pkg/event"
	"quire.dev/pkg/plan"
)

const (
	// maxRefusalTTL bounds how long a change of the account may go unseen if its announcement is lost.
	maxRefusalTTL      = time.Second
	refusalAccounts    = 65536 // the table is bounded: accounts that are seldom looked up are evicted
	refusalsPerAccount = 32    // by quota key and API key
)

// refusals remembers what billing would refuse again, so that a client that hammers an exhausted
// quota does not fill the journal. It remembers nothing of clients that try now and then: another edge may
// have answered that the account was changed before the announcement of the change is here, and a client
// that tries again after that, or after a pause, must see the change.
type refusals struct {
	ttl      time.Duration
	first    int // billing decides this many refusals of a kind before one is remembered
	accounts *otter.Cache[event.AccountID, refused]
}

// refused is what is remembered of one account. It is replaced, never changed.
type refused struct {
	final []refusal
	// oldKey is the refusal that told the highest key version known. Versions only grow, so all older ones
	// are refused for ever.
	oldKey *Verdict
}

type refusal struct {
	key         plan.QuotaKey
	anonymous   bool
	version     uint32
	fingerprint uint64
	count       int // how often it was refused, less than the TTL apart
	until       time.Time
	verdict     *Verdict
}

func (r *refusal) answers(a *Admission) bool {
	return r.key == a.Key && r.anonymous == a.Anonymous && r.version == a.KeyVersion && r.fingerprint == a.KeyFingerprint
}

func newRefusals(ttl time.Duration, first int) *refusals {
	return &refusals{ttl: ttl, first: first, accounts: otter.Must(&otter.Options[event.AccountID, refused]{MaximumSize: refusalAccounts})}
}

// find is the verdict that billing would give again, or nil. now is the edge's time: a refusal in another
// month says nothing.
func (r *refusals) find(a *Admission, now time.Time) *Verdict {
	known, ok := r.accounts.GetIfPresent(a.Account)
	if !ok {
		return nil
	}
	if v := known.oldKey; v != nil && !a.Anonymous && a.KeyVersion > 0 && a.KeyVersion < v.CurrentKeyVersion {
		return v
	}
	// The write with this idempotency id may have been served already, which is no refusal.
	if len(a.IdempotencyID) > 0 {
		return nil
	}
	for i := range known.final {
		if f := &known.final[i]; f.answers(a) && f.count >= r.first && time.Now().Before(f.until) && sameMonth(now, f.verdict.TimeMs) {
			return f.verdict
		}
	}
	return nil
}

func sameMonth(now time.Time, ms int64) bool {
	a, b := now.UTC(), time.UnixMilli(ms).UTC()
	return a.Year() == b.Year() && a.Month() == b.Month()
}

// remember keeps what may be kept of a refusal. A final one may: no open hold of the account could free
// what was asked for.
func (r *refusals) remember(a *Admission, v *Verdict, now time.Time) {
	old := v.Decision == event.Decision_INVALID_KEY && v.CurrentKeyVersion > a.KeyVersion
	// The seconds until the counter starts again may have been rounded up.
	life := min(r.ttl, time.Duration(v.ResetSeconds)*time.Second-time.Second)
	if v.ResetSeconds == 0 {
		life = r.ttl
	}
	final := v.Final && life > 0 && sameMonth(now, v.TimeMs)
	if !old && !final {
		return
	}
	kept := *v // v is part of its request, which is not worth keeping
	r.accounts.Compute(a.Account, func(known refused, _ bool) (refused, otter.ComputeOp) {
		switch {
		case !old:
			known.final = known.with(refusal{
				key: a.Key, anonymous: a.Anonymous, version: a.KeyVersion, fingerprint: a.KeyFingerprint,
				count: 1, until: time.Now().Add(life), verdict: &kept,
			}, a)
		case known.oldKey == nil || known.oldKey.CurrentKeyVersion < kept.CurrentKeyVersion:
			known.oldKey = &kept
		}
		return known, otter.WriteOp
	})
}

// with is what is remembered once f, the refusal of a, is too.
func (k *refused) with(f refusal, a *Admission) []refusal {
	live := slices.DeleteFunc(slices.Clone(k.final), func(old refusal) bool {
		over := !time.Now().Before(old.until)
		if !over && old.answers(a) {
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

// forget drops what may have changed with the account. Old keys stay old.
func (r *refusals) forget(account event.AccountID) {
	r.accounts.ComputeIfPresent(account, func(known refused) (refused, otter.ComputeOp) {
		if known.oldKey == nil {
			return known, otter.InvalidateOp
		}
		return refused{oldKey: known.oldKey}, otter.WriteOp
	})
}

// clear drops all that a missed announcement could have dropped.
func (r *refusals) clear() {
	for account := range r.accounts.Keys() {
		r.forget(account)
	}
}
