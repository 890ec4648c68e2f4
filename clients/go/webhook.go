package client

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// ErrSignature: the webhook's signature is invalid, or its timestamp is out of tolerance.
var ErrSignature = errors.New("quire: the webhook's signature is not valid")

// WebhookTolerance is the maximum difference between a webhook's timestamp and the receiver's clock.
const WebhookTolerance = 5 * time.Minute

// VerifyWebhook verifies that the service sent body: one of the signatures in the headers webhook-id, webhook-timestamp and
// webhook-signature has to match one of the secrets and be no older than WebhookTolerance. During a rotation, pass both
// secrets. The error is ErrSignature, or names a malformed secret. A webhook may arrive several times with the same
// webhook-id: skip the ones you have seen.
func VerifyWebhook(header http.Header, body []byte, secrets ...string) error {
	return verifyWebhook(header, body, time.Now(), secrets)
}

func verifyWebhook(header http.Header, body []byte, now time.Time, secrets []string) error {
	id, stamp := header.Get("webhook-id"), header.Get("webhook-timestamp")
	seconds, err := strconv.ParseInt(stamp, 10, 64)
	if id == "" || err != nil || now.Sub(time.Unix(seconds, 0)).Abs() > WebhookTolerance {
		return ErrSignature
	}
	for _, secret := range secrets {
		key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
		if err != nil || len(key) == 0 {
			return errors.New("quire: the webhook's secret is not of the form whsec_…")
		}
		mac := hmac.New(sha256.New, key)
		fmt.Fprintf(mac, "%s.%s.", id, stamp)
		mac.Write(body)
		want := mac.Sum(nil)
		for signature := range strings.FieldsSeq(header.Get("webhook-signature")) {
			encoded, found := strings.CutPrefix(signature, "v1,")
			got, err := base64.StdEncoding.DecodeString(encoded)
			if found && err == nil && hmac.Equal(got, want) {
				return nil
			}
		}
	}
	return ErrSignature
}
