package stripetest_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"quire.dev/pkg/payments/stripe/stripetest"
)

// account is a server and a client of its API.
type account struct {
	*stripetest.Server
	t *testing.T
}

func start(t *testing.T, config stripetest.Config) account {
	t.Helper()
	s, err := stripetest.Start(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return account{Server: s, t: t}
}

// call sends a request with pairs of parameters, and an idempotency key unless it is "".
func (a account) call(method, path, key string, pairs ...string) (int, map[string]any, http.Header) {
	a.t.Helper()
	form := url.Values{}
	for i := 0; i < len(pairs); i += 2 {
		form.Add(pairs[i], pairs[i+1])
	}
	body := io.Reader(strings.NewReader(form.Encode()))
	if method == http.MethodGet {
		path, body = path+"?"+form.Encode(), http.NoBody
	}
	request, err := http.NewRequestWithContext(a.t.Context(), method, a.URL+path, body)
	if err != nil {
		a.t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+stripetest.DefaultKey)
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if key != "" {
		request.Header.Set("Idempotency-Key", key)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		a.t.Fatal(err)
	}
	defer response.Body.Close()
	var answer map[string]any
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		a.t.Fatal(err)
	}
	return response.StatusCode, answer, response.Header
}

func (a account) create(path string, pairs ...string) map[string]any {
	a.t.Helper()
	status, answer, _ := a.call(http.MethodPost, path, "", pairs...)
	if status != http.StatusOK {
		a.t.Fatalf("%s: %d %v", path, status, answer)
	}
	return answer
}

func (a account) customer() string {
	return a.create("/v1/customers", "metadata[account]", "17")["id"].(string)
}

func (a account) session(customer string) map[string]any {
	return a.create("/v1/checkout/sessions", "customer", customer, "mode", "payment", "success_url", a.URL+"/success?s={CHECKOUT_SESSION_ID}",
		"cancel_url", a.URL+"/cancel", "line_items[0][quantity]", "1", "line_items[0][price_data][currency]", "usd",
		"line_items[0][price_data][unit_amount]", "500", "line_items[0][price_data][product_data][name]", "<5 credits>")
}

// page gets or posts a page, without following redirects.
func (a account) page(address string, form url.Values) (int, string, string) {
	a.t.Helper()
	client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	var response *http.Response
	var err error
	if form == nil {
		response, err = client.Get(address)
	} else {
		response, err = client.PostForm(address, form)
	}
	if err != nil {
		a.t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		a.t.Fatal(err)
	}
	return response.StatusCode, string(body), response.Header.Get("Location")
}

func TestTheCheckoutPage(t *testing.T) {
	a := start(t, stripetest.Config{})
	session := a.session(a.customer())
	address := session["url"].(string)
	if status, page, _ := a.page(address, nil); status != 200 || !strings.Contains(page, "&lt;5 credits&gt;") || !strings.Contains(page, a.URL+"/cancel") {
		t.Errorf("%d: %s", status, page)
	}
	if status, page, _ := a.page(address, url.Values{"card": {"generic_decline"}}); status != 200 || !strings.Contains(page, "Your card was declined.") {
		t.Errorf("declined: %d: %s", status, page)
	}
	status, _, location := a.page(address, url.Values{"card": {"visa"}})
	if want := a.URL + "/success?s=" + session["id"].(string); status != http.StatusSeeOther || location != want {
		t.Errorf("paid: %d to %s, want %s", status, location, want)
	}
	for _, form := range []url.Values{nil, {"card": {"visa"}}} { // a second tab
		if _, page, _ := a.page(address, form); form == nil && !strings.Contains(page, "all done") {
			t.Errorf("after the payment: %s", page)
		}
	}
	if all := a.Payments(); len(all) != 1 || all[0].ReceivedMinor != 500 {
		t.Errorf("payments %+v", all)
	}
	if status, _, _ := a.page(a.URL+"/checkout/none", nil); status != http.StatusNotFound {
		t.Errorf("an unknown page: %d", status)
	}
}

