package account

import (
	"time"

	"quire.dev/pkg/event"
	"quire.dev/pkg/plan"
	"quire.dev/pkg/pricebook"
)

func holdCases() []vectorCase {
	return []vectorCase{
		{"served", "Holds and settlements", "The ledger has the charge when the request is served, 10 s after its admission. A void afterwards changes nothing.", func(h *history) {
			h.begin(10_000)
			open := h.each(alice, plan.FilesUpload, 4)
			h.wait(10 * time.Second)
			h.served(open[3])
			h.voided(open[3])
			h.expect("balance", h.balance(alice), 5_000)
		}},
		{"void", "Holds and settlements", "A paid request is voided before it is served: the credits are back, and the ledger has no entry.", func(h *history) {
			h.begin(10_000)
			open := h.each(alice, plan.FilesUpload, 4)
			h.voided(open[3])
			h.expect("balance", h.balance(alice), 10_000)
			h.expect("used", int64(h.usedBy(alice, plan.FilesUpload).Used), 3)
		}},
		{"timeout", "Holds and settlements", "After 120 s a read is served and charged, and a write is voided.", func(h *history) {
			h.begin(10_000)
			h.each(alice, plan.FilesUpload, 3)
			h.each(alice, plan.FilesGet, 3)
			h.want(h.aWrite(alice, plan.FilesUpload), event.Decision_ADMITTED)
			h.want(h.admission(alice, plan.FilesGet), event.Decision_ADMITTED)
			h.wait(2*time.Minute - time.Millisecond).tick()
			h.expect("open", int64(h.fold.OpenHolds()), 8)
			h.wait(time.Millisecond).tick()
			h.expect("open", int64(h.fold.OpenHolds()), 0)
			h.expect("uploads", int64(h.usedBy(alice, plan.FilesUpload).Used), 3)
			h.expect("reads", int64(h.usedBy(alice, plan.FilesGet).Used), 4)
		}},
		{"timeout-corrected", "Holds and settlements", "A paid read that a time-out served is voided 10 minutes later and refunded by an adjustment; a second one is voided too late.", func(h *history) {
			h.begin(10_000)
			for _, a := range h.each(alice, plan.FilesGet, 3) {
				h.served(a)
			}
			paid := h.each(alice, plan.FilesGet, 2)
			h.wait(2 * time.Minute).tick()
			h.wait(10*time.Minute - time.Millisecond)
			h.failed(paid[0])
			h.wait(time.Millisecond)
			h.failed(paid[1])
			h.expect("used", int64(h.usedBy(alice, plan.FilesGet).Used), 4)
			h.expect("balance", h.balance(alice), 9_000)
		}},
		{"domain-refused", "Settlements of domains", "Refused: another domain's source, another domain's quota key, storage from another domain, no sequence, a hold of another account. The last settlement counts.", func(h *history) {
			h.begin(0)
			w := h.aWrite(alice, plan.LiteCreate)
			h.want(w, event.Decision_ADMITTED)
			settle := func(source string, change func(*event.Settlement)) {
				s := settlementOf(w, event.Result_VOID)
				s.Sequence, s.StoredMs = 1, h.now
				change(s)
				h.append(SettledLite, &event.UsageBatch{Source: source, StampMs: h.now, Settlements: []*event.Settlement{s}})
				h.expect("open", int64(h.fold.OpenHolds()), 1)
			}
			settle("PASTE_0", func(*event.Settlement) {})
			settle("LITE_00", func(*event.Settlement) {})
			settle("LITE_0", func(s *event.Settlement) { s.QuotaKey = uint32(plan.PastesCreate) })
			settle("LITE_0", func(s *event.Settlement) { s.StorageDelta = 1 })
			settle("LITE_0", func(s *event.Settlement) { s.Sequence = 0 })
			settle("LITE_0", func(s *event.Settlement) { s.Account = bob })
			h.domain(2, settlementOf(w, event.Result_SERVED))
			h.expect("open", int64(h.fold.OpenHolds()), 0)
		}},
		{"domain-watermark", "Settlements of domains", "A repeat of sequence 5 does not store twice. Sequence 1, stored later, is of a stream that was made again, and counts; what was stored before that does not.", func(h *history) {
			h.begin(0)
			first := h.now
			h.domain(5, &event.Settlement{Account: alice, StorageDelta: 100})
			h.wait(time.Second)
			h.domain(5, &event.Settlement{Account: alice, StorageDelta: 100, StoredMs: first})
			h.domain(1, &event.Settlement{Account: alice, StorageDelta: 10, StoredMs: h.now})
			h.domain(2, &event.Settlement{Account: alice, StorageDelta: 1000, StoredMs: first})
			h.expect("stored", int64(h.fold.UsageAt(event.AccountID(alice), 0).StorageUsedBytes), 110)
		}},
		{"make-free", "A void makes the newest paid request free", "A free upload fails beside two paid ones that were served: the newer one becomes free, by an adjustment.", func(h *history) {
			h.begin(20_000)
			open := h.each(alice, plan.FilesUpload, 5)
			h.served(open[4])
			h.served(open[3])
			h.voided(open[0])
			h.expect("overage", int64(h.usedBy(alice, plan.FilesUpload).Overage), 1)
			h.expect("balance", h.balance(alice), 15_000)
		}},
		{"make-free-open", "A void makes the newest paid request free", "The newest paid upload is still open when it becomes free: the ledger gets refund and charge when it is served.", func(h *history) {
			h.begin(20_000)
			open := h.each(alice, plan.FilesUpload, 4)
			h.voided(open[0])
			h.expect("entries", int64(len(h.ledger)), 1)
			h.served(open[3])
			h.expect("entries", int64(len(h.ledger)), 3)
			h.expect("balance", h.balance(alice), 20_000)
		}},
		{"late", "Late charges", "Two uploads time out and are voided, and their service reports them an hour later: one is charged, the other waived, since the credits are spent. A third is reported after a day.", func(h *history) {
			h.begin(5_000)
			for _, a := range h.each(alice, plan.FilesUpload, 2) {
				h.served(a)
			}
			var late []*event.Admission
			for range 2 {
				w := h.aWrite(alice, plan.FilesUpload)
				h.want(w, event.Decision_ADMITTED)
				late = append(late, w)
			}
			h.wait(2 * time.Minute).tick()
			old := h.aWrite(alice, plan.FilesUpload)
			h.want(old, event.Decision_ADMITTED)
			h.wait(2 * time.Minute).tick()
			for _, a := range h.each(alice, plan.FilesUpload, 1) {
				h.served(a)
			}
			h.wait(time.Hour)
			h.domain(1, settlementOf(late[0], event.Result_SERVED))
			h.domain(2, settlementOf(late[1], event.Result_SERVED))
			h.wait(23 * time.Hour)
			h.domain(3, settlementOf(old, event.Result_SERVED))
			u := h.usedBy(alice, plan.FilesUpload)
			h.expect("used", int64(u.Used), 4)
			h.expect("waived", int64(u.Waived), 1)
		}},
		{"failures", "Failures", "101 failed calls within a minute: more are refused until the first is 60 s old.", func(h *history) {
			h.begin(0)
			var failing []*event.Admission
			var settlements []*event.Settlement
			for range MaxFailures + 1 {
				a := h.admission(alice, plan.LiteList)
				failing = append(failing, a)
				s := settlementOf(a, event.Result_VOID)
				s.Failed = true
				settlements = append(settlements, s)
			}
			h.usage(failing, nil)
			h.usage(nil, settlements[:1])
			h.wait(10 * time.Second)
			h.usage(nil, settlements[1:MaxFailures])
			h.want(h.admission(alice, plan.LiteList), event.Decision_ADMITTED)
			h.usage(nil, settlements[MaxFailures:])
			v := h.want(h.admission(alice, plan.LiteList), event.Decision_TOO_MANY_FAILURES)
			h.expect("retry", int64(v.RetryAfterSeconds), 50)
			h.wait(50 * time.Second)
			h.want(h.admission(alice, plan.LiteList), event.Decision_ADMITTED)
		}},
		{"idempotency", "Idempotency", "A second request under an id is refused while the first is open and for 10 minutes once it is served; a voided one frees the id. A known request id is not admitted twice.", func(h *history) {
			h.begin(0)
			under := func() *event.Admission {
				a := h.aWrite(alice, plan.LiteCreate)
				a.IdempotencyId = []byte("0123456789abcdef")
				return a
			}
			first := under()
			h.want(first, event.Decision_ADMITTED)
			h.want(first, event.Decision_IDEMPOTENCY_IN_FLIGHT)
			h.want(under(), event.Decision_IDEMPOTENCY_IN_FLIGHT)
			h.domain(1, settlementOf(first, event.Result_VOID))
			second := under()
			h.want(second, event.Decision_ADMITTED)
			h.domain(2, settlementOf(second, event.Result_SERVED))
			h.want(under(), event.Decision_IDEMPOTENCY_SERVED)
			h.wait(10 * time.Minute)
			h.want(under(), event.Decision_ADMITTED)
		}},
		{"idempotency-reads", "Idempotency", "A read under an id: two free repeats within a minute, then a new read. Another target is refused, another version is a new read.", func(h *history) {
			h.begin(0)
			read := func(hash uint64) *event.Admission {
				a := h.admission(alice, plan.FilesGet)
				a.ReadId, a.ReadHash = []byte("0123456789abcdef"), hash
				return a
			}
			first := read(7<<32 | 1)
			h.want(first, event.Decision_ADMITTED)
			h.want(read(7<<32|1), event.Decision_IDEMPOTENCY_IN_FLIGHT)
			h.served(first)
			h.want(read(8<<32|1), event.Decision_IDEMPOTENCY_OTHER)
			h.want(read(7<<32|1), event.Decision_IDEMPOTENCY_SERVED)
			h.want(read(7<<32|1), event.Decision_IDEMPOTENCY_SERVED)
			second := read(7<<32 | 1)
			h.want(second, event.Decision_ADMITTED)
			h.served(second)
			h.want(read(7<<32|2), event.Decision_ADMITTED)
		}},
	}
}

