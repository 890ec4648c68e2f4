package account

import (
	"math/bits"

	"quire.dev/pkg/event"
	"quire.dev/pkg/num"
)

// maxPurchaseChars bounds a provider's name, an id there, and what it says about a payment.
const maxPurchaseChars = 200

// purchase is a payment, of credits or of a plan's fee. It is kept as long as the account, so that a repeat adds nothing.
type purchase struct {
	purchaseID
	number            uint64 // of the account's, from 1
	time              int64
	credits, reversed uint64
	asOf              int64  // of the last reversal
	plan              string // whose fee it is
	amount, tax       uint64 // in cents
	reversedCents     uint64 // of amount
	topUp             uint64
}

// purchaseID names a payment.
type purchaseID struct{ provider, id string }

// purchases are an account's payments.
type purchases struct {
	list []*purchase // oldest first
	byID map[purchaseID]*purchase
}

func (p *purchases) add(made *purchase) {
	if p.byID == nil {
		p.byID = map[purchaseID]*purchase{}
	}
	p.list, p.byID[made.purchaseID] = append(p.list, made), made
}

// recordPayment executes a command that records a payment and adds its credits. A repeat changes nothing.
func (c *credits) recordPayment(a *account, p *event.Payment, actor string, index int) event.CommandStatus {
	if c.rules < Rules4 || !validPayment(p) {
		return event.CommandStatus_COMMAND_INVALID
	}
	id := purchaseID{p.Provider, p.Id}
	if known := a.purchases.byID[id]; known != nil {
		if known.credits != p.CreditsMicros || known.plan != p.Plan {
			return event.CommandStatus_COMMAND_PAYMENT_MISMATCH
		}
		if known.topUp == 0 && p.TopUp != 0 { // it was first recorded without its top-up
			known.topUp = p.TopUp
			a.toppedUp(p.TopUp)
		}
		return event.CommandStatus_COMMAND_OK
	}
	e := &event.LedgerEntry{
		TimeMs: c.time, Type: event.LedgerType_LEDGER_PAYMENT, AmountMicros: num.Int64(p.CreditsMicros), Reason: p.Reason, Actor: actor, Payment: p.Id,
	}
	if p.CreditsMicros > 0 && !c.givePaid(a, num.Int64(p.CreditsMicros), index, e) {
		return event.CommandStatus_COMMAND_INVALID
	}
	made := &purchase{
		purchaseID: id, number: uint64(len(a.purchases.list)) + 1, time: c.time, credits: p.CreditsMicros, plan: p.Plan,
		amount: p.AmountCents, tax: p.TaxCents, topUp: p.TopUp,
	}
	a.purchases.add(made)
	a.toppedUp(p.TopUp)
	c.alerts.notifyHolder(a, &event.Alert{Type: event.AlertType_ALERT_PAYMENT, Payment: made.state(), Mail: true})
	return event.CommandStatus_COMMAND_OK
}

// validPayment reports whether a payment is of credits or of a plan's fee, and its amounts are plausible.
func validPayment(p *event.Payment) bool {
	return validPurchase(p.GetProvider(), p.GetId()) && p.CreditsMicros <= maxBalance && (p.CreditsMicros == 0) == (p.Plan != "") &&
		len(p.Plan) <= maxPurchaseChars && p.AmountCents <= maxBalance && p.TaxCents <= p.AmountCents
}

