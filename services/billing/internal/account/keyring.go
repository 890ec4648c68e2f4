package account

import (
	"slices"
	"unicode/utf8"

	"quire.dev/pkg/event"
	"quire.dev/pkg/plan"
)

// Bounds of an account's keys.
const (
	// MaxKeys is how many live keys an account may have that were not replaced, the default key among them. As many that
	// were replaced may be live beside them.
	MaxKeys = 20
	// MaxOverlapMillis is the longest time for which a key that was replaced stays valid.
	MaxOverlapMillis = 7 * 24 * 60 * 60 * 1000
	// MaxKeyNameRunes is the longest name of a key, in characters.
	MaxKeyNameRunes = 100

	maxEndedKeys = 20 // that are remembered; the oldest are forgotten
)

// keyring is there for an account that has or had more than its default key, rules for that, or a spending cap. It is nil for all
// others.
type keyring struct {
	cap   spendingCap // the account's
	next  uint32      // number of the next key
	keys  []*apiKey
	lines []*keyLine
}

// apiKey is a key of a keyring. The first one of a keyring is the default key, of which the account has version, fingerprint,
// prefix and the times of its making and last use.
type apiKey struct {
	number      uint32
	line        uint32
	former      bool // it was the default key: its text has number 0
	replaced    bool
	version     uint32
	replacedBy  uint32
	fingerprint uint64
	prefix      string
	created     int64
	used        int64
	expires     int64 // 0: never
	revoked     int64 // 0: it is not
}

// keyLine is a key and those that followed it by replacement. They share rules and counters, so that a new key ends no limit.
type keyLine struct {
	number   uint32 // of the first key
	name     string
	scopes   uint64 // bits of quota keys; 0: all
	quotas   []keyQuota
	cap      spendingCap
	spending spending

	month         uint32 // that the counters are of
	used, overage [plan.KeyCount]uint32
	spent         [plan.KeyCount]uint64
}

type keyQuota struct {
	key   plan.QuotaKey
	limit uint32
}

// cap is the spending cap of the account itself.
func (a *account) cap() spendingCap {
	if a.keys == nil {
		return spendingCap{}
	}
	return a.keys.cap
}

func (k *apiKey) live(now int64) bool { return k.revoked == 0 && (k.expires == 0 || now < k.expires) }