func creditCases() []vectorCase {
	return []vectorCase{
		{"grants", "Credits", "Three grants: the one that expires first is spent first, the one without an expiry last. A payment takes from two.", func(h *history) {
			h.begin(0)
			h.grant(alice, 10_000, 0)
			h.grant(alice, 7_000, h.now+2*dayMillis)
			h.grant(alice, 3_000, h.now+dayMillis)
			for _, a := range h.each(alice, plan.FilesUpload, 4) {
				h.served(a)
			}
			h.expect("balance", h.balance(alice), 15_000)
		}},
		{"grant-negative", "Credits", "A negative grant takes from the grants in the order of spending, and no more than is available. Zero and too much are invalid.", func(h *history) {
			h.begin(10_000)
			h.grant(alice, 4_000, h.now+dayMillis)
			h.does(grantOf(alice, -6_000, 0))
			for _, refused := range []struct {
				amount int64
				status event.CommandStatus
			}{
				{-8_001, event.CommandStatus_COMMAND_INSUFFICIENT_CREDITS},
				{0, event.CommandStatus_COMMAND_INVALID},
				{maxBalance, event.CommandStatus_COMMAND_INVALID},
			} {
				o := h.command(grantOf(alice, refused.amount, 0))
				h.expect("status", int64(o.Status), int64(refused.status))
			}
			h.expect("balance", h.balance(alice), 8_000)
		}},
		{"grant-expiry", "Credits", "A grant expires with what is left. What an open request has taken expires when the request is voided, and is charged if another one is served.", func(h *history) {
			h.begin(0)
			h.grant(alice, 17_000, h.now+60_000)
			for _, a := range h.each(alice, plan.FilesUpload, 3) {
				h.served(a)
			}
			paid := h.each(alice, plan.FilesUpload, 2)
			h.wait(time.Minute).tick()
			h.expect("entries", int64(len(h.ledger)), 2)
			h.served(paid[0])
			h.voided(paid[1])
			h.expect("balance", h.balance(alice), 0)
			h.expect("sum", h.ledgerSum(alice), 0)
		}},
		{"caps", "Spending caps", "The account's cap of 12,000 micro-credits a month allows two paid uploads. Then a key's cap of a day ends with the day.", func(h *history) {
			h.begin(100_000)
			h.does(setCap(alice, event.CapPeriod_CAP_MONTH, 12_000))
			for _, a := range h.each(alice, plan.FilesUpload, 5) {
				h.served(a)
			}
			h.want(h.admission(alice, plan.FilesUpload), event.Decision_SPENDING_CAP_REACHED)
			h.does(setCap(alice, event.CapPeriod_CAP_NONE, 0))
			h.does(createKey(alice, 11, &event.KeyRules{Name: new("capped"), Cap: &event.SpendingCap{Period: event.CapPeriod_CAP_DAY, AmountMicros: 5_000}}))
			h.want(h.sent(alice, plan.FilesUpload, 1, 1, 11), event.Decision_ADMITTED)
			v := h.want(h.sent(alice, plan.FilesUpload, 1, 1, 11), event.Decision_SPENDING_CAP_REACHED)
			if !v.KeyCap || !v.Held {
				h.t.Fatalf("the key's cap: %v", v)
			}
			h.wait(12 * time.Hour)
			h.want(h.sent(alice, plan.FilesUpload, 1, 1, 11), event.Decision_ADMITTED)
		}},
	}
}

