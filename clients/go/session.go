package client

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// Session is a session opened by a log-in. It expires after 30 days.
type Session struct {
	Client  *Client  // calls with the session
	Profile *Profile // of the account
	Cookie  string   // for WithSession. Anyone with it can act as the account
}

// WithSession authenticates with a session if New has no API key. cookie is the Cookie of a Session.
func WithSession(cookie string) Option {
	return func(c *Client) error {
		name, value, found := strings.Cut(cookie, "=")
		if !found || name == "" || value == "" || strings.ContainsFunc(cookie, func(r rune) bool { return r <= ' ' || r > '~' || r == ';' }) {
			return errors.New("quire: the session is none: it takes the Cookie of a Session")
		}
		c.session = cookie
		return nil
	}
}

// Register creates an account on the Free plan and opens a session. A password has 8 to 128 characters.
func Register(ctx context.Context, email, password string, options ...Option) (*Session, error) {
	return open(ctx, "/api/users/register", map[string]any{"email": email, "password": password}, options)
}

// LogIn opens a session. The error is an *UnauthorizedError if the email or password is wrong, and a *ConflictError with DeletesAt
// if the account is scheduled for deletion: CancelDeletion keeps it.
func LogIn(ctx context.Context, email, password string, options ...Option) (*Session, error) {
	return open(ctx, "/api/users/login", map[string]any{"email": email, "password": password}, options)
}

// CancelDeletion is LogIn to an account that is scheduled for deletion, and keeps it.
func CancelDeletion(ctx context.Context, email, password string, options ...Option) (*Session, error) {
	return open(ctx, "/api/users/login", map[string]any{"email": email, "password": password, "cancelDeletion": true}, options)
}

func open(ctx context.Context, path string, credentials map[string]any, options []Option) (*Session, error) {
	c, err := New("", options...)
	if err != nil {
		return nil, err
	}
	r := once(http.MethodPost, path, nil)
	r.keyless = true
	if err := r.json(credentials); err != nil {
		return nil, err
	}
	session := &Session{Client: c}
	r.after = func(h http.Header) { session.Cookie = sessionCookie(h) }
	if session.Profile, err = fetch[Profile](ctx, c, r); err != nil {
		return nil, err
	}
	if session.Cookie == "" {
		return nil, errors.New("quire: the answer to the log-in has no session")
	}
	c.session = session.Cookie
	return session, nil
}

// sessionCookie is the session cookie set by a response.
func sessionCookie(h http.Header) string {
	for _, line := range h.Values("Set-Cookie") {
		cookie, err := http.ParseSetCookie(line)
		if err == nil && strings.HasSuffix(cookie.Name, "quire_session") && cookie.Value != "" {
			return cookie.Name + "=" + cookie.Value
		}
	}
	return ""
}

// Done is a result without content.
type Done struct{ Meta }

// LogOut ends the client's session.
func (a *Account) LogOut(ctx context.Context, options ...CallOption) (*Done, error) {
	return fetch[Done](ctx, a.c, once(http.MethodPost, "/api/users/logout", options))
}

// SessionInfo is an open session of a browser or program.
type SessionInfo struct {
	ID         string    `json:"id"`
	CreatedAt  time.Time `json:"createdAt"`
	LastSeenAt time.Time `json:"lastSeenAt"` // accurate to the hour
	ExpiresAt  time.Time `json:"expiresAt"`
	Current    bool      `json:"current"` // the session of this call
	Program    string    `json:"client"`  // browser and system without versions; empty if unknown
	Network    string    `json:"network"` // IPv4 /24 or IPv6 /48 it was opened from; empty if unknown
}

// SessionList is the list of an account's sessions.
type SessionList struct {
	Meta
	Sessions []*SessionInfo `json:"sessions"` // the 100 last used, latest first
}

// Sessions lists the account's sessions. It requires a session.
func (a *Account) Sessions(ctx context.Context, options ...CallOption) (*SessionList, error) {
	return fetch[SessionList](ctx, a.c, newRequest(http.MethodGet, "/api/users/user/sessions", options))
}

// EndSession ends one of the account's sessions. It requires a session.
func (a *Account) EndSession(ctx context.Context, id string, options ...CallOption) (*Done, error) {
	return fetch[Done](ctx, a.c, once(http.MethodDelete, "/api/users/user/sessions/"+url.PathEscape(id), options))
}

// EndAllSessions ends all of the account's sessions, including the client's. It requires a session.
func (a *Account) EndAllSessions(ctx context.Context, options ...CallOption) (*Done, error) {
	return fetch[Done](ctx, a.c, once(http.MethodDelete, "/api/users/user/sessions", options))
}

// ChangePassword changes the password, and ends the account's other sessions. It requires a session.
func (a *Account) ChangePassword(ctx context.Context, current, password string, options ...CallOption) (*Done, error) {
	return a.change(ctx, "/api/users/user/password", map[string]string{"currentPassword": current, "password": password}, options)
}

// ChangeEmail changes the email. Sessions and keys stay valid. It requires a session.
func (a *Account) ChangeEmail(ctx context.Context, currentPassword, email string, options ...CallOption) (*Done, error) {
	return a.change(ctx, "/api/users/user/email", map[string]string{"currentPassword": currentPassword, "email": email}, options)
}

func (a *Account) change(ctx context.Context, path string, body map[string]string, options []CallOption) (*Done, error) {
	r := once(http.MethodPut, path, options)
	if err := r.json(body); err != nil {
		return nil, err
	}
	return fetch[Done](ctx, a.c, r)
}

// Deletion is an account scheduled for deletion.
type Deletion struct {
	Meta
	Account AccountInfo `json:"account"` // DeletesAt says when
}

// Delete deletes the account: its sessions and keys end immediately, its documents and personal data are deleted after 14
// days. Until then CancelDeletion keeps the account. It requires a session.
func (a *Account) Delete(ctx context.Context, currentPassword string, options ...CallOption) (*Deletion, error) {
	r := once(http.MethodDelete, "/api/users/user", options)
	if err := r.json(map[string]string{"currentPassword": currentPassword}); err != nil {
		return nil, err
	}
	return fetch[Deletion](ctx, a.c, r)
}