// ring is the account's keyring, made where there is none. All requests so far were of the default key.
func (a *account) ring() *keyring {
	if a.keys == nil {
		l := &keyLine{name: "default", spending: a.spending, month: a.month}
		l.used, l.overage, l.spent = a.current.used, a.current.overage, a.current.spent
		a.keys = &keyring{next: 1, keys: []*apiKey{{}}, lines: []*keyLine{l}}
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

// newest is the number of the line's key that was not replaced.
func (r *keyring) newest(l *keyLine) uint32 {
	for _, k := range r.keys {
		if k.line == l.number && !k.replaced {
			return k.number
		}
	}
	return l.number // it is forgotten, and only what replaced keys have begun counts here
}

// lineOf is the line with that number, nil where the account has no keyring or the line is forgotten.
func (a *account) lineOf(number uint32) *keyLine {
	if a.keys == nil {
		return nil
	}
	for _, l := range a.keys.lines {
		if l.number == number {
			return l
		}
	}
	return nil
}

// sentKey is the key that a request was sent with, if that is valid at a time. It is nil for the default key of an account
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

// oldestVersion is the lowest version of a default key that is or may be valid from now on.
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

// allows tells whether the scopes of a line have the quota key.
func (l *keyLine) allows(key plan.QuotaKey) bool {
	return l == nil || l.scopes == 0 || l.scopes&(1<<key) != 0
}

// limit is the line's own limit of a quota key.
func (l *keyLine) limit(key plan.QuotaKey) (limit uint32, limited bool) {
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
func (l *keyLine) roll(month uint32) {
	if l.month < month {
		l.month = month
		l.used, l.overage, l.spent = [plan.KeyCount]uint32{}, [plan.KeyCount]uint32{}, [plan.KeyCount]uint64{}
	}
}

// full tells whether the line's own limit of a quota key is reached in a month.
func (l *keyLine) full(key plan.QuotaKey, month uint32) bool {
	if l == nil {
		return false
	}
	l.roll(month)
	limit, limited := l.limit(key)
	return limited && l.used[key] >= limit
}

// keyRefused applies the rules of the key that come before the account's quota. The account's month is the present one.
func (f *Fold) keyRefused(a *account, l *keyLine, h *hold, v *event.Verdict) bool {
	if !l.full(h.key, a.month) {
		return false
	}
	limit, _ := l.limit(h.key)
	v.Decision, v.KeyLimit = event.Decision_KEY_QUOTA_EXHAUSTED, int64(limit)
	if limit > 0 {
		v.RetryAfterSeconds = v.ResetSeconds
	}
	open := uint32(0)
	for o := a.open.head; o != nil; o = o.after() {
		if o.line == l.number && o.key == h.key && o.month == a.month {
			open++
		}
	}
	f.hold(v, open > 0 && l.used[h.key]-open < limit)
	return true
}

// countKey counts a request that was admitted for its key.
func (f *Fold) countKey(a *account, k *apiKey, l *keyLine, h *hold) {
	if f.rules < RulesHolders {
		return
	}
	if k == nil || k.number == 0 {
		a.keyUsed = f.time
	} else {
		k.used = f.time
	}
	if l != nil {
		l.roll(a.month)
		l.used[h.key]++
	}
}

// keyCommand decides a command about keys and caps.
func (f *Fold) keyCommand(a *account, c *event.Command) *event.CommandOutcome {
	status, key, oldExpires := event.CommandStatus_COMMAND_INVALID, (*apiKey)(nil), int64(0)
	switch action := c.Action.(type) {
	case *event.Command_CreateKey:
		status, key = f.createKey(a, action.CreateKey)
	case *event.Command_UpdateKey:
		if key = a.liveKey(action.UpdateKey.GetKey(), f.time); key == nil {
			status = event.CommandStatus_COMMAND_KEY_NOT_FOUND
			break
		}
		status = f.changeKey(a, key, action.UpdateKey.GetRules())
	case *event.Command_ReplaceKey:
		status, key, oldExpires = f.replaceKey(a, action.ReplaceKey)
	case *event.Command_RevokeKey:
		status, key = f.revokeKey(a, action.RevokeKey.GetKey())
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
		o.Key, o.OldKeyExpiresMs = a.keyView(key, f.time), oldExpires
	} else {
		o.Cap = a.cap().status(a.spending, a.current.spentSum(), f.time)
	}
	f.changed(a.id)
	return o
}

// liveKey is a live key that was not replaced. The default key is one from the first on.
func (a *account) liveKey(number uint32, now int64) *apiKey {
	if number == 0 && a.keyVersion == 0 || number != 0 && a.keys == nil {
		return nil
	}
	if k := a.ring().key(number); k != nil && !k.replaced && k.live(now) {
		return k
	}
	return nil
}

func (f *Fold) createKey(a *account, c *event.CreateKey) (event.CommandStatus, *apiKey) {
	rules := c.GetRules()
	if rules == nil || rules.Name == nil || !f.validRules(rules) {
		return event.CommandStatus_COMMAND_INVALID, nil
	}
	if current, _ := a.liveKeys(f.time); current >= MaxKeys {
		return event.CommandStatus_COMMAND_TOO_MANY_KEYS, nil
	}
	r := a.ring()
	l := &keyLine{number: r.next, month: a.month}
	k := &apiKey{
		number: r.next, line: r.next, version: 1, fingerprint: c.GetFingerprint(), prefix: c.GetPrefix(), created: f.time,
	}
	r.next++
	f.applyRules(k, l, rules)
	r.lines = append(r.lines, l)
	a.addKey(k, f.time)
	return event.CommandStatus_COMMAND_OK, k
}

func (f *Fold) changeKey(a *account, k *apiKey, rules *event.KeyRules) event.CommandStatus {
	if rules == nil || !f.validRules(rules) {
		return event.CommandStatus_COMMAND_INVALID
	}
	f.applyRules(k, a.lineOf(k.line), rules)
	return event.CommandStatus_COMMAND_OK
}

// replaceKey ends a key after the overlap, and no later than it would have ended. Its successor lives as long as it was to live.
func (f *Fold) replaceKey(a *account, c *event.ReplaceKey) (event.CommandStatus, *apiKey, int64) {
	if c.GetOverlapMs() < 0 || c.GetOverlapMs() > MaxOverlapMillis {
		return event.CommandStatus_COMMAND_INVALID, nil, 0
	}
	old := a.liveKey(c.GetKey(), f.time)
	if old == nil {
		return event.CommandStatus_COMMAND_KEY_NOT_FOUND, nil, 0
	}
	if _, replaced := a.liveKeys(f.time); c.GetOverlapMs() > 0 && replaced >= MaxKeys {
		return event.CommandStatus_COMMAND_TOO_MANY_KEYS, nil, 0
	}
	r, ends := a.ring(), f.time+c.GetOverlapMs()
	created := old.created
	if old.number == 0 {
		created = a.keyCreated
	}
	lives := old.expires - created
	if old.expires != 0 {
		ends = min(ends, old.expires)
	}
	made := &apiKey{number: r.next, line: old.line, version: 1, fingerprint: c.GetFingerprint(), prefix: c.GetPrefix(), created: f.time}
	if old.number == 0 {
		made = &apiKey{
			number: r.next, line: old.line, former: true, version: a.keyVersion, fingerprint: a.fingerprint, prefix: a.keyPrefix,
			created: a.keyCreated, used: a.keyUsed, expires: ends, replaced: true,
		}
		a.keyVersion++
		a.fingerprint, a.keyPrefix, a.keyCreated, a.keyUsed = c.GetFingerprint(), c.GetPrefix(), f.time, 0
		if old.expires != 0 {
			old.expires = f.time + lives
		}
	} else {
		if old.expires != 0 {
			made.expires = f.time + lives
		}
		old.expires, old.replaced, old.replacedBy = ends, true, made.number
	}
	r.next++
	a.addKey(made, f.time)
	if old.number == 0 {
		made = old
	}
	return event.CommandStatus_COMMAND_OK, made, ends
}

// revokeKey ends a key at once. One that has ended already stays as it is.
func (f *Fold) revokeKey(a *account, number uint32) (event.CommandStatus, *apiKey) {
	if number == 0 && a.keyVersion == 0 || number != 0 && a.keys == nil {
		return event.CommandStatus_COMMAND_KEY_NOT_FOUND, nil
	}
	k := a.ring().key(number)
	if k == nil {
		return event.CommandStatus_COMMAND_KEY_NOT_FOUND, nil
	}
	if k.live(f.time) {
		k.revoked = max(f.time, 1)
	}
	return event.CommandStatus_COMMAND_OK, k
}

// defaultReplaced ends what the default key's text has ever been before, and what ended the default key.
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

// addKey enters a key, and forgets the oldest of too many that have ended, with what webhooks were told of their caps.
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
	r.lines = slices.DeleteFunc(r.lines, func(l *keyLine) bool {
		return !slices.ContainsFunc(r.keys, func(k *apiKey) bool { return k.line == l.number })
	})
	if a.alerts != nil {
		a.alerts.told = slices.DeleteFunc(a.alerts.told, func(t told) bool { return t.keyCap && a.lineOf(t.apiKey) == nil })
	}
}

// liveKeys counts the live keys, and those that are live although they were replaced. The default key has its place also where
// there is none: a regeneration makes it at any time.
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

// validRules tells whether the rules may be those of a key.
func (f *Fold) validRules(r *event.KeyRules) bool {
	if r.Name != nil && (*r.Name == "" || !utf8.ValidString(*r.Name) || utf8.RuneCountInString(*r.Name) > MaxKeyNameRunes) {
		return false
	}
	for _, key := range r.GetScopes().GetQuotaKeys() {
		if !plan.QuotaKey(key).Valid() {
			return false
		}
	}
	last := uint32(0)
	for _, q := range r.GetQuotas().GetLimits() {
		if q.QuotaKey <= last || !plan.QuotaKey(q.QuotaKey).Valid() {
			return false
		}
		last = q.QuotaKey
	}
	if r.ExpiresMs != nil && *r.ExpiresMs != 0 && *r.ExpiresMs <= f.time || r.ExpiresInMs != nil && *r.ExpiresInMs <= 0 {
		return false
	}
	return r.Cap == nil || capOf(r.Cap).valid()
}

func (f *Fold) applyRules(k *apiKey, l *keyLine, r *event.KeyRules) {
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
		k.expires = f.time + *r.ExpiresInMs
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

// keyViews are the keys as their owner sees them, the default key first and then in the order in which they were made.
func (a *account) keyViews(now int64) (list []*event.ApiKey) {
	if a.keys == nil {
		if a.keyVersion == 0 {
			return nil
		}
		c := *a // what is asked for changes nothing
		c.ring()
		return c.keyViews(now)
	}
	for _, k := range a.keys.keys {
		if k.number != 0 || a.keyVersion != 0 {
			list = append(list, a.keyView(k, now))
		}
	}
	return list
}

func (a *account) keyView(k *apiKey, now int64) *event.ApiKey {
	l := a.lineOf(k.line)
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
	return v
}

func (l *keyLine) scopeList() (list []uint32) {
	for _, key := range plan.QuotaKeys() {
		if l.scopes&(1<<key) != 0 {
			list = append(list, uint32(key))
		}
	}
	return list
}

func (l *keyLine) quotaList() (list []*event.KeyQuota) {
	for _, q := range l.quotas {
		list = append(list, &event.KeyQuota{QuotaKey: uint32(q.key), Limit: q.limit})
	}
	return list
}

func (l *keyLine) usage() (list []*event.KeyUsage) {
	for key := range plan.KeyCount {
		if l.used[key] != 0 || l.overage[key] != 0 || l.spent[key] != 0 {
			list = append(list, &event.KeyUsage{
				QuotaKey: uint32(key), Used: uint64(l.used[key]), Overage: uint64(l.overage[key]), SpentMicros: l.spent[key],
			})
		}
	}
	return list
}

func (r *keyring) state() *event.KeyringState {
	if r == nil {
		return nil
	}
	s := &event.KeyringState{Next: r.next}
	for _, k := range r.keys {
		s.Keys = append(s.Keys, &event.KeyState{
			Number: k.number, Line: k.line, Former: k.former, Version: k.version, Fingerprint: k.fingerprint, Prefix: k.prefix,
			CreatedMs: k.created, UsedMs: k.used, ExpiresMs: k.expires, RevokedMs: k.revoked, Replaced: k.replaced,
			ReplacedBy: k.replacedBy,
		})
	}
	for _, l := range r.lines {
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
			number: k.Number, line: k.Line, former: k.Former, version: k.Version, fingerprint: k.Fingerprint, prefix: k.Prefix,
			created: k.CreatedMs, used: k.UsedMs, expires: k.ExpiresMs, revoked: k.RevokedMs, replaced: k.Replaced,
			replacedBy: k.ReplacedBy,
		})
	}
	for _, ls := range s.Lines {
		l := &keyLine{
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
				l.used[key], l.overage[key], l.spent[key] = uint32(u.Used), uint32(u.Overage), u.SpentMicros
			}
		}
		r.lines = append(r.lines, l)
	}
	return r
}