func correctionCases() []vectorCase {
	return []vectorCase{
		{"refund", "Refunds", "A paid upload is refunded by its id, a part of another by its month and quota key. A second refund of the first, and more than is left, are refused. The first is taken back.", func(h *history) {
			h.begin(10_000)
			month := monthOf(h.now).number
			paid := h.each(alice, plan.FilesUpload, 5)[3:]
			h.command(ofRequest(paid[0], month, 5_000)) // not settled yet
			h.served(paid[0])
			h.served(paid[1])
			h.command(ofRequest(paid[0], month, 5_000))
			h.command(ofRequest(paid[0], month, 5_000))
			h.command(ofLine(month, 1_000))
			h.command(ofLine(month, 4_001))
			h.expect("balance", h.balance(alice), 6_000)
			h.command(ofRequest(paid[0], month, -5_000))
			h.expect("balance", h.balance(alice), 1_000)
		}},
		{"refund-final", "Refunds", "A free upload fails after a paid one beside it was refunded: that one stays paid.", func(h *history) {
			h.begin(5_000)
			open := h.each(alice, plan.FilesUpload, 4)
			h.served(open[3])
			h.command(ofRequest(open[3], monthOf(h.now).number, 5_000))
			h.voided(open[0])
			h.expect("balance", h.balance(alice), 5_000)
			h.expect("overage", int64(h.usedBy(alice, plan.FilesUpload).Overage), 1)
		}},
		{"payment", "Payments", "A payment counts once. It is charged back after its credits were spent: the balance is below zero, and a grant pays what is owed first. An older state of the payment changes nothing.", func(h *history) {
			h.begin(0)
			h.command(paymentOf(alice, "in_1", 6_000))
			h.command(paymentOf(alice, "in_1", 6_000))
			h.command(paymentOf(alice, "in_1", 7_000))
			h.served(h.each(alice, plan.FilesUpload, 4)[3])
			h.command(reversalOf(alice, "in_1", 6_000, 20))
			h.command(reversalOf(alice, "in_1", 0, 10))
			h.expect("balance", h.balance(alice), -5_000)
			h.grant(alice, 8_000, 0)
			h.expect("balance", h.balance(alice), 3_000)
			h.command(reversalOf(alice, "in_1", 2_000, 30))
			h.expect("balance", h.balance(alice), 7_000)
		}},
	}
}

