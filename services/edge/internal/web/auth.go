package web

import (
	"strings"

	"github.com/gofiber/fiber/v2"

	"quire.dev/pkg/apikey"
	"quire.dev/pkg/event"
	"quire.dev/services/edge/internal/fault"
	"quire.dev/services/edge/internal/limit"
)

const (
	headerAPIKey      = "X-Api-Key"
	headerManageToken = "X-Manage-Token"
	headerPassword    = "X-Paste-Password"
)

// caller is an account, or a source without a key.
type caller struct {
	account   event.AccountID // 0: keyless
	key       apikey.Key      // zero for a session
	anonymous bool            // keyless
	network   event.AccountID // the pseudo-account of a keyless caller
	token     string          // the management token of a keyless caller; empty where the route takes none

	fingerprint uint64 // of the key, where a session names it: see charge; 0: it is that of key
}

// keyFingerprint is what billing knows the caller's key by.
func (a *caller) keyFingerprint() uint64 {
	if a.fingerprint != 0 {
		return a.fingerprint
	}
	return a.key.Fingerprint()
}

// payer is the account that an admission and an Idempotency-Key belong to.
func (a *caller) payer() event.AccountID {
	if a.anonymous {
		return a.network
	}
	return a.account
}

// free tells whether the call is not metered: it is proved by a management token.
func (a *caller) free() bool { return a.token != "" }

// tokenHash is the hash of the token, which a document keeps; nil without a token.
func (a *caller) tokenHash() []byte {
	if a.token == "" {
		return nil
	}
	return apikey.HashToken(a.token)
}

// sentKey is the key in x-api-key, or else in Authorization. An empty key and another scheme count as a wrong key: the
// call must not be taken for a keyless one. The key is in the header's memory, and good as long as the handler runs.
func sentKey(c *fiber.Ctx) (key string, sent bool) {
	header := &c.Context().Request.Header
	if len(header.PeekAll(headerAPIKey)) > 0 {
		return strings.Trim(c.Get(headerAPIKey), " \t"), true
	}
	if len(header.PeekAll(fiber.HeaderAuthorization)) == 0 {
		return "", false
	}
	scheme, key, _ := strings.Cut(strings.Trim(c.Get(fiber.HeaderAuthorization), " \t"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return "", true
	}
	return strings.Trim(key, " \t"), true
}

// readKey reads the API key of the call. It is false where none was sent. A wrong one is 401, and counts against the
// source. Billing says later whether it is still the account's current key.
func (s *Server) readKey(c *call) (found bool, err error) {
	text, sent := sentKey(c.Ctx)
	if !sent {
		return false, nil
	}
	return true, s.useKey(c, text)
}

// useKey has the call made with the API key.
func (s *Server) useKey(c *call, text string) error {
	key, err := s.secret.Parse(text)
	if err != nil {
		return s.badKey(c.Ctx)
	}
	if !s.secret.Signs(key.Secret) {
		s.metrics.oldKey.Inc()
	}
	c.who = caller{account: key.Account, key: key}
	return nil
}

// badKey is the answer to a key that is not valid: 401, or 429 for a source that has sent too many.
func (s *Server) badKey(c *fiber.Ctx) error {
	return s.sourceFailed(c, fault.New(fault.InvalidAPIKey, "Invalid API key"))
}

// sourceFailed counts a failed call of the source. It returns failure, or 429 where the source has failed too often.
func (s *Server) sourceFailed(c *fiber.Ctx, failure error) error {
	now := s.now()
	if seconds := s.failures.Begin(s.http.Source(c), now); seconds > 0 {
		return tooManyFailures(seconds, now)
	}
	return failure
}

// counted runs what is a failed call of its source where it fails with kind. It counts from its beginning, so that no number of
// calls at a time gets past the limit.
func (s *Server) counted(c *fiber.Ctx, kind fault.Kind, run func() error) error {
	source, begun := s.http.Source(c), s.now()
	if seconds := s.failures.Begin(source, begun); seconds > 0 {
		return tooManyFailures(seconds, begun)
	}
	err := run()
	if fault.KindOf(err) != kind {
		s.failures.TakeBack(source, begun)
	}
	return err
}

// network is the pseudo-account of the request's source. The journal keeps it in place of the address.
func (s *Server) network(c *fiber.Ctx) event.AccountID { return s.secret.Network(s.networkBytes(c)) }

// networkBytes are those of the request's source that a limit goes by.
func (s *Server) networkBytes(c *fiber.Ctx) []byte { return limit.Source(s.http.Source(c)) }
