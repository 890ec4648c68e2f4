package account

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"quire.dev/pkg/event"
	"quire.dev/pkg/plan"
)

// TestCorrectionsAgreeWithTheModel: refunds, payments and reversals beside requests of which some fail.
func TestCorrectionsAgreeWithTheModel(t *testing.T) {
	seen := map[string]int{}
	rapid.Check(t, func(t *rapid.T) {
		m := newMachine(t)
		m.keys, m.accounts = []plan.QuotaKey{plan.FilesUpload, plan.LiteCreate}, []uint64{alice}
		m.commandOf(t, create(alice, plan.Pro))
		m.commandOf(t, grantOf(alice, 40_000, 0))
		for range rapid.IntRange(20, 60).Draw(t, "steps") {
			switch rapid.SampledFrom([]string{"call", "settle", "correct", "call", "settle", "correct", "call", "settle", "correct", "other"}).Draw(t, "step") {
			case "call":
				m.admissions(t)
			case "settle":
				m.settlements(t)
			case "correct":
				m.correction(t)
			default:
				m.step(t)
			}
			m.compare(t)
		}
		m.finish(t)
		for kind, n := range m.corrections {
			seen[kind] += n
		}
	})
	for _, kind := range []string{"refunded", "paid", "reversed"} {
		if seen[kind] == 0 {
			t.Errorf("no history had one %s: %v", kind, seen)
		}
	}
}

// correction sends the fold and the model a refund, or an event about what a provider was paid.
func (m *machine) correction(t *rapid.T) {
	m.correct(t, rapid.IntRange(0, 8).Draw(t, "correction"))
}

func (m *machine) correct(t *rapid.T, kind int) {
	id := rapid.SampledFrom(m.accounts).Draw(t, "account")
	a := m.model.accounts[id]
	if a == nil || a.erased {
		return
	}
	m.tick()
	m.model.advance(m.now)
	var c *event.Command
	var want event.CommandStatus
	switch kind {
	case 0:
		c, want = m.payment(t, id, a)
	case 1:
		c, want = m.reversal(t, id, a)
	case 2:
		c, want = m.lineRefund(t, id, a)
	case 3:
		c, want = m.subscription(t, id), ok
	case 4, 5:
		c, want = m.topUpCommand(t, id, a), ok
	default:
		if c, want = m.requestRefund(t, id, a); c == nil {
			return
		}
	}
	before := a.balance()
	if o := m.command(c); o.Status != want || o.BalanceMicros != before-a.owed && want != ok {
		t.Fatalf("%v: %v, want %v", c, o, want)
	}
	if want == ok {
		m.corrected(t, id, a, c)
	}
}

func refundOf(id uint64, r *event.Refund) *event.Command {
	r.Reason = "sorry"
	return &event.Command{Account: id, Admin: &event.AdminAction{Token: "root"}, Action: &event.Command_Refund{Refund: r}}
}

func paymentOf(id uint64, payment string, credits uint64) *event.Command {
	return &event.Command{Account: id, Action: &event.Command_Payment{Payment: &event.Payment{Provider: "bank", Id: payment, CreditsMicros: credits}}}
}

func reversalOf(id uint64, payment string, reversed uint64, asOf int64) *event.Command {
	return &event.Command{Account: id, Action: &event.Command_Reverse{Reverse: &event.Reverse{
		Provider: "bank", Id: payment, ReversedMicros: reversed, AsOfMs: asOf, Chargeback: true,
	}}}
}

func (m *machine) payment(t *rapid.T, id uint64, a *modelAccount) (*event.Command, event.CommandStatus) {
	name := fmt.Sprint("payment ", rapid.IntRange(0, 3).Draw(t, "payment"))
	credits := rapid.SampledFrom([]int64{5_000, 9_000}).Draw(t, "credits")
	c := paymentOf(id, name, uint64(credits))
	if p := a.bought[name]; p != nil && p.credits != credits {
		return c, event.CommandStatus_COMMAND_PAYMENT_MISMATCH
	}
	return c, ok
}

func (m *machine) reversal(t *rapid.T, id uint64, a *modelAccount) (*event.Command, event.CommandStatus) {
	name := fmt.Sprint("payment ", rapid.IntRange(0, 3).Draw(t, "payment"))
	total := rapid.SampledFrom([]int64{0, 3_000, 5_000, 9_000}).Draw(t, "reversed")
	c := reversalOf(id, name, uint64(total), rapid.Int64Range(1, 5).Draw(t, "as of"))
	switch p := a.bought[name]; {
	case p == nil:
		return c, event.CommandStatus_COMMAND_PAYMENT_NOT_FOUND
	case total > p.credits:
		return c, event.CommandStatus_COMMAND_OVER_REFUNDED
	}
	return c, ok
}

// left is what may still be refunded for a quota key: what was spent, without what was refunded or may still be by itself.
func (m *model) left(id uint64, l modelLine) int64 {
	_, _, spent := m.counted(id, l.key, l.month)
	for _, r := range m.requests {
		if r.account == id && !r.anonymous && r.key == l.key && r.month == l.month && m.undecided(r) {
			spent -= r.paid
		}
	}
	return spent - m.accounts[id].refunded[l]
}

// undecided reports whether a request's own settlement may still refund it.
func (m *model) undecided(r *modelRequest) bool {
	return r.memory == "open" || r.state == "served" && m.known(r) && r.timedOut
}

