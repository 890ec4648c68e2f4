package endpoint

import (
	"strings"

	"github.com/gofiber/fiber/v2"

	"quire.dev/pkg/apikey"
	"quire.dev/pkg/event"
	"quire.dev/services/edge/internal/fault"
	"quire.dev/services/edge/internal/limit"
)

// requireAdmin checks the admin token of the call.
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
	network   event.AccountID // pseudo-account of a keyless caller
	Token     string          // management token of a keyless caller; empty if the route takes none

	Fingerprint uint64 // of the key a session chose; 0: of Key
}

// keyFingerprint identifies the caller's key to billing.
func (a *Caller) keyFingerprint() uint64 {
	if a.Fingerprint != 0 {
		return a.Fingerprint
	}
	return a.Key.Fingerprint()
}

// Payer is the account that pays for the call and owns its Idempotency-Key.
func (a *Caller) Payer() event.AccountID {
	if a.Anonymous {
		return a.network
	}
	return a.Account
}

// Free reports whether the call is not metered, because a management token authorizes it.
func (a *Caller) Free() bool { return a.Token != "" }

// TokenHash is the hash of the token as documents store it; nil without a token.
func (a *Caller) TokenHash() []byte {
	if a.Token == "" {
		return nil
	}
	return apikey.HashToken(a.Token)
}

// sentKey returns the key in x-api-key, or else in Authorization. An empty key or another scheme counts as an invalid key,
// since the call must not pass for a keyless one. The key aliases the header and is valid while the handler runs.
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

// readKey reads the API key of the call; found is false without one. An invalid one is 401, and counts as a failure of the
// source. Billing confirms later that it is still the account's current key.
func (s *Base) readKey(c *Call) (found bool, err error) {
	text, sent := sentKey(c.Ctx)
	if !sent {
		return false, nil
	}
	return true, s.UseKey(c, text)
}

// UseKey makes the API key the caller's.
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

// badKey is the error for an invalid key: 401, or 429 if the source has sent too many.
func (s *Base) badKey(c *fiber.Ctx) error {
	return s.SourceFailed(c, fault.New(fault.InvalidAPIKey, "Invalid API key"))
}

// SourceFailed counts a failed call of the source. It returns failure, or 429 if the source has failed too often.
func (s *Base) SourceFailed(c *fiber.Ctx, failure error) error {
	now := s.Now()
	if seconds := s.Failures.Begin(s.http.Source(c), now); seconds > 0 {
		return TooManyFailures(seconds, now)
	}
	return failure
}

// Counted counts run as a failed call of its source if it fails with kind. It is counted from its start, so that concurrent
// calls can't exceed the limit.
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

// Network is the pseudo-account of the request's source, which the journal stores instead of the address.
func (s *Base) Network(c *fiber.Ctx) event.AccountID { return s.secret.Network(s.networkBytes(c)) }

// networkBytes identifies the request's source for limits.
func (s *Base) networkBytes(c *fiber.Ctx) []byte { return limit.Source(s.http.Source(c)) }
