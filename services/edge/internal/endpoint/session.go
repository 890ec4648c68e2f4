package endpoint

import (
	"context"
	"crypto/rand"
	"errors"
	"net/netip"
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
	secureCookie    = "__Host-" + sessionCookie // behind TLS; browsers accept it only from this very host
	sessionIDBytes  = 32
	sessionLifetime = 30 * Day
)

var (
	ErrUserAnswer  = errors.New("the user store's answer is of another kind")
	ErrQueryAnswer = errors.New("billing's answer is of another kind")
)

// SessionRequired is the answer to a call without a session.
func SessionRequired() error {
	return fault.New(fault.SessionRequired, "Session required: log in with POST /api/users/login and send its cookie.")
}

// OpenSession opens a session of the user and sets its cookie. The store has only a hash of the cookie's value, so that a
// stolen store signs nobody in. The session is invalid if the password has changed since user was read.
func (s *Base) OpenSession(c *fiber.Ctx, user *event.User) error {
	id := make([]byte, sessionIDBytes)
	rand.Read(id)
	token, expires := s.secret.SignSession(id), s.Now().Add(sessionLifetime)
	a, err := s.bus.User(s.ctx, &event.UserRequest{Action: &event.UserRequest_OpenSession{OpenSession: &event.OpenSession{
		SessionHash: apikey.HashToken(token), Account: user.Account, ExpiresMs: expires.UnixMilli(), Epoch: user.Epoch,
		Agent: clientName(c.Get(fiber.HeaderUserAgent)), Network: clientNetwork(s.http.Source(c)),
	}}})
	if err != nil {
		return err
	}
	if a.Status != event.UserStatus_USER_OK {
		return Unavailable(ErrUserAnswer)
	}
	s.SetSessionCookie(c, token, sessionLifetime)
	rememberUser(c, user)
	return nil
}

// SetSessionCookie sets the cookie, or deletes it if token is empty. It uses Max-Age rather than a date, since the client's
// clock may differ.
func (s *Base) SetSessionCookie(c *fiber.Ctx, token string, lifetime time.Duration) {
	cookie := &fiber.Cookie{
		Name: s.cookieName(c), Value: token, Path: "/", MaxAge: int(lifetime.Seconds()),
		HTTPOnly: true, SameSite: fiber.CookieSameSiteLaxMode, Secure: s.BehindTLS(c),
	}
	if token == "" {
		cookie.Expires = time.Unix(1, 0)
		rememberUser(c, nil)
	}
	c.Cookie(cookie)
}

// cookieName is the name of the session cookie. Behind TLS the other name is ignored: another host of the site, or an
// attacker on a connection without TLS, could have set it.
func (s *Base) cookieName(c *fiber.Ctx) string {
	if s.BehindTLS(c) {
		return secureCookie
	}
	return sessionCookie
}

// BehindTLS reports whether the client connected by TLS, according to the public URL or a trusted proxy.
func (s *Base) BehindTLS(c *fiber.Ctx) bool {
	if strings.HasPrefix(*s.publicURL.Load(), "https://") {
		return true
	}
	return s.http.BehindTLS(c)
}

// SessionToken returns the cookie's value; "" if no edge can have made it.
func (s *Base) SessionToken(c *fiber.Ctx) string {
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

// ReadSession sets the caller from the session, and fails with 401 without one.
func (s *Base) ReadSession(c *Call) error {
	if err := s.sameOrigin(c); err != nil {
		return err
	}
	account, err := s.SessionAccount(c.Ctx)
	if err != nil {
		return err
	}
	if account == 0 {
		return SessionRequired()
	}
	c.Who = Caller{Account: account}
	return nil
}

// SessionAccount returns the account of the session in the client's cookie, 0 without one.
func (s *Base) SessionAccount(c *fiber.Ctx) (event.AccountID, error) {
	user, err := s.sessionUser(s.ctx, c)
	return event.AccountID(user.GetAccount()), err
}

// sessionUser returns the user of the session, nil without one.
func (s *Base) sessionUser(ctx context.Context, c *fiber.Ctx) (*event.User, error) {
	token := s.SessionToken(c)
	if token == "" {
		return nil, nil
	}
	a, err := s.bus.User(ctx, &event.UserRequest{Action: &event.UserRequest_CheckSession{
		CheckSession: &event.CheckSession{SessionHash: apikey.HashToken(token)},
	}})
	switch {
	case err != nil:
		return nil, err
	case a.Status == event.UserStatus_USER_NOT_FOUND:
		rememberUser(c, nil)
		return nil, nil
	case a.Status != event.UserStatus_USER_OK || a.User.GetAccount() == 0:
		return nil, Unavailable(ErrUserAnswer)
	}
	rememberUser(c, a.User)
	return a.User, nil
}

// sameOrigin refuses a write sent by a page of another site.
func (s *Base) sameOrigin(c *Call) error {
	if c.Row.Method == fiber.MethodGet || httpin.SameOrigin(c.Ctx, s.PublicURL()) {
		return nil
	}
	return fault.New(fault.CrossOrigin, "Cross-origin requests are refused: Sec-Fetch-Site or Origin names another origin.")
}

// clientNetwork is the address shown in a list of sessions: enough to recognize the place, but not a single machine.
func clientNetwork(source netip.Addr) string {
	bits := 24
	if source.Is6() {
		bits = 48
	}
	network, err := source.Prefix(bits)
	if err != nil {
		return ""
	}
	return network.String()
}

// clientName is the browser and system shown in a list of sessions, without versions; "" if unknown.
func clientName(userAgent string) string {
	browser := firstOf(userAgent, [][2]string{ // browsers name others after themselves
		{"Edg", "Edge"},
		{"OPR/", "Opera"},
		{"Firefox/", "Firefox"},
		{"FxiOS/", "Firefox"},
		{"CriOS/", "Chrome"},
		{"Chrome/", "Chrome"},
		{"Safari/", "Safari"},
		{"curl/", "curl"},
	})
	system := firstOf(userAgent, [][2]string{
		{"Android", "Android"},
		{"iPhone", "iOS"},
		{"iPad", "iOS"},
		{"Windows", "Windows"},
		{"Mac OS X", "macOS"},
		{"CrOS", "ChromeOS"},
		{"Linux", "Linux"},
	})
	if browser != "" && system != "" {
		return browser + " on " + system
	}
	return browser + system
}

// firstOf returns the name of the first mark found in a text.
func firstOf(text string, names [][2]string) string {
	for _, n := range names {
		if strings.Contains(text, n[0]) {
			return n[1]
		}
	}
	return ""
}
