package account

import (
	"time"

	"quire.dev/pkg/event"
	"quire.dev/pkg/plan"
	"quire.dev/pkg/pricebook"
)

// vectorCases are the cases of all vectors, in the order of docs/journal.md.
func vectorCases() []vectorCase {
	var all []vectorCase
	for _, part := range [][]vectorCase{timeCases(), batchCases(), admissionCases(), holdCases(), creditCases(), correctionCases(), paidCases(), keyCases(), commandCases(), bookCases(), billCases(), receiptCases(), sealCases(), backCases()} {
		all = append(all, part...)
	}
	return all
}

// stored appends a message with a subject of its own, or with data that does not decode.
func (h *history) stored(kind Kind, subject string, data []byte) {
	h.t.Helper()
	m := Message{Sequence: uint64(len(h.messages)) + 1, TimeNanos: h.now * nanosPerMilli, Subject: subject, Kind: kind, Data: data}
	h.messages = append(h.messages, m)
	if _, err := h.fold.Apply(m); err == nil {
		h.t.Fatalf("message %d can be decoded", m.Sequence)
	}
}

// begin brings the small price book into force and creates alice, with credits for requests over quota.
func (h *history) begin(credits int64) {
	h.t.Helper()
	h.prices(smallFirstBook())
	h.account(alice, plan.Pro)
	if credits > 0 {
		h.grant(alice, credits, 0)
	}
}

// each admits requests in messages of their own.
func (h *history) each(id uint64, key plan.QuotaKey, n int) (list []*event.Admission) {
	h.t.Helper()
	for range n {
		a := h.admission(id, key)
		h.want(a, event.Decision_ADMITTED)
		list = append(list, a)
	}
	return list
}

// expect checks a figure of a case, so that a vector shows what its text says.
func (h *history) expect(what string, got, want int64) {
	h.t.Helper()
	if got != want {
		h.t.Fatalf("%s: %d, want %d", what, got, want)
	}
}

func timeCases() []vectorCase {
	return []vectorCase{
		{"undecodable", "Encoding", "Message 3 is no Protobuf and message 4 has an unknown subject: both count in the chain and change nothing else, not even the time.", func(h *history) {
			h.begin(0)
			h.wait(time.Minute)
			h.stored(Usage, event.UsageSubject(0), []byte{0xff, 0xff})
			h.stored(Unknown, "billing.0.other", []byte{})
			h.each(alice, plan.LiteGet, 1)
		}},
		{"clock-since", "Time", "Message 3 has no stamp: its time is that of its first request id plus since_ms, 2 s before the journal's clock.", func(h *history) {
			h.begin(0)
			h.wait(time.Minute)
			h.number["edge"]++
			h.now -= 3000
			a := h.admission(alice, plan.LiteGet)
			h.now += 3000
			h.append(Usage, &event.UsageBatch{Source: "edge", Number: h.number["edge"], SinceMs: 1000, Admissions: []*event.Admission{a}})
			h.expect("time", h.fold.time, h.now-2000)
		}},
		{"clock-stamp", "Time", "A stamp an hour ahead counts as 5 s ahead, one an hour behind as 5 s behind, and no stamp moves the time back.", func(h *history) {
			h.begin(0)
			h.wait(time.Minute)
			for _, off := range []int64{3_600_000, -3_600_000, 1000} {
				h.append(Usage, &event.UsageBatch{Source: "tick", StampMs: h.now + off})
			}
			h.expect("time", h.fold.time, h.now+5000)
			h.wait(time.Minute)
			h.append(Usage, &event.UsageBatch{Source: "tick", StampMs: h.now - 3_600_000})
			h.expect("time", h.fold.time, h.now-5000)
		}},
		{"clock-offset", "Time", "The price book's offset of 30 days moves the time; the offset of a usage batch does not.", func(h *history) {
			h.begin(0)
			book := pricebook.Configured(smallFirstBook())
			book.OffsetMs = 30 * dayMillis
			book.StampMs, book.Rules, book.Agreed = h.now+book.OffsetMs, h.rules, true
			h.append(Prices, book)
			h.number["edge"]++
			h.append(Usage, &event.UsageBatch{
				Source: "edge", Number: h.number["edge"], StampMs: h.now + 30*dayMillis, OffsetMs: 90 * dayMillis,
				Admissions: []*event.Admission{h.admission(alice, plan.LiteGet)},
			})
			h.expect("time", h.fold.time, h.now+30*dayMillis)
		}},
		{"clock-back", "Time", "The journal's clock is a day ahead and comes back: the hold's 120 s begin anew, the grant that expired stays expired, and the month that began stays begun.", func(h *history) {
			h.now = at("2026-10-31T12:00:00Z")
			h.begin(0)
			h.grant(alice, 10_000, h.now+3_600_000)
			h.wait(24 * time.Hour)
			read := h.each(alice, plan.LiteGet, 1)[0]
			h.wait(-24 * time.Hour).tick()
			h.expect("time", h.fold.time, h.now)
			h.each(alice, plan.LiteGet, 1)
			h.expect("used", int64(h.usedBy(alice, plan.LiteGet).Used), 2)
			h.expect("balance", h.balance(alice), 0)
			h.wait(119 * time.Second).tick()
			h.expect("holds", int64(h.fold.OpenHolds()), 2)
			h.served(read)
			h.wait(time.Second).tick()
			h.expect("holds", int64(h.fold.OpenHolds()), 0)
		}},
		{"due-order", "Time", "One message moves the time by an hour: a grant expires, two holds time out at their own times, another grant expires, and a price book comes into force between them.", func(h *history) {
			h.begin(0)
			h.grant(alice, 20_000, h.now+60_000)
			h.grant(alice, 15_000, h.now+121_000)
			h.each(alice, plan.FilesUpload, 3)
			h.wait(10 * time.Second)
			h.each(alice, plan.FilesUpload, 1)
			h.applied("next", h.now+115_000, smallFirstBook())
			h.wait(time.Hour)
			h.tick()
		}},
	}
}

