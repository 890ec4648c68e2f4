package client

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
)

const (
	headerIdempotencyKey = "Idempotency-Key"

	initialPause = 200 * time.Millisecond
	maxPause     = 10 * time.Second
	// maxWait is the longest Retry-After that a call waits for. A longer one is up to the caller.
	maxWait = time.Minute
	// answerBytes is the maximum size of a JSON response: a paste of 4 MB with every byte escaped.
	answerBytes = 6*(4<<20) + 1<<20
)

// request is one call. It may be sent several times.
type request struct {
	method, path string
	query        url.Values
	header       http.Header
	body         func() (io.Reader, error) // returns the body of an attempt; nil for none
	length       int64                     // of the body; -1 if unknown
	keyless      bool                      // the API key is not sent
	at           *url.URL                  // overrides path and query if not nil
	before       func(http.Header)         // edits the headers of an attempt, if not nil
	after        func(http.Header)         // receives the headers of a success, if not nil
}

func newRequest(method, path string, options []CallOption) *request {
	r := &request{method: method, path: path, query: url.Values{}, header: http.Header{}}
	for _, set := range options {
		set(r)
	}
	return r
}

// once is newRequest with an Idempotency-Key, so that retries are carried out and charged once.
func once(method, path string, options []CallOption) *request {
	r := newRequest(method, path, options)
	if r.header.Get(headerIdempotencyKey) == "" {
		r.header.Set(headerIdempotencyKey, newIdempotencyKey())
	}
	return r
}

// json sets v as the body.
func (r *request) json(v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("quire: %w", err)
	}
	r.header.Set("Content-Type", "application/json")
	r.body = func() (io.Reader, error) { return bytes.NewReader(data), nil }
	r.length = int64(len(data))
	return nil
}

// answer is the JSON body of a success.
type answer interface{ meta() *Meta }

// call sends r with retries and decodes the JSON of a success into out.
func (c *Client) call(ctx context.Context, r *request, out answer) error {
	return c.send(ctx, r, func(response *http.Response) error {
		defer response.Body.Close()
		data, err := io.ReadAll(io.LimitReader(response.Body, answerBytes+1))
		switch {
		case err != nil:
			return &brokenError{fmt.Errorf("read the answer: %w", err)}
		case len(data) > answerBytes:
			return fmt.Errorf("quire: the answer has more than %d bytes", answerBytes)
		}
		if err := json.Unmarshal(data, out); err != nil {
			return fmt.Errorf("quire: the answer can't be read: %w", err)
		}
		if r.after != nil {
			r.after(response.Header)
		}
		return out.meta().read(response.Header)
	})
}

// brokenError: the connection broke before the full response arrived.
type brokenError struct{ cause error }

func (e *brokenError) Error() string { return "quire: " + e.cause.Error() }
func (e *brokenError) Unwrap() error { return e.cause }

// send sends r until it succeeds, fails permanently, or runs out of retries. read handles and closes the response of a
// success.
func (c *Client) send(ctx context.Context, r *request, read func(*http.Response) error) error {
	if err := r.checkPath(); err != nil {
		return err
	}
	pause := initialPause
	for attempt := 0; ; attempt++ {
		response, err := c.attempt(ctx, r) //nolint:bodyclose // read closes it
		if err == nil {
			err = read(response)
		}
		if err == nil || attempt == c.retries {
			return err
		}
		wait, again := repeatable(err)
		if !again {
			return err
		}
		// Jitter, so that clients that failed together don't retry together.
		wait = max(wait, pause/2+rand.N(pause/2))
		pause = min(2*pause, maxPause)
		if until, bounded := ctx.Deadline(); wait > maxWait || bounded && time.Until(until) < wait {
			return err
		}
		if c.wait(ctx, wait) != nil {
			return err
		}
	}
}

// checkPath refuses ids that are empty, or dots: the path would be another one.
func (r *request) checkPath() error {
	if r.at != nil {
		return nil
	}
	for element := range strings.SplitSeq(strings.TrimPrefix(r.path, "/"), "/") {
		if element == "" || element == "." || element == ".." {
			return fmt.Errorf("quire: an id must not be empty, \".\" or \"..\": %s", r.path)
		}
	}
	return nil
}

// attempt sends r once. Its error is a connection error or an error response.
func (c *Client) attempt(ctx context.Context, r *request) (*http.Response, error) {
	u := r.at
	if u == nil {
		u = c.base.JoinPath(r.path) //nolint:gosec // see checkPath
		u.RawQuery = r.query.Encode()
	}
	var body io.Reader
	if r.body != nil {
		var err error
		if body, err = r.body(); err != nil {
			return nil, err
		}
	}
	sent, err := http.NewRequestWithContext(ctx, r.method, u.String(), body)
	if err != nil {
		return nil, fmt.Errorf("quire: %w", err)
	}
	sent.Header = r.header.Clone()
	sent.Header.Set("User-Agent", c.userAgent)
	if !r.keyless {
		c.authenticate(sent)
	}
	if r.before != nil {
		r.before(sent.Header)
	}
	if body != nil {
		sent.ContentLength = r.length
	}
	response, err := c.http.Do(sent)
	if err != nil {
		if ctx.Err() != nil {
			return nil, fmt.Errorf("quire: %w", ctx.Err())
		}
		return nil, &brokenError{err}
	}
	c.newest.see(response.Header.Get("X-Receipt"))
	if response.StatusCode >= http.StatusMultipleChoices {
		return nil, failure(response)
	}
	return response, nil
}

func (c *Client) authenticate(r *http.Request) {
	switch {
	case c.key != "":
		r.Header.Set("Authorization", "Bearer "+c.key)
	case c.session != "":
		r.Header.Set("Cookie", c.session)
	}
}

// repeatable tells whether a retry may succeed, and the minimum time to wait.
func repeatable(err error) (time.Duration, bool) {
	var failed *APIError
	if errors.As(err, &failed) {
		switch {
		case failed.Code == "idempotency_in_flight", failed.Code == "quota_held",
			failed.Status == http.StatusBadGateway, failed.Status == http.StatusServiceUnavailable,
			failed.Status == http.StatusGatewayTimeout:
			return failed.RetryAfter, true
		}
		return 0, false
	}
	var broken *brokenError
	if !errors.As(err, &broken) {
		return 0, false
	}
	var certificate *tls.CertificateVerificationError
	var name *net.DNSError
	var body *bodyError
	return 0, !errors.As(err, &certificate) && (!errors.As(err, &name) || !name.IsNotFound) && !errors.As(err, &body)
}

// waiter waits for d, or until ctx ends, which is its error.
type waiter func(ctx context.Context, d time.Duration) error

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// read reads the headers of a success.
func (m *Meta) read(h http.Header) error {
	m.RequestID = h.Get("X-Request-Id")
	m.ChargeSource = ChargeSource(h.Get("X-Charge-Source"))
	m.Receipt = h.Get("X-Receipt")
	m.Replayed = h.Get("Idempotency-Replayed") == "true"
	m.retryAfter = retryAfter(h)
	var err error
	for name, to := range map[string]*Credits{"X-Credits-Cost": &m.Cost, "X-Credits-Balance": &m.Balance} {
		if value := h.Get(name); value != "" && err == nil {
			if *to, err = ParseCredits(value); err != nil {
				err = fmt.Errorf("quire: header %s: %w", name, err)
			}
		}
	}
	return err
}
