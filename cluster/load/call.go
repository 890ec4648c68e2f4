package load

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"
)

const (
	headerIdempotency = "Idempotency-Key"
	headerReplayed    = "Idempotency-Replayed"
	headerSource      = "X-Charge-Source"
	headerCost        = "X-Credits-Cost"

	typeJSON  = "application/json"
	typeBytes = "application/octet-stream"

	codeInFlight   = "idempotency_in_flight"
	codeInvalidKey = "invalid_api_key"
	codeFailures   = "too_many_failures"
	codeExhausted  = "quota_exhausted"
	codeUpgrade    = "plan_upgrade_required"

	awayTime   = time.Second           // that clients keep away from a base that did not answer
	failPause  = 20 * time.Millisecond // that keeps a client that fails from spinning
	maxAnswer  = 64 << 20
	shownBytes = 200
)

// call is one request.
type call struct {
	kind        Kind
	method      string
	path        string // with its query
	body        []byte
	contentType string
	key         string // x-api-key
	admin       bool   // with the admin token
	cookie      string
	idempotency string
	ifMatch     string
	home        int  // the base that the client prefers
	only        bool // no other will do
	timeout     time.Duration
}

// answer is what came of a call.
type answer struct {
	what   string
	base   int
	status int   // 0: none came
	err    error // why none came
	unsent bool  // no connection was made: the call can't have been counted
	header http.Header
	body   []byte
	code   string
}

// outcome is what an answer says of the call's effect.
type outcome int

const (
	ackedOutcome       outcome = iota // 2xx
	refusedOutcome                    // any other answer
	unavailableOutcome                // 503, or nothing was sent: it has not happened
	unknownOutcome                    // 504, or no answer: it may have happened
)

func (a *answer) outcome() outcome {
	switch {
	case a.status/100 == 2:
		return ackedOutcome
	case a.status == 0 && a.unsent, a.status == http.StatusServiceUnavailable && a.code == "unavailable":
		return unavailableOutcome
	case a.status == 0, a.status == http.StatusGatewayTimeout && a.code == "outcome_unknown":
		return unknownOutcome
	}
	return refusedOutcome
}

// is tells whether the answer is a refusal of that status and code.
func (a *answer) is(status int, code string) bool { return a.status == status && a.code == code }

// overFailed tells whether it is refused for other calls' failures.
func (a *answer) overFailed() bool { return a.is(http.StatusTooManyRequests, codeFailures) }

func (a *answer) String() string {
	if a.status == 0 {
		return fmt.Sprintf("%s at base %d: %v", a.what, a.base, a.err)
	}
	return fmt.Sprintf("%s at base %d: %d %.*q, request %s", a.what, a.base, a.status, shownBytes, a.body, a.header.Get("X-Request-Id"))
}

// id is the one that a creation answers with.
func (a *answer) id() string {
	var body struct{ ID string }
	_ = json.Unmarshal(a.body, &body) // an answer without an id is one with a wrong id
	return body.ID
}

// pick is the base for a call: the client's own, or another while that does not answer.
func (l *Load) pick(c *call) (int, string) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	home := c.home % len(l.bases)
	if c.only {
		return home, l.bases[home]
	}
	now := time.Now()
	for i := range l.bases {
		if b := (home + i) % len(l.bases); now.After(l.down[b]) {
			return b, l.bases[b]
		}
	}
	return home, l.bases[home]
}

func (l *Load) away(base int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if base < len(l.down) {
		l.down[base] = time.Now().Add(awayTime)
	}
}

// once is a body that the transport can't send twice by itself: a call is counted by how often it was sent.
type once struct{ io.Reader }

func (once) Close() error { return nil }

// send sends a call once, and does not end with ctx: what has begun is waited for.
func (l *Load) send(ctx context.Context, c call) *answer {
	base, url := l.pick(&c)
	a := &answer{what: c.method + " " + c.path, base: base}
	timeout := c.timeout
	if timeout == 0 {
		timeout = l.cfg.Timeout
	}
	inner, cancel := context.WithTimeout(context.WithoutCancel(ctx), timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(inner, c.method, url+c.path, once{bytes.NewReader(c.body)})
	if err != nil {
		a.err, a.unsent = err, true
		return a
	}
	req.ContentLength = int64(len(c.body))
	if len(c.body) == 0 && c.method == http.MethodPost {
		req.Body = http.NoBody // else it would be sent in chunks
	}
	l.setHeaders(req, &c)
	if err := l.exchange(req, a); err != nil {
		var op *net.OpError
		a.status, a.err, a.unsent = 0, err, errors.As(err, &op) && op.Op == "dial"
		l.away(base)
	}
	l.clock.count(c.kind, base, a.outcome())
	switch a.outcome() {
	case unavailableOutcome, unknownOutcome:
		pause(ctx, failPause)
	default:
	}
	return a
}

func (l *Load) setHeaders(req *http.Request, c *call) {
	set := func(name, value string) {
		if value != "" {
			req.Header.Set(name, value)
		}
	}
	set("x-api-key", c.key)
	set("Cookie", c.cookie)
	set(headerIdempotency, c.idempotency)
	set("If-Match", c.ifMatch)
	if len(c.body) > 0 {
		set("Content-Type", c.contentType)
	}
	if c.admin {
		set("Authorization", "Bearer "+l.cfg.AdminToken)
	}
}

func (l *Load) exchange(req *http.Request, a *answer) error {
	res, err := l.client.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if a.body, err = io.ReadAll(io.LimitReader(res.Body, maxAnswer)); err != nil {
		return err
	}
	a.status, a.header = res.StatusCode, res.Header
	if a.status/100 != 2 {
		var failure struct{ Code string }
		_ = json.Unmarshal(a.body, &failure) // an answer that is no JSON has no code, which is strange enough
		a.code = failure.Code
	}
	return nil
}

// sure repeats a call through any base until it has a 2xx, and returns that. It must be one that may be
// repeated. Another answer is an error, unless stop says that it is the one waited for.
func (l *Load) sure(ctx context.Context, c call, stop func(*answer) bool) (*answer, error) {
	for {
		a := l.send(ctx, c)
		definite := a.outcome() == refusedOutcome && !a.is(http.StatusConflict, codeInFlight)
		switch {
		case a.outcome() == ackedOutcome, stop != nil && stop(a):
			return a, nil
		case definite:
			return nil, fmt.Errorf("load: %s", a)
		case ctx.Err() != nil:
			return nil, fmt.Errorf("load: %w: %s", context.Cause(ctx), a)
		}
		c.home++
		pause(ctx, l.pace.retry)
	}
}

// next is a number that no other content or Idempotency-Key of this Load has.
func (l *Load) next() int64 { return l.sequence.Add(1) }

// newKey is an Idempotency-Key that nobody has used.
func (l *Load) newKey() string { return fmt.Sprintf("%s-%d", l.run, l.next()) }
