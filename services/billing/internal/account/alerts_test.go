package account

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"quire.dev/pkg/event"
	"quire.dev/pkg/plan"
)

const (
	toldQuota   = uint32(1 << (event.AlertType_ALERT_QUOTA - 1))
	toldBalance = uint32(1 << (event.AlertType_ALERT_BALANCE - 1))
)

func webhookOf(id, hook uint64, events uint32, below uint64, thresholds ...uint32) *event.Command {
	return &event.Command{Account: id, Action: &event.Command_SetWebhook{SetWebhook: &event.SetWebhook{
		Webhook: hook, Create: true, Events: &events, Thresholds: &event.Percents{Values: thresholds}, BalanceBelowMicros: &below,
	}}}
}

func unhook(id, hook uint64) *event.Command {
	return &event.Command{Account: id, Action: &event.Command_DeleteWebhook{DeleteWebhook: &event.DeleteWebhook{Webhook: hook}}}
}

func tryHook(id, hook uint64) *event.Command {
	return &event.Command{Account: id, Action: &event.Command_TestWebhook{TestWebhook: &event.TestWebhook{Webhook: hook}}}
}

func (h *history) webhook(c *event.Command) *event.WebhookRules {
	h.t.Helper()
	o := h.command(c)
	if o.Status != event.CommandStatus_COMMAND_OK || o.Webhook == nil {
		h.t.Fatalf("webhook: %v", o)
	}
	return o.Webhook
}

// alertsOf are an account's alerts, as modelAlert shows them.
func (h *history) alertsOf(id uint64) (list []string) {
	for _, a := range h.alerts {
		if a.Account == id {
			list = append(list, shownAlert(a))
		}
	}
	return list
}

func shownAlert(a *event.Alert) string {
	switch a.Type {
	case event.AlertType_ALERT_QUOTA:
		return fmt.Sprintf("%x %v from %d: %d%%, %d of %d to %v", a.Account, plan.QuotaKey(a.QuotaKey), a.FromMs, a.Threshold, a.Used, a.Limit, a.Webhooks)
	case event.AlertType_ALERT_BALANCE:
		return fmt.Sprintf("%x balance %d below %d to %v", a.Account, a.BalanceMicros, a.BelowMicros, a.Webhooks)
	}
	return fmt.Sprintf("%x %v to %v", a.Account, a.Type, a.Webhooks)
}

func TestEachThresholdOfAQuotaIsToldOnceAMonth(t *testing.T) {
	h := historyOf(t)
	h.account(alice, plan.Free)
	h.webhook(webhookOf(alice, 7, toldQuota, 0))
	h.webhook(webhookOf(alice, 8, toldQuota, 0, 100, 90, 90))
	month := at("2026-10-01T00:00:00Z")
	quota := func(percent, used uint32, to ...uint64) string {
		return fmt.Sprintf("%x pastes.delete from %d: %d%%, %d of 10 to %v", alice, month, percent, used, to)
	}
	h.use(alice, plan.PastesDelete, 4)
	if len(h.alerts) != 0 {
		t.Fatalf("told below the first threshold: %v", h.alerts)
	}
	open, _ := h.batchOf(alice, plan.PastesDelete, 4) // 8 of 10
	want := []string{quota(50, 5, 7), quota(80, 8, 7)}
	if got := h.alertsOf(alice); !slices.Equal(got, want) {
		t.Fatalf("%q, want %q", got, want)
	}
	for _, a := range open {
		h.voided(a)
	}
	h.use(alice, plan.PastesDelete, 4) // over both thresholds again
	if got := h.alertsOf(alice); !slices.Equal(got, want) {
		t.Fatalf("told twice: %q", got)
	}
	h.use(alice, plan.PastesDelete, 2)
	want = append(want, quota(90, 9, 8), quota(100, 10, 7, 8))
	if got := h.alertsOf(alice); !slices.Equal(got, want) {
		t.Fatalf("%q, want %q", got, want)
	}
	h.want(h.admission(alice, plan.PastesDelete), exhausted)

	// The next month begins anew, and so does another limit.
	h.wait(31 * 24 * time.Hour)
	month = at("2026-11-01T00:00:00Z")
	h.use(alice, plan.PastesDelete, 5)
	want = append(want, quota(50, 5, 7))
	h.command(setTier(alice, plan.Pro))
	h.use(alice, plan.PastesDelete, 245)
	want = append(want, fmt.Sprintf("%x pastes.delete from %d: 50%%, 250 of 500 to [7]", alice, month))
	if got := h.alertsOf(alice); !slices.Equal(got, want) {
		t.Fatalf("%q, want %q", got, want)
	}
	ids := map[string]bool{}
	for i, a := range h.alerts {
		if ids[a.Id] || len(a.Id) != len(alertPrefix)+2*alertDigits || i > 0 && a.Position <= h.alerts[i-1].Position {
			t.Errorf("alert %d: id %s, position %s", i, a.Id, a.Position)
		}
		ids[a.Id] = true
	}
	h.replaysAlerts()
}