func (m *machine) lineRefund(t *rapid.T, id uint64, a *modelAccount) (*event.Command, event.CommandStatus) {
	l := modelLine{monthOf(m.model.now).number - rapid.SampledFrom([]uint32{0, 0, 1, 2}).Draw(t, "months ago"), rapid.SampledFrom(m.keys).Draw(t, "key")}
	amount := rapid.SampledFrom([]int64{1, 4_000, 5_000, 5_001, -1, -4_000}).Draw(t, "amount")
	c := refundOf(id, &event.Refund{Month: l.month, QuotaKey: uint32(l.key), AmountMicros: amount})
	single := int64(0)
	for _, r := range m.model.requests {
		if r.account == id && !r.anonymous && r.key == l.key && r.month == l.month {
			single += r.refunded
		}
	}
	switch {
	case l.month+1 < monthOf(m.model.now).number:
		return c, event.CommandStatus_COMMAND_NOT_REFUNDABLE
	case amount > m.model.left(id, l), -amount > a.refunded[l]-single:
		return c, event.CommandStatus_COMMAND_OVER_REFUNDED
	case -amount > a.balance():
		return c, event.CommandStatus_COMMAND_INSUFFICIENT_CREDITS
	}
	return c, ok
}

func (m *machine) requestRefund(t *rapid.T, id uint64, a *modelAccount) (*event.Command, event.CommandStatus) {
	back := rapid.Bool().Draw(t, "back")
	paid := rapid.IntRange(0, 3).Draw(t, "paid") > 0
	var of []*modelRequest
	for _, r := range m.model.requests {
		if r.account == id && !r.anonymous && r.id != "" && (!paid || back && r.refunded > 0 || !back && r.paid > 0) {
			of = append(of, r)
		}
	}
	if len(of) == 0 {
		return nil, 0
	}
	r := of[rapid.IntRange(max(0, len(of)-12), len(of)-1).Draw(t, "request")]
	l, amount := modelLine{r.month, r.key}, max(r.paid, 1)
	if back {
		amount = -max(r.refunded, 1)
	}
	c := refundOf(id, &event.Refund{RequestId: []byte(r.id), Month: r.month, QuotaKey: uint32(r.key), AmountMicros: amount})
	switch {
	case r.month+1 < monthOf(m.model.now).number:
		return c, event.CommandStatus_COMMAND_NOT_REFUNDABLE
	case back && r.refunded == 0:
		return c, event.CommandStatus_COMMAND_OVER_REFUNDED
	case back && r.refunded > a.balance():
		return c, event.CommandStatus_COMMAND_INSUFFICIENT_CREDITS
	case back:
		return c, ok
	case r.refunded > 0:
		return c, event.CommandStatus_COMMAND_OVER_REFUNDED
	case m.model.undecided(r):
		return c, event.CommandStatus_COMMAND_NOT_REFUNDABLE
	case amount > m.model.left(id, l):
		return c, event.CommandStatus_COMMAND_OVER_REFUNDED
	}
	return c, ok
}

// corrected applies a correction that the fold has accepted.
func (m *machine) corrected(t *rapid.T, id uint64, a *modelAccount, c *event.Command) {
	if a.bought == nil {
		a.bought, a.refunded = map[string]*modelPurchase{}, map[modelLine]int64{}
	}
	switch action := c.Action.(type) {
	case *event.Command_Payment:
		if a.bought[action.Payment.Id] == nil {
			credits := int64(action.Payment.CreditsMicros)
			a.bought[action.Payment.Id] = &modelPurchase{credits: credits}
			m.given(a, credits)
			m.model.notifyHolder(id, a, event.AlertType_ALERT_PAYMENT)
			m.corrections["paid"]++
		}
	case *event.Command_SetSubscription:
		m.subscribed(a, action.SetSubscription)
	case *event.Command_Reverse:
		p, total, asOf := a.bought[action.Reverse.Id], int64(action.Reverse.ReversedMicros), action.Reverse.AsOfMs
		if asOf < p.asOf {
			return
		}
		more := total - p.reversed
		p.reversed, p.asOf = total, asOf
		if more < 0 {
			m.given(a, -more)
		} else if more > 0 {
			a.reversed = true
			m.corrections["reversed"]++
			m.taken(id, a, more)
		}
	case *event.Command_Refund:
		r := action.Refund
		l := modelLine{r.Month, plan.QuotaKey(r.QuotaKey)}
		a.refunded[l] += r.AmountMicros
		if len(r.RequestId) > 0 {
			i := slices.IndexFunc(m.model.requests, func(o *modelRequest) bool { return o.id == string(r.RequestId) })
			m.model.requests[i].refunded += r.AmountMicros
		}
		if r.AmountMicros < 0 {
			m.taken(id, a, -r.AmountMicros)
			m.corrections["refund taken back"]++
			return
		}
		m.given(a, r.AmountMicros)
		m.corrections["refunded"]++
		a.changes++
		a.changed = m.model.now
	}
}

func (m *machine) given(a *modelAccount, amount int64) {
	m.grants++
	a.grants = append(a.grants, &modelGrant{number: m.grants, left: amount})
	a.granted += amount
	a.ledger += amount
	a.repay()
	a.liftLow()
}

func (m *machine) taken(id uint64, a *modelAccount, amount int64) {
	before, part := a.balance(), min(amount, a.balance())
	a.take(part)
	a.taken += part
	if a.owed += amount - part; a.owed > 0 {
		m.corrections["owed"]++
	}
	a.ledger -= amount
	m.model.tellLow(id, before)
}