func keyCases() []vectorCase {
	return []vectorCase{
		{"key-replace", "Keys", "Successors of the default key and of key 1: both texts work for an hour, limits count on, and a revoked key is refused.", func(h *history) {
			h.begin(0)
			h.does(createKey(alice, 11, &event.KeyRules{Name: new("one"), Quotas: quotasOf(plan.LiteGet, 3), ExpiresInMs: new(int64(dayMillis))}))
			h.want(h.sent(alice, plan.LiteGet, 1, 1, 11), event.Decision_ADMITTED)
			h.does(replaceKey(alice, 1, 12, time.Hour))
			h.does(replaceKey(alice, 0, 13, time.Hour))
			h.want(h.sent(alice, plan.LiteGet, 1, 1, 11), event.Decision_ADMITTED)
			h.want(h.sent(alice, plan.LiteGet, 2, 1, 12), event.Decision_ADMITTED)
			h.want(h.sent(alice, plan.LiteGet, 2, 1, 12), event.Decision_KEY_QUOTA_EXHAUSTED)
			h.want(h.admission(alice, plan.LiteList), event.Decision_ADMITTED)
			h.want(h.sent(alice, plan.LiteList, 0, 2, 13), event.Decision_ADMITTED)
			h.wait(time.Hour)
			h.want(h.admission(alice, plan.LiteList), event.Decision_INVALID_KEY)
			h.want(h.sent(alice, plan.LiteList, 1, 1, 11), event.Decision_INVALID_KEY)
			h.does(revokeKey(alice, 2))
			h.want(h.sent(alice, plan.LiteList, 2, 1, 12), event.Decision_INVALID_KEY)
		}},
		{"key-names", "Keys", "A name that a live key has is taken; a key without a name gets the first free one.", func(h *history) {
			h.begin(0)
			h.does(createKey(alice, 11, &event.KeyRules{Name: new("one")}))
			o := h.command(createKey(alice, 12, &event.KeyRules{Name: new("one")}))
			h.expect("status", int64(o.Status), int64(event.CommandStatus_COMMAND_KEY_NAME_TAKEN))
			h.does(createKey(alice, 13, &event.KeyRules{}))
			o = h.command(updateKey(alice, 2, &event.KeyRules{Name: new("one")}))
			h.expect("status", int64(o.Status), int64(event.CommandStatus_COMMAND_KEY_NAME_TAKEN))
			h.does(revokeKey(alice, 1))
			h.does(updateKey(alice, 2, &event.KeyRules{Name: new("one")}))
		}},
	}
}

