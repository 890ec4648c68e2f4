package stripe

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"quire.dev/pkg/payments"
	"quire.dev/pkg/payments/stripe/stripetest"
)

const secret = stripetest.DefaultSecret

func offline(t testing.TB) *Provider {
	t.Helper()
	p, err := New(Config{Key: "sk_test_x", WebhookSecret: secret, Installation: "test", URL: "http://127.0.0.1:1"})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func signed(signature string) http.Header {
	return http.Header{"Stripe-Signature": {signature}}
}

var succeeded = []byte(`{"id":"evt_1","object":"event","type":"payment_intent.succeeded","data":{"object":{"id":"pi_1","object":"payment_intent"}}}`)

func TestOnlyWebhooksWithAValidSignatureAreReceived(t *testing.T) {
	p, now := offline(t), time.Now()
	for name, c := range map[string]struct {
		header http.Header
		valid  bool
	}{
		"valid":              {signed(stripetest.Sign(secret, now, succeeded)), true},
		"four minutes old":   {signed(stripetest.Sign(secret, now.Add(-4*time.Minute), succeeded)), true},
		"rolled secret":      {signed(stripetest.Sign("whsec_old", now, succeeded) + stripetest.Sign(secret, now, succeeded)[12:]), true},
		"six minutes old":    {signed(stripetest.Sign(secret, now.Add(-6*time.Minute), succeeded)), false},
		"another secret":     {signed(stripetest.Sign("whsec_other", now, succeeded)), false},
		"an empty secret":    {signed(stripetest.Sign("", now, succeeded)), false},
		"another body":       {signed(stripetest.Sign(secret, now, append([]byte(" "), succeeded...))), false},
		"a later time":       {signed("t=9999999999" + stripetest.Sign(secret, now, succeeded)[12:]), false},
		"no signature":       {http.Header{}, false},
		"an empty signature": {signed(""), false},
		"v0 alone":           {signed("t=1,v0=00"), false},
		"nonsense":           {signed("=,=,t=,v1="), false},
	} {
		t.Run(name, func(t *testing.T) {
			ref, err := p.Receive(c.header, succeeded)
			if c.valid && (err != nil || ref != (payments.Ref{Kind: payments.KindPayment, ID: "pi_1"})) {
				t.Errorf("%v, %v", ref, err)
			}
			if !c.valid && (!errors.Is(err, payments.ErrSignature) || ref != (payments.Ref{})) {
				t.Errorf("%v, %v", ref, err)
			}
		})
	}
}

func TestWhatAWebhookIsAbout(t *testing.T) {
	p := offline(t)
	for _, c := range []struct {
		kind, object string
		want         payments.Ref
		fails        bool
	}{
		{"payment_intent.canceled", `{"id":"pi_1","object":"payment_intent"}`, payments.Ref{Kind: payments.KindPayment, ID: "pi_1"}, false},
		{"charge.refunded", `{"id":"ch_1","object":"charge","payment_intent":"pi_1"}`, payments.Ref{Kind: payments.KindPayment, ID: "pi_1"}, false},
		{"refund.failed", `{"id":"re_1","object":"refund","payment_intent":{"id":"pi_1"}}`, payments.Ref{Kind: payments.KindPayment, ID: "pi_1"}, false},
		{"charge.dispute.closed", `{"id":"du_1","object":"dispute","payment_intent":"pi_1"}`, payments.Ref{Kind: payments.KindPayment, ID: "pi_1"}, false},
		{"charge.dispute.closed", `{"id":"du_1","object":"dispute","payment_intent":null}`, payments.Ref{}, false},
		{
			"customer.subscription.deleted", `{"id":"sub_1","object":"subscription"}`,
			payments.Ref{Kind: payments.KindSubscription, ID: "sub_1"},
			false,
		},
		{"charge.succeeded", `{"id":"ch_1","object":"charge","payment_intent":"pi_1"}`, payments.Ref{}, false},
		{"a.type.of.later", `[]`, payments.Ref{}, false},
		{"refund.failed", `[]`, payments.Ref{}, true},
		{"refund.failed", `{"payment_intent":5}`, payments.Ref{}, true},
		{"refund.failed", `null`, payments.Ref{}, false},
	} {
		body := []byte(`{"type":"` + c.kind + `","data":{"object":` + c.object + `}}`)
		ref, err := p.Receive(signed(stripetest.Sign(secret, time.Now(), body)), body)
		if ref != c.want || (err != nil) != c.fails || errors.Is(err, payments.ErrSignature) {
			t.Errorf("%s: %v, %v", body, ref, err)
		}
	}
	for _, body := range []string{"", "null", "5", "{", `{"type":5}`, `{"type":"refund.failed"}`} {
		ref, err := p.Receive(signed(stripetest.Sign(secret, time.Now(), []byte(body))), []byte(body))
		if ref != (payments.Ref{}) || errors.Is(err, payments.ErrSignature) {
			t.Errorf("%s: %v, %v", body, ref, err)
		}
	}
}

// A valid delivery that is changed in any one byte is refused. Upper-case digits are the same signature.
func TestAnyChangeOfASignedWebhookIsRefused(t *testing.T) {
	p := offline(t)
	rapid.Check(t, func(t *rapid.T) {
		header := stripetest.Sign(secret, time.Now(), succeeded)
		body := append([]byte(nil), succeeded...)
		i, flip := rapid.IntRange(0, len(header)+len(body)-1).Draw(t, "at"), rapid.ByteRange(1, 255).Draw(t, "flip")
		if changed := []byte(header); i < len(header) {
			if changed[i] ^= flip; strings.EqualFold(header, string(changed)) {
				t.Skip("the same digit")
			}
			header = string(changed)
		} else {
			body[i-len(header)] ^= flip
		}
		if ref, err := p.Receive(signed(header), body); !errors.Is(err, payments.ErrSignature) || ref != (payments.Ref{}) {
			t.Fatalf("%q, %q: %v, %v", header, body, ref, err)
		}
	})
}

func FuzzReceive(f *testing.F) {
	p := offline(f)
	f.Add(string(succeeded), "t=1,v1=00", false)
	f.Add(`{"type":"charge.refunded","data":{"object":{"object":"charge","payment_intent":{"id":"pi_1"}}}}`, "", true)
	f.Add(`{"type":"refund.created","data":{"object":null}}`, "", true)
	f.Fuzz(func(t *testing.T, body, signature string, sign bool) {
		if sign {
			signature = stripetest.Sign(secret, time.Now(), []byte(body))
		}
		ref, err := p.Receive(signed(signature), []byte(body))
		if !sign && !errors.Is(err, payments.ErrSignature) {
			t.Fatalf("accepted without a signature: %v, %v", ref, err)
		}
		if sign && errors.Is(err, payments.ErrSignature) {
			t.Fatalf("refused with a signature: %v", err)
		}
		if err != nil && ref != (payments.Ref{}) {
			t.Fatalf("an error and %v", ref)
		}
		if ref.ID != "" && !json.Valid([]byte(body)) {
			t.Fatalf("%v of what isn't JSON", ref)
		}
	})
}

func TestEventTypesFitIntoOneRequest(t *testing.T) {
	if n := len(EventTypes()); n > 20 {
		t.Errorf("%d types, Stripe lists at most 20", n)
	}
}
