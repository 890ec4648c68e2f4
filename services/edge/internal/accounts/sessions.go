package accounts

import (
	"bytes"
	"encoding/hex"

	"github.com/gofiber/fiber/v2"

	"quire.dev/pkg/apikey"
	"quire.dev/pkg/event"
	"quire.dev/services/edge/internal/endpoint"
)

// sessionIDPrefix is how many bytes of a session's hash are its id. The hash is no secret: the store has it instead of the
// token.
const sessionIDPrefix = 12

type sessionList struct {
	endpoint.Success
	Sessions []sessionView `json:"sessions"`
}

type sessionView struct {
	ID         string  `json:"id"`
	CreatedAt  *string `json:"createdAt"` // null: opened by a version that did not record it
	LastSeenAt *string `json:"lastSeenAt"`
	ExpiresAt  string  `json:"expiresAt"`
	Current    bool    `json:"current"`
	Client     string  `json:"client"`
	Network    string  `json:"network"`
}

// listSessions lists the sessions of the account.
func (s *Accounts) listSessions(c *endpoint.Call) error {
	sessions, err := s.SessionsOf(c)
	if err != nil {
		return err
	}
	current := apikey.HashToken(s.SessionToken(c.Ctx))
	out := sessionList{Success: endpoint.Succeeded(), Sessions: make([]sessionView, 0, len(sessions))}
	for _, session := range sessions {
		out.Sessions = append(out.Sessions, sessionView{
			ID:        SessionID(session.SessionHash),
			CreatedAt: endpoint.OptionalTime(session.CreatedMs), LastSeenAt: endpoint.OptionalTime(session.SeenMs),
			ExpiresAt: endpoint.FormatTime(session.ExpiresMs), Current: bytes.Equal(session.SessionHash, current),
			Client: session.Agent, Network: session.Network,
		})
	}
	return s.JSON(c.Ctx, fiber.StatusOK, out)
}

// SessionsOf returns the sessions of the caller's account, most recently used first.
func (s *Accounts) SessionsOf(c *endpoint.Call) ([]*event.OpenSession, error) {
	a, err := s.bus.User(s.ctx, &event.UserRequest{Action: &event.UserRequest_ListSessions{
		ListSessions: &event.ListSessions{Account: uint64(c.Who.Account)},
	}})
	if err != nil {
		return nil, err
	}
	if a.Status != event.UserStatus_USER_OK {
		return nil, endpoint.Unavailable(endpoint.ErrUserAnswer)
	}
	return a.Sessions, nil
}

// SessionID is the id of a session in the API.
func SessionID(hash []byte) string { return hex.EncodeToString(hash[:min(len(hash), sessionIDPrefix)]) }

// endSession ends a session of the account, possibly this one.
func (s *Accounts) endSession(c *endpoint.Call) error {
	if _, err := s.EndedSession(c); err != nil {
		return err
	}
	return s.JSON(c.Ctx, fiber.StatusOK, endpoint.Succeeded())
}

// EndedSession ends the session in the path. own reports whether it is the caller's.
func (s *Accounts) EndedSession(c *endpoint.Call) (own bool, err error) {
	prefix, err := hex.DecodeString(c.Param("id"))
	if err != nil || len(prefix) != sessionIDPrefix {
		return false, endpoint.NotFound()
	}
	a, err := s.bus.User(s.ctx, &event.UserRequest{Action: &event.UserRequest_EndSession{
		EndSession: &event.EndSession{Account: uint64(c.Who.Account), Prefix: prefix, Change: c.Idem},
	}})
	switch {
	case err != nil:
		return false, err
	case a.Status == event.UserStatus_USER_NOT_FOUND:
		return false, endpoint.NotFound()
	case a.Status == event.UserStatus_USER_EXISTS:
		c.Set(endpoint.HeaderReplayed, "true")
	case a.Status != event.UserStatus_USER_OK:
		return false, endpoint.Unavailable(endpoint.ErrUserAnswer)
	}
	own = bytes.HasPrefix(apikey.HashToken(s.SessionToken(c.Ctx)), prefix)
	if own {
		s.SetSessionCookie(c.Ctx, "", 0)
	}
	return own, nil
}
