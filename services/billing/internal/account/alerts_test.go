package account

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"quire.dev/pkg/alert"
	"quire.dev/pkg/event"
	"quire.dev/pkg/plan"
)

const (
	toldQuota   = uint32(1 << (event.AlertType_ALERT_QUOTA - 1))
	toldBalance = uint32(1 << (event.AlertType_ALERT_BALANCE - 1))
	toldMoney   = uint32(1<<(event.AlertType_ALERT_PAYMENT-1) | 1<<(event.AlertType_ALERT_TOP_UP_OFF-1))
	toldCap     = uint32(1 << (event.AlertType_ALERT_CAP - 1))
	toldKey     = uint32(1 << (event.AlertType_ALERT_KEY - 1))
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
	case event.AlertType_ALERT_CAP:
		whose := "account"
		if a.KeyCap {
			whose = fmt.Sprintf("key %d", a.Key)
		}
		return fmt.Sprintf("%x cap of %s from %d: %d%%, %d of %d to %v", a.Account, whose, a.FromMs, a.Threshold, a.Used, a.Limit, a.Webhooks)
	case event.AlertType_ALERT_BALANCE:
		return fmt.Sprintf("%x balance %d below %d to %v", a.Account, a.BalanceMicros, a.BelowMicros, a.Webhooks)
	case event.AlertType_ALERT_KEY:
		return fmt.Sprintf("%x key %d expires at %d, in %d days, to %v", a.Account, a.Key, a.ExpiresMs, a.DaysBefore, a.Webhooks)
	case event.AlertType_ALERT_KEY_CREATED, event.AlertType_ALERT_KEY_REVOKED:
		return fmt.Sprintf("%v %d %q until %d to %v", alert.TypeOf(a.Type).Name, a.Key, a.KeyName, a.ExpiresMs, a.Webhooks)
	}
	text := fmt.Sprintf("%x %v to %v", a.Account, a.Type, a.Webhooks)
	if a.Mail {
		text += " by e-mail"
	}
	return text
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

	// The next month starts over, and so does another limit.
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

func TestEachShareOfACapIsToldOnceAPeriod(t *testing.T) {
	h := historyOf(t)
	h.account(alice, plan.Pro)
	h.grant(alice, 1_000_000, 0)
	h.command(setCap(alice, event.CapPeriod_CAP_DAY, 20_000))
	h.webhook(webhookOf(alice, 7, toldCap, 0))
	h.use(alice, plan.FilesUpload, 100) // within the quota
	day := h.now / dayMillis * dayMillis
	account := func(percent, spent uint64) string {
		return fmt.Sprintf("%x cap of account from %d: %d%%, %d of 20000 to [7]", alice, day, percent, spent)
	}
	pay := func() *event.Admission {
		a := h.admission(alice, plan.FilesUpload)
		h.want(a, admitted)
		return a
	}
	wants := func(want ...string) {
		t.Helper()
		if got := h.alertsOf(alice); !slices.Equal(got, want) {
			t.Fatalf("%q, want %q", got, want)
		}
	}
	pay()
	wants()
	second := pay()
	wants(account(50, 10_000))
	h.voided(second) // back below, and over it again
	pay()
	pay()
	pay()
	want := []string{account(50, 10_000), account(80, 20_000), account(100, 20_000)}
	wants(want...)
	h.want(h.admission(alice, plan.FilesUpload), capReached)

	// Another period of a cap is another limit, with its own notifications.
	h.command(setCap(alice, event.CapPeriod_CAP_MONTH, 50_000))
	h.voided(pay())
	want = append(want, fmt.Sprintf("%x cap of account from %d: 50%%, 25000 of 50000 to [7]", alice, at("2026-10-01T00:00:00Z")))
	wants(want...)
	h.command(setCap(alice, event.CapPeriod_CAP_DAY, 50_000))
	h.voided(pay())
	want = append(want, fmt.Sprintf("%x cap of account from %d: 50%%, 25000 of 50000 to [7]", alice, day))
	wants(want...)
	h.command(setCap(alice, event.CapPeriod_CAP_MONTH, 50_000))
	pay()
	wants(want...)

	// The next day starts over.
	h.command(setCap(alice, event.CapPeriod_CAP_DAY, 20_000))
	h.wait(24 * time.Hour)
	day += dayMillis
	pay()
	pay()
	want = append(want, account(50, 10_000))
	wants(want...)
	h.replaysAlerts()
}

