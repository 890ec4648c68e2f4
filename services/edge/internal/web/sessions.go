package web

import (
	"bytes"
	"encoding/hex"
	"net/netip"
	"strings"

	"github.com/gofiber/fiber/v2"

	"quire.dev/pkg/apikey"
	"quire.dev/pkg/event"
)

// sessionIDPrefix is how many bytes of a session's hash are its id. The hash opens nothing: the store has it in place of the
// token.
const sessionIDPrefix = 12

type sessionList struct {
	success
	Sessions []sessionView `json:"sessions"`
}

type sessionView struct {
	ID         string  `json:"id"`
	CreatedAt  *string `json:"createdAt"` // null: it was opened by a version that did not note it
	LastSeenAt *string `json:"lastSeenAt"`
	ExpiresAt  string  `json:"expiresAt"`
	Current    bool    `json:"current"`
	Client     string  `json:"client"`
	Network    string  `json:"network"`
}

// listSessions lists the sessions of the account.
func (s *Server) listSessions(c *call) error {
	sessions, err := s.sessionsOf(c)
	if err != nil {
		return err
	}
	current := apikey.HashToken(s.sessionToken(c.Ctx))
	out := sessionList{success: succeeded(), Sessions: make([]sessionView, 0, len(sessions))}
	for _, session := range sessions {
		out.Sessions = append(out.Sessions, sessionView{
			ID:        sessionID(session.SessionHash),
			CreatedAt: optionalTime(session.CreatedMs), LastSeenAt: optionalTime(session.SeenMs),
			ExpiresAt: formatTime(session.ExpiresMs), Current: bytes.Equal(session.SessionHash, current),
			Client: session.Agent, Network: session.Network,
		})
	}
	return s.json(c.Ctx, fiber.StatusOK, out)
}

// sessionsOf are the sessions of the account that calls, the one that was used last first.
func (s *Server) sessionsOf(c *call) ([]*event.OpenSession, error) {
	a, err := s.bus.User(s.ctx, &event.UserRequest{Action: &event.UserRequest_ListSessions{
		ListSessions: &event.ListSessions{Account: uint64(c.who.account)},
	}})
	if err != nil {
		return nil, err
	}
	if a.Status != event.UserStatus_USER_OK {
		return nil, unavailable(errUserAnswer)
	}
	return a.Sessions, nil
}

// sessionID is the id of a session in the API.
func sessionID(hash []byte) string { return hex.EncodeToString(hash[:min(len(hash), sessionIDPrefix)]) }

// endSession ends one session of the account, which may be this one.
func (s *Server) endSession(c *call) error {
	if _, err := s.endedSession(c); err != nil {
		return err
	}
	return s.json(c.Ctx, fiber.StatusOK, succeeded())
}

// endedSession ends the session that the path names. It tells whether that is the one of the call.
func (s *Server) endedSession(c *call) (own bool, err error) {
	prefix, err := hex.DecodeString(c.param("id"))
	if err != nil || len(prefix) != sessionIDPrefix {
		return false, notFound()
	}
	a, err := s.bus.User(s.ctx, &event.UserRequest{Action: &event.UserRequest_EndSession{
		EndSession: &event.EndSession{Account: uint64(c.who.account), Prefix: prefix, Change: c.idem},
	}})
	switch {
	case err != nil:
		return false, err
	case a.Status == event.UserStatus_USER_NOT_FOUND:
		return false, notFound()
	case a.Status == event.UserStatus_USER_EXISTS:
		c.Set(headerReplayed, "true")
	case a.Status != event.UserStatus_USER_OK:
		return false, unavailable(errUserAnswer)
	}
	own = bytes.HasPrefix(apikey.HashToken(s.sessionToken(c.Ctx)), prefix)
	if own {
		s.setSessionCookie(c.Ctx, "", 0)
	}
	return own, nil
}

// optionalTime is nil for a time that is not known.
func optionalTime(ms int64) *string {
	if ms == 0 {
		return nil
	}
	return new(formatTime(ms))
}

// clientNetwork is what a list of sessions shows of the address that a session was opened from: enough to know the place
// again, and no single machine.
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

// clientName is what a list of sessions shows of a User-Agent: the browser and the system, without versions. It is "" where
// neither is known.
func clientName(userAgent string) string {
	browser := firstOf(userAgent, [][2]string{ // most name others after themselves
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

// firstOf is the name of the first mark that is in a text.
func firstOf(text string, names [][2]string) string {
	for _, n := range names {
		if strings.Contains(text, n[0]) {
			return n[1]
		}
	}
	return ""
}