func batchCases() []vectorCase {
	return []vectorCase{
		{"watermark", "Sources and watermarks", "Message 4 repeats the batch of message 3 and gets the same answer; message 6 repeats it after a newer one and gets none. Neither counts.", func(h *history) {
			h.begin(0)
			h.each(alice, plan.LiteGet, 1)
			repeat := h.messages[2]
			h.appendData(Usage, repeat.Data)
			h.each(alice, plan.LiteGet, 1)
			h.appendData(Usage, repeat.Data)
			h.expect("used", int64(h.usedBy(alice, plan.LiteGet).Used), 2)
		}},
		{"watermark-idle", "Sources and watermarks", "After an hour without a batch the source is forgotten: its batch of the number before counts again.", func(h *history) {
			h.begin(0)
			h.each(alice, plan.LiteGet, 1)
			h.wait(61 * time.Minute).tick()
			h.number["edge"] = 0
			h.each(alice, plan.LiteGet, 1)
			h.expect("used", int64(h.usedBy(alice, plan.LiteGet).Used), 2)
		}},
		{"tick", "Sources and watermarks", "A batch with number 0 moves the time. Its admission is ignored and its settlement refused.", func(h *history) {
			h.begin(0)
			open := h.each(alice, plan.LiteGet, 1)[0]
			h.wait(time.Second)
			h.append(Usage, &event.UsageBatch{
				Source: "edge", StampMs: h.now, Admissions: []*event.Admission{h.admission(alice, plan.LiteGet)},
				Settlements: []*event.Settlement{settlementOf(open, event.Result_VOID)},
			})
			h.expect("used", int64(h.usedBy(alice, plan.LiteGet).Used), 1)
		}},
		{"served-by-place", "Order within a usage batch", "Positions 0 and 2 are settled as served; the write at position 1 is not settled by position.", func(h *history) {
			h.begin(0)
			w := h.aWrite(alice, plan.LiteCreate)
			reads := []*event.Admission{h.admission(alice, plan.LiteGet), w, h.admission(alice, plan.LiteGet)}
			sequence := h.usage(reads, nil).Sequence
			h.expect("open", int64(h.places(&event.Served{Sequence: sequence})), 2)
			h.expect("open", int64(h.places(&event.Served{Sequence: sequence, Places: []uint32{1, 2}})), 1)
		}},
		{"batch-order", "Order within a usage batch", "Message 4 voids the only request within the limit and admits another, which gets its place; and it settles a request that it admits itself.", func(h *history) {
			h.prices(smallFirstBook())
			h.account(bob, plan.Free)
			first := h.admission(bob, plan.PastesDelete)
			h.usage([]*event.Admission{first, h.admission(bob, plan.PastesDelete)}, nil)
			next := h.admission(bob, plan.PastesDelete)
			v := h.usage([]*event.Admission{next, h.admission(bob, plan.PastesDelete)}, []*event.Settlement{
				settlementOf(next, event.Result_VOID), settlementOf(first, event.Result_VOID),
			})
			h.expect("first decision", int64(v.Verdicts[0].Decision), int64(event.Decision_ADMITTED))
			h.expect("second decision", int64(v.Verdicts[1].Decision), int64(event.Decision_QUOTA_EXHAUSTED))
			h.expect("used", int64(h.usedBy(bob, plan.PastesDelete).Used), 1)
		}},
		{"months", "Accounts and months", "Counters begin anew in the month of the fold's time. A hold of October that is voided in November is taken from October.", func(h *history) {
			h.now = at("2026-10-31T23:59:00Z")
			h.begin(0)
			open := h.each(alice, plan.LiteGet, 3)
			h.wait(61 * time.Second)
			h.each(alice, plan.LiteGet, 1)
			h.voided(open[0])
			h.expect("used", int64(h.usedBy(alice, plan.LiteGet).Used), 1)
			h.wait(61 * 24 * time.Hour)
			h.each(alice, plan.LiteGet, 1)
		}},
		{"make-free-terms", "Accounts and months", "The tier changes between a payment and the void of a free request: the payment stays.", func(h *history) {
			h.begin(20_000)
			open := h.each(alice, plan.FilesUpload, 4)
			h.command(setTier(alice, plan.Max))
			h.served(open[3])
			h.voided(open[0])
			h.expect("overage", int64(h.usedBy(alice, plan.FilesUpload).Overage), 1)
		}},
	}
}

