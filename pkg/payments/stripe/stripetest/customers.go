package stripetest

import (
	"net/http"
	"regexp"
	"slices"
	"strings"
)

// Card is how a saved payment method behaves, after Stripe's test cards: https://docs.stripe.com/testing#cards.
type Card string

// The cards. Saving them succeeds.
const (
	Good             Card = "visa"
	Declining        Card = "generic_decline"         // 4000 0000 0000 0341: every charge is declined
	NoFunds          Card = "insufficient_funds"      // 4000 0000 0000 9995
	Expired          Card = "expired_card"            // 4000 0000 0000 0069
	AsksConfirmation Card = "authentication_required" // 4000 0027 6000 3184: works on a page alone, not off-session
)

type customer struct {
	id, email     string
	created       int64
	metadata      map[string]string
	methods       []*method // in the order in which they were saved
	defaultMethod *method
	indexed       bool // found by the search
}

func (c *customer) key() string      { return c.id }
func (c *customer) createdAt() int64 { return c.created }
func (c *customer) links() []string {
	links := make([]string, 0, len(c.metadata))
	for key, value := range c.metadata {
		links = append(links, key+"="+value)
	}
	return links
}

func (c *customer) json(expand) props {
	settings := props{"default_payment_method": nil}
	if c.defaultMethod != nil {
		settings["default_payment_method"] = c.defaultMethod.id
	}
	return props{
		"id": c.id, "object": "customer", "created": c.created, "email": c.email, "livemode": false, "metadata": c.metadata,
		"invoice_settings": settings,
	}
}

// card is the payment method that Stripe would charge for a subscription.
func (c *customer) card() *method {
	if c.defaultMethod != nil || len(c.methods) == 0 {
		return c.defaultMethod
	}
	return c.methods[len(c.methods)-1]
}

type method struct {
	id       string
	created  int64
	customer string
	card     Card
}

func (m *method) key() string      { return m.id }
func (m *method) createdAt() int64 { return m.created }
func (m *method) links() []string  { return []string{"customer=" + m.customer} }
func (m *method) json(expand) props {
	return props{
		"id": m.id, "object": "payment_method", "created": m.created, "customer": m.customer, "livemode": false, "type": "card",
		"card": props{"brand": "visa", "last4": "4242", "exp_month": 12, "exp_year": 2040}, "metadata": props{},
	}
}

func (s *Server) createCustomer(r *call) (any, *failure) {
	c := &customer{
		id: s.id("cus"), created: s.now().Unix(), email: r.form.Get("email"), metadata: r.dictionary("metadata"), indexed: !s.config.SearchLag,
	}
	s.customers.add(c)
	s.emit("customer.created", c.json(nil))
	return c.json(nil), nil
}

func (s *Server) getCustomer(r *call) (any, *failure) {
	c, fail := s.customers.get("customer", r.id)
	if fail != nil {
		return nil, fail
	}
	return c.json(nil), nil
}

func (s *Server) updateCustomer(r *call) (any, *failure) {
	c, fail := s.customers.get("customer", r.id)
	if fail != nil {
		return nil, fail
	}
	if r.form.Has("email") {
		c.email = r.form.Get("email")
	}
	s.emit("customer.updated", c.json(nil))
	return c.json(nil), nil
}

var clause = regexp.MustCompile(`^metadata\['([a-z_]+)'\]:'([^'\\]*)'$`)

// searchCustomers understands metadata['key']:'value' joined by AND, which compares exactly.
// https://docs.stripe.com/search#search-query-language
func (s *Server) searchCustomers(r *call) (any, *failure) {
	query, fail := r.required("query")
	if fail != nil {
		return nil, fail
	}
	want, found := make(map[string]string), s.customers.all
	for part := range strings.SplitSeq(query, " AND ") {
		m := clause.FindStringSubmatch(part)
		if m == nil {
			return nil, badRequest("query", "", "We were unable to parse your search query: "+part)
		}
		want[m[1]] = m[2]
		if some := s.customers.byLink[m[1]+"="+m[2]]; len(some) < len(found) {
			found = some
		}
	}
	data := []props{}
	for _, c := range slices.Backward(found) {
		matches := c.indexed
		for key, value := range want {
			matches = matches && c.metadata[key] == value
		}
		if matches && len(data) < 100 {
			data = append(data, c.json(nil))
		}
	}
	return props{"object": "search_result", "url": r.path, "has_more": false, "data": data}, nil
}

// Reindex lets the search find all customers that exist. It lags behind writes by up to a minute, and by up to an hour during
// outages: https://docs.stripe.com/search#data-freshness.
func (s *Server) Reindex() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.customers.all {
		c.indexed = true
	}
}

func (s *Server) listMethods(r *call) (any, *failure) {
	c, fail := s.customers.get("customer", r.id)
	if fail != nil {
		return nil, fail
	}
	r.form.Set("customer", c.id)
	return s.methods.list(r, []string{"customer"}, nil)
}

// attach saves a card.
func (s *Server) attach(c *customer, card Card) *method {
	m := &method{id: s.id("pm"), created: s.now().Unix(), customer: c.id, card: card}
	c.methods = append(c.methods, m)
	s.methods.add(m)
	s.emit("payment_method.attached", m.json(nil))
	return m
}

// SaveCard saves a card for a customer and makes it the default, as a person does in the customer portal.
func (s *Server) SaveCard(customer string, card Card) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	c, fail := s.customers.get("customer", customer)
	if fail != nil {
		return fail
	}
	c.defaultMethod = s.attach(c, card)
	s.emit("customer.updated", c.json(nil))
	return nil
}

// Error makes a failure the error of a method for tests.
func (f *failure) Error() string {
	return "stripetest: " + http.StatusText(f.status) + ": " + f.Message
}

// Customers returns the IDs of the customers with a value in their metadata, oldest first.
func (s *Server) Customers(key, value string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var ids []string
	for _, c := range s.customers.byLink[key+"="+value] {
		ids = append(ids, c.id)
	}
	return ids
}
