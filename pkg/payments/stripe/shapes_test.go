package stripe

import (
	"bufio"
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"quire.dev/pkg/payments"
	"quire.dev/pkg/payments/stripe/stripetest"
)

var mockProgram = flag.String("stripe-mock", "", "path of stripe-mock, which checks our requests against Stripe's OpenAPI document: make test-payments")

// startMock starts stripe-mock and returns its URL.
func startMock(t *testing.T, program string) string {
	t.Helper()
	command := exec.CommandContext(t.Context(), program, "-http-addr", "127.0.0.1:0")
	out, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	var rest sync.WaitGroup
	t.Cleanup(func() {
		_ = command.Process.Kill()
		rest.Wait()
		_ = command.Wait()
	})
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if _, address, ok := strings.Cut(lines.Text(), "Listening for HTTP at address: "); ok {
			rest.Go(func() { _, _ = io.Copy(io.Discard, out) })
			return "http://" + address
		}
	}
	t.Fatal("stripe-mock doesn't say where it listens")
	return ""
}

// shapes is a proxy in front of the stand-in that shows each request to stripe-mock first.
type shapes struct {
	t                *testing.T
	mock, standIn    string
	mu               sync.Mutex
	requests         map[string]bool
	unknown, retyped map[string]bool // fields of the stand-in that Stripe doesn't have, or has with another type
}

func (s *shapes) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		s.t.Error(err)
	}
	status, said, _ := s.send(s.mock, r, body)
	if status != http.StatusOK {
		s.t.Errorf("stripe-mock answers %s %s?%s with %d: %s\n%s", r.Method, r.URL.Path, r.URL.RawQuery, status, said, body)
	}
	answered, ours, header := s.send(s.standIn, r, body)
	if answered == http.StatusOK && status == http.StatusOK {
		s.compare(said, ours)
	}
	s.mu.Lock()
	s.requests[r.Method+" "+generic(r.URL.Path)] = true
	s.mu.Unlock()
	for name, values := range header {
		w.Header()[name] = values
	}
	w.WriteHeader(answered)
	_, _ = w.Write(ours)
}

// generic is a path without IDs.
func generic(path string) string {
	parts := strings.Split(path, "/")
	for i, part := range parts {
		if strings.Contains(part, "_standin") {
			parts[i] = "{id}"
		}
	}
	return strings.Join(parts, "/")
}

func (s *shapes) send(to string, r *http.Request, body []byte) (int, []byte, http.Header) {
	request, err := http.NewRequestWithContext(r.Context(), r.Method, to+r.URL.RequestURI(), bytes.NewReader(body))
	if err != nil {
		s.t.Error(err)
		return 0, nil, nil
	}
	request.Header = r.Header.Clone()
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		s.t.Error(err)
		return 0, nil, nil
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		s.t.Error(err)
	}
	return response.StatusCode, answer, response.Header
}