func commandCases() []vectorCase {
	return []vectorCase{
		{"commands", "Commands", "The outcome of a command is kept for 24 hours under its idempotency id; another body is a mismatch. Unknown and existing accounts are refused.", func(h *history) {
			h.begin(0)
			granted := func(body uint64) *event.Command {
				c := grantOf(alice, 1_000, 0)
				c.IdempotencyId, c.BodyHash, c.Admin = []byte("0123456789abcdef"), body, &event.AdminAction{Token: "root"}
				return c
			}
			h.commands(granted(1), granted(1), granted(2), grantOf(bob, 1, 0), create(alice, plan.Pro), create(bob, 9), setTier(alice, 9))
			h.wait(24 * time.Hour)
			h.command(granted(2))
			h.expect("balance", h.balance(alice), 2_000)
		}},
		{"webhooks", "Webhooks", "Alerts: half and all of a limit, a balance below 6,000, a key that expires in a week, a created key, and a paste.", func(h *history) {
			h.begin(10_000)
			const all = uint32(1<<(event.AlertType_ALERT_TEST-1) - 1)
			h.webhook(webhookOf(alice, 7, all, 6_000, 50, 100))
			for _, a := range h.each(alice, plan.FilesUpload, 4) {
				h.served(a)
			}
			h.does(createKey(alice, 11, &event.KeyRules{Name: new("one"), ExpiresInMs: new(int64(8 * dayMillis))}))
			w := h.aWrite(alice, plan.PastesCreate)
			if v := h.want(w, event.Decision_ADMITTED); !v.Announce {
				h.t.Fatalf("nobody is told of the paste: %v", v)
			}
			s := settlementOf(w, event.Result_SERVED)
			s.Content = &event.ContentChange{Action: event.ContentAction_CONTENT_CREATED, Item: "aaaaaaaaaaaa", Version: 1, Visibility: 2, SizeBytes: 3}
			h.domain(1, s)
			h.wait(24 * time.Hour).tick()
			h.expect("alerts", int64(len(h.alerts)), 6)
		}},
		{"loss", "Losses", "The loss of messages 3 to 9 of a journal of files, once. It changes no account.", func(h *history) {
			h.begin(0)
			for range 2 {
				h.append(SettledFile, &event.UsageBatch{Source: "FILE_0", StampMs: h.now, Loss: &event.Loss{
					Stream: "FILE_0", First: 3, Last: 9, Actor: "operator", Logged: true,
				}})
			}
			h.expect("losses", int64(len(h.fold.Losses())), 1)
		}},
	}
}

// applied appends an applied price book.
func (h *history) applied(id string, effectiveMillis int64, book *plan.Book) {
	h.t.Helper()
	b := applied(h.t, book, effectiveMillis)
	b.Id = id
	h.apply(b)
}