// replaysAlerts folds the journal again: every alert is the same, its id included.
func (h *history) replaysAlerts() {
	h.t.Helper()
	again := &history{t: h.t, fold: New()}
	for _, m := range h.messages {
		effects, err := again.fold.Apply(m)
		if err != nil {
			h.t.Fatalf("%v", err)
		}
		again.alerts = append(again.alerts, effects.Alerts...)
	}
	same := func(x, y *event.Alert) bool {
		return x.Id == y.Id && x.Position == y.Position && shownAlert(x) == shownAlert(y)
	}
	if !slices.EqualFunc(h.alerts, again.alerts, same) {
		h.t.Fatalf("alerts of the live fold %v, of a replay %v", h.alerts, again.alerts)
	}
}

func TestABalanceBelowAValueIsToldOncePerGrant(t *testing.T) {
	h := historyOf(t)
	h.account(alice, plan.Pro)
	h.grant(alice, 10_000, 0)
	h.webhook(webhookOf(alice, 7, toldBalance, 5_000))
	h.command(setTier(alice, plan.Max))
	h.command(setTier(alice, plan.Pro))
	pay := func() {
		a := h.admission(alice, plan.FilesUpload)
		h.want(a, admitted)
		h.served(a)
	}
	h.use(alice, plan.FilesUpload, 100)
	pay() // 5,000 are left: not below
	if len(h.alerts) != 0 {
		t.Fatalf("told at the value: %v", h.alerts)
	}
	paid := h.admission(alice, plan.FilesUpload)
	h.want(paid, admitted)
	want := []string{fmt.Sprintf("%x balance 0 below 5000 to [7]", alice)}
	if got := h.alertsOf(alice); !slices.Equal(got, want) {
		t.Fatalf("%q, want %q", got, want)
	}
	h.voided(paid) // back at 5,000
	pay()
	if got := h.alertsOf(alice); !slices.Equal(got, want) {
		t.Fatalf("told twice: %q", got)
	}
	expires := h.now + 60_000
	h.grant(alice, 6_000, expires)
	h.wait(time.Hour).tick()
	want = append(want, want[0])
	if got := h.alertsOf(alice); !slices.Equal(got, want) || h.alerts[1].TimeMs != expires {
		t.Fatalf("%q, want %q", got, want)
	}
	h.replaysAlerts()
}

func TestWebhooksAreBounded(t *testing.T) {
	h := historyOf(t)
	h.account(alice, plan.Free)
	status := func(c *event.Command, want event.CommandStatus) {
		t.Helper()
		if o := h.command(c); o.Status != want {
			t.Errorf("%v: %v, want %v", c, o.Status, want)
		}
	}
	for i := range uint64(MaxWebhooks) {
		status(webhookOf(alice, i+1, toldQuota, 0), event.CommandStatus_COMMAND_OK)
	}
	status(webhookOf(alice, 99, toldQuota, 0), event.CommandStatus_COMMAND_TOO_MANY_WEBHOOKS)
	status(webhookOf(alice, 1, toldQuota, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 100), event.CommandStatus_COMMAND_OK)
	status(webhookOf(alice, 1, toldQuota, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11), event.CommandStatus_COMMAND_WEBHOOK_INVALID)
	for _, bad := range []uint32{0, 101} {
		status(webhookOf(alice, 1, toldQuota, 0, bad), event.CommandStatus_COMMAND_WEBHOOK_INVALID)
	}
	status(webhookOf(alice, 1, 0, 0), event.CommandStatus_COMMAND_WEBHOOK_INVALID)
	status(webhookOf(alice, 1, 1<<20, 0), event.CommandStatus_COMMAND_WEBHOOK_INVALID)
	status(webhookOf(alice, 1, toldBalance, 0), event.CommandStatus_COMMAND_WEBHOOK_INVALID)
	status(webhookOf(alice, 1, toldBalance, maxBalance), event.CommandStatus_COMMAND_OK)
	status(webhookOf(alice, 1, toldBalance, maxBalance+1), event.CommandStatus_COMMAND_WEBHOOK_INVALID)
	change := webhookOf(alice, 99, toldQuota, 0)
	change.GetSetWebhook().Create = false
	status(change, event.CommandStatus_COMMAND_WEBHOOK_NOT_FOUND)
	status(unhook(alice, 99), event.CommandStatus_COMMAND_WEBHOOK_NOT_FOUND)
	status(tryHook(alice, 99), event.CommandStatus_COMMAND_WEBHOOK_NOT_FOUND)
	status(webhookOf(bob, 1, toldQuota, 0), event.CommandStatus_COMMAND_ACCOUNT_NOT_FOUND)
	for i := range uint64(MaxWebhooks) {
		status(unhook(alice, i+1), event.CommandStatus_COMMAND_OK)
	}
	if h.fold.accounts[alice].alerts != nil {
		t.Error("an account without webhooks keeps their state")
	}
}

