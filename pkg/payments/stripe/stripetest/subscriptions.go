package stripetest

import (
	"fmt"
	"net/http"
	"slices"
	"time"
)

// subscription has one item with a monthly price.
type subscription struct {
	id, status, currency string
	customer             *customer
	created              int64
	metadata             map[string]string
	fee, tax             int64
	start, end           int64 // of the current period
	cancelAtEnd          bool
	latest               *invoice
	payments             func(invoice string) []*invoicePayment
}

func (u *subscription) key() string      { return u.id }
func (u *subscription) createdAt() int64 { return u.created }
func (u *subscription) links() []string  { return []string{"customer=" + u.customer.id} }

// json follows API version 2025-03-31 and later, in which the items have the periods.
// https://docs.stripe.com/changelog/basil/2025-03-31/deprecate-subscription-current-period-start-and-end
func (u *subscription) json(e expand) props {
	item := props{
		"id": "si_" + u.id, "object": "subscription_item", "current_period_start": u.start, "current_period_end": u.end, "quantity": 1,
		"price": props{"id": "price_" + u.id, "object": "price", "currency": u.currency, "unit_amount": u.fee, "recurring": props{"interval": "month"}},
	}
	p := props{
		"id": u.id, "object": "subscription", "created": u.created, "currency": u.currency, "customer": u.customer.id, "livemode": false,
		"cancel_at_period_end": u.cancelAtEnd, "automatic_tax": props{"enabled": u.tax > 0}, "metadata": u.metadata, "status": u.status, "latest_invoice": nil,
		"items": props{"object": "list", "data": []props{item}, "has_more": false},
	}
	if u.latest != nil {
		p["latest_invoice"] = u.latest.id
	}
	if u.latest != nil && e.has("latest_invoice") {
		shown := u.latest.json(nil)
		if e.has("latest_invoice.payments") {
			data := []props{}
			for _, paid := range u.payments(u.latest.id) {
				data = append(data, paid.json(nil))
			}
			shown["payments"] = props{"object": "list", "data": data, "has_more": false}
		}
		p["latest_invoice"] = shown
	}
	return p
}

// invoice bills a period of a subscription, or a Checkout session.
type invoice struct {
	id, number, currency, status string
	customer                     *customer
	created                      int64
	subtotal, tax                int64
	of                           *subscription
	metadata                     map[string]string // of the subscription, as it was when the invoice was created
}

func (v *invoice) key() string      { return v.id }
func (v *invoice) createdAt() int64 { return v.created }
func (v *invoice) links() []string  { return []string{"customer=" + v.customer.id} }

// json follows API version 2025-03-31 and later: an invoice has a parent, and no payment_intent.
// https://docs.stripe.com/changelog/basil/2025-03-31/adds-new-parent-field-to-invoicing-objects
func (v *invoice) json(expand) props {
	p := props{
		"id": v.id, "object": "invoice", "created": v.created, "currency": v.currency, "customer": v.customer.id, "livemode": false,
		"number": v.number, "status": v.status, "subtotal": v.subtotal, "total": v.subtotal + v.tax, "parent": nil,
		"hosted_invoice_url": "https://invoice.stripe.com/i/" + v.id, "total_taxes": []props{},
	}
	if v.tax > 0 {
		p["total_taxes"] = []props{{"amount": v.tax, "tax_behavior": "exclusive", "taxability_reason": "standard_rated", "type": "tax_rate_details"}}
	}
	if v.of != nil {
		p["parent"] = props{
			"type": "subscription_details", "quote_details": nil,
			"subscription_details": props{"subscription": v.of.id, "metadata": v.metadata},
		}
	}
	return p
}

// invoicePayment connects an invoice to the intent that pays it. https://docs.stripe.com/api/invoice-payment/object
type invoicePayment struct {
	id      string
	created int64
	invoice *invoice
	intent  *intent
	status  string
}

func (p *invoicePayment) key() string      { return p.id }
func (p *invoicePayment) createdAt() int64 { return p.created }
func (p *invoicePayment) links() []string {
	return []string{"payment[payment_intent]=" + p.intent.id, "invoice=" + p.invoice.id}
}

func (p *invoicePayment) json(e expand) props {
	o := props{
		"id": p.id, "object": "invoice_payment", "created": p.created, "currency": p.invoice.currency, "invoice": p.invoice.id,
		"amount_requested": p.intent.amount, "amount_paid": p.intent.received, "is_default": true, "livemode": false, "status": p.status,
		"payment": props{"type": "payment_intent", "payment_intent": p.intent.id},
	}
	if e.has("invoice") {
		o["invoice"] = p.invoice.json(nil)
	}
	return o
}

