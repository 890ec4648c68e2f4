package endpoint

import (
	"bytes"
	"cmp"
	"mime"
	"net/url"
	"unicode/utf8"

	"github.com/gofiber/fiber/v2"

	"quire.dev/pkg/event"
	"quire.dev/services/edge/internal/fault"
	"quire.dev/services/edge/internal/httpin/headers"
	"quire.dev/services/edge/internal/httpin/httperr"
)

const (
	headerIdempotencyKey = "Idempotency-Key"
	idempotencyKeyBytes  = 128
)

// readIdempotencyKey sets Call.Idem. A key must have 1 to 128 printable ASCII characters. It is scoped to the caller, the
// method and the path as sent, with %72 equal to r. For a read it is scoped to the caller and the route, so that reusing it
// for another path is a mismatch.
func (s *Base) readIdempotencyKey(c *Call) error {
	values := c.Context().Request.Header.PeekAll(headerIdempotencyKey)
	if len(values) == 0 {
		return nil
	}
	key := string(values[0])
	valid := key != "" && len(key) <= idempotencyKeyBytes
	for i := range len(key) {
		valid = valid && key[i] >= ' ' && key[i] <= '~'
	}
	if !valid {
		return httperr.InvalidField(headerIdempotencyKey, "must be 1 to 128 printable ASCII characters")
	}
	var scope []byte
	switch c.Row.Who {
	case Admin:
		scope = []byte(c.Admin) // each token has its own
	case Anybody, SessionOrNone:
		scope = s.Network(c.Ctx).Bytes()
	default:
		scope = c.Who.Payer().Bytes()
	}
	method, path := c.Method(), c.Path()
	if c.Row.Rules.Has(Repeatable) {
		method, path = c.Row.Method, c.Row.Path
	}
	id := event.NewIdempotencyID(scope, method, path, key)
	c.Idem = id[:]
	if c.Who.Anonymous || c.Row.Who == Anybody {
		for _, network := range s.secret.OtherNetworks(s.networkBytes(c.Ctx)) {
			other := event.NewIdempotencyID(network.Bytes(), c.Method(), c.Path(), key)
			c.OtherIdems = append(c.OtherIdems, other[:])
		}
	}
	return nil
}

// BodyHash is the hash that requests with the same Idempotency-Key are compared by: of the body as sent, and everything that
// changes its meaning. It is computed before parsing, which modifies the body.
func BodyHash(c *fiber.Ctx, body []byte) uint64 {
	h := &c.Context().Request.Header
	match, noneOf, since := h.Peek(fiber.HeaderIfMatch), bytes.Join(h.PeekAll(fiber.HeaderIfNoneMatch), []byte(",")), h.Peek(fiber.HeaderIfUnmodifiedSince)
	if len(noneOf)+len(since) == 0 { // as earlier versions did it
		return event.BodyHash(body, canonicalType(c), CanonicalQuery(c), match)
	}
	return event.BodyHash(body, canonicalType(c), CanonicalQuery(c), match, noneOf, since)
}

// canonicalType is the request's Content-Type in canonical form, without the charset, which is always the same.
func canonicalType(c *fiber.Ctx) []byte {
	raw := c.Context().Request.Header.ContentType()
	if bytes.IndexByte(raw, ';') < 0 {
		return lower(raw)
	}
	name, _, params := headers.MediaType(c)
	delete(params, "charset")
	return []byte(cmp.Or(mime.FormatMediaType(name, params), name))
}

// lower is bytes.ToLower, but returns lower-case ASCII as is.
func lower(b []byte) []byte {
	for _, c := range b {
		if c >= utf8.RuneSelf || c >= 'A' && c <= 'Z' {
			return bytes.ToLower(b)
		}
	}
	return b
}

// CanonicalQuery is the request's query in canonical form, sorted by name. Values under one name keep their order.
func CanonicalQuery(c *fiber.Ctx) []byte {
	args := c.Context().QueryArgs()
	if args.Len() == 0 {
		return nil
	}
	query := url.Values{}
	args.VisitAll(func(name, value []byte) { query.Add(string(name), string(value)) })
	return []byte(query.Encode())
}

// IdempotencyMismatch is the answer to another request under a key that was used.
func IdempotencyMismatch() error {
	return FailedAt(headerIdempotencyKey, fault.IdempotencyMismatch,
		"The Idempotency-Key was used with another request in the last 24 hours. Use a new key for a new request.").
		InForm("This form was sent before with other input. Submit it again to send what it has now.")
}

// IdempotencyInFlight is the answer to a request whose first one has not ended.
func IdempotencyInFlight(retryAfter int) error {
	e := FailedAt(headerIdempotencyKey, fault.IdempotencyInFlight, "The first request with this Idempotency-Key is still running. Try again.")
	e.RetryAfter = retryAfter
	return e.InForm("This form is still being processed. Wait a moment, then submit it again.")
}

// MaxOnceBytes is the length of the longest Once that a form may have in place of an Idempotency-Key.
const MaxOnceBytes = 64