func TestAChangeOfAWebhookIsAMerge(t *testing.T) {
	h := historyOf(t)
	h.account(alice, plan.Free)
	h.webhook(webhookOf(alice, 7, toldQuota|toldBalance, 5_000, 30, 20))
	events := toldQuota
	merged := h.webhook(&event.Command{Account: alice, Action: &event.Command_SetWebhook{SetWebhook: &event.SetWebhook{Webhook: 7, Events: &events}}})
	if merged.Events != toldQuota || !slices.Equal(merged.Thresholds, []uint32{20, 30}) || merged.BalanceBelowMicros != 5_000 {
		t.Errorf("%v", merged)
	}
	merged = h.webhook(&event.Command{Account: alice, Action: &event.Command_SetWebhook{SetWebhook: &event.SetWebhook{Webhook: 7, Thresholds: &event.Percents{}}}})
	if len(merged.Thresholds) != 0 {
		t.Errorf("%v", merged)
	}
	try := tryHook(alice, 7)
	try.IdempotencyId = []byte("sixteen bytes id")
	first, again := h.command(try), h.command(try)
	if first.Alert == "" || again.Alert != first.Alert || !again.Replayed || len(h.alerts) != 1 || h.alerts[0].Id != first.Alert {
		t.Errorf("%v, then %v: %v", first, again, h.alerts)
	}
}

// A webhook that was there before the rules of webhooks can't be: programs of then do not see what its command asks for.
func TestEarlierRulesKnowNoWebhooks(t *testing.T) {
	h := newHistory(t, nil)
	h.rules = RulesHolders - 1
	h.prices(plan.Published(10))
	h.account(alice, plan.Free)
	for _, c := range []*event.Command{webhookOf(alice, 1, toldQuota, 0), unhook(alice, 1), tryHook(alice, 1)} {
		if o := h.command(c); o.Status != event.CommandStatus_COMMAND_INVALID {
			t.Errorf("%v", o)
		}
	}
	h.sound()
}

// modelHooks are the webhooks of an account in the model, which keeps all that it ever told of.
type modelHooks struct {
	hooks map[uint64]*event.WebhookRules
	made  []uint64
	told  map[string][]uint32 // by quota key, month and limit
	low   map[uint64]bool
}

func (h *modelHooks) wanting(want func(*event.WebhookRules) bool) (ids []uint64) {
	for _, id := range h.made {
		if w := h.hooks[id]; w != nil && want(w) {
			ids = append(ids, id)
		}
	}
	return ids
}

// tellUsed is called after a request was counted.
func (m *model) tellUsed(id uint64, key plan.QuotaKey, month uint32, used int) {
	a := m.accounts[id]
	limit := int(m.book.Terms[a.tier][key].Limit)
	for percent := 1; percent <= 100 && limit > 0; percent++ {
		to := a.hooks.wanting(func(w *event.WebhookRules) bool {
			list := w.Thresholds
			if len(list) == 0 {
				list = []uint32{50, 80, 100}
			}
			return w.Events&toldQuota != 0 && slices.Contains(list, uint32(percent))
		})
		of := fmt.Sprint(key, month, limit)
		if len(to) == 0 || used*100 < percent*limit || (used-1)*100 >= percent*limit ||
			slices.ContainsFunc(a.hooks.told[of], func(p uint32) bool { return p >= uint32(percent) }) {
			continue
		}
		a.hooks.told[of] = append(a.hooks.told[of], uint32(percent))
		m.alerts = append(m.alerts, fmt.Sprintf("%x %v from %d: %d%%, %d of %d to %v", id, key, monthNumber(month).start, percent, used, limit, to))
	}
}

