package account

import (
	"testing"
	"time"

	"quire.dev/pkg/event"
	"quire.dev/pkg/plan"
)

// overQuota is a history in which each further upload of alice costs 5,000 micro-credits.
func overQuota(t *testing.T) *history {
	t.Helper()
	h := historyOf(t)
	h.account(alice, plan.Pro)
	h.grant(alice, 1_000_000, 0)
	h.use(alice, plan.FilesUpload, 100)
	return h
}

func TestASpendingCapIsKeptToTheMicroCredit(t *testing.T) {
	for name, c := range map[string]struct {
		period event.CapPeriod
		resets int64
	}{
		"day":   {event.CapPeriod_CAP_DAY, at("2026-10-16T00:00:00Z")},
		"month": {event.CapPeriod_CAP_MONTH, at("2026-11-01T00:00:00Z")},
		"total": {event.CapPeriod_CAP_TOTAL, 0},
	} {
		t.Run(name, func(t *testing.T) {
			h := overQuota(t)
			h.does(setCap(alice, c.period, 9_999))
			first := h.admission(alice, plan.FilesUpload)
			h.want(first, admitted)
			v := h.want(h.admission(alice, plan.FilesUpload), capReached)
			if !v.Held || v.KeyCap || v.Cap.AmountMicros != 9_999 || v.RetryAfterSeconds != 1 {
				t.Fatalf("refused with %v", v)
			}
			h.served(first)
			v = h.want(h.admission(alice, plan.FilesUpload), capReached)
			if v.Held || !v.Final || v.RetryAfterSeconds != secondsUntil(c.resets, h.now) {
				t.Fatalf("refused with %v", v)
			}
			h.does(setCap(alice, c.period, 10_000))
			second := h.admission(alice, plan.FilesUpload)
			h.want(second, admitted)
			h.voided(second)
			third := h.admission(alice, plan.FilesUpload)
			h.want(third, admitted)
			h.served(third)
			h.does(setCap(alice, c.period, 1)) // below what is spent
			h.want(h.admission(alice, plan.FilesUpload), capReached)
			if u := h.keys(alice); u.Cap.SpentMicros != 10_000 || u.Cap.ResetMs != c.resets {
				t.Errorf("cap %v", u.Cap)
			}
			h.does(setCap(alice, c.period, 10_000))
			if c.resets != 0 {
				h.now = c.resets - 1
				h.want(h.admission(alice, plan.FilesUpload), capReached)
				h.now++
			} else {
				h.wait(60 * 24 * time.Hour)
			}
			if name != "day" {
				h.use(alice, plan.FilesUpload, 100) // the new month's own
			}
			want := admitted
			if c.resets == 0 {
				want = capReached
			}
			h.want(h.admission(alice, plan.FilesUpload), want)
			h.does(setCap(alice, event.CapPeriod_CAP_NONE, 0))
			h.want(h.admission(alice, plan.FilesUpload), admitted)
			h.want(h.admission(alice, plan.FilesUpload), admitted)
		})
	}
}

// TestAKeysCapIsItsOwn: one key's cap stops that key, and not the others.
func TestAKeysCapIsItsOwn(t *testing.T) {
	h := overQuota(t)
	h.does(createKey(alice, 11, &event.KeyRules{Cap: &event.SpendingCap{Period: event.CapPeriod_CAP_MONTH, AmountMicros: 5_000}}))
	h.want(h.admission(alice, plan.FilesUpload), admitted)
	k := h.sent(alice, plan.FilesUpload, 1, 1, 11)
	h.want(k, admitted)
	h.served(k)
	if v := h.want(h.sent(alice, plan.FilesUpload, 1, 1, 11), capReached); !v.KeyCap {
		t.Errorf("refused with %v", v)
	}
	h.want(h.admission(alice, plan.FilesUpload), admitted)
	h.want(h.sent(alice, plan.LiteGet, 1, 1, 11), admitted) // within its quota: this costs nothing
	h.does(replaceKey(alice, 1, 12, 0))
	h.want(h.sent(alice, plan.FilesUpload, 2, 1, 12), capReached)
}

