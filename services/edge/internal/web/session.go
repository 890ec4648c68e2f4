package web

import (
	"crypto/rand"
	"errors"
	"strings"
	"time"

	"github.com/gofiber/fiber/v2"

	"quire.dev/pkg/apikey"
	"quire.dev/pkg/event"
	"quire.dev/services/edge/internal/fault"
	"quire.dev/services/edge/internal/httpin"
)

const (
	sessionCookie   = "quire_session"
	secureCookie    = "__Host-" + sessionCookie // behind TLS; browsers take it from this very host alone
	sessionIDBytes  = 32
	sessionLifetime = 30 * day
)

var (
	errUserAnswer  = errors.New("the user store's answer is of another kind")
	errQueryAnswer = errors.New("billing's answer is of another kind")
)

func sessionRequired() error {
	return fault.New(fault.SessionRequired, "Session required: log in by POST /api/users/login and send its cookie.")
}

// openSession opens a session of the user and gives it to the client as a cookie. The store keeps only a hash of the
// cookie's value, so that a stolen store logs nobody in. The session is not valid if the password has changed since user
// was read.
func (s *Server) openSession(c *fiber.Ctx, user *event.User) error {
	id := make([]byte, sessionIDBytes)
	rand.Read(id)
	token, expires := s.secret.SignSession(id), s.now().Add(sessionLifetime)
	a, err := s.bus.User(s.ctx, &event.UserRequest{Action: &event.UserRequest_OpenSession{OpenSession: &event.OpenSession{
		SessionHash: apikey.HashToken(token), Account: user.Account, ExpiresMs: expires.UnixMilli(), Epoch: user.Epoch,
		Agent: clientName(c.Get(fiber.HeaderUserAgent)), Network: clientNetwork(s.http.Source(c)),
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

// setSessionCookie sets the cookie, or deletes it where token is empty. Its lifetime is a number of seconds and no date,
// since the client's clock may differ.
func (s *Server) setSessionCookie(c *fiber.Ctx, token string, lifetime time.Duration) {
	cookie := &fiber.Cookie{
		Name: s.cookieName(c), Value: token, Path: "/", MaxAge: int(lifetime.Seconds()),
		HTTPOnly: true, SameSite: fiber.CookieSameSiteLaxMode, Secure: s.behindTLS(c),
	}
	if token == "" {
		cookie.Expires = time.Unix(1, 0)
	}
	c.Cookie(cookie)
}

// cookieName is the name of the session's cookie. Behind TLS the other name is not read: another host of the site, or one who
// changes what travels to it without TLS, could have set it.
func (s *Server) cookieName(c *fiber.Ctx) string {
	if s.behindTLS(c) {
		return secureCookie
	}
	return sessionCookie
}

// behindTLS tells whether the client's side of the connection is encrypted, as the public URL or a trusted proxy says.
func (s *Server) behindTLS(c *fiber.Ctx) bool {
	if strings.HasPrefix(*s.publicURL.Load(), "https://") {
		return true
	}
	return s.http.BehindTLS(c)
}

// sessionToken is the cookie's value; "" for a cookie that no edge made.
func (s *Server) sessionToken(c *fiber.Ctx) string {
	token := strings.Clone(c.Cookies(s.cookieName(c)))
	if token == "" {
		return ""
	}
	id, signedBy, err := s.secret.ParseSession(token)
	if err != nil || len(id) != sessionIDBytes {
		return ""
	}
	if !s.secret.Signs(signedBy) {
		s.metrics.oldSession.Inc()
	}
	return token
}

// readSession reads the session of the call. It is 401 without one.
func (s *Server) readSession(c *call) error {
	if err := s.sameOrigin(c); err != nil {
		return err
	}
	account, err := s.sessionAccount(c.Ctx)
	if err != nil {
		return err
	}
	if account == 0 {
		return sessionRequired()
	}
	c.who = caller{account: account}
	return nil
}

// sessionAccount is the account of the session that the client's cookie names, 0 where it names none.
func (s *Server) sessionAccount(c *fiber.Ctx) (event.AccountID, error) {
	token := s.sessionToken(c)
	if token == "" {
		return 0, nil
	}
	a, err := s.bus.User(s.ctx, &event.UserRequest{Action: &event.UserRequest_CheckSession{
		CheckSession: &event.CheckSession{SessionHash: apikey.HashToken(token)},
	}})
	switch {
	case err != nil:
		return 0, err
	case a.Status == event.UserStatus_USER_NOT_FOUND:
		return 0, nil
	case a.Status != event.UserStatus_USER_OK || a.User.GetAccount() == 0:
		return 0, unavailable(errUserAnswer)
	}
	return event.AccountID(a.User.Account), nil
}

// sameOrigin refuses a write that a page of another site sent.
func (s *Server) sameOrigin(c *call) error {
	if c.route.method == fiber.MethodGet || httpin.SameOrigin(c.Ctx, s.PublicURL()) {
		return nil
	}
	return fault.New(fault.CrossOrigin, "This call is not taken from pages of another origin: Sec-Fetch-Site or Origin names one.")
}