func (s *Server) listSubscriptions(r *call) (any, *failure) {
	// https://docs.stripe.com/api/subscriptions/list: without a status, canceled ones are left out
	status := r.form.Get("status")
	return s.subs.list(r, []string{"customer"}, func(u *subscription) bool {
		return status == "all" || u.status == status || status == "" && u.status != "canceled"
	})
}

func (s *Server) getSubscription(r *call) (any, *failure) {
	u, fail := s.subs.get("subscription", r.id)
	if fail != nil {
		return nil, fail
	}
	return u.json(r.expand), nil
}

func (s *Server) updateSubscription(r *call) (any, *failure) {
	u, fail := s.living(r.id)
	if fail != nil {
		return nil, fail
	}
	if fail := s.reprice(u, r); fail != nil {
		return nil, fail
	}
	if r.form.Has("cancel_at_period_end") {
		u.cancelAtEnd = r.form.Get("cancel_at_period_end") == "true"
	}
	for key, value := range r.dictionary("metadata") {
		u.metadata = with(u.metadata, key, value)
	}
	s.emit("customer.subscription.updated", u.json(nil))
	return u.json(r.expand), nil
}

// reprice gives the item another price, which the next invoice has. The stand-in has no prorations, so they must be turned off.
// https://docs.stripe.com/api/subscriptions/update
func (s *Server) reprice(u *subscription, r *call) *failure {
	const price = "items[0][price_data]"
	if !r.form.Has(price + "[unit_amount]") {
		return nil
	}
	amount, fail := r.amount(price + "[unit_amount]")
	if fail == nil {
		_, fail = s.products.get("product", r.form.Get(price+"[product]"))
	}
	switch {
	case fail != nil:
		fail.status = http.StatusBadRequest
	case r.form.Get("items[0][id]") != "si_"+u.id:
		fail = badRequest("items[0][id]", "resource_missing", "No such subscription item: '"+r.form.Get("items[0][id]")+"'")
	case r.form.Get("proration_behavior") != "none":
		fail = badRequest("proration_behavior", "", "The stand-in has no prorations.")
	case r.form.Get(price+"[currency]") != u.currency:
		fail = badRequest(price+"[currency]", "", "The price specified only supports another currency than the subscription's.")
	default:
		if u.fee = amount; u.tax > 0 {
			u.tax = amount * s.config.TaxPercent / 100
		}
	}
	return fail
}

// cancelSubscription ends a subscription at once: https://docs.stripe.com/api/subscriptions/cancel.
func (s *Server) cancelSubscription(r *call) (any, *failure) {
	u, fail := s.living(r.id)
	if fail != nil {
		return nil, fail
	}
	s.end(u)
	return u.json(r.expand), nil
}

// living returns a subscription that has not ended. Stripe refuses to change others.
func (s *Server) living(id string) (*subscription, *failure) {
	u, fail := s.subs.get("subscription", id)
	if fail == nil && u.status == "canceled" {
		fail = &failure{status: http.StatusNotFound, Type: invalidRequest, Code: "resource_missing", Message: "No such subscription: '" + id + "'", Param: "id"}
	}
	return u, fail
}

func (s *Server) listInvoicePayments(r *call) (any, *failure) {
	// https://docs.stripe.com/api/invoice-payment/list
	if r.form.Get("payment[payment_intent]") != "" && r.form.Get("payment[type]") != "payment_intent" {
		return nil, badRequest("payment[type]", "parameter_missing", "Missing required param: payment[type].")
	}
	return s.payments.list(r, []string{"payment[payment_intent]", "invoice"}, nil)
}

func (s *Server) newInvoice(c *customer, of *subscription, currency string, subtotal, tax int64) *invoice {
	v := &invoice{
		id: s.id("in"), number: fmt.Sprintf("STANDIN-%04d", len(s.invoices.all)+1), currency: currency, status: "open", customer: c,
		created: s.now().Unix(), subtotal: subtotal, tax: tax, of: of,
	}
	if of != nil {
		v.metadata, of.latest, v.created = of.metadata, v, max(v.created, of.start)
	}
	s.invoices.add(v)
	s.emit("invoice.finalized", v.json(nil))
	return v
}

// payInvoice connects an invoice to its intent.
func (s *Server) payInvoice(v *invoice, i *intent, paid bool) {
	p := &invoicePayment{id: s.id("inpay"), created: s.now().Unix(), invoice: v, intent: i, status: "open"}
	s.payments.add(p)
	if paid {
		p.status, v.status = "paid", "paid"
		s.emit("invoice.paid", v.json(nil))
	} else {
		s.emit("invoice.payment_failed", v.json(nil))
	}
}

