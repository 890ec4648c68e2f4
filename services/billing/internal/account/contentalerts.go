package account

import (
	"quire.dev/pkg/alert"
	"quire.dev/pkg/event"
)

// Webhooks are notified of what happens to an account's content. The document services report it with their settlements, for
// accounts of which a verdict has said that a webhook wants to know (docs/adr/0022-content-events-come-with-settlements.md).

// wantsContent reports whether a webhook wants any event of content.
func (l *alerts) wantsContent() bool {
	if l == nil {
		return false
	}
	for _, w := range l.webhooks {
		if w.events&alert.ContentBits() != 0 {
			return true
		}
	}
	return false
}

// contentChanged notifies the webhooks of an account, which may be nil, of a change in a domain. It is called once per change.
func (n *notifier) contentChanged(a *account, domain event.Domain, c *event.ContentChange) {
	t := alert.ContentType(domain, c.GetAction())
	if a == nil || a.alerts == nil || t == event.AlertType_ALERT_UNSPECIFIED {
		return
	}
	if to := a.alerts.subscribed(t, nil); len(to) > 0 {
		n.notify(a, n.time, to, &event.Alert{Type: t, Content: &event.ContentChange{
			Action: c.Action, Item: c.Item, Version: c.Version, Visibility: c.Visibility, SizeBytes: c.SizeBytes, ExpiresMs: c.ExpiresMs,
		}}) // a copy, since the settlement is decoded into memory that is used again
	}
}
