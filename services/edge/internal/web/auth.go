package web

import (
	"strings"

	"github.com/gofiber/fiber/v2"

	"quire.dev/pkg/apikey"
	"quire.dev/pkg/event"
	"quire.dev/services/edge/internal/fault"
)

const (
	headerAPIKey      = "X-Api-Key"
	headerManageToken = "X-Manage-Token"
	headerPassword    = "X-Paste-Password"
)

// caller is who asks: an account by its key, or a keyless source.
type caller struct {
	account   event.AccountID // 0: keyless
	network   event.AccountID // of a keyless caller: its pseudo-account
	key       apikey.Key
	anonymous bool
}

// payer is the account that an admission goes to.
func (a *caller) payer() event.AccountID {
	if a.anonymous {
		return a.network
	}
	return a.account
}

// scope is what an Idempotency-Key of the caller belongs to.
func (a *caller) scope() []byte { return a.payer().Bytes() }

func apiKeyRequired() error { return fault.New(fault.APIKeyRequired, "API key required") }

func invalidAPIKey() error { return fault.New(fault.InvalidAPIKey, "Invalid API key") }

// sentKey is the key of the request: x-api-key, else Authorization. An empty key or another scheme
// is a key that was sent and is wrong: it must not be taken for a keyless call.
func sentKey(c *fiber.Ctx) (key string, sent bool) {
	header := &c.Context().Request.Header
	if values := header.PeekAll(headerAPIKey); len(values) > 0 {
		return strings.TrimSpace(string(values[0])), true
	}
	values := header.PeekAll(fiber.HeaderAuthorization)
	if len(values) == 0 {
		return "", false
	}
	scheme, key, _ := strings.Cut(strings.TrimSpace(string(values[0])), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return "", true
	}
	return strings.TrimSpace(key), true
}

// keyCaller reads the request's API key. found is false where none was sent; one that is wrong is
// 401 and counts against the source. Whether the version is current is billing's to say.
func (s *Server) keyCaller(c *fiber.Ctx) (who caller, found bool, err error) {
	text, sent := sentKey(c)
	if !sent {
		return caller{}, false, nil
	}
	key, err := s.secret.Parse(text)
	if err != nil {
		return caller{}, true, s.badKey(c)
	}
	return caller{account: key.Account, key: key}, true, nil
}

// requireKey is keyCaller where a key is needed.
func (s *Server) requireKey(c *fiber.Ctx) (caller, error) {
	who, found, err := s.keyCaller(c)
	if err == nil && !found {
		err = apiKeyRequired()
	}
	return who, err
}

// keyOrNetwork is keyCaller where a call without a key is the source's.
func (s *Server) keyOrNetwork(c *fiber.Ctx) (caller, error) {
	who, found, err := s.keyCaller(c)
	if err != nil || found {
		return who, err
	}
	return caller{network: s.network(c), anonymous: true}, nil
}

// badKey is the answer to a key that is not valid: 401, or 429 once the source has sent too many.
func (s *Server) badKey(c *fiber.Ctx) error {
	return s.sourceFailed(c, invalidAPIKey())
}

// sourceFailed counts a failed call of the source and returns failure, or 429 instead where the
// source has failed too often.
func (s *Server) sourceFailed(c *fiber.Ctx, failure error) error {
	source, now := s.http.Source(c), s.now()
	if err := s.failures.refused(source, now); err != nil {
		return err
	}
	s.failures.add(source, now)
	return failure
}

// network is the pseudo-account of the request's source. The journal keeps it in place of the address.
func (s *Server) network(c *fiber.Ctx) event.AccountID {
	source := s.http.Source(c)
	if source.Is6() {
		network := source.As16()
		return s.secret.Network(network[:8])
	}
	return s.secret.Network(source.AsSlice())
}
