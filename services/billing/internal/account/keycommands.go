package account

import (
	"slices"
	"strconv"
	"unicode/utf8"

	"quire.dev/pkg/event"
	"quire.dev/pkg/plan"
)

// keyCommand decides a command about keys and caps.
func (f *Fold) keyCommand(a *account, c *event.Command) *event.CommandOutcome {
	status, key, oldExpires := event.CommandStatus_COMMAND_INVALID, (*apiKey)(nil), int64(0)
	switch action := c.Action.(type) {
	case *event.Command_CreateKey:
		status, key = a.createKey(&f.base, action.CreateKey)
	case *event.Command_UpdateKey:
		if key = a.liveKey(action.UpdateKey.GetKey(), f.time); key == nil {
			status = event.CommandStatus_COMMAND_KEY_NOT_FOUND
			break
		}
		status = a.changeKey(&f.base, key, action.UpdateKey.GetRules())
	case *event.Command_ReplaceKey:
		status, key, oldExpires = a.replaceKey(&f.base, action.ReplaceKey)
	case *event.Command_RevokeKey:
		status, key = a.revokeKey(&f.base, action.RevokeKey.GetKey())
	case *event.Command_SetSpendingCap:
		if set := capOf(action.SetSpendingCap.GetCap()); set.valid() {
			a.ring().cap, status = set, event.CommandStatus_COMMAND_OK
		}
	}
	o := f.outcome(status, a)
	if status != event.CommandStatus_COMMAND_OK {
		return o
	}
	if key != nil {
		o.Key, o.OldKeyExpiresMs = f.reader.keyView(a, key, f.time), oldExpires
	} else {
		o.Cap = a.cap().status(a.spending, a.current.spentSum(), f.time)
	}
	f.changed(a.id)
	return o
}

// liveKey returns a live key that was not replaced, or nil. An account may never have had a default key.
func (a *account) liveKey(number uint32, now int64) *apiKey {
	if number == 0 && a.keyVersion == 0 || number != 0 && a.keys == nil {
		return nil
	}
	if k := a.ring().key(number); k != nil && !k.replaced && k.live(now) {
		return k
	}
	return nil
}

func (a *account) createKey(b *base, c *event.CreateKey) (event.CommandStatus, *apiKey) {
	rules := c.GetRules()
	if rules == nil || rules.Name == nil && b.rules < Rules2 || !b.validRules(rules) {
		return event.CommandStatus_COMMAND_INVALID, nil
	}
	if current, _ := a.liveKeys(b.time); current >= MaxKeys {
		return event.CommandStatus_COMMAND_TOO_MANY_KEYS, nil
	}
	name := rules.GetName()
	switch {
	case rules.Name == nil:
		name = a.freeKeyName(b.time)
	case b.rules >= Rules2 && a.hasKeyNamed(name, b.time):
		return event.CommandStatus_COMMAND_KEY_NAME_TAKEN, nil
	}
	r := a.ring()
	l := &keyLineage{number: r.next, name: name, month: a.month}
	k := &apiKey{
		number: r.next, lineage: r.next, version: 1, fingerprint: c.GetFingerprint(), prefix: c.GetPrefix(), created: b.time,
	}
	r.next++
	applyRules(k, l, rules, b.time)
	r.lineages = append(r.lineages, l)
	a.addKey(k, b.time)
	return event.CommandStatus_COMMAND_OK, k
}

func (a *account) changeKey(b *base, k *apiKey, rules *event.KeyRules) event.CommandStatus {
	if rules == nil || !b.validRules(rules) {
		return event.CommandStatus_COMMAND_INVALID
	}
	l := a.lineageOf(k.lineage)
	if b.rules >= Rules2 && rules.Name != nil && *rules.Name != l.name && a.hasKeyNamed(*rules.Name, b.time) {
		return event.CommandStatus_COMMAND_KEY_NAME_TAKEN
	}
	applyRules(k, l, rules, b.time)
	return event.CommandStatus_COMMAND_OK
}

// hasKeyNamed reports whether a live key has the name. The default key always counts, as in liveKeys.
func (a *account) hasKeyNamed(name string, now int64) bool {
	if a.keys == nil {
		return name == defaultKeyName
	}
	return slices.ContainsFunc(a.keys.keys, func(k *apiKey) bool {
		return (k.number == 0 || k.live(now)) && a.lineageOf(k.lineage).name == name
	})
}

// freeKeyName returns the first of "default 2", "default 3" and so on that no live key has.
func (a *account) freeKeyName(now int64) string {
	for n := 2; ; n++ {
		if name := defaultKeyName + " " + strconv.Itoa(n); !a.hasKeyNamed(name, now) {
			return name
		}
	}
}

