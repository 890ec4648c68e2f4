package load

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"quire.dev/pkg/wait"
)

const (
	headerIdempotency = "Idempotency-Key"
	headerReplayed    = "Idempotency-Replayed"
	headerSource      = "X-Charge-Source"
	headerCost        = "X-Credits-Cost"

	codeInFlight   = "idempotency_in_flight"
	codeInvalidKey = "invalid_api_key"
	codeFailures   = "too_many_failures"
	codeExhausted  = "quota_exhausted"
	codeUpgrade    = "plan_upgrade_required"

	awayTime   = time.Second           // that clients avoid a base that did not answer
	failPause  = 20 * time.Millisecond // of a client after a failure, so that it does not spin
	maxAnswer  = 64 << 20
	shownBytes = 200 // of an answer in an error
)

// call is one request.
type call struct {
	kind        Kind
	method      string
	path        string // with its query
	body        []byte // JSON, unless binary is set
	binary      bool
	key         string // API key
	source      string // address of the client, for edges that trust this host
	admin       bool   // with the admin token
	idempotency string // key
	ifMatch     string
	accept      string
	home        int  // the base that the client prefers
	only        bool // no other base may be used
	timeout     time.Duration
}

// answer is the result of a call.
type answer struct {
	call   string // method and path
	base   int
	status int   // 0: no answer came
	err    error // why no answer came
	unsent bool  // no connection was made, so the call can't have been counted
	header http.Header
	body   []byte
	code   string
}

// outcome is what an answer says about the effect of its call.
type outcome int

const (
	ackedOutcome       outcome = iota // 2xx
	refusedOutcome                    // any answer but those below
	unavailableOutcome                // 503, or nothing was sent: the call had no effect
	unknownOutcome                    // 504, or no answer: the call may have had an effect
)

func (a *answer) outcome() outcome {
	switch {
	case a.acked():
		return ackedOutcome
	case a.status == 0 && a.unsent, a.is(http.StatusServiceUnavailable, "unavailable"):
		return unavailableOutcome
	case a.status == 0, a.is(http.StatusGatewayTimeout, "outcome_unknown"):
		return unknownOutcome
	}
	return refusedOutcome
}

// effect is the outcome, except that an internal failure such as 500 is unknown.
func (a *answer) effect() outcome {
	o := a.outcome()
	if o == refusedOutcome && a.status >= http.StatusInternalServerError {
		return unknownOutcome
	}
	return o
}

func (a *answer) acked() bool { return a.status/100 == 2 }

// is reports whether the answer is an error of that status and code.
func (a *answer) is(status int, code string) bool { return a.status == status && a.code == code }

// overFailed reports whether the call was refused because too many others failed.
func (a *answer) overFailed() bool { return a.is(http.StatusTooManyRequests, codeFailures) }

// inFlight reports whether an earlier call under the Idempotency-Key has no outcome yet.
func (a *answer) inFlight() bool { return a.is(http.StatusConflict, codeInFlight) }

func (a *answer) String() string {
	if a.status == 0 {
		return fmt.Sprintf("%s at base %d: %v", a.call, a.base, a.err)
	}
	return fmt.Sprintf("%s at base %d: %d %.*q, request %s", a.call, a.base, a.status, shownBytes, a.body, a.header.Get("X-Request-Id"))
}

// id is the id in the answer to a creation.
func (a *answer) id() string {
	var body struct{ ID string }
	_ = json.Unmarshal(a.body, &body) // without an id it is empty, which is a wrong id
	return body.ID
}

// pick returns the base for a call: the client's preferred one, or another one while that is down.
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

// avoid keeps clients away from a base for a while.
func (l *Load) avoid(base int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if base < len(l.down) {
		l.down[base] = time.Now().Add(awayTime)
	}
}

// once is a body that the transport can't resend on its own, so that the number of requests is known.
type once struct{ io.Reader }

func (once) Close() error { return nil }

// send sends a call once. It waits for the answer even after ctx ends.
func (l *Load) send(ctx context.Context, c call) *answer {
	base, url := l.pick(&c)
	a := &answer{call: c.method + " " + c.path, base: base}
	inner, cancel := context.WithTimeout(context.WithoutCancel(ctx), cmp.Or(c.timeout, l.cfg.Timeout))
	defer cancel()
	req, err := http.NewRequestWithContext(inner, c.method, url+c.path, once{bytes.NewReader(c.body)})
	if err != nil {
		a.err, a.unsent = err, true
		return a
	}
	req.ContentLength = int64(len(c.body))
	if len(c.body) == 0 && c.method == http.MethodPost {
		req.Body = http.NoBody // without this it would be sent in chunks
	}
	l.setHeaders(req, &c)
	if err := l.exchange(req, a); err != nil {
		var op *net.OpError
		a.status, a.err, a.unsent = 0, err, errors.As(err, &op) && op.Op == "dial"
		l.avoid(base)
	}
	o := a.outcome()
	l.clock.count(c.kind, base, o)
	if o == unavailableOutcome || o == unknownOutcome {
		wait.For(ctx, failPause)
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
	set(headerIdempotency, c.idempotency)
	set("X-Forwarded-For", c.source)
	set("Accept", c.accept)
	set("If-Match", c.ifMatch)
	if c.binary {
		set("Content-Type", "application/octet-stream")
	} else if len(c.body) > 0 {
		set("Content-Type", "application/json")
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
	if !a.acked() {
		var failure struct{ Code string }
		_ = json.Unmarshal(a.body, &failure) // without a code it is a strange answer
		a.code = failure.Code
	}
	return nil
}

// retry retries a call until its answer is a 2xx or a refusal, through another base each time unless the call is for one
// only. The call must be safe to repeat. each, unless nil, gets every answer.
func (l *Load) retry(ctx context.Context, c call, each func(*answer)) (*answer, error) {
	for {
		a := l.send(ctx, c)
		if each != nil {
			each(a)
		}
		switch o := a.outcome(); {
		case o == ackedOutcome, o == refusedOutcome && !a.overFailed() && !a.inFlight():
			return a, nil
		case ctx.Err() != nil:
			return nil, fmt.Errorf("load: %w: %s", context.Cause(ctx), a)
		}
		if !c.only {
			c.home++
		}
		wait.For(ctx, l.pace.retry)
	}
}

// sure is retry for a call that must succeed with a 2xx.
func (l *Load) sure(ctx context.Context, c call) (*answer, error) {
	a, err := l.retry(ctx, c, nil)
	if err == nil && !a.acked() {
		err = fmt.Errorf("load: %s", a)
	}
	return a, err
}

// next is a number unused by any other content or Idempotency-Key of this Load.
func (l *Load) next() int64 { return l.sequence.Add(1) }

// newKey is an unused Idempotency-Key.
func (l *Load) newKey() string { return fmt.Sprintf("%s-%d", l.run, l.next()) }
