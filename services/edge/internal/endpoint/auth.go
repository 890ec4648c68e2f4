package endpoint

import (
	"strings"

	"github.com/gofiber/fiber/v2"

	"quire.dev/pkg/apikey"
	"quire.dev/pkg/event"
	"quire.dev/services/edge/internal/fault"
	"quire.dev/services/edge/internal/limit"
)

// requireAdmin finds the admin token that was sent.
func (s *Base) requireAdmin(c *Call) error {
	scheme, token, _ := strings.Cut(strings.Trim(c.Get(fiber.HeaderAuthorization), " \t"), " ")
	if strings.EqualFold(scheme, "Bearer") {
		c.Admin = s.admins.Find(strings.Trim(token, " \t"))
	}
	if c.Admin == "" {
		return s.SourceFailed(c.Ctx, fault.New(fault.AdminTokenRequired, "Admin token required"))
	}
	return nil
}

const (
	headerAPIKey      = "X-Api-Key"
	HeaderManageToken = "X-Manage-Token"
	HeaderPassword    = "X-Paste-Password"
)

// Caller is an account, or a source without a key.
type Caller struct {
	Account   event.AccountID // 0: keyless
	Key       apikey.Key      // zero for a session
	Anonymous bool            // keyless
	network   event.AccountID // the pseudo-account of a keyless caller
	Token     string          // the management token of a keyless caller; empty where the route takes none

	Fingerprint uint64 // of the key, where a session names it: see charge; 0: it is that of key
}

// keyFingerprint is what billing knows the caller's key by.
func (a *Caller) keyFingerprint() uint64 {
	if a.Fingerprint != 0 {
		return a.Fingerprint
	}
	return a.Key.Fingerprint()
}

// Payer is the account that an admission and an Idempotency-Key belong to.
func (a *Caller) Payer() event.AccountID {
	if a.Anonymous {
		return a.network
	}
	return a.Account
}

// Free reports whether the call is not metered: it is proved by a management token.
func (a *Caller) Free() bool { return a.Token != "" }

// TokenHash is the hash of the token, which a document keeps; nil without a token.
func (a *Caller) TokenHash() []byte {
	if a.Token == "" {
		return nil
	}
	return apikey.HashToken(a.Token)
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
func (s *Base) readKey(c *Call) (found bool, err error) {
	text, sent := sentKey(c.Ctx)
	if !sent {
		return false, nil
	}
	return true, s.UseKey(c, text)
}

// UseKey has the call made with the API key.
func (s *Base) UseKey(c *Call, text string) error {
	key, err := s.secret.Parse(text)
	if err != nil {
		return s.badKey(c.Ctx)
	}
	if !s.secret.Signs(key.Secret) {
		s.metrics.oldKey.Inc()
	}
	c.Who = Caller{Account: key.Account, Key: key}
	return nil
}

// badKey is the answer to a key that is not valid: 401, or 429 for a source that has sent too many.
func (s *Base) badKey(c *fiber.Ctx) error {
	return s.SourceFailed(c, fault.New(fault.InvalidAPIKey, "Invalid API key"))
}

// SourceFailed counts a failed call of the source. It returns failure, or 429 where the source has failed too often.
func (s *Base) SourceFailed(c *fiber.Ctx, failure error) error {
	now := s.Now()
	if seconds := s.Failures.Begin(s.http.Source(c), now); seconds > 0 {
		return TooManyFailures(seconds, now)
	}
	return failure
}

// Counted runs what is a failed call of its source where it fails with kind. It counts from its beginning, so that no number of
// calls at a time gets past the limit.
func (s *Base) Counted(c *fiber.Ctx, kind fault.Kind, run func() error) error {
	source, begun := s.http.Source(c), s.Now()
	if seconds := s.Failures.Begin(source, begun); seconds > 0 {
		return TooManyFailures(seconds, begun)
	}
	err := run()
	if fault.KindOf(err) != kind {
		s.Failures.TakeBack(source, begun)
	}
	return err
}

// Network is the pseudo-account of the request's source. The journal keeps it in place of the address.
func (s *Base) Network(c *fiber.Ctx) event.AccountID { return s.secret.Network(s.networkBytes(c)) }

// networkBytes are those of the request's source that a limit goes by.
func (s *Base) networkBytes(c *fiber.Ctx) []byte { return limit.Source(s.http.Source(c)) }