// subscribe creates the subscription of a session and collects its first fee.
func (s *Server) subscribe(o *session, m *method) (*subscription, *intent) {
	o.customer.defaultMethod = m
	u := &subscription{
		id: s.id("sub"), status: "active", currency: o.currency, customer: o.customer, created: s.now().Unix(), metadata: o.metadata,
		fee: o.subtotal, tax: o.tax, start: s.now().Unix(), end: s.now().AddDate(0, 1, 0).Unix(),
		payments: func(invoice string) []*invoicePayment { return s.payments.byLink["invoice="+invoice] },
	}
	s.subs.add(u)
	i := s.collect(u)
	s.emit("customer.subscription.created", u.json(nil))
	return u, i
}

// collect bills the subscription's current period and charges its customer. The intent has no metadata: Stripe copies none.
func (s *Server) collect(u *subscription) *intent {
	v := s.newInvoice(u.customer, u, u.currency, u.fee, u.tax)
	i := s.newIntent(u.customer, u.fee+u.tax, u.currency, "Subscription update", map[string]string{})
	card := Declining
	if m := u.customer.card(); m != nil {
		card = m.card
	}
	s.payInvoice(v, i, s.attempt(i, card, true) == nil)
	return i
}

// Renew begins the next period of a subscription, as Stripe does at the end of one: with a fee, or as its end if it is canceled
// at the period's end. A fee that can't be collected makes it past_due, and the customer's card decides.
// https://docs.stripe.com/billing/subscriptions/overview#subscription-lifecycle
func (s *Server) Renew(id string) error {
	return s.withSubscription(id, func(u *subscription) {
		if u.cancelAtEnd {
			s.end(u)
			return
		}
		u.start, u.end = u.end, time.Unix(u.end, 0).UTC().AddDate(0, 1, 0).Unix()
		u.status = "active"
		if s.collect(u).status != "succeeded" {
			u.status = "past_due"
		}
		s.emit("customer.subscription.updated", u.json(nil))
	})
}

// Retry collects an unpaid fee again: https://docs.stripe.com/billing/revenue-recovery/smart-retries. The same intent is used.
func (s *Server) Retry(id string) error {
	return s.withSubscription(id, func(u *subscription) {
		paid := s.payments.byLink["invoice="+u.latest.id]
		if u.status != "past_due" || len(paid) == 0 {
			return
		}
		last := paid[len(paid)-1]
		if m := u.customer.card(); m == nil || s.attempt(last.intent, m.card, true) != nil {
			s.emit("invoice.payment_failed", u.latest.json(nil))
			return
		}
		last.status, u.latest.status, u.status = "paid", "paid", "active"
		s.emit("invoice.paid", u.latest.json(nil))
		s.emit("customer.subscription.updated", u.json(nil))
	})
}

// CancelAtPeriodEnd cancels a subscription from the next period on, as people do in the portal. false takes it back.
func (s *Server) CancelAtPeriodEnd(id string, cancel bool) error {
	return s.withSubscription(id, func(u *subscription) {
		u.cancelAtEnd = cancel
		s.emit("customer.subscription.updated", u.json(nil))
	})
}

// SetSubscriptionMetadata changes a subscription's metadata, as somebody can in the dashboard. An empty value removes the key.
func (s *Server) SetSubscriptionMetadata(id, key, value string) error {
	return s.withSubscription(id, func(u *subscription) { u.metadata = with(u.metadata, key, value) })
}

// CancelNow ends a subscription at once, as Stripe also does when all retries of a fee have failed.
func (s *Server) CancelNow(id string) error { return s.withSubscription(id, s.end) }

func (s *Server) end(u *subscription) {
	u.status = "canceled"
	s.emit("customer.subscription.deleted", u.json(nil))
}

// withSubscription changes a subscription that has not ended.
func (s *Server) withSubscription(id string, change func(*subscription)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	u, fail := s.living(id)
	if fail != nil {
		return fail
	}
	change(u)
	return nil
}

// Subscriptions returns the IDs of a customer's subscriptions, oldest first.
func (s *Server) Subscriptions(customer string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var ids []string
	for _, u := range s.subs.byLink["customer="+customer] {
		ids = append(ids, u.id)
	}
	return ids
}

// Living returns the IDs of a customer's subscriptions that have not ended, oldest first.
func (s *Server) Living(customer string) []string {
	return slices.DeleteFunc(s.Subscriptions(customer), func(id string) bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		_, ended := s.living(id)
		return ended != nil
	})
}

// Fee returns a subscription's price before tax: what its next invoice charges. Of one that was canceled at once, it is the price by
// which the rest of its period was credited.
func (s *Server) Fee(id string) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	u, fail := s.subs.get("subscription", id)
	if fail != nil {
		return 0
	}
	return u.fee
}

// Ending reports whether a subscription that has not ended does so with its period.
func (s *Server) Ending(id string) (ending bool) {
	_ = s.withSubscription(id, func(u *subscription) { ending = u.cancelAtEnd })
	return ending
}
