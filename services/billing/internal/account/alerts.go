package account

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"math"
	"slices"

	"quire.dev/pkg/alert"
	"quire.dev/pkg/event"
	"quire.dev/pkg/num"
	"quire.dev/pkg/plan"
)

// An account's webhooks are notified of crossings: a counter or an amount reaches a share of its limit, or the balance drops
// below a value. They are also notified before a key expires (warnings.go), and when one is created or revoked (keyalerts.go).
// The fold decides this, so that each notification happens once, on every replica and after every crash. Charges and refusals never depend on it. A crossing is notified once
// per period: if a void lowers the counter and a later request brings it to the same share again, nobody is notified.

// MaxWebhooks is how many webhooks an account may have.
const MaxWebhooks = 10

const (
	maxThresholds = 10 // of a webhook
	// maxLimits is how many limits of one quota key or cap, and one period, are remembered as notified. A cap that changes more
	// often may be notified again.
	maxLimits = 8
)

// alerts are the webhooks of an account, and what they were notified of.
type alerts struct {
	webhooks []*webhook // in order of creation
	notified []notified
	low      []uint64 // values the balance has dropped below since a grant last lifted it above them

	account  *account
	expiring []expiring // keys with expected warnings, while a webhook wants them
	due      int64      // time of the next warning
	position int        // in the heap of warnings, from 1; 0: no warning expected
}

// webhook is the subscription of one webhook. A change replaces it.
type webhook struct {
	id         uint64
	events     uint32
	thresholds []uint32 // ascending; empty: the default
	below      uint64   // micro-credits; 0: none
	created    int64
}

func (w *webhook) wants(t event.AlertType) bool { return w.events&(1<<(t-1)) != 0 }

// subscribed returns the webhooks that want a type and pass a filter; nil: all of them.
func (l *alerts) subscribed(t event.AlertType, filter func(*webhook) bool) (ids []uint64) {
	for _, w := range l.webhooks {
		if w.wants(t) && (filter == nil || filter(w)) {
			ids = append(ids, w.id)
		}
	}
	return ids
}

func (w *webhook) percents() []uint32 {
	if len(w.thresholds) > 0 {
		return w.thresholds
	}
	return alert.DefaultThresholds()
}

// limited is a counter or an amount with a limit, in one period.
type limited struct {
	kind   event.AlertType
	key    plan.QuotaKey // of a quota
	keyCap bool          // the cap belongs to apiKey
	apiKey uint32        // the lineage, which stays the same where the key is replaced
	from   int64         // start of the period; 0: it has no end

	period event.CapPeriod // of a cap: a day and a month that begin together are two periods
}

// notified is the highest share of a limit that webhooks were notified of.
type notified struct {
	limited
	limit   uint64
	percent uint32
}

// notifier decides the alerts of all accounts.
type notifier struct {
	*base
	warnings warnings
	alerted  map[uint64]uint32 // alerts of this message, by account
}

// setWebhook creates or changes a webhook.
func (n *notifier) setWebhook(a *account, c *event.SetWebhook) (event.CommandStatus, *webhook) {
	before := a.webhook(c.GetWebhook())
	w := webhook{id: c.GetWebhook(), created: n.time}
	switch {
	case before != nil:
		w = *before
	case w.id == 0:
		return event.CommandStatus_COMMAND_WEBHOOK_INVALID, nil
	case !c.GetCreate():
		return event.CommandStatus_COMMAND_WEBHOOK_NOT_FOUND, nil
	case a.alerts != nil && len(a.alerts.webhooks) >= MaxWebhooks:
		return event.CommandStatus_COMMAND_TOO_MANY_WEBHOOKS, nil
	}
	if c.Events != nil {
		w.events = c.GetEvents()
	}
	if c.Thresholds != nil {
		w.thresholds = slices.Compact(slices.Sorted(slices.Values(c.Thresholds.Values)))
	}
	if c.BalanceBelowMicros != nil {
		w.below = c.GetBalanceBelowMicros()
	}
	if !w.valid(n.known()) {
		return event.CommandStatus_COMMAND_WEBHOOK_INVALID, nil
	}
	if a.alerts == nil {
		a.alerts = &alerts{account: a}
	}
	if i := slices.IndexFunc(a.alerts.webhooks, func(o *webhook) bool { return o.id == w.id }); i >= 0 {
		a.alerts.webhooks[i] = &w
	} else {
		a.alerts.webhooks = append(a.alerts.webhooks, &w)
	}
	a.alerts.tidy()
	return event.CommandStatus_COMMAND_OK, &w
}

