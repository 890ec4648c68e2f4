package bus

import (
	"sync"
	"sync/atomic"
	"time"

	"quire.dev/pkg/event"
	"quire.dev/pkg/plan"
)

// maxRefusalTTL is how long architecture.md lets a refusal be remembered.
const maxRefusalTTL = time.Second

const (
	refusalShards    = 64
	accountsPerShard = 1024 // more, and another is forgotten
	refusalsPerEntry = 32   // of one account: quota keys, and API keys
)

// refusals remembers what billing would refuse again, so that a client that hammers an exhausted
// quota does not fill the journal. Only of such a client: another edge may have answered that the
// account has changed before the announcement of it is here, and whoever tries again then, or after
// a pause, is to see the change.
type refusals struct {
	ttl    time.Duration
	first  int          // so many of a kind are asked for before one is remembered
	kept   atomic.Int64 // accounts in all shards; most of the time none
	shards [refusalShards]refusalShard
}

type refusalShard struct {
	mu       sync.RWMutex
	accounts map[event.AccountID]*refused
}

// refused is what is remembered of one account.
type refused struct {
	final []refusal
	// oldKey is the refusal that told the highest key version known: older ones are refused for ever,
	// since versions only grow.
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
	r := &refusals{ttl: ttl, first: first}
	for i := range r.shards {
		r.shards[i].accounts = map[event.AccountID]*refused{}
	}
	return r
}

func (r *refusals) shard(a event.AccountID) *refusalShard {
	return &r.shards[uint64(a)%refusalShards] // ids are random
}

// find is the verdict that billing would give again, or nil. now is the edge's time: what was
// refused in another month says nothing.
func (r *refusals) find(a *Admission, now time.Time) *Verdict {
	if r.kept.Load() == 0 {
		return nil
	}
	s := r.shard(a.Account)
	s.mu.RLock()
	defer s.mu.RUnlock()
	known := s.accounts[a.Account]
	if known == nil {
		return nil
	}
	if v := known.oldKey; v != nil && !a.Anonymous && a.KeyVersion > 0 && a.KeyVersion < v.CurrentKeyVersion {
		return v
	}
	// An idempotency id may turn out to be served already, which is not refused.
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

// remember keeps what may be kept of a refusal. Only final ones may: no open hold of the account
// could give the slot back.
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
	v = &kept
	s := r.shard(a.Account)
	s.mu.Lock()
	defer s.mu.Unlock()
	known := s.accounts[a.Account]
	if known == nil {
		known = &refused{}
		r.makeRoom(s)
		s.accounts[a.Account] = known
		r.kept.Add(1)
	}
	if old {
		if known.oldKey == nil || known.oldKey.CurrentKeyVersion < v.CurrentKeyVersion {
			known.oldKey = v
		}
		return
	}
	known.add(refusal{
		key: a.Key, anonymous: a.Anonymous, version: a.KeyVersion, fingerprint: a.KeyFingerprint,
		count: 1, until: time.Now().Add(life), verdict: v,
	}, a)
}

func (k *refused) add(f refusal, a *Admission) {
	live := k.final[:0]
	for _, old := range k.final {
		switch {
		case !time.Now().Before(old.until):
		case old.answers(a):
			f.count += old.count
		default:
			live = append(live, old)
		}
	}
	clear(k.final[len(live):])
	if len(live) < refusalsPerEntry {
		live = append(live, f)
	}
	k.final = live
}

// makeRoom bounds a shard: it forgets an account that has nothing more to say, or else any.
func (r *refusals) makeRoom(s *refusalShard) {
	if len(s.accounts) < accountsPerShard {
		return
	}
	var victim event.AccountID
	looked := 0
	for account, known := range s.accounts {
		victim = account
		if looked++; known.stale() || looked == 16 {
			break
		}
	}
	delete(s.accounts, victim)
	r.kept.Add(-1)
}

func (k *refused) stale() bool {
	for i := range k.final {
		if time.Now().Before(k.final[i].until) {
			return false
		}
	}
	return k.oldKey == nil
}

// forget drops what may have changed with the account; that old keys are old has not.
func (r *refusals) forget(account event.AccountID) {
	if r.kept.Load() == 0 {
		return
	}
	s := r.shard(account)
	s.mu.Lock()
	defer s.mu.Unlock()
	known := s.accounts[account]
	if known == nil {
		return
	}
	known.final = nil
	if known.oldKey == nil {
		delete(s.accounts, account)
		r.kept.Add(-1)
	}
}

// clear drops all that an announcement could have dropped.
func (r *refusals) clear() {
	for i := range r.shards {
		s := &r.shards[i]
		s.mu.Lock()
		for account, known := range s.accounts {
			known.final = nil
			if known.oldKey == nil {
				delete(s.accounts, account)
				r.kept.Add(-1)
			}
		}
		s.mu.Unlock()
	}
}
