package web

import (
	"quire.dev/services/edge/internal/httpin"

	"crypto/rand"
	"errors"
	"strings"
	"time"

	"github.com/gofiber/fiber/v2"

	"quire.dev/pkg/apikey"
	"quire.dev/pkg/event"
	"quire.dev/services/edge/internal/fault"
)

const (
	sessionCookie   = "quire_session"
	sessionIDBytes  = 32
	sessionLifetime = 30 * day
)

var (
	errUserAnswer  = errors.New("the user store's answer is of another kind")
	errQueryAnswer = errors.New("billing's answer is of another kind")
)

func sessionRequired() error { return fault.New(fault.SessionRequired, "Log in first.") }

// openSession opens a session of the account and gives it to the client as a cookie. What is stored
// is the hash of the cookie's value, so that a stolen store logs nobody in.
func (s *Server) openSession(c *fiber.Ctx, account event.AccountID) error {
	id := make([]byte, sessionIDBytes)
	rand.Read(id)
	token, expires := s.secret.SignSession(id), s.now().Add(sessionLifetime)
	a, err := s.bus.User(s.ctx, &event.UserRequest{Action: &event.UserRequest_OpenSession{OpenSession: &event.OpenSession{
		SessionHash: apikey.HashToken(token), Account: uint64(account), ExpiresMs: expires.UnixMilli(),
	}}})
	if err != nil {
		return err
	}
	if a.Status != event.UserStatus_USER_OK {
		return unavailable(errUserAnswer)
	}
	s.setSessionCookie(c, token, sessionLifetime)
	return nil
}

// setSessionCookie sets the cookie, or with no token takes it away. Its lifetime is given as a
// number of seconds alone: the edge's clock need not be the client's.
func (s *Server) setSessionCookie(c *fiber.Ctx, token string, lifetime time.Duration) {
	cookie := &fiber.Cookie{
		Name: sessionCookie, Value: token, Path: "/", MaxAge: int(lifetime.Seconds()),
		HTTPOnly: true, SameSite: fiber.CookieSameSiteLaxMode, Secure: s.behindTLS(c),
	}
	if token == "" {
		cookie.Expires = time.Unix(1, 0)
	}
	c.Cookie(cookie)
}

// behindTLS tells whether the client's side of the connection is encrypted, by what the operator
// says or what a trusted proxy does.
func (s *Server) behindTLS(c *fiber.Ctx) bool {
	if strings.HasPrefix(*s.publicURL.Load(), "https://") {
		return true
	}
	return s.http.BehindTLS(c)
}

// sessionToken is the cookie's value where this server made it, else "".
func (s *Server) sessionToken(c *fiber.Ctx) string {
	token := strings.Clone(c.Cookies(sessionCookie))
	if token == "" {
		return ""
	}
	if id, err := s.secret.ParseSession(token); err != nil || len(id) != sessionIDBytes {
		return ""
	}
	return token
}

// sessionUser is who is logged in by the request's cookie; fault.SessionRequired where nobody is.
func (s *Server) sessionUser(c *fiber.Ctx) (*event.User, error) {
	token := s.sessionToken(c)
	if token == "" {
		return nil, sessionRequired()
	}
	a, err := s.bus.User(s.ctx, &event.UserRequest{Action: &event.UserRequest_CheckSession{
		CheckSession: &event.CheckSession{SessionHash: apikey.HashToken(token)},
	}})
	switch {
	case err != nil:
		return nil, err
	case a.Status == event.UserStatus_USER_NOT_FOUND:
		return nil, sessionRequired()
	case a.Status != event.UserStatus_USER_OK || a.User.GetAccount() == 0:
		return nil, unavailable(errUserAnswer)
	}
	return a.User, nil
}

// sessionAccount is the account of the session; fault.SessionRequired where there is none.
func (s *Server) sessionAccount(c *fiber.Ctx) (event.AccountID, error) {
	user, err := s.sessionUser(c)
	if err != nil {
		return 0, err
	}
	return event.AccountID(user.Account), nil
}

// keyed is who for usage to check the key of; nil for a session.
func (a *caller) keyed() *caller {
	if a.key.Version == 0 {
		return nil
	}
	return a
}

// keyOrSession is the account of the request's API key, or where it has none of its session. That
// the key is still the current one is not known yet: see currentAccount.
func (s *Server) keyOrSession(c *fiber.Ctx) (caller, error) {
	who, found, err := s.keyCaller(c)
	if err != nil || found {
		return who, err
	}
	if len(c.Request().Header.Cookie(sessionCookie)) == 0 {
		return caller{}, apiKeyRequired()
	}
	account, err := s.sessionAccount(c)
	return caller{account: account}, err
}

// currentAccount is keyOrSession with a key that billing has confirmed.
func (s *Server) currentAccount(c *fiber.Ctx) (event.AccountID, error) {
	who, err := s.keyOrSession(c)
	if err != nil {
		return 0, err
	}
	if check := who.keyed(); check != nil {
		if _, err := s.usage(c, who.account, check); err != nil {
			return 0, err
		}
	}
	return who.account, nil
}

// sameOrigin refuses, as fault.CrossOrigin, a write that a page of another site sent. Browsers say
// where a write comes from in Sec-Fetch-Site and, the older ones, in Origin; what sends neither is
// no browser, and has no cookies but its own.
func (s *Server) sameOrigin(c *fiber.Ctx) error {
	if httpin.SameOrigin(c, s.PublicURL()) {
		return nil
	}
	return fault.New(fault.CrossOrigin, "This is taken only from pages of the same origin.")
}