// webhookCommand changes nothing that an edge caches about the account.
func (f *Fold) webhookCommand(a *account, c *event.Command) *event.CommandOutcome {
	var status event.CommandStatus
	var set *webhook
	var alert string
	switch action := c.Action.(type) {
	case *event.Command_SetWebhook:
		status, set = f.alerts.setWebhook(a, action.SetWebhook)
	case *event.Command_DeleteWebhook:
		status = f.alerts.deleteWebhook(a, action.DeleteWebhook.GetWebhook())
	case *event.Command_TestWebhook:
		status, alert = f.alerts.testWebhook(a, action.TestWebhook.GetWebhook())
	}
	o := f.outcome(status, a)
	o.Alert = alert
	if set != nil {
		o.Webhook = set.rules()
	}
	return o
}

// known are the types that a webhook may subscribe to.
func (b *base) known() uint32 {
	switch {
	case b.rules < Rules3:
		return 1<<event.AlertType_ALERT_KEY - 1
	case b.rules < Rules4:
		return alert.Bits() &^ (alert.Bit(event.AlertType_ALERT_TOP_UP_OFF) | alert.Bit(event.AlertType_ALERT_PAYMENT))
	}
	return alert.Bits()
}

func (w *webhook) valid(known uint32) bool {
	if w.events == 0 || w.events&^known != 0 || len(w.thresholds) > maxThresholds || w.below > maxBalance {
		return false
	}
	if slices.ContainsFunc(w.thresholds, func(p uint32) bool { return p < 1 || p > 100 }) {
		return false
	}
	return w.below > 0 || !w.wants(event.AlertType_ALERT_BALANCE)
}

func (n *notifier) deleteWebhook(a *account, id uint64) event.CommandStatus {
	if a.webhook(id) == nil {
		return event.CommandStatus_COMMAND_WEBHOOK_NOT_FOUND
	}
	a.alerts.webhooks = slices.DeleteFunc(a.alerts.webhooks, func(w *webhook) bool { return w.id == id })
	if a.alerts.tidy(); len(a.alerts.webhooks) == 0 {
		a.alerts = nil
	}
	return event.CommandStatus_COMMAND_OK
}

// testWebhook sends a test to a webhook, and returns the alert's id.
func (n *notifier) testWebhook(a *account, id uint64) (event.CommandStatus, string) {
	if a.webhook(id) == nil {
		return event.CommandStatus_COMMAND_WEBHOOK_NOT_FOUND, ""
	}
	alert := n.notify(a, n.time, []uint64{id}, &event.Alert{Type: event.AlertType_ALERT_TEST})
	return event.CommandStatus_COMMAND_OK, alert.Id
}

func (a *account) webhook(id uint64) *webhook {
	if a.alerts == nil {
		return nil
	}
	if i := slices.IndexFunc(a.alerts.webhooks, func(w *webhook) bool { return w.id == id }); i >= 0 {
		return a.alerts.webhooks[i]
	}
	return nil
}

// tidy forgets balance values that no webhook watches any more.
func (l *alerts) tidy() {
	l.low = slices.DeleteFunc(l.low, func(value uint64) bool {
		return !slices.ContainsFunc(l.webhooks, func(w *webhook) bool { return w.wantsBelow(value) })
	})
}

func (w *webhook) wantsBelow(value uint64) bool {
	return w.below == value && w.wants(event.AlertType_ALERT_BALANCE)
}

// usedMore notifies webhooks of the shares reached by one more request of a quota key, which is already counted.
func (n *notifier) usedMore(a *account, key plan.QuotaKey, limit int64) {
	if a.alerts == nil || limit <= 0 {
		return
	}
	m := monthNumber(a.month)
	n.grown(a, limited{kind: event.AlertType_ALERT_QUOTA, key: key, from: m.start}, growth{
		before: a.current.used[key] - 1, after: a.current.used[key], limit: uint64(limit), until: m.end,
	})
}

