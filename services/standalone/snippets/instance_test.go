// Package snippets runs every snippet of the documentation against a whole Quire: those of the reference in bash, Go and
// TypeScript, and those of the guides, taken from the pages as they are served. It needs curl, jq, Go, node and the npm
// packages of the folder e2e, so that it runs only where it is asked to: `make test-docs`.
package snippets

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"

	"quire.dev/pkg/host"
	"quire.dev/pkg/payments/stripe/stripetest"
	"quire.dev/services/standalone"
)

var nodeModules = flag.String("node_modules", "", "absolute path of e2e/node_modules; without it the tests are left out")

func needTools(t *testing.T) {
	t.Helper()
	if *nodeModules == "" {
		t.Skip("needs curl, jq and node: run `make test-docs`")
	}
}

const adminToken = "an-admin-token-for-tests"

// instance is a Quire behind a proxy that notes every call. Snippets use the proxy, set-ups the Quire itself.
type instance struct {
	public string // address of the proxy, and the public one of the Quire
	direct string

	programs string // folder of the command line's program, for the guides

	mu    sync.Mutex
	calls []call

	webhooks map[string][2]string // id and delivery, by the creating session
	books    int                  // price books that were applied
}

// call is what the proxy saw.
type call struct {
	method, path string
	status       int
}

func start(t *testing.T) *instance {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	payments, err := stripetest.Start(stripetest.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(payments.Close)
	i := &instance{public: "http://" + ln.Addr().String(), webhooks: map[string][2]string{}}
	cfg, err := host.ReadSettings(host.Quire, []string{
		"QUIRE_LISTEN=127.0.0.1:0", "QUIRE_DATA=" + t.TempDir(), "QUIRE_ADMIN_TOKEN=" + adminToken, "QUIRE_PUBLIC_URL=" + i.public,
		"QUIRE_ANON_LIMIT=1000", "QUIRE_STRIPE_KEY=" + stripetest.DefaultKey, "QUIRE_STRIPE_WEBHOOK_SECRET=" + stripetest.DefaultSecret, "QUIRE_STRIPE_URL=" + payments.URL,
		"QUIRE_REGISTER_LIMIT=1000", "QUIRE_CHECKPOINT_INTERVAL=1s",
	})
	if err != nil {
		t.Fatal(err)
	}
	q, err := standalone.New(cfg, standalone.Deps{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- q.Run(ctx) }()
	select {
	case <-q.Ready():
	case err := <-ended:
		t.Fatalf("quire ended: %v", err)
	}
	i.direct = q.URL()
	target, err := url.Parse(i.direct)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httptest.NewUnstartedServer(&httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			r.Out.Host = r.In.Host
		},
		ModifyResponse: func(r *http.Response) error {
			i.mu.Lock()
			defer i.mu.Unlock()
			i.calls = append(i.calls, call{r.Request.Method, r.Request.URL.Path, r.StatusCode})
			return nil
		},
	})
	proxy.Listener = ln
	proxy.Start()
	t.Cleanup(func() {
		proxy.Close()
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("stop quire: %v", err)
		}
	})
	return i
}

// seen gives the calls since it was last asked.
func (i *instance) seen() []call {
	i.mu.Lock()
	defer i.mu.Unlock()
	calls := i.calls
	i.calls = nil
	return calls
}

// answer is the response to a call of a setup.
type answer struct {
	header http.Header
	body   map[string]any
}

func (a answer) text(t *testing.T, path ...string) string {
	t.Helper()
	var value any = a.body
	for _, name := range path {
		m, ok := value.(map[string]any)
		if !ok {
			t.Fatalf("%v has no %v", a.body, path)
		}
		value = m[name]
	}
	text, ok := value.(string)
	if !ok {
		t.Fatalf("%v has no text %v", a.body, path)
	}
	return text
}

// do calls the Quire itself for a set-up, which must succeed. header is names and values in turn.
func (i *instance) do(t *testing.T, method, path string, body any, header ...string) answer {
	t.Helper()
	var sent io.Reader
	if body != nil {
		data, err := json.Marshal(body)
		if err != nil {
			t.Fatal(err)
		}
		sent = bytes.NewReader(data)
	}
	req, err := http.NewRequestWithContext(t.Context(), method, i.direct+path, sent)
	if err != nil {
		t.Fatal(err)
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	for n := 0; n+1 < len(header); n += 2 {
		req.Header.Set(header[n], header[n+1])
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	a := answer{header: res.Header}
	if res.StatusCode >= 300 || json.Unmarshal(data, &a.body) != nil {
		t.Fatalf("%s %s: %d %s", method, path, res.StatusCode, data)
	}
	return a
}

// account creates an account as the operator and returns its id and API key.
func (i *instance) account(t *testing.T, email, tier string) (id, key string) {
	t.Helper()
	a := i.do(t, "POST", "/api/admin/accounts", map[string]string{"email": email, "tier": tier}, "Authorization", "Bearer "+adminToken)
	return a.text(t, "account", "id"), a.text(t, "apiKey")
}

const password = "correct horse battery staple"

// session registers an account and gives its session.
func (i *instance) session(t *testing.T, email, password string) string {
	t.Helper()
	a := i.do(t, "POST", "/api/users/register", map[string]string{"email": email, "password": password})
	cookie, _, _ := strings.Cut(a.header.Get("Set-Cookie"), ";")
	name, value, found := strings.Cut(cookie, "=")
	if !found || name != "quire_session" {
		t.Fatalf("no session: %v", a.header)
	}
	return value
}

// environment is the environment of a snippet. Of the machine's own it has only the path to programs.
func environment(folder string, variables map[string]string) []string {
	out := []string{"PATH=" + os.Getenv("PATH"), "HOME=" + folder, "LC_ALL=C.UTF-8", "NO_PROXY=*"}
	for name, value := range variables {
		out = append(out, fmt.Sprintf("%s=%s", name, value))
	}
	return out
}

func toJSON(t *testing.T, value any) string {
	t.Helper()
	data, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
