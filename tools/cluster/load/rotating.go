package load

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"quire.dev/pkg/wait"
)

// rotating has an account whose key is regenerated many times. Once a regeneration is answered, no later call with an
// older key may be admitted.
type rotating struct {
	l       *Load
	account *account // its field key is not used

	mu      sync.Mutex
	current string
	version int
	written *call     // a creation that was acknowledged with the current key
	request string    // the id of a request that was acknowledged
	retired []retired // former keys, the latest last
	open    string    // the Idempotency-Key of a regeneration without an answer, which may have happened
	turn    int       // how many regenerations have started
	nextOld time.Time
}

// retired is a replaced key.
type retired struct {
	key     string
	written *call // an acknowledged creation with this key and an Idempotency-Key, or nil
}

// retiredKept is how many retired keys are tried.
const retiredKept = 3

func (l *Load) newRotating(ctx context.Context) (*rotating, error) {
	r := &rotating{l: l}
	body := fmt.Sprintf(`{"email":"load-%s-%d@example.org","password":"a password of %s"}`, l.run, l.next(), l.run)
	a, err := l.sure(ctx, call{
		kind: Admin, method: http.MethodPost, path: "/api/users/register", body: []byte(body), idempotency: l.newKey(),
	})
	if err != nil {
		return nil, err
	}
	var made struct{ Account struct{ ID string } }
	if err := json.Unmarshal(a.body, &made); err != nil || made.Account.ID == "" {
		return nil, fmt.Errorf("load: no account in %s", a)
	}
	r.account = &account{name: "the rotating", id: made.Account.ID, tallies: map[string]*tally{}}
	_, err = l.sure(ctx, call{
		kind: Admin, method: http.MethodPut, path: "/api/admin/accounts/" + r.account.id + "/tier", admin: true,
		body: []byte(`{"tier":"admin"}`),
	})
	if err != nil {
		return nil, err
	}
	return r, r.resolve(ctx, 0)
}

// regenerate tries once to get a new key, through no other base if only is set. It repeats a regeneration that has no answer
// yet. It is an admin's call: the holder of an account may make 300, and then one a minute.
func (r *rotating) regenerate(ctx context.Context, home int, only bool) (done bool) {
	r.mu.Lock()
	if r.open == "" {
		r.open = r.l.newKey()
		r.turn++
	}
	open := r.open
	r.mu.Unlock()
	a := r.l.send(ctx, call{
		kind: Admin, method: http.MethodPost, path: "/api/admin/accounts/" + r.account.id + "/key/regenerate", admin: true,
		idempotency: open, home: home, only: only,
	})
	if a.outcome() == refusedOutcome {
		r.l.strange.note(strangeAnswer, "%s", a)
	}
	if !a.acked() {
		return false
	}
	var body struct {
		APIKey string
		Key    struct{ Version int }
	}
	if err := json.Unmarshal(a.body, &body); err != nil || body.APIKey == "" {
		r.l.strange.note(strangeAnswer, "no key in %s", a)
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.open != open {
		return true // another client has got the answer to this regeneration
	}
	if body.Key.Version <= r.version || body.APIKey == r.current {
		r.l.strange.note(strangeAnswer, "a new key of version %d after %d: %s", body.Key.Version, r.version, a)
	}
	if r.current != "" {
		r.retired = append(r.retired, retired{r.current, r.written})
		r.retired = r.retired[max(0, len(r.retired)-retiredKept):]
	}
	r.current, r.version, r.written, r.open = body.APIKey, body.Key.Version, nil, ""
	return true
}

// stepRotate writes something with the key, regenerates it, and then tries the old one through every base.
func (r *rotating) stepRotate(ctx context.Context, w *client, n int) {
	r.write(ctx, w, n)
	for try := 0; !r.regenerate(ctx, w.home+n+try, false); try++ {
		if !wait.For(ctx, failPause) {
			return
		}
	}
	r.tryOld(ctx, w.random, 1, &r.l.strange)
}

// write creates a quick paste under an Idempotency-Key with the current key.
func (r *rotating) write(ctx context.Context, w *client, n int) {
	lite, _, _ := domains()
	c := lite.createCall(r.key(), r.l.next(), w.home+n)
	c.idempotency = r.l.newKey()
	a := r.l.send(ctx, c)
	r.account.meter("pasteLite.create", a)
	r.mu.Lock()
	defer r.mu.Unlock()
	if a.acked() && c.key == r.current {
		r.written, r.request = &c, a.header.Get("X-Request-Id")
	}
}

func (r *rotating) key() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.current
}

// Regenerate regenerates the key of the group Rotating now, through one base. It repeats the call until it has an answer.
func (l *Load) Regenerate(ctx context.Context, base int) error {
	for !l.rotating.regenerate(ctx, base, true) {
		if !wait.For(ctx, failPause) {
			return context.Cause(ctx)
		}
	}
	return nil
}

// resolve retries a regeneration without an answer until it has one, and creates the first key.
func (r *rotating) resolve(ctx context.Context, home int) error {
	for try := 0; r.unresolved() && !r.regenerate(ctx, home+try, false); try++ {
		if !wait.For(ctx, failPause) {
			return errors.New("a regeneration has no answer under its Idempotency-Key")
		}
	}
	return nil
}