// growth is the growth of a counter or an amount.
type growth struct {
	before, after, limit uint64
	until                int64  // end of the period; 0: none
	apiKey               uint32 // number of the key with the cap now
}

// crosses reports whether the growth reaches a share of the limit. Limits are below 2^57, as is maxBalance.
func (g growth) crosses(percent uint32) bool {
	at := uint64(percent) * g.limit
	return g.before*100 < at && g.after*100 >= at
}

// grown notifies webhooks of the shares of a limit reached by a growth, once per period.
func (n *notifier) grown(a *account, of limited, g growth) {
	if a.alerts == nil || g.limit == 0 || g.limit > math.MaxUint64/100 || g.after > math.MaxUint64/100 {
		return
	}
	var reached []uint32
	for _, w := range a.alerts.webhooks {
		if !w.wants(of.kind) {
			continue
		}
		for _, percent := range w.percents() {
			if g.crosses(percent) {
				reached = append(reached, percent)
			}
		}
	}
	if len(reached) == 0 {
		return
	}
	slices.Sort(reached)
	seen := a.alerts.seen(of, g.limit)
	for _, percent := range slices.Compact(reached) {
		if percent <= seen.percent {
			continue
		}
		seen.percent = percent
		to := a.alerts.subscribed(of.kind, func(w *webhook) bool { return slices.Contains(w.percents(), percent) })
		n.notify(a, n.time, to, &event.Alert{
			Type: of.kind, QuotaKey: uint32(of.key), KeyCap: of.keyCap, Key: g.apiKey, Threshold: percent,
			Used: g.after, Limit: g.limit, FromMs: of.from, UntilMs: g.until,
		})
	}
}

// seen returns what webhooks were notified of for a limit, or begins to record it. It forgets earlier periods, and the oldest
// of too many limits.
func (l *alerts) seen(of limited, limit uint64) *notified {
	same, oldest := 0, -1
	l.notified = slices.DeleteFunc(l.notified, func(t notified) bool {
		past := t.from < of.from
		t.from = of.from
		return past && t.limited == of
	})
	for i := range l.notified {
		t := &l.notified[i]
		if t.limited != of {
			continue
		}
		if t.limit == limit {
			return t
		}
		if same++; oldest < 0 {
			oldest = i
		}
	}
	if same >= maxLimits {
		l.notified = slices.Delete(l.notified, oldest, oldest+1)
	}
	l.notified = append(l.notified, notified{limited: of, limit: limit})
	return &l.notified[len(l.notified)-1]
}

// lowered notifies webhooks of the values that the balance has dropped below.
func (n *notifier) lowered(a *account, before, at int64) {
	if a.alerts == nil || before <= a.available {
		return
	}
	var values []uint64
	for _, w := range a.alerts.webhooks {
		v := num.Int64(w.below)
		if w.wants(event.AlertType_ALERT_BALANCE) && before >= v && a.available < v && !slices.Contains(a.alerts.low, w.below) {
			values = append(values, w.below)
		}
	}
	slices.SortFunc(values, func(x, y uint64) int { return cmp.Compare(y, x) })
	for _, value := range slices.Compact(values) {
		a.alerts.low = append(a.alerts.low, value)
		to := a.alerts.subscribed(event.AlertType_ALERT_BALANCE, func(w *webhook) bool { return w.below == value })
		n.notify(a, at, to, &event.Alert{
			Type: event.AlertType_ALERT_BALANCE, BalanceMicros: num.Uint64(a.available), BelowMicros: value,
		})
	}
}

// lifted records a grant: the balance may drop again below values it has been lifted to.
func (a *account) lifted() {
	if a.alerts != nil {
		a.alerts.low = slices.DeleteFunc(a.alerts.low, func(value uint64) bool { return a.available >= num.Int64(value) })
	}
}

