package account

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"quire.dev/pkg/alert"
	"quire.dev/pkg/event"
	"quire.dev/pkg/plan"
)

const (
	toldCreated = uint32(1 << (event.AlertType_ALERT_KEY_CREATED - 1))
	toldRevoked = uint32(1 << (event.AlertType_ALERT_KEY_REVOKED - 1))
)

// TestWebhooksAreNotifiedOfKeysThatAreCreatedAndEnd: once for each key, by whatever command, and never of a command that is
// refused or changes no key.
func TestWebhooksAreNotifiedOfKeysThatAreCreatedAndEnd(t *testing.T) {
	h := historyOf(t)
	h.account(alice, plan.Max)
	h.webhook(webhookOf(alice, 7, toldCreated|toldRevoked, 0))
	h.webhook(webhookOf(alice, 8, toldRevoked, 0))
	h.webhook(webhookOf(alice, 9, toldQuota, 0))
	began := h.now
	wants := func(want ...string) {
		t.Helper()
		if got := h.alertsOf(alice); !slices.Equal(got, want) {
			t.Fatalf("%q, want %q", got, want)
		}
		h.alerts = nil
	}
	created := func(key int, name string, until int64) string {
		return fmt.Sprintf("key.created %d %q until %d to [7]", key, name, until)
	}
	revoked := func(key int, name string, until int64) string {
		return fmt.Sprintf("key.revoked %d %q until %d to [7 8]", key, name, until)
	}
	wants() // neither of the webhooks nor of the keys that were there

	h.does(createKey(alice, 11, &event.KeyRules{Name: new("build"), ExpiresInMs: new(time.Hour.Milliseconds())}))
	wants(created(1, "build", began+time.Hour.Milliseconds()))
	h.refuses(createKey(alice, 12, &event.KeyRules{Name: new("build")}), event.CommandStatus_COMMAND_KEY_NAME_TAKEN)
	h.does(updateKey(alice, 1, &event.KeyRules{Name: new("deploy"), ExpiresMs: new(int64(0))}))
	h.does(setCap(alice, event.CapPeriod_CAP_DAY, 5))
	wants()
	h.does(replaceKey(alice, 1, 13, time.Minute))
	wants(created(2, "deploy", 0), revoked(1, "deploy", began+time.Minute.Milliseconds()))
	h.does(revokeKey(alice, 1)) // before its overlap has ended
	wants(revoked(1, "deploy", 0))
	h.does(revokeKey(alice, 1))
	wants()
	h.does(replaceKey(alice, 2, 14, 0))
	wants(created(3, "deploy", 0), revoked(2, "deploy", 0))
	h.does(revokeKey(alice, 3))
	wants(revoked(3, "deploy", 0))

	h.does(replaceKey(alice, 0, 15, time.Minute)) // the replaced default key gets a number of its own
	wants(created(0, "default", 0), revoked(4, "default", began+time.Minute.Milliseconds()))
	h.does(rotate(alice, 16))
	wants(created(0, "default", 0), revoked(0, "default", 0), revoked(4, "default", 0))
	h.does(revokeKey(alice, 0))
	wants(revoked(0, "default", 0))
	h.does(rotate(alice, 17))
	wants(created(0, "default", 0))

	h.does(createKey(alice, 18, &event.KeyRules{Name: new("short"), ExpiresInMs: new(int64(1000))}))
	wants(created(5, "short", began+1000))
	h.wait(time.Hour).tick()
	h.does(revokeKey(alice, 5)) // has expired
	h.does(unhook(alice, 7))
	h.does(createKey(alice, 19, &event.KeyRules{}))
	wants()
	h.sound()
}

// TestAnAccountWithoutAKeyringIsNotifiedOfItsDefaultKey: regenerating the default key creates no keyring.
func TestAnAccountWithoutAKeyringIsNotifiedOfItsDefaultKey(t *testing.T) {
	h := historyOf(t)
	h.account(alice, plan.Free)
	h.webhook(webhookOf(alice, 7, toldCreated|toldRevoked, 0))
	h.does(rotate(alice, 2))
	want := []string{`key.created 0 "default" until 0 to [7]`, `key.revoked 0 "default" until 0 to [7]`}
	if got := h.alertsOf(alice); !slices.Equal(got, want) {
		t.Fatalf("%q, want %q", got, want)
	}
	h.replaysAlerts()
	h.sound()
}

// TestNewTypesOfAlertsWaitForTheirRules: an instance that knows only earlier rules refuses a subscription to them, so that every
// instance must until the new rules are in force.
func TestNewTypesOfAlertsWaitForTheirRules(t *testing.T) {
	h := newHistory(t, nil)
	h.rules = Rules2
	h.prices(smallBook())
	h.account(alice, plan.Max)
	for _, known := range alert.Types() {
		c := webhookOf(alice, 7, alert.Bit(known.AlertType), 1)
		if known.AlertType <= event.AlertType_ALERT_KEY {
			h.does(c)
		} else {
			h.refuses(c, event.CommandStatus_COMMAND_WEBHOOK_INVALID)
		}
	}
	h.rules = Rules3
	h.prices(smallBook())
	later := alert.Bit(event.AlertType_ALERT_TOP_UP_OFF) | alert.Bit(event.AlertType_ALERT_PAYMENT)
	h.webhook(webhookOf(alice, 7, alert.Bits()&^later, 1))
	h.refuses(webhookOf(alice, 7, alert.Bit(event.AlertType_ALERT_TOP_UP_OFF), 1), event.CommandStatus_COMMAND_WEBHOOK_INVALID)
	h.refuses(webhookOf(alice, 7, alert.Bit(event.AlertType_ALERT_PAYMENT), 1), event.CommandStatus_COMMAND_WEBHOOK_INVALID)
	h.rules = Rules4
	h.prices(smallBook())
	h.webhook(webhookOf(alice, 7, alert.Bits(), 1))
	h.refuses(webhookOf(alice, 7, alert.Bit(event.AlertType_ALERT_TEST), 1), event.CommandStatus_COMMAND_WEBHOOK_INVALID)
	h.sound()
}

func rotate(id, fingerprint uint64) *event.Command {
	return &event.Command{Account: id, Action: &event.Command_RotateKey{RotateKey: &event.RotateKey{Fingerprint: fingerprint}}}
}
