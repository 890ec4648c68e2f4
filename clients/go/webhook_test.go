package client

import (
	"errors"
	"net/http"
	"testing"
	"time"
)

// The first example of the Standard Webhooks specification.
const (
	exampleSecret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	exampleBody   = `{"test": 2432232314}`
	exampleSigned = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
	exampleTime   = 1614265330
)

func exampleHeader(signature string) http.Header {
	return http.Header{"Webhook-Id": {"msg_p5jXN8AQM9LWM0D4loKWxJek"}, "Webhook-Timestamp": {"1614265330"}, "Webhook-Signature": {signature}}
}

func TestWebhooksAreVerified(t *testing.T) {
	now := time.Unix(exampleTime, 0)
	tests := map[string]struct {
		signature string
		body      string
		at        time.Time
		secrets   []string
		valid     bool
	}{
		"the specification's example": {exampleSigned, exampleBody, now, []string{exampleSecret}, true},
		"the older of two secrets":    {exampleSigned, exampleBody, now, []string{"whsec_bmV3IHNlY3JldCBuZXcgc2VjcmV0", exampleSecret}, true},
		"one of several signatures":   {"v1a,x v1,AAAA " + exampleSigned, exampleBody, now, []string{exampleSecret}, true},
		"almost too old":              {exampleSigned, exampleBody, now.Add(WebhookTolerance), []string{exampleSecret}, true},
		"too old":                     {exampleSigned, exampleBody, now.Add(WebhookTolerance + 1), []string{exampleSecret}, false},
		"almost too early":            {exampleSigned, exampleBody, now.Add(-WebhookTolerance), []string{exampleSecret}, true},
		"too early":                   {exampleSigned, exampleBody, now.Add(-WebhookTolerance - 1), []string{exampleSecret}, false},
		"another body":                {exampleSigned, exampleBody + " ", now, []string{exampleSecret}, false},
		"another secret":              {exampleSigned, exampleBody, now, []string{"whsec_bmV3IHNlY3JldCBuZXcgc2VjcmV0"}, false},
		"another version":             {"v2" + exampleSigned[2:], exampleBody, now, []string{exampleSecret}, false},
		"no signature":                {"", exampleBody, now, []string{exampleSecret}, false},
		"no secret":                   {exampleSigned, exampleBody, now, nil, false},
	}
	for name, test := range tests {
		err := verifyWebhook(exampleHeader(test.signature), []byte(test.body), test.at, test.secrets)
		if test.valid && err != nil || !test.valid && !errors.Is(err, ErrSignature) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := verifyWebhook(exampleHeader(exampleSigned), []byte(exampleBody), now, []string{"whsec_?"}); err == nil || errors.Is(err, ErrSignature) {
		t.Errorf("a secret that is none: %v", err)
	}
	if err := VerifyWebhook(exampleHeader(exampleSigned), []byte(exampleBody), exampleSecret); !errors.Is(err, ErrSignature) {
		t.Errorf("years later: %v", err)
	}
	without := exampleHeader(exampleSigned)
	without.Del("webhook-id")
	if err := verifyWebhook(without, []byte(exampleBody), now, []string{exampleSecret}); !errors.Is(err, ErrSignature) {
		t.Errorf("without an id: %v", err)
	}
}