// replaceKey ends a key after the overlap, and no later than its own expiry. The successor gets the same lifetime, starting
// now.
func (a *account) replaceKey(b *base, c *event.ReplaceKey) (event.CommandStatus, *apiKey, int64) {
	if c.GetOverlapMs() < 0 || c.GetOverlapMs() > MaxOverlapMillis {
		return event.CommandStatus_COMMAND_INVALID, nil, 0
	}
	old := a.liveKey(c.GetKey(), b.time)
	if old == nil {
		return event.CommandStatus_COMMAND_KEY_NOT_FOUND, nil, 0
	}
	if _, replaced := a.liveKeys(b.time); c.GetOverlapMs() > 0 && replaced >= MaxKeys {
		return event.CommandStatus_COMMAND_TOO_MANY_KEYS, nil, 0
	}
	r, ends := a.ring(), b.time+c.GetOverlapMs()
	created := old.created
	if old.number == 0 {
		created = a.keyCreated
	}
	lives := old.expires - created
	if old.expires != 0 {
		ends = min(ends, old.expires)
	}
	made := &apiKey{number: r.next, lineage: old.lineage, version: 1, fingerprint: c.GetFingerprint(), prefix: c.GetPrefix(), created: b.time}
	if old.number == 0 {
		made = &apiKey{
			number: r.next, lineage: old.lineage, former: true, version: a.keyVersion, fingerprint: a.fingerprint, prefix: a.keyPrefix,
			created: a.keyCreated, used: a.keyUsed, expires: ends, replaced: true,
		}
		a.keyVersion++
		a.fingerprint, a.keyPrefix, a.keyCreated, a.keyUsed = c.GetFingerprint(), c.GetPrefix(), b.time, 0
		if old.expires != 0 {
			old.expires = b.time + lives
		}
	} else {
		if old.expires != 0 {
			made.expires = b.time + lives
		}
		old.expires, old.replaced, old.replacedBy = ends, true, made.number
	}
	r.next++
	a.addKey(made, b.time)
	if old.number == 0 {
		made = old
	}
	return event.CommandStatus_COMMAND_OK, made, ends
}

// revokeKey ends a key immediately. A key that has already ended is unchanged.
func (a *account) revokeKey(b *base, number uint32) (event.CommandStatus, *apiKey) {
	if number == 0 && a.keyVersion == 0 || number != 0 && a.keys == nil {
		return event.CommandStatus_COMMAND_KEY_NOT_FOUND, nil
	}
	k := a.ring().key(number)
	if k == nil {
		return event.CommandStatus_COMMAND_KEY_NOT_FOUND, nil
	}
	if k.live(b.time) {
		k.revoked = max(b.time, 1)
	}
	return event.CommandStatus_COMMAND_OK, k
}

// defaultReplaced revokes all earlier texts of the default key, and clears what ended the default key.
func (a *account) defaultReplaced(now int64) {
	a.keyUsed = 0
	if a.keys == nil {
		return
	}
	a.keys.keys[0].expires, a.keys.keys[0].revoked = 0, 0
	for _, k := range a.keys.keys[1:] {
		if k.former && k.live(now) {
			k.revoked = max(now, 1)
		}
	}
}

// addKey adds a key, and forgets the oldest of too many ended ones, with the notifications about their caps.
func (a *account) addKey(k *apiKey, now int64) {
	r := a.keys
	r.keys = append(r.keys, k)
	ended := 0
	for _, k := range r.keys[1:] {
		if !k.live(now) {
			ended++
		}
	}
	r.keys = slices.DeleteFunc(r.keys, func(k *apiKey) bool {
		if ended <= maxEndedKeys || k.number == 0 || k.live(now) {
			return false
		}
		ended--
		return true
	})
	r.lineages = slices.DeleteFunc(r.lineages, func(l *keyLineage) bool {
		return !slices.ContainsFunc(r.keys, func(k *apiKey) bool { return k.lineage == l.number })
	})
	if a.alerts != nil {
		a.alerts.notified = slices.DeleteFunc(a.alerts.notified, func(t notified) bool { return t.keyCap && a.lineageOf(t.apiKey) == nil })
	}
}

// liveKeys counts the live keys, and those that are live although replaced. The default key always counts, since regeneration
// can create it at any time.
func (a *account) liveKeys(now int64) (current, replaced int) {
	if a.keys == nil {
		return 1, 0
	}
	for _, k := range a.keys.keys {
		switch {
		case k.number == 0:
			current++
		case !k.live(now):
		case k.replaced:
			replaced++
		default:
			current++
		}
	}
	return current, replaced
}

func (b *base) validRules(r *event.KeyRules) bool {
	if r.Name != nil && (*r.Name == "" || !utf8.ValidString(*r.Name) || utf8.RuneCountInString(*r.Name) > MaxKeyNameRunes) {
		return false
	}
	for _, key := range r.GetScopes().GetQuotaKeys() {
		if k := plan.QuotaKey(key); !b.counts(k) && (b.rules < Rules4 || k != plan.ScopeCheckout) {
			return false
		}
	}
	last := uint32(0)
	for _, q := range r.GetQuotas().GetLimits() {
		if q.QuotaKey <= last || !b.counts(plan.QuotaKey(q.QuotaKey)) {
			return false
		}
		last = q.QuotaKey
	}
	if r.ExpiresMs != nil && *r.ExpiresMs != 0 && *r.ExpiresMs <= b.time || r.ExpiresInMs != nil && *r.ExpiresInMs <= 0 {
		return false
	}
	return r.Cap == nil || capOf(r.Cap).valid()
}

func applyRules(k *apiKey, l *keyLineage, r *event.KeyRules, now int64) {
	if r.Name != nil {
		l.name = *r.Name
	}
	if r.Scopes != nil {
		l.scopes = 0
		for _, key := range r.Scopes.QuotaKeys {
			l.scopes |= 1 << key
		}
	}
	switch {
	case r.ExpiresInMs != nil:
		k.expires = now + *r.ExpiresInMs
	case r.ExpiresMs != nil:
		k.expires = *r.ExpiresMs
	}
	if r.Quotas != nil {
		l.quotas = nil
		for _, q := range r.Quotas.Limits {
			l.quotas = append(l.quotas, keyQuota{plan.QuotaKey(q.QuotaKey), q.Limit})
		}
	}
	if r.Cap != nil {
		l.cap = capOf(r.Cap)
	}
}
