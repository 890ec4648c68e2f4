package account

import (
	"quire.dev/pkg/event"
	"quire.dev/pkg/plan"
)

// Bounds of an account's keys.
const (
	// MaxKeys is how many live keys an account may have that were not replaced, including the default key. As many replaced
	// ones may be live beside them.
	MaxKeys = 20
	// MaxOverlapMillis is the longest time for which a replaced key stays valid.
	MaxOverlapMillis = 7 * 24 * 60 * 60 * 1000
	// MaxKeyNameRunes is the longest name of a key, in characters.
	MaxKeyNameRunes = 100

	maxEndedKeys = 20 // remembered ended keys

	defaultKeyName = "default" // of the default key, until it is renamed
)

// keyring holds an account's keys beyond the default key, rules of keys, or a spending cap. It is nil for accounts that never
// had any.
type keyring struct {
	cap      spendingCap // the account's
	next     uint32      // number of the next key
	keys     []*apiKey
	lineages []*keyLineage
}

// apiKey is a key of a keyring. The first one is the default key, whose version, fingerprint, prefix, creation and last use are
// in the account.
type apiKey struct {
	number      uint32
	lineage     uint32
	former      bool // was the default key: its text has number 0
	replaced    bool
	version     uint32
	replacedBy  uint32
	fingerprint uint64
	prefix      string
	created     int64
	used        int64
	expires     int64 // 0: never
	revoked     int64 // 0: not revoked
}

// keyLineage is a key and its successors by replacement. They share rules and counters, so that a new key resets no limit.
type keyLineage struct {
	number   uint32 // of the first key
	name     string
	scopes   uint64 // bits of plan.Scopes; 0: all
	quotas   []keyQuota
	cap      spendingCap
	spending spending

	month         uint32 // month of the counters
	used, overage [plan.KeyCount]uint64
	spent         [plan.KeyCount]uint64
}

type keyQuota struct {
	key   plan.QuotaKey
	limit uint32
}

// cap is the account's own spending cap.
func (a *account) cap() spendingCap {
	if a.keys == nil {
		return spendingCap{}
	}
	return a.keys.cap
}

func (k *apiKey) live(now int64) bool { return k.revoked == 0 && (k.expires == 0 || now < k.expires) }

// ring returns the account's keyring, creating it if needed. All earlier requests used the default key.
func (a *account) ring() *keyring {
	if a.keys == nil {
		l := &keyLineage{name: defaultKeyName, spending: a.spending, month: a.month}
		l.used = a.current.used
		if of := a.current.charges; of != nil {
			l.overage, l.spent = of.overage, of.spent
		}
		a.keys = &keyring{next: 1, keys: []*apiKey{{}}, lineages: []*keyLineage{l}}
	}
	return a.keys
}

func (r *keyring) key(number uint32) *apiKey {
	for _, k := range r.keys {
		if k.number == number {
			return k
		}
	}
	return nil
}

// newest is the number of the lineage's key that was not replaced.
func (r *keyring) newest(l *keyLineage) uint32 {
	for _, k := range r.keys {
		if k.lineage == l.number && !k.replaced {
			return k.number
		}
	}
	return l.number // already forgotten: only work begun by replaced keys counts here
}

// lineageOf returns the lineage with that number, or nil.
func (a *account) lineageOf(number uint32) *keyLineage {
	if a.keys == nil {
		return nil
	}
	for _, l := range a.keys.lineages {
		if l.number == number {
			return l
		}
	}
	return nil
}

// sentKey returns the key that a request was sent with, if it is valid at a time. It is nil for the default key of an account
// without a keyring.
func (a *account) sentKey(number, version uint32, fingerprint uint64, now int64) (k *apiKey, valid bool) {
	if version == 0 {
		return nil, false
	}
	isDefault := number == 0 && a.keyVersion == version && a.fingerprint == fingerprint
	if a.keys == nil {
		return nil, isDefault
	}
	if isDefault {
		k = a.keys.keys[0]
		return k, k.live(now)
	}
	for _, k := range a.keys.keys[1:] {
		if k.fingerprint == fingerprint && k.version == version && (k.former && number == 0 || !k.former && k.number == number) {
			return k, k.live(now)
		}
	}
	return nil, false
}

// oldestVersion is the lowest version of a default key that is or may become valid.
func (a *account) oldestVersion(now int64) uint32 {
	oldest := a.keyVersion
	if a.keys != nil {
		for _, k := range a.keys.keys[1:] {
			if k.former && k.live(now) {
				oldest = min(oldest, k.version)
			}
		}
	}
	return oldest
}

func (r *keyring) state() *event.KeyringState {
	if r == nil {
		return nil
	}
	s := &event.KeyringState{Next: r.next}
	for _, k := range r.keys {
		s.Keys = append(s.Keys, &event.KeyState{
			Number: k.number, Line: k.lineage, Former: k.former, Version: k.version, Fingerprint: k.fingerprint, Prefix: k.prefix,
			CreatedMs: k.created, UsedMs: k.used, ExpiresMs: k.expires, RevokedMs: k.revoked, Replaced: k.replaced,
			ReplacedBy: k.replacedBy,
		})
	}
	for _, l := range r.lineages {
		s.Lines = append(s.Lines, &event.KeyLineState{
			Line: l.number, Name: l.name, Scopes: l.scopeList(), Quotas: l.quotaList(), Cap: l.cap.event(),
			Spending: l.spending.state(), Month: l.month, Usage: l.usage(),
		})
	}
	return s
}

func restoreKeyring(s *event.KeyringState) *keyring {
	if s == nil || len(s.Keys) == 0 {
		return nil
	}
	r := &keyring{next: s.Next}
	for _, k := range s.Keys {
		r.keys = append(r.keys, &apiKey{
			number: k.Number, lineage: k.Line, former: k.Former, version: k.Version, fingerprint: k.Fingerprint, prefix: k.Prefix,
			created: k.CreatedMs, used: k.UsedMs, expires: k.ExpiresMs, revoked: k.RevokedMs, replaced: k.Replaced,
			replacedBy: k.ReplacedBy,
		})
	}
	for _, ls := range s.Lines {
		l := &keyLineage{
			number: ls.Line, name: ls.Name, cap: capOf(ls.Cap), spending: restoreSpending(ls.Spending), month: ls.Month,
		}
		for _, key := range ls.Scopes {
			l.scopes |= 1 << key
		}
		for _, q := range ls.Quotas {
			l.quotas = append(l.quotas, keyQuota{plan.QuotaKey(q.QuotaKey), q.Limit})
		}
		for _, u := range ls.Usage {
			if key := plan.QuotaKey(u.QuotaKey); key.Valid() {
				l.used[key], l.overage[key], l.spent[key] = u.Used, u.Overage, u.SpentMicros
			}
		}
		r.lineages = append(r.lineages, l)
	}
	return r
}
