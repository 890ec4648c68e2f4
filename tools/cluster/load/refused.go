package load

import (
	"context"
	"errors"
	"fmt"
	"net/http"
)

// refused has an account that has used up its quota and has no credits, and one whose calls all fail after their
// admission. Neither may be charged.
type refused struct {
	l         *Load
	exhausted *account
	paste     string // a quick paste of the exhausted account
	failing   *account
	own       string // a quick paste of the failing account
}

const (
	refusedTier = "free"
	failingTier = "pro"
	// exhaustTries bounds the calls that use up a quota, which is 50: docs/api.md, Metering.
	exhaustTries = 1000
	noSuchID     = "000000000000"
)

var errNoLimit = errors.New("load: the quota of a Free account for pasteLite.update does not end")

func (l *Load) newRefused(ctx context.Context) (r *refused, err error) {
	r = &refused{l: l}
	if r.exhausted, err = l.newAccount(ctx, "the exhausted", refusedTier); err != nil {
		return nil, err
	}
	if r.paste, err = l.makeAnchor(ctx, r.exhausted); err != nil {
		return nil, err
	}
	if err := r.exhaust(ctx); err != nil {
		return nil, err
	}
	if r.failing, err = l.newAccount(ctx, "the failing", failingTier); err != nil {
		return nil, err
	}
	if r.own, err = l.makeAnchor(ctx, r.failing); err != nil {
		return nil, err
	}
	// Writes that fail are never counted. A read without an answer may be counted.
	for _, key := range []string{"pasteLite.update", "pasteLite.delete", "pastes.delete", "files.delete"} {
		r.failing.tally(key).void = true
	}
	return r, nil
}

// exhaust uses up the quota for updates of quick pastes.
func (r *refused) exhaust(ctx context.Context) error {
	for used := range int64(exhaustTries) {
		c := r.update()
		c.idempotency = r.l.newKey()
		a, err := r.l.retry(ctx, c, nil)
		switch {
		case err != nil:
			return err
		case a.is(http.StatusTooManyRequests, codeExhausted):
			r.exhausted.tally("pasteLite.update").acked.Store(used)
			return nil
		case !a.acked():
			return fmt.Errorf("load: %s", a)
		}
	}
	return errNoLimit
}

func (r *refused) update() call {
	return call{
		kind: Lite, method: http.MethodPut, path: "/api/dev/paste-lite/update/" + r.paste, key: r.exhausted.key,
		body: fmt.Appendf(nil, `{"title":"number %d"}`, r.l.next()),
	}
}

// step makes a call that must be refused.
func (r *refused) step(ctx context.Context, w *client, _ int) {
	c, code := r.update(), codeExhausted
	switch w.random.IntN(4) {
	case 0:
		c.idempotency = r.l.newKey()
	case 1:
		c, code = call{
			kind: Paste, method: http.MethodPost, path: "/api/dev/pastes/create", key: r.exhausted.key, body: []byte(`{"content":"x"}`),
		}, codeUpgrade
	case 2:
		c, code = call{kind: Read, method: http.MethodGet, path: "/api/dev/files/get/" + noSuchID, key: r.exhausted.key}, codeUpgrade
	}
	c.home = w.home
	a := r.l.send(ctx, c)
	switch {
	case a.acked():
		r.l.strange.note("admitted beyond the limit", "%s", a)
	case a.outcome() == refusedOutcome && !a.is(http.StatusTooManyRequests, code):
		r.l.strange.note(strangeAnswer, "want 429 %s: %s", code, a)
	}
}

// stepFailing makes a call that is admitted and then fails.
func (r *refused) stepFailing(ctx context.Context, w *client, n int) {
	c := call{kind: Lite, key: r.failing.key, home: w.home + n}
	var quotaKey, code string
	var status int
	switch n % 5 {
	case 0:
		c.kind, c.method, c.path = Read, http.MethodGet, "/api/dev/paste-lite/get/"+noSuchID
		quotaKey, status, code = "pasteLite.get", http.StatusNotFound, "not_found"
	case 1:
		c.method, c.path = http.MethodDelete, "/api/dev/paste-lite/delete/"+r.l.anchor
		quotaKey, status, code = "pasteLite.delete", http.StatusForbidden, "not_owner"
	case 2:
		c.method, c.path, c.ifMatch = http.MethodPut, "/api/dev/paste-lite/update/"+r.own, `"99"`
		c.body = []byte(`{"title":"x"}`)
		quotaKey, status, code = "pasteLite.update", http.StatusPreconditionFailed, "version_mismatch"
	case 3:
		c.kind, c.method, c.path, c.idempotency = Paste, http.MethodDelete, "/api/dev/pastes/delete/"+noSuchID, r.l.newKey()
		quotaKey, status, code = "pastes.delete", http.StatusNotFound, "not_found"
	case 4:
		c.kind, c.method, c.path = File, http.MethodDelete, "/api/dev/files/delete/"+noSuchID
		quotaKey, status, code = "files.delete", http.StatusNotFound, "not_found"
	}
	a := r.l.send(ctx, c)
	r.failing.meter(quotaKey, a)
	if o := a.outcome(); o == ackedOutcome || o == refusedOutcome && !a.is(status, code) {
		r.l.strange.note(strangeAnswer, "want %d %s: %s", status, code, a)
	}
}