// TestADayAndAMonthThatBeginTogetherAreToldApart: on the 1st of a month, for caps of the same amount.
func TestADayAndAMonthThatBeginTogetherAreToldApart(t *testing.T) {
	h := historyOf(t)
	h.account(alice, plan.Pro)
	h.grant(alice, 1_000_000, 0)
	h.webhook(webhookOf(alice, 7, toldCap, 0))
	first := at("2026-11-01T00:00:00Z")
	h.wait(time.Duration(first+dayMillis/2-h.now) * time.Millisecond)
	h.use(alice, plan.FilesUpload, 100) // within the quota
	var want []string
	pay := func(percents ...uint64) *event.Admission {
		t.Helper()
		a := h.admission(alice, plan.FilesUpload)
		h.want(a, admitted)
		for _, percent := range percents {
			want = append(want, fmt.Sprintf("%x cap of account from %d: %d%%, %d of 20000 to [7]", alice, first, percent, percent/25*5_000))
		}
		if got := h.alertsOf(alice); !slices.Equal(got, want) {
			t.Fatalf("%q, want %q", got, want)
		}
		return a
	}
	day, month := setCap(alice, event.CapPeriod_CAP_DAY, 20_000), setCap(alice, event.CapPeriod_CAP_MONTH, 20_000)
	h.command(webhookOf(alice, 7, toldCap, 0, 50, 75, 100))
	h.command(day)
	pay()
	h.voided(pay(50))
	h.command(month)
	h.voided(pay(50))
	h.command(day)
	h.voided(pay())
	h.command(month)
	pay()
	pay(75)
	h.voided(pay(100))
	h.command(day)
	pay(100)
	h.replaysAlerts()
}

// TestACapOfAKeyIsToldOfUnderItsPresentNumber: including the spending of its predecessor.
func TestACapOfAKeyIsToldOfUnderItsPresentNumber(t *testing.T) {
	h := historyOf(t)
	h.account(alice, plan.Pro)
	h.grant(alice, 1_000_000, 0)
	h.use(alice, plan.FilesUpload, 100)
	h.webhook(webhookOf(alice, 7, toldCap, 0))
	h.command(setCap(alice, event.CapPeriod_CAP_TOTAL, 10_000))
	h.command(createKey(alice, 11, &event.KeyRules{Cap: &event.SpendingCap{Period: event.CapPeriod_CAP_TOTAL, AmountMicros: 12_500}}))
	pay := func(number uint32, fingerprint uint64) {
		t.Helper()
		a := h.admission(alice, plan.FilesUpload)
		a.Key, a.KeyVersion, a.KeyFingerprint = number, 1, fingerprint
		h.want(a, admitted)
	}
	pay(1, 11)
	h.command(replaceKey(alice, 1, 12, 0))
	pay(2, 12)
	want := []string{
		fmt.Sprintf("%x cap of account from 0: 50%%, 5000 of 10000 to [7]", alice),
		fmt.Sprintf("%x cap of key 2 from 0: 50%%, 10000 of 12500 to [7]", alice),
		fmt.Sprintf("%x cap of key 2 from 0: 80%%, 10000 of 12500 to [7]", alice),
		fmt.Sprintf("%x cap of account from 0: 80%%, 10000 of 10000 to [7]", alice),
		fmt.Sprintf("%x cap of account from 0: 100%%, 10000 of 10000 to [7]", alice),
	}
	if got := h.alertsOf(alice); !slices.Equal(got, want) {
		t.Fatalf("%q, want %q", got, want)
	}
	h.replaysAlerts()
}