func TestTheCustomerPortal(t *testing.T) {
	a := start(t, stripetest.Config{})
	customer := a.customer()
	if _, err := a.Pay(a.create("/v1/checkout/sessions", "customer", customer, "mode", "subscription", "success_url", "https://a.example", "cancel_url", "https://b.example",
		"line_items[0][quantity]", "1", "line_items[0][price_data][currency]", "usd", "line_items[0][price_data][unit_amount]", "500",
		"line_items[0][price_data][recurring][interval]", "month", "line_items[0][price_data][product_data][name]", "Pro")["url"].(string), stripetest.Good); err != nil {
		t.Fatal(err)
	}
	id := a.Subscriptions(customer)[0]
	address := a.create("/v1/billing_portal/sessions", "customer", customer, "return_url", "https://quire.example/plan")["url"].(string)
	if status, page, _ := a.page(address, nil); status != 200 || !strings.Contains(page, id+" active") || !strings.Contains(page, "https://quire.example/plan") {
		t.Errorf("%d: %s", status, page)
	}
	a.page(address, url.Values{"cancel": {id}})
	if _, page, _ := a.page(address, nil); !strings.Contains(page, "ends after this period") {
		t.Errorf("canceled: %s", page)
	}
	a.page(address, url.Values{"resume": {id}})
	a.page(address, url.Values{"action": {"generic_decline"}})
	if _, page, _ := a.page(address, nil); strings.Contains(page, "ends after") || !strings.Contains(page, "generic_decline") {
		t.Errorf("resumed, with another card: %s", page)
	}
}

func TestAnExpiredSessionCantBePaid(t *testing.T) {
	a := start(t, stripetest.Config{})
	address := a.session(a.customer())["url"].(string)
	a.Advance(25 * time.Hour)
	if _, err := a.Pay(address, stripetest.Good); err == nil || len(a.Payments()) != 0 {
		t.Errorf("error %v, payments %v", err, a.Payments())
	}
}

func TestIdempotencyKeys(t *testing.T) {
	a := start(t, stripetest.Config{})
	_, first, _ := a.call("POST", "/v1/customers", "k", "email", "a@example.com")
	_, again, header := a.call("POST", "/v1/customers", "k", "email", "a@example.com")
	if first["id"] != again["id"] || header.Get("Idempotent-Replayed") != "true" {
		t.Errorf("got %v, then %v", first, again)
	}
	status, other, _ := a.call("POST", "/v1/customers", "k", "email", "b@example.com")
	if status != 400 || other["error"].(map[string]any)["type"] != "idempotency_error" {
		t.Errorf("other parameters: %d %v", status, other)
	}
	if status, _, _ = a.call("POST", "/v1/checkout/sessions", "v"); status != 400 {
		t.Errorf("invalid: %d", status)
	}
	if status, _, _ = a.call("POST", "/v1/customers", "v"); status != 200 {
		t.Errorf("a key of a request that failed validation: %d", status)
	}
	a.Advance(25 * time.Hour)
	if _, later, _ := a.call("POST", "/v1/customers", "k", "email", "b@example.com"); later["id"] == first["id"] {
		t.Errorf("a key was kept for more than a day: %v", later)
	}
}

func TestPagesHaveEachObjectOnce(t *testing.T) {
	a := start(t, stripetest.Config{})
	for range 25 {
		a.CreateIntent(100, "usd", nil)
	}
	var ids []string
	after := []string{"limit", "7"}
	for more := true; more; {
		_, page, _ := a.call("GET", "/v1/payment_intents", "", after...)
		for _, o := range page["data"].([]any) {
			ids = append(ids, o.(map[string]any)["id"].(string))
		}
		more = page["has_more"].(bool)
		after = []string{"limit", "7", "starting_after", ids[len(ids)-1]}
	}
	if !slices.IsSortedFunc(ids, func(a, b string) int { return strings.Compare(b, a) }) || len(slices.Compact(ids)) != 25 {
		t.Errorf("got %v", ids)
	}
	for _, limit := range []string{"0", "101", "x"} {
		if status, _, _ := a.call("GET", "/v1/payment_intents", "", "limit", limit); status != 400 {
			t.Errorf("limit %s: %d", limit, status)
		}
	}
}

// endpoint counts deliveries by event, and fails the first ones of each.
type endpoint struct {
	mu    sync.Mutex
	count map[string]int
	order []string
	fails int
}

