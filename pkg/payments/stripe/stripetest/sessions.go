package stripetest

import (
	"net/http"
	"strings"
	"time"
)

// session is a Checkout Session. https://docs.stripe.com/payments/checkout/how-checkout-works
type session struct {
	id, mode, currency, name string
	customer                 *customer
	created                  int64
	status, paid             string
	subtotal, tax            int64
	success, cancel          string
	metadata                 map[string]string // of what the session creates
	own                      map[string]string
	invoiced                 bool
	keepsCard                bool    // https://docs.stripe.com/payments/save-during-payment?payment-ui=checkout
	intent                   *intent // once somebody has tried to pay
	subscription             *subscription
	invoice                  *invoice
	url                      string
}

func (s *session) key() string      { return s.id }
func (s *session) createdAt() int64 { return s.created }

// links are made when the session is added: its payment is linked later.
func (s *session) links() []string {
	if s.intent != nil {
		return []string{"payment_intent=" + s.intent.id, "customer=" + s.customer.id}
	}
	return []string{"customer=" + s.customer.id}
}

func (s *session) json(e expand) props {
	p := props{
		"id": s.id, "object": "checkout.session", "amount_subtotal": s.subtotal, "amount_total": s.subtotal + s.tax, "created": s.created,
		"currency": s.currency, "customer": s.customer.id, "livemode": false, "metadata": s.own, "mode": s.mode, "payment_intent": nil,
		"payment_status": s.paid, "status": s.status, "subscription": nil, "invoice": nil, "url": nil, "success_url": s.success,
		"total_details": props{"amount_discount": 0, "amount_shipping": 0, "amount_tax": s.tax},
	}
	if s.status == "open" {
		p["url"] = s.url // https://docs.stripe.com/api/checkout/sessions/object: only active sessions have one
	}
	if s.intent != nil && s.mode == "payment" {
		p["payment_intent"] = s.intent.id
	}
	if s.subscription != nil {
		p["subscription"] = s.subscription.id
	}
	if s.invoice != nil {
		p["invoice"] = s.invoice.id
		if e.has("invoice") {
			p["invoice"] = s.invoice.json(nil)
		}
	}
	return p
}

const item = "line_items[0]"

func (s *Server) createSession(r *call) (any, *failure) {
	c, fail := s.customers.get("customer", r.form.Get("customer"))
	if fail != nil {
		fail.status = http.StatusBadRequest
		return nil, fail
	}
	o := &session{customer: c, created: s.now().Unix(), status: "open", paid: "unpaid", own: r.dictionary("metadata")}
	for name, to := range map[string]*string{
		"mode": &o.mode, "success_url": &o.success, "cancel_url": &o.cancel, item + "[price_data][currency]": &o.currency,
		item + "[price_data][product_data][name]": &o.name, item + "[quantity]": new(string),
	} {
		if *to, fail = r.required(name); fail != nil {
			return nil, fail
		}
	}
	if o.subtotal, fail = r.amount(item + "[price_data][unit_amount]"); fail != nil {
		return nil, fail
	}
	if fail := o.checkMode(r); fail != nil {
		return nil, fail
	}
	if r.form.Get("automatic_tax[enabled]") == "true" {
		// https://docs.stripe.com/tax/checkout#existing-customers
		if r.form.Get("customer_update[address]") != "auto" {
			return nil, badRequest("automatic_tax", "customer_tax_location_invalid", "Automatic tax needs the customer's address: set customer_update[address] to auto.")
		}
		o.tax = o.subtotal * s.config.TaxPercent / 100
	}
	o.id = s.id("cs_test")
	o.url = s.URL + "/checkout/" + o.id
	s.sessions.add(o)
	return o.json(nil), nil
}

// checkMode takes what depends on the mode: a payment has payment_intent_data, and a subscription a recurring price and
// subscription_data. https://docs.stripe.com/api/checkout/sessions/create
func (s *session) checkMode(r *call) *failure {
	recurring := r.form.Get(item+"[price_data][recurring][interval]") != ""
	intentData, subscriptionData := r.dictionary("payment_intent_data[metadata]"), r.dictionary("subscription_data[metadata]")
	s.keepsCard = r.form.Get("payment_intent_data[setup_future_usage]") == "off_session"
	s.metadata, s.invoiced = intentData, r.form.Get("invoice_creation[enabled]") == "true"
	switch {
	case s.mode == "payment" && (recurring || len(subscriptionData) > 0):
		return badRequest("mode", "", "You must use subscription mode with recurring prices.")
	case s.mode == "subscription" && (!recurring || len(intentData) > 0 || s.invoiced):
		return badRequest("mode", "", "You can not pass payment_intent_data or invoice_creation in subscription mode, and need a recurring price.")
	case s.mode == "subscription":
		s.metadata = subscriptionData
	case s.mode != "payment":
		return badRequest("mode", "", "Invalid mode")
	}
	return nil
}

