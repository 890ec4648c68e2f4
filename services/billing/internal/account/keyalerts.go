package account

import (
	"slices"

	"quire.dev/pkg/event"
)

// Webhooks are notified of keys that are created, and of keys that end because their owner or an admin says so: by revocation, by
// replacement, or by the regeneration of the default key. A key that merely expires was announced (warnings.go).

// knownKey is what notifications compare of a key before and after a command.
type knownKey struct {
	number, version uint32 // the default key keeps its number, and gets another version
	former          bool
	replaced, live  bool
	name            string
	expires         int64
}

// knownKeys lists the keys of an account with a webhook that wants to know. It is nil without one.
func (a *account) knownKeys(now int64) (list []knownKey) {
	if a.alerts == nil || !slices.ContainsFunc(a.alerts.webhooks, (*webhook).wantsKeys) {
		return nil
	}
	list = []knownKey{}
	if a.keys == nil && a.keyVersion != 0 {
		list = append(list, knownKey{version: a.keyVersion, live: true, name: defaultKeyName})
	}
	if a.keys == nil {
		return list
	}
	for _, k := range a.keys.keys {
		known := knownKey{
			number: k.number, version: k.version, former: k.former, replaced: k.replaced, live: k.live(now), expires: k.expires,
		}
		if l := a.lineageOf(k.lineage); l != nil {
			known.name = l.name
		}
		if k.number == 0 {
			known.version = a.keyVersion
		}
		if known.version != 0 {
			list = append(list, known)
		}
	}
	return list
}

func (w *webhook) wantsKeys() bool {
	return w.wants(event.AlertType_ALERT_KEY_CREATED) || w.wants(event.AlertType_ALERT_KEY_REVOKED)
}

// keysChanged notifies webhooks of the keys that a command has created, replaced or ended.
func (n *notifier) keysChanged(a *account, before []knownKey) {
	if before == nil || a.alerts == nil {
		return
	}
	after := a.knownKeys(n.time)
	for _, k := range after {
		same := func(b knownKey) bool { return b.number == k.number && b.version == k.version }
		if !k.former && !slices.ContainsFunc(before, same) {
			n.keyAlert(a, event.AlertType_ALERT_KEY_CREATED, k)
		}
	}
	for _, k := range before {
		if !k.live {
			continue
		}
		now := k.after(after)
		if now.live && now.replaced == k.replaced {
			continue
		}
		if !now.live {
			now.expires = 0
		}
		n.keyAlert(a, event.AlertType_ALERT_KEY_REVOKED, now)
	}
}

// after finds the key in a later list. It has ended if it is not there: many keys have ended since, or the default key was
// regenerated.
func (k knownKey) after(list []knownKey) knownKey {
	for _, now := range list {
		if now.number == k.number && now.version == k.version || k.number == 0 && now.former && now.version == k.version {
			return now
		}
	}
	k.live = false
	return k
}

func (n *notifier) keyAlert(a *account, t event.AlertType, k knownKey) {
	if to := a.alerts.subscribed(t, nil); len(to) > 0 {
		n.notify(a, n.time, to, &event.Alert{Type: t, Key: k.number, KeyName: k.name, ExpiresMs: k.expires})
	}
}