func TestWebhooksAreWarnedOfAnExpirySevenDaysAndOneDayBefore(t *testing.T) {
	const day = 24 * time.Hour
	h := historyOf(t)
	h.account(alice, plan.Free)
	h.webhook(webhookOf(alice, 7, toldKey, 0))
	lasting := func(d time.Duration) *event.KeyRules { return &event.KeyRules{ExpiresInMs: new(d.Milliseconds())} }
	began := h.now
	h.command(createKey(alice, 11, lasting(10*day)))   // 1
	h.command(createKey(alice, 12, lasting(7*day)))    // 2: seven days before are over
	h.command(createKey(alice, 13, lasting(day)))      // 3: and one day
	h.command(createKey(alice, 14, lasting(10*day)))   // 4: revoked
	h.command(createKey(alice, 15, lasting(10*day)))   // 5: replaced by one with the same lifetime
	h.command(createKey(alice, 16, &event.KeyRules{})) // 6: never expires
	h.command(createKey(alice, 17, lasting(10*day)))   // 7: its expiry is postponed
	h.command(revokeKey(alice, 4))
	h.command(replaceKey(alice, 5, 18, 7*day)) // 8
	h.command(updateKey(alice, 7, lasting(30*day)))
	times := func(key uint32, lives time.Duration, days int) string {
		return fmt.Sprintf("%x key %d expires at %d, in %d days, to [7]", alice, key, began+lives.Milliseconds(), days)
	}
	wants := func(want ...string) {
		t.Helper()
		if got := h.alertsOf(alice); !slices.Equal(got, want) {
			t.Fatalf("%q, want %q", got, want)
		}
		h.alerts = nil
	}
	if due := h.fold.NextDueMillis(); due != began+3*day.Milliseconds() {
		t.Errorf("the next is due at %d, %v after the keys were made", due, time.Duration(due-began)*time.Millisecond)
	}
	h.wait(3*day - time.Millisecond).tick()
	wants()
	h.wait(time.Millisecond).tick()
	wants(times(1, 10*day, 7), times(8, 10*day, 7))
	// A new webhook is notified of later events, not of past ones.
	h.webhook(webhookOf(alice, 8, toldKey, 0))
	h.command(unhook(alice, 7))
	h.wait(3 * day).tick()
	wants(strings.Replace(times(2, 7*day, 1), "[7]", "[8]", 1))

	// After a pause in its subscription a webhook is not warned of what was due meanwhile.
	h.webhook(webhookOf(alice, 8, toldQuota, 0))
	h.wait(3*day + time.Hour).tick()
	h.webhook(webhookOf(alice, 8, toldKey, 0))
	h.wait(time.Hour).tick()
	wants()
	// No message came for a while: both warnings come, once.
	h.wait(20 * day).tick()
	wants(strings.Replace(times(7, 30*day, 7), "[7]", "[8]", 1), strings.Replace(times(7, 30*day, 1), "[7]", "[8]", 1))
	h.wait(30 * day).tick()
	wants()
}

