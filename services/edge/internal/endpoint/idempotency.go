package endpoint

import (
	"bytes"
	"cmp"
	"context"
	"mime"
	"net/url"
	"time"
	"unicode/utf8"

	"github.com/gofiber/fiber/v2"

	"quire.dev/pkg/event"
	"quire.dev/services/edge/internal/fault"
	"quire.dev/services/edge/internal/httpin/headers"
	"quire.dev/services/edge/internal/httpin/httperr"
)

const (
	headerIdempotencyKey = "Idempotency-Key"
	HeaderReplayed       = "Idempotency-Replayed"
	idempotencyKeyBytes  = 128
)

// readIdempotencyKey sets Call.Idem. A key that is not 1 to 128 printable ASCII characters is 400. It belongs to the
// caller and to the method and path as they were sent, with %72 for r the same. That of a read belongs to the caller and the route, so that another
// path under it is a mismatch.
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

// BodyHash is the hash that requests under one Idempotency-Key are compared by: of the body as it was sent, and all that changes
// its meaning. It is taken before the body is parsed, which changes it.
func BodyHash(c *fiber.Ctx, body []byte) uint64 {
	h := &c.Context().Request.Header
	match, noneOf, since := h.Peek(fiber.HeaderIfMatch), bytes.Join(h.PeekAll(fiber.HeaderIfNoneMatch), []byte(",")), h.Peek(fiber.HeaderIfUnmodifiedSince)
	if len(noneOf)+len(since) == 0 { // as earlier versions did it
		return event.BodyHash(body, canonicalType(c), CanonicalQuery(c), match)
	}
	return event.BodyHash(body, canonicalType(c), CanonicalQuery(c), match, noneOf, since)
}

// canonicalType is the request's Content-Type without a charset, of which there is one, and in one spelling.
func canonicalType(c *fiber.Ctx) []byte {
	raw := c.Context().Request.Header.ContentType()
	if bytes.IndexByte(raw, ';') < 0 {
		return lower(raw)
	}
	name, _, params := headers.MediaType(c)
	delete(params, "charset")
	return []byte(cmp.Or(mime.FormatMediaType(name, params), name))
}

// lower is bytes.ToLower, and b itself where it is ASCII in lower case.
func lower(b []byte) []byte {
	for _, c := range b {
		if c >= utf8.RuneSelf || c >= 'A' && c <= 'Z' {
			return bytes.ToLower(b)
		}
	}
	return b
}

// CanonicalQuery is the request's query by name, in one spelling. The order of values under one name is kept.
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
		"The Idempotency-Key was used with another request in the last 24 hours. Use a new key for a new request.")
}

// IdempotencyInFlight is the answer to a request whose first one has not ended.
func IdempotencyInFlight(retryAfter int) error {
	e := FailedAt(headerIdempotencyKey, fault.IdempotencyInFlight, "The first request with this Idempotency-Key is still running. Try again.")
	e.RetryAfter = retryAfter
	return e
}

// ServedTries is how often an outcome is asked for that billing says must be kept.
const ServedTries = 6

// holdWait bounds the question why a request is in flight. Its answer is 409 either way.
const holdWait = 2 * time.Second

// InFlight is the answer to a call whose Idempotency-Key another one holds: 409, with the time in which that one has run, or
// its hold closes, as a guess of how long it will run. ErrHoldClosed says that the other call has ended, and this one may
// be tried again. If it ended because its edge was killed, nobody settled its hold: that is given back here.
func (s *Base) InFlight(m *Metered) error {
	ctx, cancel := context.WithTimeout(s.ctx, holdWait)
	defer cancel()
	hold, err := s.bus.Hold(ctx, m.Admission.Account, m.Admission.IdempotencyID)
	switch {
	case err != nil:
		return IdempotencyInFlight(1)
	case hold == nil:
		return ErrHoldClosed
	case hold.Abandoned:
		other := m.Admission // under one idempotency id the payer and the quota key are the same
		other.RequestID = event.RequestID(hold.RequestId)
		if s.bus.Void(ctx, other, false) == nil {
			return ErrHoldClosed
		}
	}
	return IdempotencyInFlight(int(max(1, min(hold.AgeSeconds, hold.ClosesInSeconds))))
}

// MaxOnceBytes is the length of the longest Once that a form may have in place of an Idempotency-Key.
const MaxOnceBytes = 64
