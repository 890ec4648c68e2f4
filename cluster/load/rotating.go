package load

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"
)

// rotating is an account whose key is regenerated again and again. Once a regeneration is answered, no call that
// begins after that may be admitted with a key from before it.
type rotating struct {
	l       *Load
	account *account // its key is not used
	cookie  string   // its session

	mu      sync.Mutex
	current string
	version int
	retired []string // the latest last
	open    string   // the Idempotency-Key of a regeneration without an answer: two keys are possible
	turn    int      // how many regenerations have begun
	nextOld time.Time
}

// retiredKept is how many former keys are tried.
const retiredKept = 3

var errNoSession = errors.New("load: registering gave no session")

func (l *Load) newRotating(ctx context.Context) (*rotating, error) {
	r := &rotating{l: l}
	body := fmt.Sprintf(`{"email":"load-%s-%d@example.org","password":"a password of %s"}`, l.run, l.next(), l.run)
	a, err := l.sure(ctx, call{
		kind: Admin, method: http.MethodPost, path: "/api/users/register", body: []byte(body), contentType: typeJSON, idempotency: l.newKey(),
	}, nil)
	if err != nil {
		return nil, err
	}
	var made struct{ Account struct{ ID string } }
	if err := json.Unmarshal(a.body, &made); err != nil || made.Account.ID == "" {
		return nil, fmt.Errorf("load: no account in %s", a)
	}
	r.account = &account{name: "the rotating", id: made.Account.ID, tallies: map[string]*tally{}}
	for _, c := range (&http.Response{Header: a.header}).Cookies() {
		r.cookie += c.Name + "=" + c.Value + "; "
	}
	if r.cookie = strings.TrimSuffix(r.cookie, "; "); r.cookie == "" {
		return nil, errNoSession
	}
	_, err = l.sure(ctx, call{
		kind: Admin, method: http.MethodPut, path: "/api/admin/accounts/" + r.account.id + "/tier", admin: true,
		body: []byte(`{"tier":"admin"}`), contentType: typeJSON,
	}, nil)
	if err != nil {
		return nil, err
	}
	return r, r.resolve(ctx, 0)
}

// regenerate tries to have a new key, once. It goes on with a regeneration that has no answer yet.
func (r *rotating) regenerate(ctx context.Context, home int) (done bool) {
	r.mu.Lock()
	if r.open == "" {
		r.open = r.l.newKey()
		r.turn++
	}
	open := r.open
	r.mu.Unlock()
	a := r.l.send(ctx, call{
		kind: Admin, method: http.MethodPost, path: "/api/users/user/dev-key/regenerate", cookie: r.cookie, idempotency: open, home: home,
	})
	if a.outcome() == refusedOutcome {
		r.l.strange.note("answers that should not be", "%s", a)
	}
	if a.outcome() != ackedOutcome {
		return false
	}
	var body struct {
		APIKey string
		Key    struct{ Version int }
	}
	if err := json.Unmarshal(a.body, &body); err != nil || body.APIKey == "" {
		r.l.strange.note("answers that should not be", "no key in %s", a)
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if body.Key.Version <= r.version || body.APIKey == r.current {
		r.l.strange.note("answers that should not be", "a new key of version %d after %d: %s", body.Key.Version, r.version, a)
	}
	if r.current != "" {
		r.retired = append(r.retired, r.current)
		r.retired = r.retired[max(0, len(r.retired)-retiredKept):]
	}
	r.current, r.version, r.open = body.APIKey, body.Key.Version, ""
	return true
}

// stepRotate regenerates the key, and tries the old one through every base at once.
func (r *rotating) stepRotate(ctx context.Context, w *client, n int) {
	for try := 0; !r.regenerate(ctx, w.home+n+try); try++ {
		if ctx.Err() != nil {
			return
		}
		pause(ctx, failPause)
	}
	r.tryOld(ctx, 1, &r.l.strange)
}

// resolve ends a regeneration without an answer, and makes the first key.
func (r *rotating) resolve(ctx context.Context, home int) error {
	for try := 0; r.unresolved(); try++ {
		if r.regenerate(ctx, home+try) {
			break
		}
		if ctx.Err() != nil {
			return errors.New("a regeneration has no answer under its Idempotency-Key yet")
		}
		pause(ctx, failPause)
	}
	return nil
}

func (r *rotating) unresolved() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.open != "" || r.current == ""
}