func TestTheEndOfAnAccountEndsItsWarnings(t *testing.T) {
	h := historyOf(t)
	h.account(alice, plan.Free)
	h.account(bob, plan.Free)
	for _, id := range []uint64{alice, bob} {
		h.webhook(webhookOf(id, 7, toldKey, 0))
		h.command(createKey(id, id, &event.KeyRules{ExpiresInMs: new(int64(30 * dayMillis))}))
	}
	h.command(deleteAccount(alice))
	h.command(unhook(bob, 7))
	h.wait(15 * 24 * time.Hour)
	h.command(eraseAccount(alice))
	if len(h.fold.alerts.warnings) != 0 {
		t.Errorf("%d accounts are still watched", len(h.fold.alerts.warnings))
	}
	h.wait(20 * 24 * time.Hour).tick()
	if len(h.alerts) != 0 {
		t.Errorf("told of %v", h.alerts)
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
	if h.fold.principals.accounts[alice].alerts != nil {
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

// modelHooks are the webhooks of an account in the model, which keeps all notifications.
type modelHooks struct {
	hooks map[uint64]*event.WebhookRules
	made  []uint64
	told  map[string][]uint32 // by owner of the limit, its period and the limit
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
	limit := m.book.Plans[a.tier].Terms[key].Limit
	m.tellShares(a, toldQuota, event.CapPeriod_CAP_NONE, fmt.Sprintf("%x %v from %d", id, key, monthNumber(month).start), int64(used-1), int64(used), limit)
}

// tellShares expects notifications of the shares of a limit reached by a growth.
func (m *model) tellShares(a *modelAccount, kind uint32, period event.CapPeriod, what string, before, after, limit int64) {
	for percent := int64(1); percent <= 100 && limit > 0; percent++ {
		to := a.hooks.wanting(func(w *event.WebhookRules) bool {
			list := w.Thresholds
			if len(list) == 0 {
				list = []uint32{50, 80, 100}
			}
			return w.Events&kind != 0 && slices.Contains(list, uint32(percent))
		})
		of := fmt.Sprint(what, period, limit)
		if len(to) == 0 || after*100 < percent*limit || before*100 >= percent*limit ||
			slices.ContainsFunc(a.hooks.told[of], func(p uint32) bool { return p >= uint32(percent) }) {
			continue
		}
		a.hooks.told[of] = append(a.hooks.told[of], uint32(percent))
		m.alerts = append(m.alerts, fmt.Sprintf("%s: %d%%, %d of %d to %v", what, percent, after, limit, to))
	}
}

// notifyCaps is called before a paid request enters the list.
func (m *model) notifyCaps(a *modelAccount, r *modelRequest) {
	tell := func(c spendingCap, whose string, lineage *uint32) {
		from := int64(0)
		switch c.period {
		case event.CapPeriod_CAP_NONE:
			return
		case event.CapPeriod_CAP_DAY:
			from = m.now / dayMillis * dayMillis
		case event.CapPeriod_CAP_MONTH:
			from = monthOf(m.now).start
		}
		spent := m.spentFor(c, r.account, lineage)
		what := fmt.Sprintf("%x cap of %s from %d", r.account, whose, from)
		m.tellShares(a, toldCap, c.period, what, spent, spent+r.paid, int64(c.amount))
	}
	if l := a.lineages[r.lineage]; l != nil {
		newest := r.lineage
		for _, k := range a.keys {
			if k.lineage == r.lineage && !k.replaced {
				newest = k.counts
			}
		}
		tell(l.cap, fmt.Sprintf("key %d", newest), &r.lineage)
	}
	tell(a.cap, "account", nil)
}

// warn expects the warnings of keys that expire soon, for all moments until now that have any.
func (m *model) warn(now int64) {
	for id, a := range m.accounts {
		to := a.hooks.wanting(func(w *event.WebhookRules) bool { return w.Events&toldKey != 0 })
		if len(to) == 0 {
			continue
		}
		type warning struct {
			at   int64
			text string
		}
		var list []warning
		for _, k := range a.keys {
			for _, days := range []int64{7, 1} {
				if at := k.expires - days*86_400_000; k.expires != 0 && !k.replaced && k.live(at) && at > m.now && at <= now {
					list = append(list, warning{at, fmt.Sprintf("%x key %d expires at %d, in %d days, to %v", id, k.counts, k.expires, days, to)})
				}
			}
		}
		slices.SortStableFunc(list, func(x, y warning) int { return cmp.Compare(x.at, y.at) })
		for _, w := range list {
			m.alerts = append(m.alerts, w.text)
		}
	}
}

// tellLow is called after the balance has changed, except by a void.
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

// notifyHolder notifies the webhooks that want a type, and the account holder once there was a payment.
func (m *model) notifyHolder(id uint64, a *modelAccount, of event.AlertType) {
	to := a.hooks.wanting(func(w *event.WebhookRules) bool { return w.Events&alert.Bit(of) != 0 })
	text := fmt.Sprintf("%x %v to %v", id, of, to)
	if len(a.bought) > 0 {
		m.alerts = append(m.alerts, text+" by e-mail")
	} else if len(to) > 0 {
		m.alerts = append(m.alerts, text)
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
		c = webhookOf(id, hook, rapid.SampledFrom([]uint32{toldQuota, toldBalance, toldQuota | toldBalance, toldCap, toldKey, toldCap | toldKey | toldQuota | toldMoney}).Draw(t, "events"),
			rapid.SampledFrom([]uint64{1, 5_000, 20_000}).Draw(t, "below"),
			rapid.SampledFrom([][]uint32{nil, {1}, {34, 67}, {100, 50}}).Draw(t, "thresholds")...)
	}
	o := m.command(c)
	m.model.advance(m.now)
	a := m.model.accounts[id]
	if a == nil || a.erased {
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

// compareAlerts compares each account's alerts with the model's. The order of simultaneous ones across accounts is undefined.
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