// tellLow is called after the balance has changed, but for a void.
func (m *model) tellLow(id uint64, before int64) {
	a := m.accounts[id]
	values := map[uint64]bool{}
	for _, w := range a.hooks.hooks {
		values[w.BalanceBelowMicros] = true
	}
	for _, value := range slices.Backward(slices.Sorted(maps.Keys(values))) {
		to := a.hooks.wanting(func(w *event.WebhookRules) bool {
			return w.BalanceBelowMicros == value && w.Events&toldBalance != 0
		})
		if len(to) > 0 && before >= int64(value) && a.balance() < int64(value) && !a.hooks.low[value] {
			a.hooks.low[value] = true
			m.alerts = append(m.alerts, fmt.Sprintf("%x balance %d below %d to %v", id, a.balance(), value, to))
		}
	}
}

func (a *modelAccount) liftLow() {
	for value := range a.hooks.low {
		if a.balance() >= int64(value) {
			delete(a.hooks.low, value)
		}
	}
}

func (m *machine) webhookCommand(t *rapid.T) {
	id := rapid.SampledFrom([]uint64{alice, bob}).Draw(t, "account")
	hook := uint64(rapid.IntRange(1, 3).Draw(t, "webhook"))
	var c *event.Command
	switch rapid.IntRange(0, 4).Draw(t, "hooks") {
	case 0:
		c = unhook(id, hook)
	case 1:
		c = tryHook(id, hook)
	default:
		c = webhookOf(id, hook, rapid.SampledFrom([]uint32{toldQuota, toldBalance, toldQuota | toldBalance}).Draw(t, "events"),
			rapid.SampledFrom([]uint64{1, 5_000, 20_000}).Draw(t, "below"),
			rapid.SampledFrom([][]uint32{nil, {1}, {34, 67}, {100, 50}}).Draw(t, "thresholds")...)
	}
	o := m.command(c)
	m.model.advance(m.now)
	a := m.model.accounts[id]
	if a == nil || m.model.rules < RulesHolders {
		if o.Status == event.CommandStatus_COMMAND_OK {
			t.Fatalf("%v: %v", c, o)
		}
		return
	}
	a.hooks.do(t, m.model, c, o)
}

func (h *modelHooks) do(t *rapid.T, m *model, c *event.Command, o *event.CommandOutcome) {
	if h.hooks == nil {
		*h = modelHooks{hooks: map[uint64]*event.WebhookRules{}, told: map[string][]uint32{}, low: map[uint64]bool{}}
	}
	set, hook := c.GetSetWebhook(), c.GetDeleteWebhook().GetWebhook()+c.GetTestWebhook().GetWebhook()
	if found := o.Status == event.CommandStatus_COMMAND_OK; found != (set != nil || h.hooks[hook] != nil) {
		t.Fatalf("%v: %v", c, o)
	}
	switch {
	case set != nil:
		if h.hooks[set.Webhook] == nil {
			h.made = append(slices.DeleteFunc(h.made, func(id uint64) bool { return id == set.Webhook }), set.Webhook)
		}
		h.hooks[set.Webhook] = &event.WebhookRules{Events: *set.Events, Thresholds: set.Thresholds.Values, BalanceBelowMicros: *set.BalanceBelowMicros}
	case c.GetTestWebhook() != nil:
		if h.hooks[hook] != nil {
			m.alerts = append(m.alerts, fmt.Sprintf("%x %v to %v", c.Account, event.AlertType_ALERT_TEST, []uint64{hook}))
		}
		return
	default:
		delete(h.hooks, hook)
	}
	for value := range h.low {
		if len(h.wanting(func(w *event.WebhookRules) bool { return w.BalanceBelowMicros == value && w.Events&toldBalance != 0 })) == 0 {
			delete(h.low, value)
		}
	}
	if len(h.hooks) == 0 {
		h.told = map[string][]uint32{}
	}
}

// compareAlerts holds the alerts of each account to the model's. Between accounts, what is due at one moment has no order.
func (m *machine) compareAlerts(t *rapid.T) {
	for _, id := range m.accounts {
		prefix := fmt.Sprintf("%x ", id)
		var want []string
		for _, a := range m.model.alerts {
			if len(a) > len(prefix) && a[:len(prefix)] == prefix {
				want = append(want, a)
			}
		}
		if got := m.alertsOf(id); !slices.Equal(got, want) {
			t.Fatalf("alerts of %x:\n%q, model\n%q", id, got, want)
		}
	}
}