func (s *Server) getSession(r *call) (any, *failure) {
	o, fail := s.sessions.get("checkout.session", r.id)
	if fail != nil {
		return nil, fail
	}
	return o.json(r.expand), nil
}

func (s *Server) listSessions(r *call) (any, *failure) {
	return s.sessions.list(r, []string{"payment_intent", "customer"}, nil)
}

// payable returns an open session by its ID or URL. A session expires 24 hours after its creation.
func (s *Server) payable(idOrURL string) (*session, *failure) {
	o, fail := s.sessions.get("checkout.session", idOrURL[strings.LastIndexByte(idOrURL, '/')+1:])
	if fail != nil {
		return nil, fail
	}
	if o.status == "open" && s.now().Unix() >= o.created+int64(24*time.Hour/time.Second) {
		o.status = "expired"
		s.emit("checkout.session.expired", o.json(nil))
	}
	if o.status != "open" {
		return o, badRequest("", "", "This session is "+o.status)
	}
	return o, nil
}

// Pay pays a session, by its ID or URL, with a card: what happens when somebody fills in the page. It returns the ID of the
// payment. A declined card is an error, and the session stays open; a session that is complete or expired is an error too.
func (s *Server) Pay(idOrURL string, card Card) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o, fail := s.payable(idOrURL)
	if fail == nil {
		fail = s.pay(o, card)
	}
	if fail != nil {
		return "", fail
	}
	return o.intent.id, nil
}

func (s *Server) pay(o *session, card Card) *failure {
	if o.mode == "subscription" {
		if d := cardRefusal(card); d != nil {
			return d // the subscription begins with the first payment that succeeds
		}
		o.subscription, o.intent = s.subscribe(o, s.attach(o.customer, card))
	} else {
		// Since API version 2022-08-01 the intent is created when the session is confirmed.
		s.confirmIntent(o)
		if fail := s.attempt(o.intent, card, false); fail != nil {
			return fail
		}
		if o.keepsCard {
			s.attach(o.customer, card)
		}
		s.billSession(o)
	}
	o.status, o.paid = "complete", "paid"
	s.emit("checkout.session.completed", o.json(nil))
	return nil
}

func cardRefusal(card Card) *failure {
	if card == Good || card == AsksConfirmation {
		return nil
	}
	d := decline(card)
	d.status = http.StatusPaymentRequired
	return d
}

func (s *Server) confirmIntent(o *session) {
	if o.intent == nil {
		o.intent = s.newIntent(o.customer, o.subtotal+o.tax, o.currency, o.name, o.metadata)
		link := "payment_intent=" + o.intent.id
		s.sessions.byLink[link] = append(s.sessions.byLink[link], o)
	}
}

// billSession creates the invoice of a session with invoice_creation.
// https://docs.stripe.com/payments/checkout/receipts#paid-invoices
func (s *Server) billSession(o *session) {
	if o.invoiced {
		o.invoice = s.newInvoice(o.customer, nil, o.currency, o.subtotal, o.tax)
		s.payInvoice(o.invoice, o.intent, true)
	}
}

// PayLater pays a session with a method that takes days, such as a bank debit: the session completes unpaid, and the payment
// is processing until Settle. https://docs.stripe.com/payments/payment-methods#payment-notification
func (s *Server) PayLater(idOrURL string) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o, fail := s.payable(idOrURL)
	if fail == nil && o.mode != "payment" {
		fail = badRequest("", "", "the stand-in only has late payments for sessions in payment mode")
	}
	if fail != nil {
		return "", fail
	}
	s.confirmIntent(o)
	o.intent.status, o.status = "processing", "complete"
	s.emit("payment_intent.processing", o.intent.json(nil))
	s.emit("checkout.session.completed", o.json(nil))
	return o.intent.id, nil
}

// Settle ends a payment that is processing.
func (s *Server) Settle(payment string, succeeds bool) error {
	return s.withIntent(payment, func(i *intent) *failure {
		if i.status != "processing" {
			return badRequest("", "payment_intent_unexpected_state", "This PaymentIntent is "+i.status)
		}
		sessions := s.sessions.byLink["payment_intent="+i.id]
		if !succeeds {
			_ = s.attempt(i, NoFunds, false) // declined
			for _, o := range sessions {
				s.emit("checkout.session.async_payment_failed", o.json(nil))
			}
			return nil
		}
		s.succeed(i)
		for _, o := range sessions {
			o.paid = "paid"
			s.billSession(o)
			s.emit("checkout.session.async_payment_succeeded", o.json(nil))
		}
		return nil
	})
}
