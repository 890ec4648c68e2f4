package stripetest

import (
	"maps"
	"net/http"
)

// intent is a PaymentIntent, with the one charge that can succeed.
type intent struct {
	id, customer, currency, description string
	amount, received                    int64
	created                             int64
	status                              string
	metadata                            map[string]string
	charge                              *charge // the latest one
	lastError                           *failure
}

type charge struct {
	id        string
	created   int64
	amount    int64
	succeeded bool
	disputed  bool
	refunded  int64
}

func (i *intent) key() string      { return i.id }
func (i *intent) createdAt() int64 { return i.created }
func (i *intent) links() []string  { return []string{"customer=" + i.customer} }

func (i *intent) json(e expand) props {
	p := props{
		"id": i.id, "object": "payment_intent", "amount": i.amount, "amount_received": i.received, "created": i.created,
		"currency": i.currency, "customer": i.customer, "description": i.description, "latest_charge": nil, "livemode": false,
		"metadata": i.metadata, "status": i.status, "last_payment_error": nil, "client_secret": i.id + "_secret_standin",
	}
	if i.lastError != nil {
		p["last_payment_error"] = i.lastError
	}
	if i.charge != nil {
		p["latest_charge"] = i.charge.id
	}
	if i.charge != nil && e.has("latest_charge") {
		p["latest_charge"] = i.chargeJSON()
	}
	return p
}

func (i *intent) chargeJSON() props {
	c := i.charge
	status := "failed"
	if c.succeeded {
		status = "succeeded"
	}
	return props{
		"id": c.id, "object": "charge", "amount": c.amount, "amount_refunded": c.refunded, "created": c.created, "currency": i.currency,
		"customer": i.customer, "disputed": c.disputed, "livemode": false, "payment_intent": i.id, "paid": c.succeeded, "status": status,
		"refunded": c.refunded == c.amount, "receipt_number": nil, "receipt_url": "https://pay.stripe.com/receipts/" + c.id, "metadata": props{},
	}
}

// newIntent creates an intent. https://docs.stripe.com/payments/paymentintents/lifecycle has its states.
func (s *Server) newIntent(c *customer, amount int64, currency, description string, metadata map[string]string) *intent {
	i := &intent{
		id: s.id("pi"), customer: c.id, currency: currency, description: description, amount: amount, created: s.now().Unix(),
		metadata: metadata, status: "requires_payment_method",
	}
	s.intents.add(i)
	s.emit("payment_intent.created", i.json(nil))
	return i
}

// attempt charges an intent with a card. A declined intent requires a payment method again, and its charge stays as failed:
// https://docs.stripe.com/declines. Off-session, a bank that asks for a confirmation declines:
// https://docs.stripe.com/payments/save-during-payment#recover-from-off-session-declines.
func (s *Server) attempt(i *intent, card Card, offSession bool) *failure {
	if card == AsksConfirmation && !offSession {
		card = Good // the person confirms on the page
	}
	if card == Good {
		s.succeed(i)
		return nil
	}
	i.charge = &charge{id: s.id("ch"), created: s.now().Unix(), amount: i.amount}
	i.status = "requires_payment_method"
	i.lastError = decline(card)
	s.emit("charge.failed", i.chargeJSON())
	s.emit("payment_intent.payment_failed", i.json(nil))
	fail := *i.lastError
	fail.status, fail.Intent = http.StatusPaymentRequired, i.json(nil)
	return &fail
}

// decline is the error of a card. https://docs.stripe.com/declines/codes
func decline(card Card) *failure {
	f := &failure{Type: cardError, Code: "card_declined", DeclineCode: string(card), Message: "Your card was declined."}
	switch card {
	case NoFunds:
		f.Message = "Your card has insufficient funds."
	case Expired:
		f.Code, f.Message = "expired_card", "Your card has expired."
	case AsksConfirmation:
		f.Code, f.Message = "authentication_required", "Your card was declined. This transaction requires authentication."
	}
	return f
}

func (s *Server) succeed(i *intent) {
	i.charge = &charge{id: s.id("ch"), created: s.now().Unix(), amount: i.amount, succeeded: true}
	i.status, i.received, i.lastError = "succeeded", i.amount, nil
	s.emit("charge.succeeded", i.chargeJSON())
	s.emit("payment_intent.succeeded", i.json(nil))
}

