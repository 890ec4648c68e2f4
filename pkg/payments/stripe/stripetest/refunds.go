package stripetest

type refund struct {
	id      string
	created int64
	amount  int64
	status  string
	of      *intent
}

func (r *refund) key() string      { return r.id }
func (r *refund) createdAt() int64 { return r.created }
func (r *refund) links() []string {
	return []string{"payment_intent=" + r.of.id, "charge=" + r.of.charge.id}
}

func (r *refund) json(expand) props {
	return props{
		"id": r.id, "object": "refund", "amount": r.amount, "charge": r.of.charge.id, "created": r.created, "currency": r.of.currency,
		"payment_intent": r.of.id, "status": r.status, "metadata": props{},
	}
}

func (s *Server) listRefunds(r *call) (any, *failure) {
	return s.refunds.list(r, []string{"payment_intent", "charge"}, nil)
}

// refundedOf sums up the refunds of a payment that did not fail.
func (s *Server) refundedOf(i *intent) int64 {
	sum := int64(0)
	for _, r := range s.refunds.byLink["payment_intent="+i.id] {
		if r.status != "failed" && r.status != "canceled" {
			sum += r.amount
		}
	}
	return sum
}

// Refund refunds a part of a payment, as somebody does in the dashboard, and returns the refund's ID. No more than what was
// paid can be refunded: https://docs.stripe.com/refunds#issuing.
func (s *Server) Refund(payment string, amountMinor int64) (string, error) {
	id := ""
	err := s.withIntent(payment, func(i *intent) *failure {
		if i.status != "succeeded" || amountMinor < 1 || s.refundedOf(i)+amountMinor > i.received {
			return badRequest("amount", "charge_already_refunded", "Refund amount is greater than the unrefunded amount on charge")
		}
		r := &refund{id: s.id("re"), created: s.now().Unix(), amount: amountMinor, status: "succeeded", of: i}
		s.refunds.add(r)
		i.charge.refunded += amountMinor
		s.emit("refund.created", r.json(nil))
		s.emit("charge.refunded", i.chargeJSON())
		id = r.id
		return nil
	})
	return id, err
}

// FailRefund lets a refund fail after it seemed to succeed: the bank returns the money to the account.
// https://docs.stripe.com/refunds#failed-refunds
func (s *Server) FailRefund(id string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, fail := s.refunds.get("refund", id)
	if fail != nil {
		return fail
	}
	if r.status != "failed" {
		r.status = "failed"
		r.of.charge.refunded -= r.amount
		s.emit("refund.updated", r.json(nil))
		s.emit("refund.failed", r.json(nil))
	}
	return nil
}

type dispute struct {
	id       string
	created  int64
	amount   int64
	currency string
	status   string
	of       *intent
}

func (d *dispute) key() string      { return d.id }
func (d *dispute) createdAt() int64 { return d.created }
func (d *dispute) links() []string {
	return []string{"payment_intent=" + d.of.id, "charge=" + d.of.charge.id}
}

func (d *dispute) json(expand) props {
	return props{
		"id": d.id, "object": "dispute", "amount": d.amount, "charge": d.of.charge.id, "created": d.created, "currency": d.currency,
		"payment_intent": d.of.id, "reason": "fraudulent", "status": d.status, "livemode": false, "metadata": props{},
	}
}

func (s *Server) listDisputes(r *call) (any, *failure) {
	return s.disputes.list(r, []string{"payment_intent", "charge"}, nil)
}

// Dispute lets the bank dispute a whole payment and withdraw its money, and returns the dispute's ID.
// https://docs.stripe.com/disputes/how-disputes-work
func (s *Server) Dispute(payment string) (string, error) {
	return s.dispute(payment, "needs_response", 0, "")
}

// Inquire lets the bank ask about a payment, which withdraws nothing until it is escalated.
// https://docs.stripe.com/disputes/how-disputes-work#inquiries
func (s *Server) Inquire(payment string) (string, error) {
	return s.dispute(payment, "warning_needs_response", 0, "")
}

// DisputeIn is Dispute with an amount in another currency than the payment's, as for a card that is billed in its own.
func (s *Server) DisputeIn(payment string, amountMinor int64, currency string) (string, error) {
	return s.dispute(payment, "needs_response", amountMinor, currency)
}

func (s *Server) dispute(payment, status string, amountMinor int64, currency string) (string, error) {
	id := ""
	err := s.withIntent(payment, func(i *intent) *failure {
		if i.status != "succeeded" {
			return badRequest("", "", "a payment that is not paid can't be disputed")
		}
		if currency == "" {
			amountMinor, currency = i.received, i.currency
		}
		d := &dispute{id: s.id("du"), created: s.now().Unix(), amount: amountMinor, currency: currency, status: status, of: i}
		s.disputes.add(d)
		i.charge.disputed = true
		s.emit("charge.dispute.created", d.json(nil))
		if status == "needs_response" {
			s.emit("charge.dispute.funds_withdrawn", d.json(nil))
		}
		id = d.id
		return nil
	})
	return id, err
}

// Escalate turns an inquiry into a dispute.
func (s *Server) Escalate(id string) error {
	return s.setDispute(id, "needs_response", "charge.dispute.updated", "charge.dispute.funds_withdrawn")
}

// WinDispute closes a dispute in the account's favor and reinstates the money.
func (s *Server) WinDispute(id string) error {
	return s.setDispute(id, "won", "charge.dispute.closed", "charge.dispute.funds_reinstated")
}

// LoseDispute closes a dispute in the customer's favor.
func (s *Server) LoseDispute(id string) error {
	return s.setDispute(id, "lost", "charge.dispute.closed")
}

func (s *Server) setDispute(id, status string, events ...string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	d, fail := s.disputes.get("dispute", id)
	if fail != nil {
		return fail
	}
	if d.status != "won" && d.status != "lost" {
		d.status = status
		for _, e := range events {
			s.emit(e, d.json(nil))
		}
	}
	return nil
}