func admissionCases() []vectorCase {
	return []vectorCase{
		{"no-prices", "Admission", "Without a price book, and for malformed admissions, the verdict is empty.", func(h *history) {
			h.account(alice, plan.Pro)
			h.want(h.admission(alice, plan.LiteGet), event.Decision_DECISION_UNSPECIFIED)
			h.prices(smallFirstBook())
			short := h.admission(alice, plan.LiteGet)
			short.RequestId = short.RequestId[:15]
			h.want(short, event.Decision_DECISION_UNSPECIFIED)
			h.want(h.admission(alice, 14), event.Decision_DECISION_UNSPECIFIED)
			anonymous := h.anonymous()
			anonymous.QuotaKey = uint32(plan.PastesCreate)
			h.want(anonymous, event.Decision_DECISION_UNSPECIFIED)
		}},
		{"keys", "Admission", "An unknown account, another version, another fingerprint and version 0 are refused; the current version is given.", func(h *history) {
			h.begin(0)
			h.command(&event.Command{Account: alice, Action: &event.Command_RotateKey{RotateKey: &event.RotateKey{Fingerprint: 2}}})
			h.want(h.admission(bob, plan.LiteGet), event.Decision_INVALID_KEY)
			h.want(h.admission(alice, plan.LiteGet), event.Decision_INVALID_KEY)
			h.want(h.sent(alice, plan.LiteGet, 0, 2, 1), event.Decision_INVALID_KEY)
			h.want(h.sent(alice, plan.LiteGet, 0, 0, 2), event.Decision_INVALID_KEY)
			h.want(h.sent(alice, plan.LiteGet, 0, 2, 2), event.Decision_ADMITTED)
		}},
		{"suspension", "Admission", "A suspended account is refused, its open hold settles, and it is admitted when it is resumed.", func(h *history) {
			h.begin(0)
			open := h.each(alice, plan.LiteGet, 1)[0]
			h.command(suspend(alice))
			h.want(h.admission(alice, plan.LiteGet), event.Decision_ACCOUNT_SUSPENDED)
			h.served(open)
			h.command(resume(alice))
			h.each(alice, plan.LiteGet, 1)
		}},
		{"deletion", "Admission", "An account to be deleted is refused. Erasing it before 14 days is invalid; after them it has no key, and keeps its counters and balance.", func(h *history) {
			h.begin(10_000)
			h.each(alice, plan.LiteGet, 1)
			h.command(deleteAccount(alice))
			h.want(h.admission(alice, plan.LiteGet), event.Decision_ACCOUNT_SUSPENDED)
			h.command(keepAccount(alice))
			h.each(alice, plan.LiteGet, 1)
			h.command(deleteAccount(alice))
			h.command(eraseAccount(alice))
			h.wait(14 * 24 * time.Hour)
			h.command(eraseAccount(alice))
			h.want(h.admission(alice, plan.LiteGet), event.Decision_INVALID_KEY)
			o := h.command(grantOf(alice, 1, 0))
			h.expect("status", int64(o.Status), int64(event.CommandStatus_COMMAND_ACCOUNT_NOT_FOUND))
		}},
		{"key-scopes", "Admission", "A key with the scope pasteLite.get is refused for files.get.", func(h *history) {
			h.begin(0)
			h.does(createKey(alice, 11, &event.KeyRules{Name: new("reader"), Scopes: scopesOf(plan.LiteGet)}))
			h.want(h.sent(alice, plan.LiteGet, 1, 1, 11), event.Decision_ADMITTED)
			h.want(h.sent(alice, plan.FilesGet, 1, 1, 11), event.Decision_KEY_SCOPE)
			h.want(h.admission(alice, plan.FilesGet), event.Decision_ADMITTED)
		}},
		{"key-limit", "Admission", "A key's own limit of two requests a month, held while one of them may still be voided.", func(h *history) {
			h.begin(0)
			h.does(createKey(alice, 11, &event.KeyRules{Name: new("reader"), Quotas: quotasOf(plan.LiteGet, 2)}))
			var open []*event.Admission
			for range 2 {
				a := h.sent(alice, plan.LiteGet, 1, 1, 11)
				h.want(a, event.Decision_ADMITTED)
				open = append(open, a)
			}
			v := h.want(h.sent(alice, plan.LiteGet, 1, 1, 11), event.Decision_KEY_QUOTA_EXHAUSTED)
			h.expect("retry", int64(v.RetryAfterSeconds), 1)
			h.served(open[0])
			h.served(open[1])
			h.want(h.sent(alice, plan.LiteGet, 1, 1, 11), event.Decision_KEY_QUOTA_EXHAUSTED)
			h.want(h.admission(alice, plan.LiteGet), event.Decision_ADMITTED)
		}},
		{"quota", "Admission", "A free account: two requests within the limit, then exhausted; a quota key that its plan lacks; an unlimited one.", func(h *history) {
			h.prices(smallFirstBook())
			h.account(bob, plan.Free)
			for range 2 {
				a := h.admission(bob, plan.LiteGet)
				h.want(a, event.Decision_ADMITTED)
				h.served(a)
			}
			h.want(h.admission(bob, plan.LiteGet), event.Decision_QUOTA_EXHAUSTED)
			h.want(h.admission(bob, plan.PastesCreate), event.Decision_PLAN_UPGRADE_REQUIRED)
			h.want(h.admission(bob, plan.LiteList), event.Decision_ADMITTED)
		}},
		{"overage", "Admission", "Three uploads within the limit, two paid with 5,000 micro-credits each, and the credits no longer suffice.", func(h *history) {
			h.begin(12_000)
			for range 5 {
				a := h.admission(alice, plan.FilesUpload)
				h.want(a, event.Decision_ADMITTED)
				h.served(a)
			}
			h.want(h.admission(alice, plan.FilesUpload), event.Decision_QUOTA_EXHAUSTED)
			h.expect("balance", h.balance(alice), 2_000)
		}},
		{"held", "Admission", "A refusal is held while an open hold may make room, with a retry after 1 s, and final once both are served.", func(h *history) {
			h.begin(0)
			open := h.each(alice, plan.FilesUpload, 3)
			if v := h.want(h.admission(alice, plan.FilesUpload), event.Decision_QUOTA_EXHAUSTED); !v.Held || v.Final {
				h.t.Fatalf("not held: %v", v)
			}
			h.usage(nil, []*event.Settlement{
				settlementOf(open[0], event.Result_SERVED), settlementOf(open[1], event.Result_SERVED), settlementOf(open[2], event.Result_SERVED),
			})
			if v := h.want(h.admission(alice, plan.FilesUpload), event.Decision_QUOTA_EXHAUSTED); v.Held || !v.Final {
				h.t.Fatalf("held: %v", v)
			}
			h.grant(alice, 5_000, 0)
			paid := h.each(alice, plan.FilesUpload, 1)[0]
			if v := h.want(h.admission(alice, plan.FilesUpload), event.Decision_QUOTA_EXHAUSTED); !v.Held {
				h.t.Fatalf("not held by the payment: %v", v)
			}
			h.voided(paid)
			h.each(alice, plan.FilesUpload, 1)
		}},
		{"anonymous", "Admission", "A network has three quick pastes an hour. A void gives one back, and the window moves on.", func(h *history) {
			h.prices(smallFirstBook())
			var open []*event.Admission
			for range 3 {
				a := h.anonymous()
				h.want(a, event.Decision_ADMITTED)
				open = append(open, a)
				h.wait(time.Second)
			}
			h.want(h.anonymous(), event.Decision_ANONYMOUS_LIMIT)
			h.domain(1, settlementOf(open[1], event.Result_VOID))
			next := h.anonymous()
			h.want(next, event.Decision_ADMITTED)
			h.domain(2, settlementOf(open[0], event.Result_SERVED), settlementOf(open[2], event.Result_SERVED), settlementOf(next, event.Result_SERVED))
			h.want(h.anonymous(), event.Decision_ANONYMOUS_LIMIT)
			h.wait(time.Hour - 3*time.Second)
			h.want(h.anonymous(), event.Decision_ADMITTED)
		}},
	}
}

func (h *history) aWrite(id uint64, key plan.QuotaKey) *event.Admission {
	a := h.admission(id, key)
	a.Write = true
	return a
}
