package stripe

import (
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stripe/stripe-go/v82"

	"quire.dev/pkg/payments"
	"quire.dev/pkg/payments/stripe/stripetest"
)

// start starts a stand-in, and a provider that uses it.
func start(t *testing.T, of stripetest.Config, options ...func(*Config)) (*stripetest.Server, *Provider) {
	t.Helper()
	server, err := stripetest.Start(of)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	return server, connect(t, server, options...)
}

// connect returns a provider that doesn't wait between retries.
func connect(t *testing.T, server *stripetest.Server, options ...func(*Config)) *Provider {
	t.Helper()
	config := Config{Key: stripetest.DefaultKey, WebhookSecret: stripetest.DefaultSecret, Installation: "test", URL: server.URL}
	for _, option := range options {
		option(&config)
	}
	p, err := New(config)
	if err != nil {
		t.Fatal(err)
	}
	p.api.V1Customers.B.(*stripe.BackendImplementation).SetNetworkRetriesSleep(false)
	return p
}

func withoutRetries(c *Config) { c.MaxRetries = -1 }

// receiver is an endpoint that notes what webhooks are about.
type receiver struct {
	URL string

	mu   sync.Mutex
	refs []payments.Ref
	fail func() bool // answers with 500
}

func receive(t *testing.T, p *Provider) *receiver {
	t.Helper()
	r := &receiver{fail: func() bool { return false }}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		body, err := io.ReadAll(request.Body)
		if err != nil {
			t.Error(err)
		}
		ref, err := p.Receive(request.Header, body)
		if err != nil {
			t.Errorf("%v: %s", err, body)
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.fail() {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		if ref != (payments.Ref{}) {
			r.refs = append(r.refs, ref)
		}
	}))
	t.Cleanup(s.Close)
	r.URL = s.URL
	return r
}

// take returns the refs since the last call, each once and sorted.
func (r *receiver) take() []payments.Ref {
	r.mu.Lock()
	defer r.mu.Unlock()
	refs := sorted(r.refs)
	r.refs = nil
	return refs
}

func sorted(refs []payments.Ref) []payments.Ref {
	slices.SortFunc(refs, func(a, b payments.Ref) int { return strings.Compare(a.ID, b.ID) })
	return slices.Compact(refs)
}

func seed(t *testing.T) (uint64, *rand.Rand) {
	t.Helper()
	n := rand.Uint64()
	t.Logf("seed %d", n)
	return n, rand.New(rand.NewPCG(n, 1))
}

func credits(account, key string) payments.Order {
	return payments.Order{
		Customer: payments.Customer{Account: account, Email: "a@example.com"}, CreditsMicros: 500_000_000, AmountMinor: 5000, Currency: "usd",
		Description: "500 credits", SuccessURL: "https://quire.example/paid?s={CHECKOUT_SESSION_ID}", CancelURL: "https://quire.example/plan", Key: key,
	}
}

func pro(account, key string) payments.Order {
	o := credits(account, key)
	o.CreditsMicros, o.Plan, o.AmountMinor, o.Description = 0, "Pro", 1200, "Quire Pro"
	return o
}

func topUp(account, key string) payments.TopUp {
	return payments.TopUp{Account: account, CreditsMicros: 100_000_000, AmountMinor: 1000, Currency: "usd", Description: "100 credits", Key: key}
}

func checkout(t *testing.T, p *Provider, o payments.Order) string {
	t.Helper()
	page, err := p.Checkout(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return page.URL
}

func payment(t *testing.T, p *Provider, id string) payments.Payment {
	t.Helper()
	got, err := p.Payment(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func subscription(t *testing.T, p *Provider, id string) payments.Subscription {
	t.Helper()
	got, err := p.Subscription(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// must ends the test on an error; must1 returns the value besides.
func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func must1[T any](value T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		must(t, err)
		return value
	}
}

// buy pays for credits, which also saves a card.
func buy(t *testing.T, s *stripetest.Server, p *Provider, account, key string) string {
	t.Helper()
	return must1(s.Pay(checkout(t, p, credits(account, key)), stripetest.Good))(t)
}

func wantError(t *testing.T, err, want error, parts ...string) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("error %v, want %v", err, want)
		return
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("error %q doesn't say %q", err, part)
		}
	}
}
