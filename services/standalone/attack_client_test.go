package standalone

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"quire.dev/pkg/wait"
)

// attackCall is one request of the money attack.
type attackCall struct {
	method, path string
	body         string
	kind         string // content type
	key          string // API key
	session      string // cookie
	admin        bool
	once         string // Idempotency-Key
	unchanged    string // If-None-Match
	accept       string
}

type attackAnswer struct {
	call   attackCall
	status int
	header http.Header
	body   []byte
	code   string
	lost   int // attempts before this one that may have had an effect
}

func (r *attackAnswer) ok() bool       { return r.status/100 == 2 }
func (r *attackAnswer) id() string     { return r.header.Get("X-Request-Id") }
func (r *attackAnswer) replayed() bool { return r.header.Get("Idempotency-Replayed") == "true" }

func (r *attackAnswer) String() string {
	return fmt.Sprintf("%s %s: %d %.300s (request %s, after %d lost attempts)", r.call.method, r.call.path, r.status, r.body, r.id(), r.lost)
}

// attackServer is the quire that is attacked, which is away between a kill and the next start. Safe for concurrent use.
type attackServer struct {
	client http.Client
	state  atomic.Pointer[attackState]
	starts atomic.Int64  // of the server
	offset atomic.Int64  // of the server's clock, in nanoseconds
	source atomic.Uint32 // numbers the clients' addresses, so that no limit of a source refuses calls with invalid keys
}

type attackState struct {
	base string
	up   chan struct{} // closed once base answers, or once another state has
}

func newAttackServer() *attackServer {
	s := &attackServer{client: http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}, Timeout: bootLimit}}
	s.leave()
	return s
}

// leave holds back all attempts until arrive.
func (s *attackServer) leave() { s.state.Store(&attackState{up: make(chan struct{})}) }

func (s *attackServer) arrive(base string) {
	s.starts.Add(1)
	s.client.CloseIdleConnections()
	waiting := s.state.Load()
	up := make(chan struct{})
	close(up)
	s.state.Store(&attackState{base: base, up: up})
	close(waiting.up)
}

// await returns the server once it is up.
func (s *attackServer) await(ctx context.Context) (*attackState, error) {
	for {
		state := s.state.Load()
		select {
		case <-state.up:
			if state.base != "" {
				return state, nil
			}
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// now is the time of the server's clock.
func (s *attackServer) now() time.Time {
	return time.Now().Add(time.Duration(s.offset.Load())).UTC()
}

const (
	attackPause    = 20 * time.Millisecond // between attempts while the server is up
	attackAttempts = 3000                  // a minute of them
)

// settle makes attempts until one is answered definitely: by a success, or by a refusal that says why.
func (s *attackServer) settle(ctx context.Context, c attackCall) (*attackAnswer, error) {
	lost := 0
	var last error
	for range attackAttempts {
		state, err := s.await(ctx)
		if err != nil {
			return nil, err
		}
		r, err := s.attempt(ctx, state.base, c)
		var dial *net.OpError
		switch {
		case errors.As(err, &dial) && dial.Op == "dial": // nothing was sent
			last = err
		case err != nil:
			lost, last = lost+1, err
		case r.status == http.StatusGatewayTimeout || r.status == http.StatusInternalServerError:
			lost, last = lost+1, fmt.Errorf("%s", r)
		case r.status == http.StatusServiceUnavailable, r.code == "idempotency_in_flight", r.code == "rate_limited":
			last = fmt.Errorf("%s", r)
		default:
			r.lost = lost
			return r, nil
		}
		if !wait.For(ctx, attackPause) {
			return nil, ctx.Err()
		}
	}
	return nil, fmt.Errorf("%s %s has no definite answer: %w", c.method, c.path, last)
}

func (s *attackServer) attempt(ctx context.Context, base string, c attackCall) (*attackAnswer, error) {
	// The transport must not resend a call on its own, which it does under an Idempotency-Key: onlyOnce hides from it how to.
	req, err := http.NewRequestWithContext(ctx, c.method, base+c.path, onlyOnce{strings.NewReader(c.body)})
	if err != nil {
		return nil, err
	}
	if req.ContentLength = int64(len(c.body)); c.body == "" && c.method == http.MethodPost {
		req.Body = http.NoBody // without this it would be sent in chunks
	}
	n := s.source.Add(1)
	for name, value := range map[string]string{
		"Content-Type": c.kind, "x-api-key": c.key, "Cookie": c.session, "Idempotency-Key": c.once, "If-None-Match": c.unchanged,
		"Accept": c.accept, "X-Forwarded-For": fmt.Sprintf("10.%d.%d.%d", byte(n>>16), byte(n>>8), byte(n)),
	} {
		if value != "" {
			req.Header.Set(name, value)
		}
	}
	if c.session != "" {
		req.Header.Set("Sec-Fetch-Site", "same-origin")
	}
	if c.admin {
		req.Header.Set("Authorization", "Bearer "+testAdminToken)
	}
	res, err := s.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	r := &attackAnswer{call: c, status: res.StatusCode, header: res.Header}
	if r.body, err = io.ReadAll(res.Body); err != nil {
		return nil, err
	}
	if !r.ok() {
		var failure struct{ Code string }
		_ = json.Unmarshal(r.body, &failure) // a 304 has no body
		r.code = failure.Code
	}
	return r, nil
}

type onlyOnce struct{ io.Reader }

func (onlyOnce) Close() error { return nil }

// must makes a call until it succeeds, and decodes its answer into out unless that is nil.
func (s *attackServer) must(ctx context.Context, c attackCall, out any) (*attackAnswer, error) {
	if c.body != "" && c.kind == "" {
		c.kind = "application/json"
	}
	r, err := s.settle(ctx, c)
	if err != nil {
		return nil, err
	}
	if !r.ok() {
		return r, fmt.Errorf("%s", r)
	}
	if out != nil {
		if err := json.Unmarshal(r.body, out); err != nil {
			return r, fmt.Errorf("%s: %w", r, err)
		}
	}
	return r, nil
}
