package standalone

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"quire.dev/pkg/eventually"
	"quire.dev/pkg/wait"
)

const (
	watchedAccounts = 12
	watchedPercents = 10 // thresholds of each account's webhook
	watchedKills    = 3
)

// watched is an account with a webhook.
type watched struct {
	base    atomic.Value // where quire listens now
	session *http.Cookie
	key     string
	hook    string
}

// watch creates an account of the tier Free with a webhook subscribed to its quotas.
func watch(t *testing.T, base, email, url string, percents []int) *watched {
	t.Helper()
	w := &watched{}
	w.base.Store(base)
	w.must(t, "POST", "/api/users/register", map[string]any{"email": email, "password": "correct horse battery"}, http.StatusCreated)
	w.key = w.must(t, "POST", "/api/users/user/dev-key/regenerate", nil, http.StatusOK)["apiKey"].(string)
	made := w.must(t, "POST", "/api/users/user/webhooks", map[string]any{"url": url, "events": []string{"quota.threshold"}, "thresholds": percents}, http.StatusCreated)
	w.hook = made["webhook"].(map[string]any)["id"].(string)
	return w
}

// ask makes a call, with the session and the key. A call without an answer is an error.
func (w *watched) ask(ctx context.Context, method, path string, body any) (status int, answer map[string]any, err error) {
	var data []byte
	if body != nil {
		if data, err = json.Marshal(body); err != nil {
			return 0, nil, err
		}
	}
	request, err := http.NewRequestWithContext(ctx, method, w.base.Load().(string)+path, bytes.NewReader(data))
	if err != nil {
		return 0, nil, err
	}
	if request.Header.Set("Sec-Fetch-Site", "same-origin"); body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	if w.session != nil {
		request.AddCookie(w.session)
	}
	if w.key != "" {
		request.Header.Set("x-api-key", w.key)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, nil, err
	}
	defer response.Body.Close()
	if cookies := response.Cookies(); len(cookies) > 0 {
		w.session = cookies[0]
	}
	return response.StatusCode, answer, json.NewDecoder(response.Body).Decode(&answer)
}

func (w *watched) must(t *testing.T, method, path string, body any, want int) map[string]any {
	t.Helper()
	status, answer, err := w.ask(t.Context(), method, path, body)
	if err != nil || status != want {
		t.Fatalf("%s %s: %d %v, %v", method, path, status, answer, err)
	}
	return answer
}

// useUp makes quick pastes until the month's are used, whatever happens to quire meanwhile.
func (w *watched) useUp(ctx context.Context) error {
	for {
		status, answer, err := w.ask(ctx, http.MethodPost, "/api/dev/paste-lite/create", map[string]any{"content": "x"})
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err == nil && status == http.StatusCreated:
			continue
		case err == nil && answer["code"] == "quota_exhausted":
			return nil
		}
		if !wait.For(ctx, 20*time.Millisecond) { // killed
			return ctx.Err()
		}
	}
}

// receiver takes what is posted to webhooks. It refuses a third of the events the first time that they come.
type receiver struct {
	*httptest.Server
	mu    sync.Mutex
	posts map[string][]post // by webhook-id
}

type post struct {
	header http.Header
	body   string
}

func newReceiver(t *testing.T) *receiver {
	t.Helper()
	r := &receiver{posts: map[string][]post{}}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		body, err := io.ReadAll(request.Body)
		if err != nil {
			return // quire was killed
		}
		id := request.Header.Get("webhook-id")
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.posts[id] = append(r.posts[id], post{request.Header, string(body)}); len(r.posts[id]) == 1 && id != "" && id[len(id)-1]%3 == 0 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) events() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.posts)
}

// ids are the ids of the received events.
func (r *receiver) ids() iter.Seq[string] {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Values(slices.Sorted(maps.Keys(r.posts)))
}

// last is how an event has come the last time.
func (r *receiver) last(id string) post {
	r.mu.Lock()
	defer r.mu.Unlock()
	if posts := r.posts[id]; len(posts) > 0 {
		return posts[len(posts)-1]
	}
	return post{}
}

// TestWebhooksSurviveKills kills quire in the middle of deliveries under load. Each crossing is one event, and each event comes at
// least once, with one id and one body.
func TestWebhooksSurviveKills(t *testing.T) {
	t.Parallel()
	seed := *crashSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	random := rand.New(rand.NewPCG(seed, seed))
	t.Logf("seed %d: again with -args -crash.seed=%d", seed, seed)
	folder := filepath.Join(t.TempDir(), "data")
	settings := []string{"QUIRE_WEBHOOK_ALLOW_PRIVATE=1", "QUIRE_REGISTER_LIMIT=1000"}
	r := newReceiver(t)
	c := launch(t, folder, settings...)
	var accounts []*watched
	var percents []int
	for i := range watchedPercents {
		percents = append(percents, 100*(i+1)/watchedPercents)
	}
	for n := range watchedAccounts {
		accounts = append(accounts, watch(t, c.base, fmt.Sprintf("%d@example.org", n), r.URL, percents))
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*bootLimit)
	defer cancel()
	used := make(chan error, len(accounts))
	for _, w := range accounts {
		go func() { used <- w.useUp(ctx) }()
	}
	all := watchedAccounts * watchedPercents
	for round := range watchedKills {
		// Between two kills there is some progress, and the last one is before the end.
		least := r.events() + 1 + random.IntN(all/(watchedKills+2))
		eventually.True(t, "events come", func() bool { return r.events() >= min(least, all) })
		_ = c.end(t, syscall.SIGKILL)
		t.Logf("kill %d after %d events", round+1, r.events())
		c = launch(t, folder, settings...)
		for _, w := range accounts {
			w.base.Store(c.base)
		}
	}
	for range accounts {
		if err := <-used; err != nil {
			t.Fatalf("the quotas are not used up: %v\n%s", err, c.stderr)
		}
	}
	told := map[string]string{} // account and threshold by event
	for _, w := range accounts {
		eventually.NoError(t, "everything is delivered", func() error {
			status, answer, err := w.ask(t.Context(), "GET", "/api/users/user/webhooks/"+w.hook+"/deliveries?limit=100", nil)
			if err != nil || status != http.StatusOK {
				return errors.Join(err, fmt.Errorf("%d %v", status, answer))
			}
			list := answer["deliveries"].([]any)
			if len(list) != watchedPercents {
				return fmt.Errorf("%d events", len(list))
			}
			for _, d := range list {
				d := d.(map[string]any)
				if d["status"] != "delivered" {
					return fmt.Errorf("%v", d)
				}
				told[d["id"].(string)] = fmt.Sprint(w.hook, d["event"].(map[string]any)["data"].(map[string]any)["threshold"])
			}
			return nil
		})
	}
	if crossings := slices.Compact(slices.Sorted(maps.Values(told))); len(crossings) != all || len(told) != all {
		t.Errorf("%d crossings are %d events, not %d", len(crossings), len(told), all)
	}
	repeated := 0
	r.mu.Lock()
	defer r.mu.Unlock()
	for id, posts := range r.posts {
		repeated += len(posts) - 1
		if told[id] == "" || slices.ContainsFunc(posts, func(p post) bool { return p.body != posts[0].body }) {
			t.Errorf("%q came as %v", id, posts)
		}
	}
	if len(r.posts) != all {
		t.Errorf("%d events came, of %d", len(r.posts), all)
	}
	t.Logf("%d events, %d of them repeated", len(r.posts), repeated)
}