// tryOld tries the latest retired keys through every base.
func (r *rotating) tryOld(ctx context.Context, count int, f *findings) {
	r.mu.Lock()
	retired := r.retired[max(0, len(r.retired)-count):]
	keys := append([]string(nil), retired...)
	r.mu.Unlock()
	for _, key := range keys {
		for base := range r.l.baseCount() {
			c := r.use(key, base)
			c.only = true
			r.refuses(r.l.send(ctx, c), f)
		}
	}
}

// use is a call with a key.
func (r *rotating) use(key string, home int) call {
	return call{kind: Read, method: http.MethodGet, path: "/api/dev/paste-lite/get/" + r.l.anchor, key: key, home: home}
}

// refuses takes the answer to a call that began with a retired key. One source's bad keys are refused for being
// too many after a while.
func (r *rotating) refuses(a *answer, f *findings) {
	r.account.meter("pasteLite.get", a)
	switch {
	case a.outcome() == ackedOutcome:
		f.note("an old key is admitted", "%s", a)
	case a.outcome() == refusedOutcome && !a.is(http.StatusUnauthorized, codeInvalidKey) && !a.overFailed():
		f.note("answers that should not be", "want 401 %s: %s", codeInvalidKey, a)
	}
}

// stepUse uses the current key, which must be good unless a regeneration is under way.
func (r *rotating) stepUse(ctx context.Context, w *client, _ int) {
	if old := r.dueOld(w); old != "" {
		// Whoever was away while the key changed may come back at any time.
		r.refuses(r.l.send(ctx, r.use(old, w.random.IntN(r.l.baseCount()))), &r.l.strange)
		return
	}
	r.mu.Lock()
	key, turn, open := r.current, r.turn, r.open != ""
	r.mu.Unlock()
	a := r.l.send(ctx, r.use(key, w.home))
	r.account.meter("pasteLite.get", a)
	if a.outcome() != refusedOutcome {
		return
	}
	r.mu.Lock()
	quiet := !open && turn == r.turn
	r.mu.Unlock()
	if a.is(http.StatusUnauthorized, codeInvalidKey) || a.overFailed() {
		if quiet {
			r.l.strange.note("the current key is refused", "%s", a)
		}
		pause(ctx, r.l.pace.retry) // that bad keys don't become too many
		return
	}
	r.l.strange.note("answers that should not be", "%s", a)
}

// dueOld is a retired key once in a while, else "".
func (r *rotating) dueOld(w *client) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	if len(r.retired) == 0 || now.Before(r.nextOld) {
		return ""
	}
	r.nextOld = now.Add(r.l.pace.old)
	return r.retired[w.random.IntN(len(r.retired))]
}

// check tries the current key and the latest retired ones through every base.
func (r *rotating) check(ctx context.Context, f *findings) error {
	if err := r.resolve(ctx, 0); err != nil {
		return err
	}
	r.mu.Lock()
	key := r.current
	r.mu.Unlock()
	for base := range r.l.baseCount() {
		c := r.use(key, base)
		c.only = true
		a, err := r.l.repeated(ctx, c, func(a *answer) { r.account.meter("pasteLite.get", a) })
		if err != nil {
			return err
		}
		if a.outcome() != ackedOutcome {
			f.note("the current key is refused", "%s", a)
		}
	}
	r.tryOld(ctx, retiredKept, f)
	return nil
}
