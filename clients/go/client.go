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

// Version of this client, which its User-Agent names.
const Version = "0.1.0"

// DefaultBaseURL is where a server started by `make run` listens.
const DefaultBaseURL = "http://127.0.0.1:8080"

// Client calls one service with one API key. It is safe for concurrent use.
type Client struct {
	Pastes      *Texts   // up to 4 MiB, with an account
	QuickPastes *Texts   // up to 256 KiB, with an account or without
	Files       *Files   // up to 50 MB, with an account
	Account     *Account // of the API key or session
	Keys        *Keys    // the account's API keys, with a session
	Webhooks    *Webhooks

	base      *url.URL
	key       string
	session   string // the cookie of a session; it counts where there is no key
	http      *http.Client
	retries   int
	userAgent string
	wait      waiter
}

// Option changes how a Client works.
type Option func(*Client) error

// New makes a client. key is an API key. Without one, and without WithSession, only quick pastes can be made, and changed
// with their ManageToken. The error says which option is wrong. Nothing is sent.
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
	// The API redirects nowhere. Whoever does so in its place shall not get the API key.
	own := *c.http
	own.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	c.http = &own
	c.Pastes = &Texts{c: c, path: "/api/dev/pastes"}
	c.QuickPastes = &Texts{c: c, path: "/api/dev/paste-lite"}
	c.Files = &Files{c: c}
	c.Account = &Account{c: c}
	c.Keys = &Keys{c: c}
	c.Webhooks = &Webhooks{c: c}
	return c, nil
}

// WithBaseURL names the service, such as https://paste.example. A path in it goes before each path of the API.
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

// WithHTTPClient sends by h, for a proxy, certificates or timeouts of your own. A Timeout of h bounds each attempt, also the
// transfer of a file. Redirects are not followed.
func WithHTTPClient(h *http.Client) Option {
	return func(c *Client) error {
		if h == nil {
			return errors.New("quire: the HTTP client is nil")
		}
		c.http = h
		return nil
	}
}

// DefaultRetries is how many times a call is repeated unless WithRetries says otherwise.
const DefaultRetries = 5

// WithRetries sets how many times a call is repeated at most: after a connection that broke, and after the answers 503,
// 504, idempotency_in_flight and quota_held. It waits between two attempts, longer each time and as long as Retry-After
// says, within the context's deadline. No other answer is asked for again. 0: each call is sent once.
func WithRetries(n int) Option {
	return func(c *Client) error {
		if n < 0 {
			return fmt.Errorf("quire: %d retries", n)
		}
		c.retries = n
		return nil
	}
}

// WithUserAgent puts the name of your program before that of this client, such as "reporter/1.2".
func WithUserAgent(name string) Option {
	return func(c *Client) error {
		if name == "" || strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r > '~' }) {
			return fmt.Errorf("quire: %q is no User-Agent", name)
		}
		c.userAgent = name + " quire-go/" + Version
		return nil
	}
}

// CallOption changes one call.
type CallOption func(*request)

// WithIdempotencyKey sends a key of your own in place of a drawn one: a write that is repeated under it within 24 hours, by
// another process too, is carried out once. A metered read is charged once within 10 minutes. 1 to 128 printable ASCII characters.
func WithIdempotencyKey(key string) CallOption {
	return func(r *request) { r.header.Set(headerIdempotencyKey, key) }
}

// WithManageToken changes or deletes a quick paste that was made without an API key. The call is sent without the client's
// API key.
func WithManageToken(token string) CallOption {
	return func(r *request) {
		r.header.Set("X-Manage-Token", token)
		r.keyless = true
	}
}

// WithPassword sends the password of a document that has one.
func WithPassword(password string) CallOption {
	return func(r *request) { r.header.Set("X-Paste-Password", password) }
}

// IfVersion carries the call out only while the document has this version. Otherwise its error is a *VersionMismatch.
func IfVersion(version int64) CallOption {
	return func(r *request) { r.header.Set("If-Match", etag(version)) }
}

// IfNotVersion reads the document only if it has another version by now. Otherwise the error is ErrNotModified.
func IfNotVersion(version int64) CallOption {
	return func(r *request) { r.header.Set("If-None-Match", etag(version)) }
}

func etag(version int64) string { return `"` + strconv.FormatInt(version, 10) + `"` }

// newIdempotencyKey draws a key of 128 bits.
func newIdempotencyKey() string { return rand.Text() }

// Meta is what an answer tells beside its content.
type Meta struct {
	RequestID    string       `json:"-"`         // by which the call is explained
	Remaining    int64        `json:"remaining"` // free calls left this month under the call's quota key; -1: unlimited
	ChargeSource ChargeSource `json:"-"`
	Cost         Credits      `json:"-"` // that the call cost
	Balance      Credits      `json:"-"` // after the call, where ChargeSource is ChargedToCredits
	Replayed     bool         `json:"-"` // the service had answered under this Idempotency-Key before: nothing was done or charged again

	retryAfter time.Duration
}

func (m *Meta) meta() *Meta { return m }

// ChargeSource says what paid for a call.
type ChargeSource string

// What pays for a call. It is empty for one that is not metered.
const (
	ChargedToQuota   ChargeSource = "quota"
	ChargedToCredits ChargeSource = "credits"
	NotCharged       ChargeSource = "none"
)