// configured appends a configured price book with a price of uploads.
func (h *history) configured(price plan.Micros, rules uint32, agreed bool) {
	h.t.Helper()
	book := smallFirstBook()
	book.Plans[plan.Pro].Terms[plan.FilesUpload].Price = price
	b := pricebook.Configured(book)
	b.StampMs, b.Rules, b.Agreed = h.now, rules, agreed
	h.append(Prices, b)
}

// price is that of alice's next upload over quota.
func (h *history) price() int64 {
	h.t.Helper()
	return int64(h.want(h.admission(alice, plan.FilesUpload), event.Decision_ADMITTED).CostMicros)
}

func bookCases() []vectorCase {
	return []vectorCase{
		{"prices-configured", "Price books and rules", "The first book needs no agreement. A later one that is not agreed raises the rules to 2, and its price has no effect; an agreed one has; one with an older stamp has none.", func(h *history) {
			h.configured(5_000, Rules1, false)
			h.account(alice, plan.Pro)
			h.grant(alice, 100_000, 0)
			h.each(alice, plan.FilesUpload, 3)
			h.wait(time.Second)
			h.configured(6_000, Rules2, false)
			h.expect("rules", int64(h.fold.Rules()), Rules2)
			h.expect("price", h.price(), 5_000)
			h.configured(7_000, Rules1, true)
			h.expect("rules", int64(h.fold.Rules()), Rules2)
			h.expect("price", h.price(), 7_000)
			h.now -= 1
			h.configured(8_000, Rules1, true)
			h.expect("price", h.price(), 7_000)
		}},
		{"prices-applied", "Price books and rules", "A book applied for a minute later is in force from then on, with a tier of its own. A configured book no longer changes prices.", func(h *history) {
			h.begin(100_000)
			h.each(alice, plan.FilesUpload, 3)
			book := smallFirstBook()
			book.Plans[plan.Pro].Terms[plan.FilesUpload].Price = 9_000
			book.Plans[5] = book.Plans[plan.Pro]
			book.Plans[5].Name = "team"
			h.applied("later", h.now+60_000, book)
			h.expect("price", h.price(), 5_000)
			o := h.command(setTier(alice, 5))
			h.expect("status", int64(o.Status), int64(event.CommandStatus_COMMAND_INVALID))
			h.wait(time.Minute)
			h.expect("price", h.price(), 9_000)
			h.does(setTier(alice, 5))
			h.configured(1_000, h.rules, true)
			h.expect("price", h.price(), 9_000)
			h.applied("later", h.now, smallFirstBook())
			h.expect("price", h.price(), 9_000)
		}},
		{"prices-withdrawn", "Price books and rules", "An upcoming book is withdrawn before its time and never comes into force, though its message is repeated. A book that was stamped before its time and is stored after it has no effect.", func(h *history) {
			h.begin(100_000)
			h.each(alice, plan.FilesUpload, 3)
			book := smallFirstBook()
			book.Plans[plan.Pro].Terms[plan.FilesUpload].Price = 9_000
			h.applied("later", h.now+60_000, book)
			h.append(Prices, &event.PriceBook{StampMs: h.now, Id: "later", Withdrawn: true})
			h.applied("later", h.now+60_000, book)
			h.wait(time.Minute)
			h.expect("price", h.price(), 5_000)
			late := applied(h.t, book, h.now)
			late.Id, late.StampMs = "late", h.now-1
			h.append(Prices, late)
			h.expect("price", h.price(), 5_000)
		}},
		{"rules", "Price books and rules", "The same commands under rules 1, 2, 3 and 4: a key without a name, a webhook for created keys, an applied price.", func(h *history) {
			h.rules = Rules1
			h.begin(1_000_000)
			for rules := uint32(Rules1); rules <= Rules4; rules++ {
				h.configured(5_000, rules, true)
				h.expect("rules", int64(h.fold.Rules()), int64(rules))
				unnamed, hook := createKey(alice, uint64(rules), &event.KeyRules{}), webhookOf(alice, 7, 1<<(event.AlertType_ALERT_KEY_CREATED-1), 0)
				unnamed.IdempotencyId = []byte("unnamed key 0123")
				o := h.commands(unnamed, hook)
				h.expect("key", int64(o[0].Status), statusUnless(rules < Rules2, event.CommandStatus_COMMAND_INVALID))
				h.expect("webhook", int64(o[1].Status), statusUnless(rules < Rules3, event.CommandStatus_COMMAND_WEBHOOK_INVALID))
				book := smallFirstBook()
				book.Plans[plan.Pro].Terms[plan.FilesUpload].Price = 9_000
				h.applied("applied", h.now, book)
			}
			h.each(alice, plan.FilesUpload, 3)
			h.expect("price", h.price(), 9_000)
		}},
	}
}