// createIntent takes the one form that Quire uses: a saved payment method, confirmed at once and off-session.
func (s *Server) createIntent(r *call) (any, *failure) {
	amount, fail := r.amount("amount")
	if fail != nil {
		return nil, fail
	}
	currency, fail := r.required("currency")
	if fail != nil {
		return nil, fail
	}
	// https://docs.stripe.com/currencies#minimum-and-maximum-charge-amounts
	if currency == "usd" && amount < 50 {
		return nil, badRequest("amount", "amount_too_small", "Amount must be at least $0.50 usd")
	}
	c, fail := s.customers.get("customer", r.form.Get("customer"))
	if fail != nil {
		fail.status = http.StatusBadRequest
		return nil, fail
	}
	m, fail := s.methods.get("PaymentMethod", r.form.Get("payment_method"))
	if fail != nil || m.customer != c.id {
		return nil, badRequest("payment_method", "resource_missing", "No such PaymentMethod of this customer")
	}
	if r.form.Get("confirm") != "true" || r.form.Get("off_session") != "true" {
		return nil, badRequest("confirm", "", "the stand-in only has intents that are confirmed off-session")
	}
	i := s.newIntent(c, amount, currency, r.form.Get("description"), r.dictionary("metadata"))
	if fail := s.attempt(i, m.card, true); fail != nil {
		return nil, fail
	}
	return i.json(r.expand), nil
}

func (s *Server) getIntent(r *call) (any, *failure) {
	i, fail := s.intents.get("payment_intent", r.id)
	if fail != nil {
		return nil, fail
	}
	return i.json(r.expand), nil
}

func (s *Server) listIntents(r *call) (any, *failure) {
	return s.intents.list(r, []string{"customer"}, nil)
}

// CreateIntent creates an unpaid payment that isn't Quire's, or has the given metadata. It returns its ID.
func (s *Server) CreateIntent(amountMinor int64, currency string, metadata map[string]string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := &customer{id: s.id("cus"), created: s.now().Unix()}
	s.customers.add(c)
	return s.newIntent(c, amountMinor, currency, "", metadata).id
}

// PayIntent pays an unpaid payment.
func (s *Server) PayIntent(id string) error {
	return s.withIntent(id, func(i *intent) *failure {
		if i.status == "succeeded" || i.status == "canceled" {
			return badRequest("", "payment_intent_unexpected_state", "This PaymentIntent is "+i.status)
		}
		s.succeed(i)
		return nil
	})
}

// Resend sends the webhook of a paid payment again, as somebody can in the dashboard.
func (s *Server) Resend(payment string) error {
	return s.withIntent(payment, func(i *intent) *failure {
		s.emit("payment_intent.succeeded", i.json(nil))
		return nil
	})
}

// CancelIntent cancels an unpaid payment. https://docs.stripe.com/refunds#cancel-payment
func (s *Server) CancelIntent(id string) error {
	return s.withIntent(id, func(i *intent) *failure {
		if i.status == "succeeded" || i.status == "canceled" {
			return badRequest("", "payment_intent_unexpected_state", "This PaymentIntent is "+i.status)
		}
		i.status = "canceled"
		s.emit("payment_intent.canceled", i.json(nil))
		return nil
	})
}

// SetMetadata changes a payment's metadata, as somebody can in the dashboard. An empty value removes the key.
func (s *Server) SetMetadata(id, key, value string) error {
	return s.withIntent(id, func(i *intent) *failure {
		i.metadata = with(i.metadata, key, value)
		return nil
	})
}

// with returns a copy of metadata with a changed value. Other objects may share the map.
func with(metadata map[string]string, key, value string) map[string]string {
	changed := maps.Clone(metadata)
	changed[key] = value
	if value == "" {
		delete(changed, key)
	}
	return changed
}

func (s *Server) withIntent(id string, change func(*intent) *failure) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	i, fail := s.intents.get("payment_intent", id)
	if fail == nil {
		fail = change(i)
	}
	if fail != nil {
		return fail
	}
	return nil
}

// Payment is what a test may compare its own records with.
type Payment struct {
	ID            string
	Customer      string
	Currency      string
	Status        string
	Metadata      map[string]string // must not be changed
	ReceivedMinor int64
	RefundedMinor int64 // without refunds that failed
	DisputedMinor int64 // disputes under way or lost
}

// Payments returns all payments, oldest first.
func (s *Server) Payments() []Payment {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]Payment, 0, len(s.intents.all))
	for _, i := range s.intents.all {
		p := Payment{
			ID: i.id, Customer: i.customer, Currency: i.currency, Status: i.status, Metadata: i.metadata, ReceivedMinor: i.received,
			RefundedMinor: s.refundedOf(i),
		}
		for _, d := range s.disputes.byLink["payment_intent="+i.id] {
			if d.status == "needs_response" || d.status == "under_review" || d.status == "lost" {
				p.DisputedMinor += d.amount
			}
		}
		all = append(all, p)
	}
	return all
}
