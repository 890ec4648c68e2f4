package account

import (
	"time"

	"quire.dev/pkg/event"
	"quire.dev/pkg/plan"
	"quire.dev/pkg/pricebook"
)

// backCases are of the corners that random journals found: a clock that has come back, request ids that repeat, and what is late.
func backCases() []vectorCase {
	return []vectorCase{
		{"months-refused", "Accounts and months", "In November, an admission that is known leaves alice in October, although its verdict has November's figures. With a next tier even a refused key begins the month.", func(h *history) {
			h.begin(0)
			h.now = at("2026-10-31T23:59:30Z")
			a := h.each(alice, plan.LiteGet, 1)[0]
			h.wait(time.Minute)
			v := h.want(a, event.Decision_IDEMPOTENCY_IN_FLIGHT)
			h.expect("remaining", v.Remaining, v.Limit)
			h.expect("October", int64(h.fold.principals.accounts[alice].month), int64(monthOf(at("2026-10-31T00:00:00Z")).number))
			h.does(setNextTier(alice, plan.Max))
			h.now = at("2026-12-01T00:00:00Z")
			wrong := h.admission(alice, plan.LiteGet)
			wrong.KeyFingerprint = 2
			h.want(wrong, event.Decision_INVALID_KEY)
			h.expect("tier", int64(h.fold.principals.accounts[alice].tier), int64(plan.Max))
		}},
		{"anonymous-lowered", "Admission", "The limit of networks falls from three to one: all but one of the three have to leave the window before the next.", func(h *history) {
			h.prices(smallFirstBook())
			for range 3 {
				h.want(h.anonymous(), event.Decision_ADMITTED)
				h.wait(time.Minute)
			}
			book := smallFirstBook()
			book.AnonymousLimit = 1
			h.prices(book)
			v := h.want(h.anonymous(), event.Decision_ANONYMOUS_LIMIT)
			h.expect("reset", int64(v.ResetSeconds), 59*60)
		}},
		{"late-named", "Late charges", "A network's write timed out. An edge says that it was served and names alice: it is charged to her, and to her default key. The same request is a late write twice, and charged twice.", func(h *history) {
			h.begin(0)
			n := h.anonymous()
			h.want(n, event.Decision_ADMITTED)
			h.wait(HoldMillis * time.Millisecond)
			s := settlementOf(n, event.Result_SERVED)
			s.Account, s.Anonymous = alice, false
			h.usage(nil, []*event.Settlement{s})
			h.expect("used", int64(h.usedBy(alice, plan.LiteCreate).Used), 1)
			w := h.aWrite(alice, plan.FilesUpload)
			for range 2 {
				h.want(w, event.Decision_ADMITTED)
				h.voided(w)
			}
			for sequence := range uint64(3) {
				h.domain(sequence+1, settlementOf(w, event.Result_SERVED))
			}
			h.expect("uploads", int64(h.usedBy(alice, plan.FilesUpload).Used), 2)
		}},
		{"caps-back", "Spending caps", "Alice has spent in two days when the clock comes back a day: her key's cap still counts in the later one, in which the key has spent nothing.", func(h *history) {
			h.begin(100_000)
			h.does(createKey(alice, 11, &event.KeyRules{Name: new("capped"), Cap: &event.SpendingCap{Period: event.CapPeriod_CAP_DAY, AmountMicros: 5_000}}))
			h.each(alice, plan.FilesUpload, 3)
			h.want(h.sent(alice, plan.FilesUpload, 1, 1, 11), event.Decision_ADMITTED)
			h.wait(24 * time.Hour)
			h.each(alice, plan.FilesUpload, 1)
			h.wait(-24 * time.Hour)
			h.want(h.sent(alice, plan.FilesUpload, 1, 1, 11), event.Decision_ADMITTED)
			h.want(h.sent(alice, plan.FilesUpload, 1, 1, 11), event.Decision_SPENDING_CAP_REACHED)
		}},
		{"storage-closed", "Storage", "October is closed when a deletion in it is reported: November gets October's part, on the day of the report.", func(h *history) {
			h.now = at("2026-10-20T00:00:00Z")
			h.begin(0)
			h.domain(1, &event.Settlement{Account: alice, StorageDelta: 500 * plan.GB})
			h.now = at("2026-11-03T12:00:00Z")
			h.domain(2, &event.Settlement{Account: alice, StorageDelta: -100 * plan.GB, StorageAtMs: at("2026-10-30T00:00:00Z")})
			h.wait(time.Hour).tick()
		}},
		{"statement-back", "Statements", "Two books come into force within a day that the clock then takes back. When alice's tier changes, her period of the second book ends with it, and she never had that book's prices.", func(h *history) {
			h.begin(0)
			for _, price := range []plan.Micros{6_000, 7_000} {
				h.wait(12 * time.Hour)
				book := smallFirstBook()
				book.Plans[plan.Pro].Terms[plan.FilesUpload].Price = price
				e := pricebook.Configured(book)
				e.StampMs, e.Rules, e.Agreed = h.now, h.rules, true
				h.append(Prices, e)
			}
			h.wait(-18 * time.Hour)
			h.does(setTier(alice, plan.Max))
			h.wait(time.Hour)
			h.each(alice, plan.FilesUpload, 1)
		}},
		{"webhooks-keys", "Webhooks", "Alerts of a created key, of its replacement, of the default key's next version, and two warnings that a silent journal gives after the expiry.", func(h *history) {
			h.begin(0)
			h.webhook(webhookOf(alice, 7, uint32(1<<(event.AlertType_ALERT_TEST-1)-1), 1))
			h.does(createKey(alice, 11, &event.KeyRules{Name: new("one"), ExpiresInMs: new(int64(20 * dayMillis))}))
			h.does(replaceKey(alice, 1, 12, time.Hour))
			h.does(replaceKey(alice, 0, 13, time.Hour))
			h.does(&event.Command{Account: alice, Action: &event.Command_RotateKey{RotateKey: &event.RotateKey{Fingerprint: 14}}})
			h.wait(21 * 24 * time.Hour).tick()
			h.expect("alerts", int64(len(h.alerts)), 10)
		}},
	}
}
