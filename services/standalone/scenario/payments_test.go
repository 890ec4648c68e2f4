package scenario

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"quire.dev/pkg/eventually"
	"quire.dev/pkg/payments/stripe/stripetest"
)

const (
	planPath     = "/api/users/user/plan"
	checkoutPath = "/api/users/user/checkout"
	topUpPath    = "/api/users/user/top-up"
	paymentsPath = "/api/users/user/payments"
	webhookPath  = "/payments/webhook"
)

// startStripe starts a stand-in for Stripe, which delivers webhooks as they come up once it has an endpoint.
func startStripe() (*stripetest.Server, error) {
	return stripetest.Start(stripetest.Config{Auto: true})
}

// selling has payments taken by a stand-in.
func selling(s *stripetest.Server) option {
	return func(of *setup) {
		of.settings["QUIRE_STRIPE_KEY"], of.settings["QUIRE_STRIPE_WEBHOOK_SECRET"], of.settings["QUIRE_STRIPE_URL"] = stripetest.DefaultKey, stripetest.DefaultSecret, s.URL
	}
}

// shop is an instance that takes payments by a stand-in, and tells it where webhooks go.
func shop(t *testing.T, options ...option) (*instance, *stripetest.Server) {
	t.Helper()
	s, err := startStripe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	i := start(t, append(options, selling(s))...)
	s.SetEndpoint(i.edge() + webhookPath)
	return i, s
}

// failsAt asserts that a field is refused.
func (a answer) failsAt(t testing.TB, field string) {
	t.Helper()
	a.fails(t, http.StatusBadRequest, "invalid_field", "")
	if got := a.json(t)["field"]; got != field {
		t.Errorf("%s: the field is %v, want %s: %s", a.what, got, field, a.body)
	}
}

