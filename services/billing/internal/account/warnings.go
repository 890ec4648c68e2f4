package account

import (
	"cmp"
	"container/heap"
	"math"
	"slices"

	"quire.dev/pkg/event"
)

// Webhooks are notified some days before a key expires, by the journal's time. A replaced or revoked key ends as its owner
// wants, so nobody is notified.

// warningDays are the days before an expiry at which webhooks are notified.
func warningDays() [2]uint32 { return [2]uint32{7, 1} }

// never is later than any time.
const never = math.MaxInt64

// expiring records which warnings of a key are done: given, or already past when the key got this expiry or the first webhook
// subscribed to warnings.
type expiring struct {
	key     uint32
	expires int64
	behind  uint32 // number of warningDays done
}

// due is the time of the next warning.
func (e expiring) due() int64 {
	if days := warningDays(); int(e.behind) < len(days) {
		return e.expires - int64(days[e.behind])*dayMillis
	}
	return never
}

// warnings holds the accounts with expected warnings, the next one first. Account ids break ties, so that every replica has the
// same order.
type warnings []*alerts

func (w warnings) Len() int { return len(w) }
func (w warnings) Less(i, j int) bool {
	return cmp.Or(cmp.Compare(w[i].due, w[j].due), cmp.Compare(w[i].account.id, w[j].account.id)) < 0
}

func (w warnings) Swap(i, j int) {
	w[i], w[j] = w[j], w[i]
	w[i].position, w[j].position = i+1, j+1
}

func (w *warnings) Push(x any) {
	l := x.(*alerts)
	*w = append(*w, l)
	l.position = len(*w)
}

func (w *warnings) Pop() any {
	last := len(*w) - 1
	l := (*w)[last]
	(*w)[last] = nil
	*w = (*w)[:last]
	l.position = 0
	return l
}

// due is the time of the next warning of any account; never if there is none.
func (n *notifier) due() int64 {
	if len(n.warnings) == 0 {
		return never
	}
	return n.warnings[0].due
}

// schedule moves an account's alerts to the position of their next warning.
func (n *notifier) schedule(l *alerts) {
	l.due = never
	for _, e := range l.expiring {
		l.due = min(l.due, e.due())
	}
	switch {
	case l.position == 0 && l.due == never:
	case l.position == 0:
		heap.Push(&n.warnings, l)
	case l.due == never:
		heap.Remove(&n.warnings, l.position-1)
	default:
		heap.Fix(&n.warnings, l.position-1)
	}
}

// watchKeys updates the expected warnings of an account after a command on its keys or webhooks. before is the account's
// earlier alerts.
func (n *notifier) watchKeys(a *account, before *alerts) {
	l := a.alerts
	if before != nil && before != l {
		before.expiring = nil
		n.schedule(before)
	}
	if l == nil {
		return
	}
	watched := l.expiring
	l.expiring = nil
	if a.keys != nil && slices.ContainsFunc(l.webhooks, func(w *webhook) bool { return w.wants(event.AlertType_ALERT_KEY) }) {
		for _, k := range a.keys.keys {
			if k.expires == 0 || k.replaced || !k.live(n.time) || k.number == 0 && a.keyVersion == 0 {
				continue
			}
			e := expiring{key: k.number, expires: k.expires}
			if i := slices.IndexFunc(watched, func(w expiring) bool { return w.key == e.key && w.expires == e.expires }); i >= 0 {
				e = watched[i]
			} else {
				for e.due() <= n.time {
					e.behind++
				}
			}
			l.expiring = append(l.expiring, e)
		}
	}
	n.schedule(l)
}

// warn issues the next warning. now is later than its due time if no message has moved the time.
func (n *notifier) warn(now int64) {
	l := n.warnings[0]
	n.touch(&l.account.principal)
	i := slices.IndexFunc(l.expiring, func(e expiring) bool { return e.due() == l.due })
	e := &l.expiring[i]
	days := warningDays()[e.behind]
	e.behind++
	n.schedule(l)
	to := l.subscribed(event.AlertType_ALERT_KEY, nil)
	n.notify(l.account, now, to, &event.Alert{Type: event.AlertType_ALERT_KEY, Key: e.key, ExpiresMs: e.expires, DaysBefore: days})
}

func (l *alerts) expiringState() (list []*event.ExpiringState) {
	for _, e := range l.expiring {
		list = append(list, &event.ExpiringState{Key: e.key, ExpiresMs: e.expires, Behind: e.behind})
	}
	return list
}
