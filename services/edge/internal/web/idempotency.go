package web

import (
	"bytes"

	"github.com/gofiber/fiber/v2"

	"quire.dev/pkg/event"
	"quire.dev/services/edge/internal/fault"
	"quire.dev/services/edge/internal/httpin"
)

const (
	headerIdempotencyKey = "Idempotency-Key"
	headerReplayed       = "Idempotency-Replayed"
	idempotencyKeyBytes  = 128
)

// readIdempotencyKey sets call.idem. A key that is not 1 to 128 printable ASCII characters is 400. It belongs to the
// caller and to the method and path as they were sent.
func (s *Server) readIdempotencyKey(c *call) error {
	values := c.Context().Request.Header.PeekAll(headerIdempotencyKey)
	if len(values) == 0 {
		return nil
	}
	key := string(values[0])
	valid := len(values) == 1 && key != "" && len(key) <= idempotencyKeyBytes
	for i := range len(key) {
		valid = valid && key[i] >= ' ' && key[i] <= '~'
	}
	if !valid {
		return httpin.InvalidField(headerIdempotencyKey, "must be 1 to 128 printable ASCII characters, once")
	}
	var scope []byte
	switch c.route.who {
	case admin:
		scope = []byte("admin")
	case anybody, sessionOrNone:
		scope = s.network(c.Ctx).Bytes()
	default:
		scope = c.who.payer().Bytes()
	}
	id := event.NewIdempotencyID(scope, c.Method(), c.Path(), key)
	c.idem = id[:]
	return nil
}

// bodyHash is the hash that requests under one Idempotency-Key are compared by: of the body as it was sent, and all that changes
// its meaning. It is taken before the body is parsed, which changes it.
func bodyHash(c *fiber.Ctx, body []byte) uint64 {
	h := &c.Context().Request.Header
	return event.BodyHash(body, bytes.ToLower(h.ContentType()), c.Context().QueryArgs().QueryString(), h.Peek(fiber.HeaderIfMatch))
}

func idempotencyMismatch() error {
	return failedAt(headerIdempotencyKey, fault.IdempotencyMismatch,
		"The Idempotency-Key was used with another request in the last 24 hours. Use a new key for a new request.")
}

func idempotencyInFlight() error {
	e := failedAt(headerIdempotencyKey, fault.IdempotencyInFlight, "The first request with this Idempotency-Key is still running. Try again.")
	e.RetryAfter = 1
	return e
}
