package account

import (
	"slices"

	"quire.dev/pkg/event"
	"quire.dev/pkg/num"
	"quire.dev/pkg/plan"
)

// keyViews returns the keys as shown to their owner, the default key first and then in order of creation. Unlike answers to
// commands they include fingerprints.
func (r *reader) keyViews(a *account, now int64) (list []*event.ApiKey) {
	if a.keys == nil {
		if a.keyVersion == 0 {
			return nil
		}
		c := *a // a query changes nothing
		c.ring()
		return r.keyViews(&c, now)
	}
	for _, k := range a.keys.keys {
		if k.number != 0 || a.keyVersion != 0 {
			v := r.keyView(a, k, now)
			v.Fingerprint = k.fingerprint
			if k.number == 0 {
				v.Fingerprint = a.fingerprint
			}
			list = append(list, v)
		}
	}
	return list
}

// keyView is a key as shown in the answer to a command.
func (r *reader) keyView(a *account, k *apiKey, now int64) *event.ApiKey {
	l := a.lineageOf(k.lineage)
	v := &event.ApiKey{
		Number: k.number, Version: k.version, Name: l.name, Prefix: k.prefix, Scopes: l.scopeList(), CreatedMs: k.created,
		LastUsedMs: k.used, ExpiresMs: k.expires, RevokedMs: k.revoked, Replaced: k.replaced, ReplacedBy: k.replacedBy,
		Quotas: l.quotaList(),
	}
	if k.number == 0 {
		v.Version, v.Prefix, v.CreatedMs, v.LastUsedMs = a.keyVersion, a.keyPrefix, a.keyCreated, a.keyUsed
	}
	var spent uint64
	if l.month == a.month {
		v.Usage = l.usage()
		for _, s := range l.spent {
			spent += s
		}
	}
	v.Cap = l.cap.status(l.spending, spent, max(now, monthNumber(a.month).start))
	v.Capped = r.rules >= Rules2 && r.capped(a, l, v.Cap, a.cap().status(a.spending, a.current.spentSum(), max(now, monthNumber(a.month).start)))
	return v
}

// capped reports whether one of the caps leaves too little for the cheapest request over quota that a key may send.
func (r *reader) capped(a *account, l *keyLineage, caps ...*event.CapStatus) bool {
	if r.prices.current == nil {
		return false
	}
	cheapest := uint64(0)
	for _, key := range plan.QuotaKeys() {
		term := r.prices.current.Plans[a.tier].Terms[key]
		if term.Overage && l.allows(key) && (cheapest == 0 || num.Uint64(term.Price) < cheapest) {
			cheapest = num.Uint64(term.Price)
		}
	}
	return cheapest > 0 && slices.ContainsFunc(caps, func(c *event.CapStatus) bool {
		return c != nil && c.SpentMicros+cheapest > c.Cap.GetAmountMicros()
	})
}

func (l *keyLineage) scopeList() (list []uint32) {
	for _, key := range plan.Scopes() {
		if l.scopes&(1<<key) != 0 {
			list = append(list, uint32(key))
		}
	}
	return list
}

func (l *keyLineage) quotaList() (list []*event.KeyQuota) {
	for _, q := range l.quotas {
		list = append(list, &event.KeyQuota{QuotaKey: uint32(q.key), Limit: q.limit})
	}
	return list
}

func (l *keyLineage) usage() (list []*event.KeyUsage) {
	for key := range plan.KeyCount {
		if l.used[key] != 0 || l.overage[key] != 0 || l.spent[key] != 0 {
			list = append(list, &event.KeyUsage{
				QuotaKey: uint32(key), Used: l.used[key], Overage: l.overage[key], SpentMicros: l.spent[key],
			})
		}
	}
	return list
}