// reverse sets how much of a payment is reversed: of its credits, or of the fee of a plan. An outdated command changes nothing.
func (c *credits) reverse(a *account, r *event.Reverse, actor string, index int) event.CommandStatus {
	if c.rules < Rules4 || !validPurchase(r.GetProvider(), r.GetId()) {
		return event.CommandStatus_COMMAND_INVALID
	}
	p, asOf := a.purchases.byID[purchaseID{r.Provider, r.Id}], min(r.AsOfMs, c.time) // a clock that is ahead must not outdate later ones
	if p == nil {
		return event.CommandStatus_COMMAND_PAYMENT_NOT_FOUND
	}
	if r.ReversedMicros > p.credits || r.ReversedCents > p.amount {
		return event.CommandStatus_COMMAND_OVER_REFUNDED
	}
	cents := p.centsReversed(r)
	if asOf < p.asOf || r.ReversedMicros == p.reversed && cents == p.reversedCents {
		p.asOf = max(p.asOf, asOf)
		return event.CommandStatus_COMMAND_OK
	}
	e := &event.LedgerEntry{
		TimeMs: c.time, Type: event.LedgerType_LEDGER_REVERSAL, AmountMicros: num.Int64(p.reversed) - num.Int64(r.ReversedMicros), Reason: r.Reason, Actor: actor,
		Payment: p.id,
	}
	if e.AmountMicros < 0 {
		c.remove(a, uint64(-e.AmountMicros), e)
	} else if e.AmountMicros > 0 && !c.givePaid(a, e.AmountMicros, index, e) {
		return event.CommandStatus_COMMAND_INVALID
	}
	p.reversed, p.reversedCents, p.asOf = r.ReversedMicros, cents, asOf
	return event.CommandStatus_COMMAND_OK
}

// centsReversed is how much of the amount is reversed. A command that names credits alone reverses the amount in proportion.
func (p *purchase) centsReversed(r *event.Reverse) uint64 {
	if r.ReversedCents > 0 || r.ReversedMicros == 0 {
		return r.ReversedCents
	}
	high, low := bits.Mul64(p.amount, r.ReversedMicros)
	cents, _ := bits.Div64(high, low, p.credits) // at most the amount, since no more than the credits are reversed
	return cents
}

func validPurchase(provider, id string) bool {
	return provider != "" && id != "" && len(provider) <= maxPurchaseChars && len(id) <= maxPurchaseChars
}

func (p *purchase) state() *event.PaymentState {
	return &event.PaymentState{
		Provider: p.provider, Id: p.id, CreditsMicros: p.credits, ReversedMicros: p.reversed, AsOfMs: p.asOf, Number: p.number, TimeMs: p.time,
		Plan: p.plan, AmountCents: p.amount, TaxCents: p.tax, ReversedCents: p.reversedCents, TopUp: p.topUp,
	}
}

func (p *purchases) states() (list []*event.PaymentState) {
	for _, one := range p.list {
		list = append(list, one.state())
	}
	return list
}

func restorePurchases(states []*event.PaymentState) (p purchases) {
	for _, s := range states {
		p.add(&purchase{
			purchaseID: purchaseID{s.Provider, s.Id}, number: s.Number, time: s.TimeMs, credits: s.CreditsMicros, reversed: s.ReversedMicros,
			asOf: s.AsOfMs, plan: s.Plan, amount: s.AmountCents, tax: s.TaxCents, reversedCents: s.ReversedCents, topUp: s.TopUp,
		})
	}
	return p
}

// Bounds of a PaymentsQuery's limit.
const (
	defaultPayments = 50
	maxPayments     = 100
)

// Payments is a page of the account's payments, newest first; nil without such an account.
func (s *principals) Payments(id event.AccountID, q *event.PaymentsQuery) *event.PaymentsAnswer {
	a := s.accounts[uint64(id)]
	if a == nil {
		return nil
	}
	page := &event.PaymentsAnswer{}
	if q.GetProvider() != "" || q.GetId() != "" {
		if p := a.purchases.byID[purchaseID{q.Provider, q.Id}]; p != nil {
			page.Payments = append(page.Payments, p.state())
		}
		return page
	}
	next := uint64(len(a.purchases.list)) // the number of the next one on the page
	if q.GetBefore() != 0 {
		next = min(next, q.Before-1)
	}
	limit := pageLimit(q.GetLimit(), defaultPayments, maxPayments)
	for ; next > 0 && len(page.Payments) < limit; next-- {
		page.Payments = append(page.Payments, a.purchases.list[next-1].state())
	}
	page.More = next > 0
	return page
}

// pageLimit is how many items a page has.
func pageLimit(asked uint32, usual, most int) int {
	if asked == 0 {
		return usual
	}
	return min(num.Int(asked), most)
}