// buy pays on the page that a checkout opens, and returns the payment's id.
func (p *person) buy(t *testing.T, s *stripetest.Server, order object) string {
	t.Helper()
	page := text(t, p.do(t, "POST", checkoutPath, order).ok(t, http.StatusOK), "url")
	id, err := s.Pay(page, stripetest.Good)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func (p *person) plan(t testing.TB) object {
	t.Helper()
	return p.do(t, "GET", planPath, nil).ok(t, http.StatusOK)
}

// has waits until the account has a balance.
func (p *person) has(t testing.TB, balance string) {
	t.Helper()
	var last any
	eventually.NoError(t, "the balance", func() error {
		if last = p.plan(t)["balance"]; last != balance {
			return fmt.Errorf("%v, want %s", last, balance)
		}
		return nil
	})
}

// isOn waits until the account is on a plan.
func (p *person) isOn(t testing.TB, plan string) {
	t.Helper()
	eventually.NoError(t, "the plan", func() error {
		if got := p.plan(t); got["plan"] != plan {
			return fmt.Errorf("%v, want %s", got, plan)
		}
		return nil
	})
}

func (p *person) payments(t testing.TB) (list []object) {
	t.Helper()
	for _, m := range at(t, p.do(t, "GET", paymentsPath, nil).ok(t, http.StatusOK), "payments").([]any) {
		list = append(list, m.(object))
	}
	return list
}

// TestCreditsAreBoughtOnceAndTakenBackWithTheMoney: by the provider's page and its webhooks alone.
func TestCreditsAreBoughtOnceAndTakenBackWithTheMoney(t *testing.T) {
	i := common(t)
	s := shared.stripe
	p := i.person(t)
	if got := p.plan(t); got["plan"] != "free" || got["subscription"] != nil || got["topUp"] != nil || at(t, got, "payments", "online") != true {
		t.Errorf("a new account: %v", got)
	}
	id := p.buy(t, s, object{"credits": "500"})
	p.has(t, "500.000000")
	for range 3 {
		if err := s.Resend(id); err != nil {
			t.Fatal(err)
		}
	}
	eventually.NoError(t, "the webhooks are delivered", func() error {
		if n := s.Queued(); n > 0 {
			return fmt.Errorf("%d are left", n)
		}
		return nil
	})
	p.has(t, "500.000000")
	bought := p.payments(t)
	if len(bought) != 1 || bought[0]["id"] != id || bought[0]["amountUsd"] != "500.00" || bought[0]["credits"] != "500.000000" || number(t, bought[0], "number") != 1 || bought[0]["provider"] != "stripe" || bought[0]["plan"] != nil {
		t.Errorf("payments %v", bought)
	}
	if _, err := s.Refund(id, 10_000); err != nil {
		t.Fatal(err)
	}
	p.has(t, "400.000000")
	dispute, err := s.Dispute(id)
	if err != nil {
		t.Fatal(err)
	}
	p.has(t, "0.000000")
	if err := s.WinDispute(dispute); err != nil {
		t.Fatal(err)
	}
	p.has(t, "400.000000")
	var kinds []string
	for _, e := range at(t, p.do(t, "GET", "/api/users/user/credits", nil).ok(t, http.StatusOK), "entries").([]any) {
		kinds = append(kinds, fmt.Sprint(e.(object)["type"], " ", e.(object)["amount"], " by ", e.(object)["actor"]))
	}
	want := "reversal 400.000000 by stripe, reversal -400.000000 by stripe, reversal -100.000000 by stripe, payment 500.000000 by stripe"
	if got := strings.Join(kinds, ", "); got != want {
		t.Errorf("the ledger has %s, want %s", got, want)
	}
}

// TestOrdersAreChecked before anything is asked of the provider.
func TestOrdersAreChecked(t *testing.T) {
	i := common(t)
	p := i.person(t)
	for _, tc := range []struct {
		order object
		field string
	}{
		{object{}, "credits"},
		{object{"credits": "0.99"}, "credits"},
		{object{"credits": "10000.000001"}, "credits"},
		{object{"credits": "-5"}, "credits"},
		{object{"credits": "0"}, "credits"},
		{object{"credits": "5", "plan": "pro"}, "credits"},
		{object{"plan": "pro"}, "plan"},
		{object{"plan": "admin"}, "plan"},
		{object{"credits": "5", "when": "now"}, "when"},
		{object{"plan": "pro", "when": "later"}, "when"},
		{object{"plan": "nothing"}, "plan"},
	} {
		p.do(t, "POST", checkoutPath, tc.order).failsAt(t, tc.field)
	}
	for _, credits := range []string{"1", "10000"} {
		p.do(t, "POST", checkoutPath, object{"credits": credits}).ok(t, http.StatusOK)
	}
	retry := func(credits string) answer {
		return i.do(t, "POST", checkoutPath, request{
			body: object{"credits": credits}, cookies: p.cookies, header: map[string]string{"Sec-Fetch-Site": "same-origin", "Idempotency-Key": "checkout " + p.email},
		})
	}
	if a, b := text(t, retry("5").ok(t, http.StatusOK), "url"), text(t, retry("5").ok(t, http.StatusOK), "url"); a != b {
		t.Errorf("a retry opened %s and %s", a, b)
	}
	retry("6").fails(t, http.StatusUnprocessableEntity, "idempotency_mismatch", "")
	for _, tc := range []struct {
		rule  object
		field string
	}{
		{object{}, "credits"},
		{object{"credits": "0", "below": "1"}, "credits"},
		{object{"credits": "0.5", "below": "1", "monthlyLimit": "5"}, "credits"},
		{object{"credits": "5", "monthlyLimit": "5"}, "below"},
		{object{"credits": "5", "below": "1"}, "monthlyLimit"},
		{object{"credits": "5", "below": "1", "monthlyLimit": "4.999999"}, "monthlyLimit"},
	} {
		p.do(t, "PUT", topUpPath, tc.rule).failsAt(t, tc.field)
	}
	if off := p.do(t, "PUT", topUpPath, object{"credits": "0"}).ok(t, http.StatusOK); off["topUp"] != nil {
		t.Errorf("top-ups are off: %v", off)
	}
}

// TestKeysNeedTheScopeOfCheckouts, or none.
func TestKeysNeedTheScopeOfCheckouts(t *testing.T) {
	i := common(t)
	p, a := i.owner(t)
	a.do(t, "POST", checkoutPath, object{"credits": "5"}).ok(t, http.StatusOK)
	paying, _ := p.further(t, object{"scopes": []string{"payments.checkout"}})
	reading, _ := p.further(t, object{"scopes": []string{"pastes.get"}})
	i.do(t, "POST", checkoutPath, request{key: paying, body: object{"credits": "5"}}).ok(t, http.StatusOK)
	i.do(t, "POST", checkoutPath, request{key: reading, body: object{"credits": "5"}}).fails(t, http.StatusForbidden, "key_scope", "")
	i.do(t, "GET", planPath, request{key: paying}).fails(t, http.StatusForbidden, "key_scope", "")
	i.do(t, "POST", "/api/dev/paste-lite/create", request{key: paying, body: object{"content": "x"}}).fails(t, http.StatusForbidden, "key_scope", "")
}

// TestAStrangersWebhookChangesNothing.
func TestAStrangersWebhookChangesNothing(t *testing.T) {
	i := common(t)
	event := `{"type":"payment_intent.succeeded","data":{"object":{"id":"pi_1","object":"payment_intent"}}}`
	post := func(body, signature string) answer {
		return i.do(t, "POST", webhookPath, request{body: []byte(body), source: newSource(), header: map[string]string{"Content-Type": "application/json", "Stripe-Signature": signature}})
	}
	now := time.Now()
	for name, signature := range map[string]string{
		"none": "", "nonsense": "t=x,v1=y", "another secret": stripetest.Sign("whsec_other", now, []byte(event)), "too old": stripetest.Sign(stripetest.DefaultSecret, now.Add(-6*time.Minute), []byte(event)),
		"another event": stripetest.Sign(stripetest.DefaultSecret, now, []byte(event+" ")),
	} {
		if a := post(event, signature); a.status != http.StatusBadRequest || !bytes.Contains(a.body, []byte(`"malformed"`)) {
			t.Errorf("%s: %d %s", name, a.status, a.body)
		}
	}
	for _, body := range []string{event, `{"type":"customer.created"}`, `{"type":"charge.refunded","data":{"object":{"object":"charge","payment_intent":null}}}`} {
		post(body, stripetest.Sign(stripetest.DefaultSecret, now, []byte(body))).ok(t, http.StatusOK)
	}
	for _, body := range []string{`[]`, `{"type":"charge.refunded","data":{"object":7}}`} {
		post(body, stripetest.Sign(stripetest.DefaultSecret, now, []byte(body))).fails(t, http.StatusBadRequest, "malformed", "")
	}
	for size, status := range map[int]int{256 << 10: http.StatusBadRequest, 256<<10 + 1: http.StatusRequestEntityTooLarge} {
		if a := post(strings.Repeat(" ", size), ""); a.status != status {
			t.Errorf("%d bytes: %d %s", size, a.status, a.body)
		}
	}
}

// withFees applies the price book in force with fees, and waits until it counts.
func (i *instance) withFees(t *testing.T) {
	t.Helper()
	document := i.document(t)
	planOf(t, document, "pro")["monthlyFee"], planOf(t, document, "max")["monthlyFee"] = "9.00", "29.00"
	effective := i.now().Add(2 * time.Minute).Truncate(time.Second)
	i.admin(t, "POST", "/api/admin/prices", object{"book": document, "effectiveAt": effective.Format(time.RFC3339)}).ok(t, http.StatusOK)
	i.travel(t, 3*time.Minute)
	eventually.True(t, "the book is in force", func() bool {
		return planOf(t, i.do(t, "GET", "/api/prices", request{}).ok(t, http.StatusOK)["current"].(object), "pro")["monthlyFee"] == "9.00"
	})
}

// TestAPlanFollowsItsSubscription: begun, replaced by a larger one, not paid, canceled with its period, ended; webhooks that never
// come are made up for at the start.
func TestAPlanFollowsItsSubscription(t *testing.T) {
	t.Parallel()
	i, s := shop(t)
	i.withFees(t)
	s.SetEndpoint(i.edge() + webhookPath)
	p := i.person(t)
	fee := p.buy(t, s, object{"plan": "pro"})
	p.isOn(t, "pro")
	p.do(t, "POST", checkoutPath, object{"plan": "pro"}).fails(t, http.StatusConflict, "plan_current", "")
	eventually.True(t, "the fee is recorded", func() bool { return len(p.payments(t)) == 1 })
	if got := p.payments(t)[0]; got["id"] != fee || got["plan"] != "pro" || got["amountUsd"] != "9.00" || got["credits"] != "0.000000" {
		t.Errorf("the fee is %v", got)
	}
	if got := p.plan(t); got["monthlyFee"] != "9.00" || at(t, got, "subscription", "status") != "active" {
		t.Errorf("on pro: %v", got)
	}

	if _, err := s.Refund(fee, 300); err != nil { // which leaves the plan
		t.Fatal(err)
	}
	eventually.True(t, "the refund is recorded", func() bool { return p.payments(t)[0]["refundedUsd"] == "3.00" })
	revenue := i.admin(t, "GET", "/api/admin/revenue", nil).ok(t, http.StatusOK)
	month := at(t, revenue, "months").([]any)[0].(object)
	if month["amountUsd"] != "9.00" || month["refundedUsd"] != "3.00" || number(t, month, "payments") != 1 || number(t, at(t, revenue, "subscriptions").(object), "active") != 1 {
		t.Errorf("revenue %v", revenue)
	}
	p.isOn(t, "pro")

	s.SetEndpoint("") // the webhook is lost
	p.buy(t, s, object{"plan": "max"})
	i.restart(t)
	s.SetEndpoint(i.edge() + webhookPath)
	p.isOn(t, "max")
	customer, living := p.customer(t, s), p.living(t, s)

	if err := s.CancelAtPeriodEnd(living, true); err != nil {
		t.Fatal(err)
	}
	eventually.True(t, "the plan is canceled", func() bool { return at(t, p.plan(t), "subscription", "status") == "canceled" })
	p.isOn(t, "max")
	if err := s.CancelNow(living); err != nil {
		t.Fatal(err)
	}
	p.isOn(t, "free")
	if got := p.plan(t); got["subscription"] != nil {
		t.Errorf("after the end: %v", got)
	}

	// Who deletes an account has no more fees.
	p.buy(t, s, object{"plan": "pro"})
	p.isOn(t, "pro")
	p.deleteAccount(t)
	if left := s.Living(customer); len(left) != 1 || !s.Ending(left[0]) {
		t.Errorf("after the deletion these subscriptions go on: %v", left)
	}
}

// TestTopUpsAreChargedOnceForACrossing, within the limit of the month, and end after two failures.
func TestTopUpsAreChargedOnceForACrossing(t *testing.T) {
	t.Parallel()
	i, s := shop(t)
	p := i.person(t)
	p.buy(t, s, object{"credits": "10"})
	p.has(t, "10.000000")
	set := func(below, credits, month string) {
		t.Helper()
		p.do(t, "PUT", topUpPath, object{"below": below, "credits": credits, "monthlyLimit": month}).ok(t, http.StatusOK)
	}
	set("20", "100", "250") // it is below at once
	p.has(t, "110.000000")
	set("111", "100", "250")
	p.has(t, "210.000000")
	set("1000", "100", "250") // a third one would be above the limit
	set("1000", "25", "250")
	p.has(t, "260.000000")
	if got := at(t, p.plan(t), "topUp").(object); got["boughtThisMonth"] != "250.000000" || got["status"] != "active" {
		t.Errorf("at the limit: %v", got)
	}
	var automatic int
	for _, m := range p.payments(t) {
		if m["topUp"] == true {
			automatic++
		}
	}
	if automatic != 4 || len(p.payments(t)) != 5 || len(s.Payments()) != 5 {
		t.Errorf("%d top-ups of %d payments, %d at the provider", automatic, len(p.payments(t)), len(s.Payments()))
	}

	// Without a saved card each attempt fails, an hour after the other.
	q := i.person(t)
	q.do(t, "PUT", topUpPath, object{"below": "20", "credits": "100", "monthlyLimit": "250"}).ok(t, http.StatusOK)
	status := func(want string) {
		t.Helper()
		eventually.NoError(t, "the status of top-ups", func() error {
			if got := at(t, q.plan(t), "topUp").(object); got["status"] != want || got["lastFailure"] != "no_payment_method" {
				return fmt.Errorf("%v, want %s", got, want)
			}
			return nil
		})
	}
	status("active")
	i.travel(t, 61*time.Minute)
	q.do(t, "POST", "/api/users/user/dev-key/regenerate", nil).ok(t, http.StatusOK) // any event moves the journal's clock
	status("failed")
	q.do(t, "PUT", topUpPath, object{"below": "20", "credits": "100", "monthlyLimit": "250"}).ok(t, http.StatusOK)
	status("active")
}

// TestWithoutAProviderNothingPretends: the errors say whom to ask.
func TestWithoutAProviderNothingPretends(t *testing.T) {
	t.Parallel()
	i := start(t, with("QUIRE_CONTACT", "billing@example.com"))
	p := i.person(t)
	got := p.do(t, "POST", checkoutPath, object{"credits": "5"})
	got.fails(t, http.StatusConflict, "payments_not_configured", "")
	if !bytes.Contains(got.body, []byte("ask billing@example.com.")) {
		t.Errorf("%s", got.body)
	}
	p.do(t, "PUT", topUpPath, object{"below": "20", "credits": "100", "monthlyLimit": "250"}).fails(t, http.StatusConflict, "payments_not_configured", "")
	p.do(t, "PUT", topUpPath, object{"credits": "0"}).ok(t, http.StatusOK)
	i.do(t, "POST", webhookPath, request{body: object{"type": "x"}}).fails(t, http.StatusNotFound, "not_found", "")
	if means := at(t, p.plan(t), "payments").(object); means["online"] != false || means["contact"] != "billing@example.com" {
		t.Errorf("%v", means)
	}
	if list := p.payments(t); len(list) != 0 {
		t.Errorf("%v", list)
	}
}

// TestAPaymentThatCannotBeRecordedHoldsUpNoOther: the comparison goes on, and counts it for the operator.
func TestAPaymentThatCannotBeRecordedHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	i, s := shop(t)
	s.SetEndpoint("") // all webhooks are lost
	p, q := i.person(t), i.person(t)
	bad, good := p.buy(t, s, object{"credits": "5"}), q.buy(t, s, object{"credits": "7"})
	if err := s.SetMetadata(bad, "quire_amount", "1"); err != nil {
		t.Fatal(err)
	}
	i.restart(t)
	q.has(t, "7.000000")
	if got := q.payments(t); len(got) != 1 || got[0]["id"] != good {
		t.Errorf("payments %v", got)
	}
	if got := p.payments(t); len(got) != 0 {
		t.Errorf("a payment that does not match its order is recorded: %v", got)
	}
	eventually.True(t, "operators see the mismatch", func() bool {
		for _, base := range i.operators() {
			if _, text := plain(t, base+"/metrics"); strings.Contains(text, "quire_edge_payment_mismatches_total") && !strings.Contains(text, "quire_edge_payment_mismatches_total 0\n") {
				return true
			}
		}
		return false
	})
}