func (e *endpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var event struct{ ID string }
	_ = json.NewDecoder(r.Body).Decode(&event)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.count[event.ID]++
	e.order = append(e.order, event.ID)
	if e.count[event.ID] <= e.fails {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
}

func listen(t *testing.T, a account, fails int) *endpoint {
	t.Helper()
	e := &endpoint{count: make(map[string]int), fails: fails}
	s := httptest.NewServer(e)
	t.Cleanup(s.Close)
	a.SetEndpoint(s.URL)
	return e
}

func TestWebhooksAreRepeatedUntilTheyAreAccepted(t *testing.T) {
	a := start(t, stripetest.Config{})
	e := listen(t, a, 2)
	for range 5 {
		a.CreateIntent(100, "usd", nil)
	}
	if err := a.Deliver(t.Context()); err == nil || a.Queued() != 5 {
		t.Errorf("error %v, %d queued", err, a.Queued())
	}
	if err := a.Flush(t.Context()); err != nil || a.Queued() != 0 || a.Delivered() != 5 {
		t.Errorf("error %v, %d queued, %d delivered", err, a.Queued(), a.Delivered())
	}
	for id, n := range e.count {
		if n != 3 {
			t.Errorf("%s was posted %d times", id, n)
		}
	}
	e.fails = 1 << 30
	a.CreateIntent(100, "usd", nil)
	if err := a.Flush(t.Context()); err == nil {
		t.Error("an endpoint that always fails is no error")
	}
}

func TestFaultsAreDrawnFromTheSeed(t *testing.T) {
	run := func(seed uint64) string {
		a := start(t, stripetest.Config{Seed: seed, Faults: stripetest.Faults{Never: 0.2, Twice: 0.2, Late: 0.2, Shuffle: 1}})
		e := listen(t, a, 0)
		for range 100 {
			a.CreateIntent(100, "usd", nil)
		}
		for range 2 {
			if err := a.Deliver(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		twice := 0
		for _, n := range e.count {
			twice += n - 1
		}
		if a.Queued() != 0 || a.Dropped() == 0 || twice == 0 || len(e.count)+a.Dropped() != 100 || slices.IsSorted(e.order) {
			t.Errorf("%d queued, %d dropped, %d twice, %d arrived", a.Queued(), a.Dropped(), twice, len(e.count))
		}
		return fmt.Sprint(e.order)
	}
	one := run(1)
	if again := run(1); again != one {
		t.Errorf("the same seed had other faults: %s, %s", one, again)
	}
	if run(2) == one {
		t.Error("two seeds had the same faults")
	}
}

func TestAutoDeliversByItself(t *testing.T) {
	arrived := make(chan string, 1)
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { arrived <- r.Header.Get("Stripe-Signature") }))
	t.Cleanup(s.Close)
	a := start(t, stripetest.Config{Auto: true, Endpoint: s.URL})
	a.CreateIntent(100, "usd", nil)
	if signature := <-arrived; !strings.HasPrefix(signature, "t=") || !strings.Contains(signature, ",v1=") {
		t.Errorf("signature %q", signature)
	}
}

func TestRefundsAreBoundedByThePayment(t *testing.T) {
	a := start(t, stripetest.Config{})
	id := a.CreateIntent(100, "usd", nil)
	_, early := a.Refund(id, 1)
	_, disputed := a.Dispute(id)
	if err := errors.Join(a.PayIntent(id), a.CancelIntent("none")); early == nil || disputed == nil || err == nil {
		t.Errorf("errors %v, %v, %v", early, disputed, err)
	}
	if _, err := a.Refund(id, 60); err != nil {
		t.Error(err)
	}
	if _, err := a.Refund(id, 41); err == nil {
		t.Error("more than was paid was refunded")
	}
}

func TestAnotherProcessControlsTheAccount(t *testing.T) {
	a := start(t, stripetest.Config{})
	id := a.CreateIntent(100, "usd", nil)
	if err := a.PayIntent(id); err != nil {
		t.Fatal(err)
	}
	do := func(action string, want int, form url.Values) string {
		t.Helper()
		status, said, _ := a.page(a.URL+"/test/"+action, form)
		if status != want {
			t.Errorf("%s: %d %s", action, status, said)
		}
		return strings.TrimSpace(said)
	}
	refund := do("refund", 200, url.Values{"id": {id}, "amount": {"60"}})
	if got := a.Payments()[0]; got.RefundedMinor != 60 {
		t.Errorf("refunded %+v", got)
	}
	do("failrefund", 200, url.Values{"id": {refund}})
	dispute := do("dispute", 200, url.Values{"id": {id}})
	do("lose", 200, url.Values{"id": {dispute}})
	if got := a.Payments()[0]; got.RefundedMinor != 0 || got.DisputedMinor != 100 {
		t.Errorf("disputed %+v", got)
	}
	do("renew", 400, url.Values{"id": {"sub_none"}})
	do("nothing", 400, url.Values{"id": {id}})
	do("refund", 400, url.Values{"id": {id}, "amount": {"x"}})
}
