package account

import (
	"time"

	"quire.dev/pkg/alert"
	"quire.dev/pkg/event"
	"quire.dev/pkg/plan"
)

// paidCases are vectors of plans and credits that are paid at a provider.
func paidCases() []vectorCase {
	does := func(h *history, c *event.Command) {
		h.t.Helper()
		h.wantStatus(c, ok)
	}
	return []vectorCase{
		{"subscription", "Subscriptions", "A subscription gives a plan. Its fee is recorded and adds no credits. An admin's plan stays while the subscription is renewed. A second one gives its own plan, and none after its end; with the last the account is on Free again.", func(h *history) {
			h.prices(smallFirstBook())
			h.account(alice, plan.Free)
			does(h, subscribe(alice, sub(1, plan.Pro, 10)))
			does(h, feeOf(alice, "in_1"))
			h.each(alice, plan.FilesUpload, 1)
			does(h, setTier(alice, plan.Max))
			renewed := sub(1, plan.Pro, 20)
			renewed.PeriodEndMs, renewed.NextTier, renewed.FeeCents = h.now+31*dayMillis, uint32(plan.Max), 900
			does(h, subscribe(alice, renewed))
			h.wantTier(plan.Max)
			does(h, subscribe(alice, sub(2, plan.Pro, 30)))
			h.wantTier(plan.Pro)
			does(h, subscribe(alice, ended(sub(2, plan.Pro, 40))))
			h.wantTier(plan.Pro)
			does(h, subscribe(alice, ended(sub(1, plan.Pro, 50))))
			h.wantTier(plan.Free)
			h.wantStatus(subscribe(alice, sub(3, plan.Admin, 60)), badCommand)
		}},
		{"subscription-order", "Subscriptions", "The newest of two subscriptions counts, though the older one is read last. The end of a subscription comes before its beginning, which changes nothing then.", func(h *history) {
			h.prices(smallFirstBook())
			h.account(alice, plan.Free)
			does(h, subscribe(alice, sub(2, plan.Max, 10)))
			does(h, subscribe(alice, sub(1, plan.Pro, 20)))
			h.wantTier(plan.Max)
			does(h, subscribe(alice, ended(sub(3, plan.Pro, 40))))
			does(h, subscribe(alice, sub(3, plan.Pro, 30)))
			h.wantTier(plan.Max)
			does(h, subscribe(alice, ended(sub(2, plan.Max, 50))))
			h.wantTier(plan.Pro)
		}},
		{"top-up", "Top-ups", "A paid upload takes the balance below the threshold, and a top-up is due until its payment names it. The month's limit refuses the third one; the next month's first message, of nobody, allows it.", func(h *history) {
			h.begin(credit)
			does(h, setTopUp(alice, credit, credit, 2*credit))
			h.wantTopUps()
			h.each(alice, plan.FilesUpload, 4)
			h.wantTopUps("a11ce 1 1")
			webhook := topUpPaid(alice, 1, credit)
			webhook.GetPayment().TopUp = 0 // it does not know what it carries out, and a repeat does
			does(h, webhook)
			does(h, topUpPaid(alice, 1, credit))
			h.wantTopUps()
			does(h, grantOf(alice, -credit, 0))
			h.wantTopUps("a11ce 2 1")
			does(h, topUpPaid(alice, 2, 1))
			h.wantTopUps()
			h.wait(31 * 24 * time.Hour).tick()
			h.wantTopUps("a11ce 3 1")
		}},
		{"top-up-failed", "Top-ups", "A top-up fails, and the next is due an hour later. It fails too: top-ups are off, and a webhook is notified. The rule, set again, forgets the failures; with none, the due top-up is dropped, and its payment is credited all the same.", func(h *history) {
			h.begin(0)
			h.webhook(webhookOf(alice, 7, alert.Bit(event.AlertType_ALERT_TOP_UP_OFF), 0))
			does(h, setTopUp(alice, credit, 2*credit, 4*credit))
			does(h, topUpFailed(alice, 1, "card_declined"))
			h.wait(time.Hour - time.Millisecond).tick()
			h.wantTopUps()
			h.wait(time.Millisecond).tick()
			h.wantTopUps("a11ce 2 2")
			does(h, topUpFailed(alice, 1, "card_declined")) // not the one that is due
			does(h, topUpFailed(alice, 2, "expired_card"))
			h.wait(24 * time.Hour).tick()
			h.wantTopUps()
			does(h, setTopUp(alice, credit, 2*credit, 4*credit))
			h.wantTopUps("a11ce 3 2")
			does(h, setTopUp(alice, 0, 0, 0))
			h.wantTopUps()
			does(h, topUpPaid(alice, 3, 2*credit))
			h.expect("balance", h.balance(alice), 2*credit)
		}},
	}
}
