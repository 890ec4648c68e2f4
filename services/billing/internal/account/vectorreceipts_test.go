package account

import (
	"time"

	"quire.dev/pkg/event"
	"quire.dev/pkg/plan"
)

// receiptCases are vectors of the accounts' chains of entries.
func receiptCases() []vectorCase {
	list := []vectorCase{
		{"receipts", "Receipts", "The price book of message 5 names rules 5: what is before it has no entries, and the chain begins with the balance when message 6 is admitted. Then requests from quota and from credits, one with another key, a charge and a grant. A repeat and an anonymous request have no entry.", func(h *history) {
			h.rules = Rules4
			h.begin(100_000)
			h.each(alice, plan.FilesUpload, 1)
			h.rules = Rules5
			h.prices(smallFirstBook())
			h.expectReceipt(0)
			h.each(alice, plan.FilesUpload, 1)
			h.expectReceipt(2)
			h.served(h.each(alice, plan.PastesGet, 1)[0])
			second := h.each(alice, plan.FilesUpload, 1)[0]
			paid := h.each(alice, plan.FilesUpload, 1)[0]
			h.served(second)
			h.served(paid)
			h.expectReceipt(6)
			h.does(createKey(alice, 7, &event.KeyRules{}))
			a := h.admission(alice, plan.FilesUpload)
			a.Key, a.KeyVersion, a.KeyFingerprint = 1, 1, 7
			a.IdempotencyId = []byte("idempotency id 1")
			h.want(a, event.Decision_ADMITTED)
			again := h.admission(alice, plan.FilesUpload)
			again.IdempotencyId = a.IdempotencyId
			h.want(again, event.Decision_IDEMPOTENCY_IN_FLIGHT)
			h.want(h.anonymous(), event.Decision_ADMITTED)
			h.grant(alice, 5_000, 0)
			h.expectReceipt(8)
		}},
		{"receipts-void", "Receipts", "The void of a free upload makes the newest paid one free, which was served: its refund, then the entry. A second void makes an open one free, and its refund and charge come when it is served. A time-out voids a write, and one taken back has its refund first. Credits that come back to a grant that has expired expire.", func(h *history) {
			h.begin(0)
			h.grant(alice, 25_000, h.now+60_000)
			h.grant(alice, 50_000, 0)
			list := h.each(alice, plan.FilesUpload, 6)
			h.served(list[5])
			h.voided(list[0])
			h.voided(list[1])
			h.served(list[4])
			h.served(h.each(alice, plan.LiteGet, 1)[0])
			late := h.each(alice, plan.FilesUpload, 1)[0]
			write := h.admission(alice, plan.FilesUpload)
			write.Write = true
			h.want(write, event.Decision_ADMITTED)
			h.wait(HoldMillis * time.Millisecond).tick()
			h.voided(late)
			h.does(grantOf(alice, -1_000, 0))
		}},
		{"receipts-late", "Receipts", "Writes that a time-out has voided are served: the first is charged late from credits, since its quota was used meanwhile, and the second, settled by an edge, is waived. Its service settles it after 10 minutes, and nothing is charged.", func(h *history) {
			h.begin(5_000)
			writes := []*event.Admission{h.admission(alice, plan.FilesUpload), h.admission(alice, plan.FilesUpload)}
			for _, a := range writes {
				a.Write = true
				h.want(a, event.Decision_ADMITTED)
			}
			h.wait(HoldMillis * time.Millisecond)
			for _, a := range h.each(alice, plan.FilesUpload, 3) {
				h.served(a)
			}
			h.domain(1, settlementOf(writes[0], event.Result_SERVED))
			h.served(writes[1])
			h.expect("waived", int64(h.usedBy(alice, plan.FilesUpload).Waived), 1)
			h.wait(MemoryMillis * time.Millisecond).tick()
			before := h.fold.principals.accounts[alice].receipt
			h.domain(2, settlementOf(writes[1], event.Result_SERVED))
			h.expectReceipt(int64(before.number))
		}},
	}
	for i := 1; i < len(list); i++ {
		run := list[i].run
		list[i].run = func(h *history) {
			h.rules = Rules5
			run(h)
		}
	}
	return list
}

// expectReceipt checks the number of alice's receipt.
func (h *history) expectReceipt(number int64) {
	h.t.Helper()
	h.expect("entries", int64(h.fold.principals.accounts[alice].receipt.number), number)
}