func (r *rotating) unresolved() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.open != "" || r.current == ""
}

// tryOld tries the given number of latest replaced keys through every base: a read, a repeated write, and some endpoint.
func (r *rotating) tryOld(ctx context.Context, random *rand.Rand, count int, f *findings) {
	r.mu.Lock()
	keys := slices.Clone(r.retired[max(0, len(r.retired)-count):])
	r.mu.Unlock()
	for _, old := range keys {
		for base := range r.l.baseCount() {
			r.refuses(ctx, "pasteLite.get", r.use(old.key, base), random, f)
			if old.written != nil {
				c := *old.written
				c.home = base
				r.refuses(ctx, "pasteLite.create", c, random, f)
			}
			r.tryEndpoint(ctx, r.some(random), old.key, base, random, f)
		}
	}
}

// tryAllOld tries the latest retired key on every endpoint through every base.
func (r *rotating) tryAllOld(ctx context.Context, random *rand.Rand, f *findings) {
	r.mu.Lock()
	keys := slices.Clone(r.retired[max(0, len(r.retired)-1):])
	r.mu.Unlock()
	for _, old := range keys {
		for base := range r.l.baseCount() {
			for _, e := range r.l.endpoints {
				r.tryEndpoint(ctx, e, old.key, base, random, f)
			}
		}
	}
}

func (r *rotating) some(random *rand.Rand) endpoint {
	return r.l.endpoints[random.IntN(len(r.l.endpoints))]
}

func (r *rotating) tryEndpoint(ctx context.Context, e endpoint, key string, base int, random *rand.Rand, f *findings) {
	r.mu.Lock()
	request := r.request
	r.mu.Unlock()
	names := strings.NewReplacer("{ref}", noSuchID, "{id}", noSuchID, "{name}", "x.txt", "{requestId}", request,
		"{period}", r.l.start.UTC().Format("2006-01"))
	c := call{kind: Read, method: e.method, path: names.Replace(e.path), key: key, home: base, body: e.body(), accept: "application/json"}
	if strings.HasSuffix(c.path, "/upload") {
		c.path, c.binary = c.path+"?name=x", true
	}
	r.refuses(ctx, e.quota, c, random, f)
}

// use is a read with a key.
func (r *rotating) use(key string, home int) call {
	return call{kind: Read, method: http.MethodGet, path: "/api/dev/paste-lite/get/" + r.l.anchor, key: key, home: home}
}

// refuses makes a call with a retired key, which must be refused. Too many calls with bad keys from one source
// are also refused, so each uses a different source if the edges trust the header.
func (r *rotating) refuses(ctx context.Context, quotaKey string, c call, random *rand.Rand, f *findings) {
	c.only = true
	if r.l.cfg.Sources {
		c.source = r.l.newSource(random)
	}
	a := r.l.send(ctx, c)
	if quotaKey != "" {
		r.account.meter(quotaKey, a)
	}
	switch {
	case a.acked():
		f.note("an old key is admitted", "%s", a)
	case a.outcome() == refusedOutcome && !a.is(http.StatusUnauthorized, codeInvalidKey) && !a.overFailed():
		f.note(strangeAnswer, "want 401 %s: %s", codeInvalidKey, a)
	}
}

// stepUse uses the current key, which must be accepted unless a regeneration has begun. Now and then it uses a retired key:
// an edge that missed a regeneration must refuse it too.
func (r *rotating) stepUse(ctx context.Context, w *client, _ int) {
	if old := r.dueOld(w); old != nil {
		r.tryEndpoint(ctx, r.some(w.random), old.key, w.random.IntN(r.l.baseCount()), w.random, &r.l.strange)
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
		wait.For(ctx, r.l.pace.retry) // so that the bad keys do not become too many
		return
	}
	r.l.strange.note(strangeAnswer, "%s", a)
}

// dueOld returns a retired key if one is due to be tried, else nil.
func (r *rotating) dueOld(w *client) *retired {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	if len(r.retired) == 0 || now.Before(r.nextOld) {
		return nil
	}
	r.nextOld = now.Add(r.l.pace.old)
	old := r.retired[w.random.IntN(len(r.retired))]
	return &old
}

// check tries the current key and the latest retired ones through every base. If each call can use a different source,
// it tries the last of these on every endpoint.
func (r *rotating) check(ctx context.Context, random *rand.Rand, f *findings) error {
	if err := r.resolve(ctx, 0); err != nil {
		return err
	}
	key := r.key()
	for base := range r.l.baseCount() {
		c := r.use(key, base)
		c.only = true
		a, err := r.l.patiently(ctx, c, func(a *answer) { r.account.meter("pasteLite.get", a) })
		if err != nil {
			return err
		}
		if !a.acked() {
			f.note("the current key is refused", "%s", a)
		}
	}
	r.tryOld(ctx, random, retiredKept, f)
	if r.l.cfg.Sources {
		r.tryAllOld(ctx, random, f)
	}
	return nil
}