// notifyHolder notifies the webhooks that want the alert's type, and the account holder by e-mail if the alert says so.
func (n *notifier) notifyHolder(a *account, made *event.Alert) {
	var to []uint64
	if a.alerts != nil {
		to = a.alerts.subscribed(made.Type, nil)
	}
	if made.Mail || len(to) > 0 {
		n.notify(a, n.time, to, made)
	}
}

// notify adds an alert to the effects. Its id derives from all messages of the journal up to this one, so that a journal
// continued from a backup never reuses an id. It does not depend on the alerts of other accounts, which a part does not have:
// the outcome of a test contains the id.
func (n *notifier) notify(a *account, at int64, webhooks []uint64, alert *event.Alert) *event.Alert {
	h := sha256.New()
	h.Write([]byte("alert"))
	h.Write(n.chain[:])
	h.Write(binary.BigEndian.AppendUint64(nil, a.id))
	h.Write(binary.BigEndian.AppendUint32(nil, n.alerted[a.id]))
	sum := h.Sum(nil)
	id := append(make([]byte, 0, len(alertPrefix)+2*alertDigits), alertPrefix...)
	id = event.AppendBase62(id, binary.BigEndian.Uint64(sum), alertDigits)
	id = event.AppendBase62(id, binary.BigEndian.Uint64(sum[8:]), alertDigits)
	alert.Id, alert.Account, alert.TimeMs, alert.Webhooks = string(id), a.id, at, webhooks
	alert.Position = string(ledgerID(n.sequence, num.Uint32(len(n.effects.Alerts))))
	n.effects.Alerts = append(n.effects.Alerts, alert)
	n.alerted[a.id]++
	return alert
}

const (
	alertPrefix = "evt_"
	alertDigits = 11 // in base62, of each half of the hash
)

// Webhooks returns the subscriptions of an account's webhooks, in order of creation.
func (s *principals) Webhooks(id event.AccountID) []*event.WebhookRules {
	a := s.accounts[uint64(id)]
	if a == nil || a.alerts == nil {
		return nil
	}
	return a.alerts.rules()
}

func (l *alerts) rules() (list []*event.WebhookRules) {
	for _, w := range l.webhooks {
		list = append(list, w.rules())
	}
	return list
}

func (w *webhook) rules() *event.WebhookRules {
	return &event.WebhookRules{
		Webhook: w.id, Events: w.events, Thresholds: slices.Clone(w.thresholds), BalanceBelowMicros: w.below, CreatedMs: w.created,
	}
}

func (l *alerts) state() *event.AlertState {
	if l == nil {
		return nil
	}
	s := &event.AlertState{Webhooks: l.rules(), LowMicros: slices.Clone(l.low), Expiring: l.expiringState()}
	for _, t := range l.notified {
		s.Told = append(s.Told, &event.CrossingState{
			Type: t.kind, QuotaKey: uint32(t.key), KeyCap: t.keyCap, Key: t.apiKey, FromMs: t.from, Limit: t.limit, Percent: t.percent,
			Period: t.period,
		})
	}
	return s
}

// restore restores the account's alerts, and schedules their next warning.
func (n *notifier) restore(a *account, s *event.AlertState) {
	if s != nil {
		a.alerts = alertsOf(s)
		a.alerts.account = a
		n.schedule(a.alerts)
	}
}

func alertsOf(s *event.AlertState) *alerts {
	l := &alerts{low: slices.Clone(s.LowMicros)}
	for _, w := range s.Webhooks {
		l.webhooks = append(l.webhooks, &webhook{
			id: w.Webhook, events: w.Events, thresholds: slices.Clone(w.Thresholds), below: w.BalanceBelowMicros, created: w.CreatedMs,
		})
	}
	for _, t := range s.Told {
		l.notified = append(l.notified, notified{
			limited: limited{
				kind: t.Type, key: plan.QuotaKey(t.QuotaKey), keyCap: t.KeyCap, apiKey: t.Key, from: t.FromMs,
				period: t.Period,
			},
			limit: t.Limit, percent: t.Percent,
		})
	}
	for _, e := range s.Expiring {
		l.expiring = append(l.expiring, expiring{key: e.Key, expires: e.ExpiresMs, behind: e.Behind})
	}
	return l
}