// TestAReturnedPriceGoesBackToItsKeyAndDay: a void makes the newest paid request free, which may belong to another key and an
// earlier day.
func TestAReturnedPriceGoesBackToItsKeyAndDay(t *testing.T) {
	h := overQuota(t)
	h.does(createKey(alice, 11, &event.KeyRules{Cap: &event.SpendingCap{Period: event.CapPeriod_CAP_DAY, AmountMicros: 5_000}}))
	h.does(setCap(alice, event.CapPeriod_CAP_TOTAL, 10_000))
	h.now = at("2026-10-16T00:00:00Z") - 60_000
	failing := h.sent(alice, plan.FilesUpload, 0, 1, 1)
	h.want(failing, admitted)
	paid := h.sent(alice, plan.FilesUpload, 1, 1, 11)
	h.want(paid, admitted)
	h.served(paid)
	h.wait(time.Minute + time.Second)
	today := h.sent(alice, plan.FilesUpload, 1, 1, 11)
	h.want(today, capReached) // the account's
	h.voided(failing)
	list := h.keys(alice)
	if list.Cap.SpentMicros != 5_000 || list.Keys[1].Cap.SpentMicros != 0 {
		t.Fatalf("caps %v", list)
	}
	h.want(h.sent(alice, plan.FilesUpload, 1, 1, 11), admitted)
	h.want(h.sent(alice, plan.FilesUpload, 1, 1, 11), capReached)
}

// TestWhatIsChargedLateKeepsCaps: a write served after its hold was voided is waived if it would exceed a cap.
func TestWhatIsChargedLateKeepsCaps(t *testing.T) {
	h := overQuota(t)
	h.does(setCap(alice, event.CapPeriod_CAP_TOTAL, 5_000))
	late := h.admission(alice, plan.FilesUpload)
	late.Write = true
	h.want(late, admitted)
	h.wait(HoldMillis * time.Millisecond).tick()
	other := h.admission(alice, plan.FilesUpload)
	h.want(other, admitted)
	h.served(other)
	h.domain(1, settlementOf(late, event.Result_SERVED))
	u := h.usedBy(alice, plan.FilesUpload)
	if u.Waived != 1 || h.keys(alice).Cap.SpentMicros != 5_000 {
		t.Errorf("%v, cap %v", u, h.keys(alice).Cap)
	}
}

// TestAKeysCapIsKeptWhileTheClockIsBackFromAnotherDay: what the account has spent in the day to come does not open the key's day.
func TestAKeysCapIsKeptWhileTheClockIsBackFromAnotherDay(t *testing.T) {
	h := overQuota(t)
	h.does(createKey(alice, 11, &event.KeyRules{Cap: &event.SpendingCap{Period: event.CapPeriod_CAP_DAY, AmountMicros: 5_000}}))
	h.wait(24 * time.Hour)
	h.want(h.admission(alice, plan.FilesUpload), admitted)
	h.wait(-24 * time.Hour)
	h.want(h.sent(alice, plan.FilesUpload, 1, 1, 11), admitted)
	if v := h.want(h.sent(alice, plan.FilesUpload, 1, 1, 11), capReached); !v.KeyCap {
		t.Errorf("refused with %v", v)
	}
}

// TestWhatIsToldOfAKeyIsForgottenWithIt: creating and revoking keys endlessly takes no more memory.
func TestWhatIsToldOfAKeyIsForgottenWithIt(t *testing.T) {
	h := overQuota(t)
	h.webhook(webhookOf(alice, 7, 1<<(event.AlertType_ALERT_CAP-1), 0))
	most := 0
	for n := range uint32(3 * maxEndedKeys) {
		h.does(createKey(alice, uint64(11+n), &event.KeyRules{Cap: &event.SpendingCap{Period: event.CapPeriod_CAP_TOTAL, AmountMicros: 5_000}}))
		a := h.sent(alice, plan.FilesUpload, 1+n, 1, uint64(11+n))
		h.want(a, admitted)
		h.served(a)
		h.does(revokeKey(alice, 1+n))
		most = max(most, len(h.fold.principals.accounts[alice].alerts.notified))
	}
	if most > 1+maxEndedKeys || len(h.alerts) != 3*3*maxEndedKeys {
		t.Errorf("%d crossings are remembered, %d were told", most, len(h.alerts))
	}
	h.wholeInParts()
}
