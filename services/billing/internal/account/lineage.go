package account

import (
	"quire.dev/pkg/event"
	"quire.dev/pkg/plan"
)

// allows reports whether the lineage's scopes include the quota key.
func (l *keyLineage) allows(key plan.QuotaKey) bool {
	return l == nil || l.scopes == 0 || l.scopes&(1<<key) != 0
}

// limit is the lineage's own limit of a quota key.
func (l *keyLineage) limit(key plan.QuotaKey) (limit uint32, limited bool) {
	if l == nil {
		return 0, false
	}
	for _, q := range l.quotas {
		if q.key == key {
			return q.limit, true
		}
	}
	return 0, false
}

// roll brings the counters into a month.
func (l *keyLineage) roll(month uint32) {
	if l.month < month {
		l.month = month
		l.used, l.overage, l.spent = [plan.KeyCount]uint64{}, [plan.KeyCount]uint64{}, [plan.KeyCount]uint64{}
	}
}

// full reports whether the lineage's own limit of a quota key is reached in a month.
func (l *keyLineage) full(key plan.QuotaKey, month uint32) bool {
	if l == nil {
		return false
	}
	l.roll(month)
	limit, limited := l.limit(key)
	return limited && l.used[key] >= uint64(limit)
}

// keyRefused applies the key's rules that precede the account's quota. The account must be in the present month.
func (a *account) keyRefused(l *keyLineage, h *hold, v *event.Verdict) bool {
	if !l.full(h.key, a.month) {
		return false
	}
	limit, _ := l.limit(h.key)
	v.Decision, v.KeyLimit = event.Decision_KEY_QUOTA_EXHAUSTED, int64(limit)
	if limit > 0 {
		v.RetryAfterSeconds = v.ResetSeconds
	}
	open := uint64(0)
	for o := a.open.head; o != nil; o = o.after() {
		if o.lineage == l.number && o.key == h.key && o.month == a.month {
			open++
		}
	}
	setHeld(v, open > 0 && l.used[h.key]-open < uint64(limit))
	return true
}

// countKey counts an admitted request for its key.
func (a *account) countKey(b *base, k *apiKey, l *keyLineage, h *hold) {
	if k == nil || k.number == 0 {
		a.keyUsed = b.time
	} else {
		k.used = b.time
	}
	if l != nil {
		l.roll(a.month)
		l.used[h.key]++
	}
}