func statusUnless(refused bool, status event.CommandStatus) int64 {
	if refused {
		return int64(status)
	}
	return int64(event.CommandStatus_COMMAND_OK)
}

func billCases() []vectorCase {
	return []vectorCase{
		{"storage", "Storage", "500 GB from the middle of October to the middle of November: both statements have their average and cents.", func(h *history) {
			h.begin(0)
			h.domain(1, &event.Settlement{Account: alice, StorageDelta: 500 * plan.GB})
			h.wait(31 * 24 * time.Hour)
			h.domain(2, &event.Settlement{Account: alice, StorageDelta: -600 * plan.GB})
			h.wait(31 * 24 * time.Hour)
			h.each(alice, plan.LiteGet, 1)
		}},
		{"storage-late", "Storage", "Deletions reported late: within 24 h of the month's end October is corrected, later November gets October's part.", func(h *history) {
			h.now = at("2026-10-20T00:00:00Z")
			h.begin(0)
			h.domain(1, &event.Settlement{Account: alice, StorageDelta: 500 * plan.GB})
			h.now = at("2026-11-01T23:00:00Z")
			h.domain(2, &event.Settlement{Account: alice, StorageDelta: -100 * plan.GB, StorageAtMs: at("2026-10-30T00:00:00Z")})
			h.now = at("2026-11-02T00:00:00Z")
			h.domain(3, &event.Settlement{Account: alice, StorageDelta: -100 * plan.GB, StorageAtMs: at("2026-10-30T00:00:00Z")})
			h.domain(4, &event.Settlement{Account: alice, StorageDelta: -1, StorageAtMs: at("2026-09-01T00:00:00Z")})
		}},
		{"statement", "Statements", "October has three periods: pro, max, and max with another price. A request of the first is voided in the second. A grant, a charge, an expiry and an adjustment add up.", func(h *history) {
			h.begin(0)
			h.grant(alice, 50_000, h.now+3_600_000)
			open := h.each(alice, plan.FilesUpload, 4)
			h.served(open[3])
			h.wait(time.Minute)
			h.command(setTier(alice, plan.Max))
			h.voided(open[0])
			h.each(alice, plan.FilesUpload, 2)
			h.wait(time.Hour)
			book := smallFirstBook()
			book.Plans[plan.Max].Terms[plan.FilesUpload].Price = 4_000
			h.prices(book)
			h.grant(alice, 50_000, 0)
			h.does(grantOf(alice, -1_000, 0))
			h.each(alice, plan.FilesUpload, 1)
			h.wait(31 * 24 * time.Hour)
			h.each(alice, plan.FilesUpload, 1)
			h.wait(31 * 24 * time.Hour)
			h.each(alice, plan.FilesUpload, 1)
		}},
		{"statement-fees", "Statements", "An applied book has a fee of 1,000 cents for pro and 3,100 for max. Pro until the month ends, then max: the fee of October is for the seconds since the account's creation, on both sides of the book.", func(h *history) {
			h.begin(10_000)
			book := smallFirstBook()
			book.Plans[plan.Pro].FeeCents, book.Plans[plan.Max].FeeCents = 1_000, 3_100
			h.wait(time.Hour)
			h.applied("fees", h.now, book)
			h.does(setNextTier(alice, plan.Max))
			h.each(alice, plan.LiteGet, 1)
			h.wait(17 * 24 * time.Hour)
			v := h.want(h.admission(alice, plan.LiteGet), event.Decision_ADMITTED)
			h.expect("tier", int64(v.Tier), int64(plan.Max))
			h.does(setNextTier(alice, plan.Free))
			h.does(setTier(alice, plan.Pro))
			h.wait(30 * 24 * time.Hour)
			v = h.want(h.admission(alice, plan.LiteGet), event.Decision_ADMITTED)
			h.expect("tier", int64(v.Tier), int64(plan.Pro))
		}},
	}
}
