package client

import (
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Version of this client, sent in its User-Agent.
const Version = "0.1.0"

// DefaultBaseURL is the address of a server started by `make run`.
const DefaultBaseURL = "http://127.0.0.1:8080"

// Client calls one service with one API key. It is safe for concurrent use.
type Client struct {
	Pastes      *Pastes  // up to 4 MB, with an account
	QuickPastes *Pastes  // up to 256 KB, with an account or without
	Files       *Files   // up to 50 MB, with an account
	Account     *Account // of the API key or session
	Keys        *Keys    // the account's API keys, with a session
	Webhooks    *Webhooks

	base      *url.URL
	key       string
	session   string // session cookie, used if there is no key
	http      *http.Client
	retries   int
	userAgent string
	wait      waiter
	newest    newestReceipt
}

// Option configures a Client.
type Option func(*Client) error

// New returns a client. key is an API key. Without one, and without WithSession, it can only create quick pastes, and edit
// them with their ManageToken. An error names an invalid option. New sends nothing.
func New(key string, options ...Option) (*Client, error) {
	c := &Client{key: key, http: &http.Client{}, retries: DefaultRetries, userAgent: "quire-go/" + Version, wait: sleep}
	if strings.ContainsFunc(key, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return nil, errors.New("quire: the API key has a character that no key has")
	}
	for _, set := range append([]Option{WithBaseURL(DefaultBaseURL)}, options...) {
		if err := set(c); err != nil {
			return nil, err
		}
	}
	// The API never redirects, and the API key must not reach another host.
	own := *c.http
	own.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	c.http = &own
	c.Pastes = &Pastes{c: c, path: "/api/dev/pastes"}
	c.QuickPastes = &Pastes{c: c, path: "/api/dev/paste-lite"}
	c.Files = &Files{c: c}
	c.Account = &Account{c: c}
	c.Keys = &Keys{c: c}
	c.Webhooks = &Webhooks{c: c}
	return c, nil
}

// WithBaseURL sets the URL of the service, such as https://paste.example. Its path is a prefix of every path of the API.
func WithBaseURL(address string) Option {
	return func(c *Client) error {
		u, err := url.Parse(strings.TrimRight(address, "/"))
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.RawQuery != "" || u.Fragment != "" {
			return fmt.Errorf("quire: %q is no base URL: it takes http or https, and a host", address)
		}
		c.base = u
		return nil
	}
}

// WithHTTPClient sends through h, for a proxy, certificates or timeouts. The Timeout of h bounds each attempt, including
// file transfers. Redirects are not followed.
func WithHTTPClient(h *http.Client) Option {
	return func(c *Client) error {
		if h == nil {
			return errors.New("quire: the HTTP client is nil")
		}
		c.http = h
		return nil
	}
}

// DefaultRetries is the default of WithRetries.
const DefaultRetries = 5

// WithRetries sets the maximum number of retries: after connection failures, 503, 504, idempotency_in_flight and
// quota_held. Retries use exponential backoff, honor Retry-After and stay within the context's deadline. No other answer is
// retried. 0 disables retries.
func WithRetries(n int) Option {
	return func(c *Client) error {
		if n < 0 {
			return fmt.Errorf("quire: %d retries", n)
		}
		c.retries = n
		return nil
	}
}

// WithUserAgent prefixes the User-Agent with your program's name, such as "reporter/1.2".
func WithUserAgent(name string) Option {
	return func(c *Client) error {
		if name == "" || strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r > '~' }) {
			return fmt.Errorf("quire: %q is no User-Agent", name)
		}
		c.userAgent = name + " quire-go/" + Version
		return nil
	}
}

// CallOption configures one call.
type CallOption func(*request)

// WithIdempotencyKey sets the Idempotency-Key instead of a random one: a write retried under it within 24 hours, even by
// another process, is carried out once; a metered read repeated within 60 seconds is not charged again, at most twice. It has 1
// to 128 printable ASCII characters.
func WithIdempotencyKey(key string) CallOption {
	return func(r *request) { r.header.Set(headerIdempotencyKey, key) }
}

// WithManageToken edits or deletes a quick paste created without an API key. The call does not send the client's API key.
func WithManageToken(token string) CallOption {
	return func(r *request) {
		r.header.Set("X-Manage-Token", token)
		r.keyless = true
	}
}

// WithPassword sends the password of a protected document.
func WithPassword(password string) CallOption {
	return func(r *request) { r.header.Set("X-Paste-Password", password) }
}

// IfVersion makes the call fail with a *VersionMismatchError unless the document has this version.
func IfVersion(version int64) CallOption {
	return func(r *request) { r.header.Set("If-Match", etag(version)) }
}

// IfNotVersion makes the read fail with ErrNotModified if the document still has this version.
func IfNotVersion(version int64) CallOption {
	return func(r *request) { r.header.Set("If-None-Match", etag(version)) }
}

func etag(version int64) string { return `"` + strconv.FormatInt(version, 10) + `"` }

// newIdempotencyKey returns a random 128-bit key.
func newIdempotencyKey() string { return rand.Text() }

// Meta is the metadata of a result.
type Meta struct {
	RequestID    string       `json:"-"`         // for Account.Explain
	Remaining    int64        `json:"remaining"` // free calls left this month under the call's quota key; -1 if unlimited
	ChargeSource ChargeSource `json:"-"`
	Cost         Credits      `json:"-"` // cost of the call
	Balance      Credits      `json:"-"` // after the call, if ChargeSource is ChargedToCredits
	Receipt      string       `json:"-"` // "<n>.<hash>": commits to all n account entries up to this call; empty if unmetered, keyless, refused or replayed
	Replayed     bool         `json:"-"` // replayed under the Idempotency-Key: nothing was done or charged again

	retryAfter time.Duration
}

func (m *Meta) meta() *Meta { return m }

// ChargeSource says what paid for a call.
type ChargeSource string

// What paid for a call; empty for an unmetered one.
const (
	ChargedToQuota   ChargeSource = "quota"
	ChargedToCredits ChargeSource = "credits"
	NotCharged       ChargeSource = "none"
)