func (s *shapes) compare(said, ours []byte) {
	var want, got any
	if json.Unmarshal(said, &want) != nil || json.Unmarshal(ours, &got) != nil {
		s.t.Errorf("not JSON: %s or %s", said, ours)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.compareAt("", want, got)
}

// compareAt notes the fields that the stand-in has and Stripe's example of the object doesn't.
func (s *shapes) compareAt(at string, want, got any) {
	if list, ok := got.([]any); ok {
		if example, ok := want.([]any); ok && len(example) > 0 && len(list) > 0 {
			s.compareAt(at+"[]", example[0], list[0])
		}
		return
	}
	object, ok := got.(map[string]any)
	example, both := want.(map[string]any)
	if !ok || !both {
		if got != nil && want != nil && fmt.Sprintf("%T", got) != fmt.Sprintf("%T", want) {
			s.retyped[at] = true
		}
		return
	}
	if kind, ok := object["object"].(string); ok {
		if at = kind; example["object"] != kind {
			return // an event about another kind of object
		}
	}
	for name, value := range object {
		if at == "metadata" || strings.HasSuffix(at, ".metadata") {
			return
		}
		inner, known := example[name]
		if !known {
			s.unknown[at+"."+name] = true
			continue
		}
		s.compareAt(at+"."+name, inner, value)
	}
}

// TestRequestsHaveTheShapesOfStripesOwnDocument sends every kind of request that the provider makes to stripe-mock, too, and
// holds the stand-in's answers to its examples.
func TestRequestsHaveTheShapesOfStripesOwnDocument(t *testing.T) {
	if *mockProgram == "" {
		t.Skip("needs -stripe-mock: run make test-payments")
	}
	server, err := stripetest.Start(stripetest.Config{TaxPercent: 10})
	must(t, err)
	t.Cleanup(server.Close)
	proxy := &shapes{
		t: t, mock: startMock(t, *mockProgram), standIn: server.URL,
		requests: make(map[string]bool), unknown: make(map[string]bool), retyped: make(map[string]bool),
	}
	front := httptest.NewServer(proxy)
	t.Cleanup(front.Close)
	plain := connect(t, server, func(c *Config) { c.URL = front.URL })
	taxed := connect(t, server, func(c *Config) { c.URL, c.AutomaticTax, c.Invoices = front.URL, true, true })
	everything(t, server, plain, "a")
	everything(t, server, taxed, "b")

	want := []string{
		"DELETE /v1/subscriptions/{id}",
		"GET /v1/checkout/sessions", "GET /v1/customers/search", "GET /v1/customers/{id}", "GET /v1/customers/{id}/payment_methods",
		"GET /v1/disputes", "GET /v1/events", "GET /v1/invoice_payments", "GET /v1/payment_intents", "GET /v1/payment_intents/{id}",
		"GET /v1/refunds", "GET /v1/subscriptions", "GET /v1/subscriptions/{id}", "POST /v1/billing_portal/sessions",
		"POST /v1/checkout/sessions", "POST /v1/customers", "POST /v1/customers/{id}", "POST /v1/payment_intents", "POST /v1/products",
		"POST /v1/subscriptions/{id}",
	}
	if got := slices.Sorted(maps.Keys(proxy.requests)); !slices.Equal(got, want) {
		t.Errorf("requests %v, want %v", got, want)
	}
	delete(proxy.unknown, "invoice_payment.payment.payment_intent") // the example is paid by a charge
	if len(proxy.unknown) > 0 {
		t.Errorf("the stand-in's objects have fields that Stripe's don't: %v", slices.Sorted(maps.Keys(proxy.unknown)))
	}
	if len(proxy.retyped) > 0 {
		t.Errorf("the stand-in's objects have fields of other types than Stripe's: %v", slices.Sorted(maps.Keys(proxy.retyped)))
	}
}

// everything lets a provider make all its requests.
func everything(t *testing.T, s *stripetest.Server, p *Provider, account string) {
	t.Helper()
	id := buy(t, s, p, account, "order-1-"+account)
	must1(s.Refund(id, 100))(t)
	must1(s.Dispute(id))(t)
	payment(t, p, id)
	must1(p.Charge(t.Context(), topUp(account, "crossing-"+account)))(t)
	must1(p.Portal(t.Context(), payments.Customer{Account: account}, "https://quire.example/plan"))(t)
	fee := must1(s.Pay(checkout(t, p, pro(account, "order-2-"+account)), stripetest.Good))(t)
	payment(t, p, fee)
	customers := s.Customers(metaAccount, account)
	id = s.Subscriptions(customers[0])[0]
	subscription(t, p, id)
	must1(p.Change(t.Context(), id, to("Small", "change-"+account)))(t)
	must(t, p.Cancel(t.Context(), id, true))
	must(t, p.Cancel(t.Context(), id, false))
	for _, since := range []time.Time{{}, time.Now().AddDate(-1, 0, 0), time.Now().Add(-time.Hour)} {
		changed(t, p, since)
	}
}
