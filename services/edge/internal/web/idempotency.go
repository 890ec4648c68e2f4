package web

import (
	"quire.dev/services/edge/internal/httpin"

	"bytes"

	"github.com/gofiber/fiber/v2"

	"quire.dev/pkg/event"
	"quire.dev/services/edge/internal/fault"
)

const (
	headerIdempotencyKey = "Idempotency-Key"
	headerReplayed       = "Idempotency-Replayed"
	idempotencyKeyBytes  = 128
)

// idempotencyKey is the request's Idempotency-Key; "" where there is none, 400 for one that is not
// 1 to 128 printable ASCII characters.
func idempotencyKey(c *fiber.Ctx) (string, error) {
	values := c.Context().Request.Header.PeekAll(headerIdempotencyKey)
	if len(values) == 0 {
		return "", nil
	}
	key := string(values[0])
	valid := len(values) == 1 && key != "" && len(key) <= idempotencyKeyBytes
	for i := range len(key) {
		valid = valid && key[i] >= ' ' && key[i] <= '~'
	}
	if !valid {
		return "", httpin.InvalidField(headerIdempotencyKey, "must be 1 to 128 printable ASCII characters, once")
	}
	return key, nil
}

// idempotencyID is the id of the request's Idempotency-Key in the scope, nil where it has none. The
// endpoint is the method and the path as it was sent.
func idempotencyID(c *fiber.Ctx, scope []byte) ([]byte, error) {
	key, err := idempotencyKey(c)
	if key == "" || err != nil {
		return nil, err
	}
	id := event.NewIdempotencyID(scope, c.Method(), c.Path(), key)
	return id[:], nil
}

// bodyHash is what two requests under one Idempotency-Key are compared by: the body as sent, and
// what else says what it means.
func bodyHash(c *fiber.Ctx, body []byte) uint64 {
	h := &c.Context().Request.Header
	return event.BodyHash(body, bytes.ToLower(h.ContentType()), c.Context().QueryArgs().QueryString(), h.Peek(fiber.HeaderIfMatch))
}

func idempotencyMismatch() error {
	return fault.New(fault.IdempotencyMismatch, "The Idempotency-Key was used before with another request.")
}

func idempotencyInFlight() error {
	return &fault.Error{
		Kind: fault.IdempotencyInFlight, Message: "The first request with this Idempotency-Key is still running.", RetryAfter: 1,
	}
}
