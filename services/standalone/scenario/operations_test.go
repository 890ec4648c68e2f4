package scenario

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"

	"quire.dev/client"
)

// watcher notes the calls that a client sends, and gives them a source of their own.
type watcher struct {
	next   http.RoundTripper
	source string

	mu    sync.Mutex
	calls []*http.Request
}

// RoundTrip sends a call.
func (w *watcher) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("X-Forwarded-For", w.source)
	w.mu.Lock()
	w.calls = append(w.calls, r)
	w.mu.Unlock()
	return w.next.RoundTrip(r)
}

// seen are the calls since it was asked before.
func (w *watcher) seen() []*http.Request {
	w.mu.Lock()
	defer w.mu.Unlock()
	calls := w.calls
	w.calls = nil
	return calls
}

// options have a Go client send by w to i.
func (i *instance) options(w *watcher) []client.Option {
	return []client.Option{client.WithBaseURL(i.edge()), client.WithHTTPClient(&http.Client{Transport: w, Timeout: callLimit})}
}

// goClient is the Go client with an API key, or none. Its answers are held to the document like those of every test.
func (i *instance) goClient(t testing.TB, key string, options ...client.Option) (*client.Client, *watcher) {
	t.Helper()
	w := &watcher{next: i.client.Transport, source: newSource()}
	c, err := client.New(key, append(i.options(w), options...)...)
	if err != nil {
		t.Fatal(err)
	}
	return c, w
}

// goSession is the Go client with a session.
func (p *person) goSession(t testing.TB) (*client.Client, *watcher) {
	t.Helper()
	return p.i.goClient(t, "", client.WithSession(p.cookies[0].Name+"="+p.cookies[0].Value))
}

// first is the first item of a list. It is an error if there is none.
func first[T any](list func(func(T, error) bool)) (T, error) {
	for item, err := range list {
		return item, err
	}
	var none T
	return none, fmt.Errorf("the list is empty")
}

// errorOf is the error of a call whose result does not matter here.
func errorOf[T any](_ T, err error) error { return err }

// elsewhere tells why the Go client has no method for an operation. It is empty where there has to be one.
func elsewhere(tag, id string) string {
	switch {
	case tag == "Admin":
		return "operators have quire's commands and curl"
	case slices.Contains([]string{"postQuickPaste", "putQuickPaste", "putNamedQuickPaste"}, id):
		return "these are for curl: QuickPastes.Create does the same"
	case id == "getStatementProof":
		return "it is a file that people keep"
	}
	return ""
}

// goCall calls one operation of the document by the Go client. It first makes what it needs by others.
type goCall func(ctx context.Context, t *testing.T, f *fixture) error

// fixture is what operations are tried on: an account with an API key and a session.
type fixture struct {
	i           *instance
	account     account
	person      *person
	c, s        *client.Client // with the API key, with the session
	calls, also *watcher       // of c, of s
	receiver    *hookReceiver
}

func newFixture(t *testing.T, i *instance, receiver *hookReceiver) *fixture {
	t.Helper()
	f := &fixture{i: i, receiver: receiver}
	f.person, f.account = i.owner(t)
	f.c, f.calls = i.goClient(t, f.account.key)
	f.s, f.also = f.person.goSession(t)
	return f
}

// titled is content that the filters of every list find.
func titled() object {
	return object{"title": "a title", "tags": []string{"go"}, "language": "go", "visibility": "unlisted"}
}

var everyFilter = client.ListFilter{
	PageSize: 10, Order: client.OldestFirst, TitleContains: "title", Tag: "go", Visibility: client.Unlisted, Language: "go",
}

func contentOperations() map[string]goCall {
	ops := make(map[string]goCall)
	for _, k := range []struct {
		name string
		of   func(*client.Client) *client.Pastes
		make func(account, testing.TB, object) string
	}{
		{"Paste", func(c *client.Client) *client.Pastes { return c.Pastes }, account.paste},
		{"QuickPaste", func(c *client.Client) *client.Pastes { return c.QuickPastes }, account.quick},
	} {
		ops["create"+k.name] = func(ctx context.Context, _ *testing.T, f *fixture) error {
			return errorOf(k.of(f.c).Create(ctx, client.NewPaste{Content: "x", Title: "t", Tags: []string{"go"}, ExpiresIn: client.LifetimeOf(time.Hour)}))
		}
		ops["get"+k.name] = func(ctx context.Context, t *testing.T, f *fixture) error {
			return errorOf(k.of(f.c).GetVersion(ctx, k.make(f.account, t, nil), 1))
		}
		ops["update"+k.name] = func(ctx context.Context, t *testing.T, f *fixture) error {
			change := client.PasteChange{Title: client.Set("new"), Tags: client.Reset[[]string](), ExpiresIn: client.Set(client.Lifetime("7d"))}
			return errorOf(k.of(f.c).Update(ctx, k.make(f.account, t, nil), change, client.IfVersion(1)))
		}
		ops["delete"+k.name] = func(ctx context.Context, t *testing.T, f *fixture) error {
			return errorOf(k.of(f.c).Delete(ctx, k.make(f.account, t, nil)))
		}
		ops["list"+k.name+"s"] = func(ctx context.Context, t *testing.T, f *fixture) error {
			k.make(f.account, t, titled())
			return errorOf(first(k.of(f.c).List(ctx, everyFilter)))
		}
		ops["list"+k.name+"Versions"] = func(ctx context.Context, t *testing.T, f *fixture) error {
			return errorOf(first(k.of(f.c).Versions(ctx, k.make(f.account, t, nil))))
		}
	}
	ops["uploadFile"] = func(ctx context.Context, _ *testing.T, f *fixture) error {
		return errorOf(f.c.Files.Upload(ctx, client.NewFile{Name: "a title", Content: strings.NewReader("x"), Visibility: client.Private, ExpiresIn: "7d"}))
	}
	ops["getFile"] = func(ctx context.Context, t *testing.T, f *fixture) error {
		return errorOf(f.c.Files.Get(ctx, f.account.upload(t, "f", []byte("x"))))
	}
	ops["deleteFile"] = func(ctx context.Context, t *testing.T, f *fixture) error {
		return errorOf(f.c.Files.Delete(ctx, f.account.upload(t, "f", []byte("x"))))
	}
	ops["listFiles"] = func(ctx context.Context, t *testing.T, f *fixture) error {
		f.account.upload(t, "f", []byte("x"))
		return errorOf(first(f.c.Files.List(ctx, client.ListFilter{})))
	}
	return ops
}

func accountOperations() map[string]goCall {
	return map[string]goCall{
		"getPrices": func(ctx context.Context, _ *testing.T, f *fixture) error { return errorOf(f.c.Account.Prices(ctx)) },
		"getPriceBook": func(ctx context.Context, t *testing.T, f *fixture) error {
			id := text(t, f.i.do(t, "GET", "/api/prices", request{}).ok(t, http.StatusOK), "current", "id")
			found, err := f.c.Account.PriceBook(ctx, id)
			if err == nil && (found.Book.ID != id || len(found.Book.Plans) < 4 || len(found.Book.Plans[1].Quotas) != len(rows())+len(unlimited)) {
				t.Errorf("the book in force is %v", found.Book)
			}
			return err
		},
		"getUsage":   func(ctx context.Context, _ *testing.T, f *fixture) error { return errorOf(f.c.Account.Usage(ctx)) },
		"getProfile": func(ctx context.Context, _ *testing.T, f *fixture) error { return errorOf(f.c.Account.Profile(ctx)) },
		"listUsageByDay": func(ctx context.Context, _ *testing.T, f *fixture) error {
			q := client.DaysQuery{From: f.i.now(), To: f.i.now(), ByQuotaKey: true, ByKey: true}
			return errorOf(f.c.Account.UsageByDay(ctx, q))
		},
		"listLedgerEntries": func(ctx context.Context, t *testing.T, f *fixture) error {
			f.account.grant(t, "1")
			return errorOf(first(f.c.Account.Ledger(ctx, client.LedgerFilter{Type: "grant", ReasonContains: "TEST", From: f.i.now().Add(-time.Hour), To: f.i.now().Add(time.Hour)})))
		},
		"getStatement": func(ctx context.Context, _ *testing.T, f *fixture) error {
			return errorOf(f.c.Account.Statement(ctx, f.i.now().Format("2006-01")))
		},
		"listReceipts": func(ctx context.Context, t *testing.T, f *fixture) error {
			f.account.quick(t, nil)
			return errorOf(f.c.Account.Receipts(ctx, client.ReceiptsQuery{After: 1, PageSize: 20}))
		},
		"listRecentRequests": func(ctx context.Context, t *testing.T, f *fixture) error {
			f.account.quick(t, nil)
			return errorOf(first(f.c.Account.Requests(ctx, client.RequestFilter{
				QuotaKey: "pasteLite.create", Key: "default", Decision: "admitted", From: f.i.now().Add(-time.Hour), To: f.i.now().Add(time.Hour),
			})))
		},
		"explainRequest": func(ctx context.Context, t *testing.T, f *fixture) error {
			made := f.account.do(t, "POST", "/api/dev/paste-lite/create", object{"content": "x"})
			return errorOf(f.c.Account.Explain(ctx, made.header.Get("X-Request-Id")))
		},
		"registerAccount": func(ctx context.Context, _ *testing.T, f *fixture) error {
			return errorOf(client.Register(ctx, "new-"+f.person.email, f.person.password, f.i.options(f.calls)...))
		},
		"openSession": func(ctx context.Context, _ *testing.T, f *fixture) error {
			return errorOf(client.LogIn(ctx, f.person.email, f.person.password, f.i.options(f.calls)...))
		},
		"closeSession": func(ctx context.Context, _ *testing.T, f *fixture) error { return errorOf(f.s.Account.LogOut(ctx)) },
		"regenerateApiKey": func(ctx context.Context, _ *testing.T, f *fixture) error {
			return errorOf(f.s.Keys.RegenerateDefault(ctx))
		},
		"listApiKeys": func(ctx context.Context, _ *testing.T, f *fixture) error { return errorOf(f.s.Keys.List(ctx)) },
		"createApiKey": func(ctx context.Context, _ *testing.T, f *fixture) error {
			return errorOf(f.s.Keys.Create(ctx, client.NewKey{
				Name: "program", Scopes: []string{"pastes.get"}, ExpiresIn: "90d", Quotas: map[string]int64{"pastes.get": 5},
				SpendingCap: &client.CapChange{Amount: 1_000_000, Period: client.CapPerDay},
			}))
		},
		"changeApiKey": func(ctx context.Context, _ *testing.T, f *fixture) error {
			return errorOf(f.s.Keys.Update(ctx, "default", client.KeyChange{
				Name: client.Set("main"), Quotas: client.Set(map[string]int64{"pastes.get": 5}), Scopes: client.Reset[[]string](),
				SpendingCap: client.Set(client.CapChange{Amount: 1, Period: client.CapInTotal}),
			}))
		},
		"deleteApiKey": func(ctx context.Context, t *testing.T, f *fixture) error {
			_, made := f.person.further(t, object{})
			return errorOf(f.s.Keys.Revoke(ctx, text(t, made, "id")))
		},
		"regenerateKeyWithOverlap": func(ctx context.Context, _ *testing.T, f *fixture) error {
			return errorOf(f.s.Keys.Rotate(ctx, "default", time.Hour))
		},
		"setSpendingCap": func(ctx context.Context, _ *testing.T, f *fixture) error {
			return errorOf(f.s.Account.SetSpendingCap(ctx, &client.CapChange{Amount: 5_000_000, Period: client.CapPerMonth}))
		},
		"getPlan": func(ctx context.Context, _ *testing.T, f *fixture) error { return errorOf(f.c.Account.Plan(ctx)) },
		"createCheckout": func(ctx context.Context, _ *testing.T, f *fixture) error {
			return errorOf(f.c.Account.Checkout(ctx, client.Purchase{Credits: 500_000_000}))
		},
		"setTopUp": func(ctx context.Context, _ *testing.T, f *fixture) error {
			return errorOf(f.s.Account.SetTopUp(ctx, &client.TopUpRule{Below: 1, Credits: 100_000_000, MonthlyLimit: 300_000_000}))
		},
		"listPayments": func(ctx context.Context, t *testing.T, f *fixture) error {
			f.i.admin(t, "POST", "/api/admin/accounts/"+f.account.id+"/payments", object{"payment": "2026-1", "credits": "10"}).ok(t, http.StatusOK)
			return errorOf(first(f.c.Account.Payments(ctx)))
		},
		"changePassword": func(ctx context.Context, _ *testing.T, f *fixture) error {
			return errorOf(f.s.Account.ChangePassword(ctx, f.person.password, "another password"))
		},
		"changeEmail": func(ctx context.Context, _ *testing.T, f *fixture) error {
			return errorOf(f.s.Account.ChangeEmail(ctx, f.person.password, "changed-"+f.person.email))
		},
		"createExport": func(ctx context.Context, _ *testing.T, f *fixture) error {
			return errorOf(f.s.Account.CreateExport(ctx))
		},
		"getExport": func(ctx context.Context, t *testing.T, f *fixture) error {
			f.person.do(t, "POST", "/api/users/user/export", nil).ok(t, http.StatusAccepted)
			return errorOf(f.s.Account.Export(ctx))
		},
		"listSessions": func(ctx context.Context, _ *testing.T, f *fixture) error { return errorOf(f.s.Account.Sessions(ctx)) },
		"deleteSession": func(ctx context.Context, _ *testing.T, f *fixture) error {
			list, err := f.s.Account.Sessions(ctx)
			f.also.seen()
			if err != nil {
				return err
			}
			return errorOf(f.s.Account.EndSession(ctx, list.Sessions[0].ID))
		},
		"closeAllSessions": func(ctx context.Context, _ *testing.T, f *fixture) error {
			return errorOf(f.s.Account.EndAllSessions(ctx))
		},
		"deleteAccount": func(ctx context.Context, _ *testing.T, f *fixture) error {
			return errorOf(f.s.Account.Delete(ctx, f.person.password))
		},
	}
}

// hook creates a webhook and returns its id.
func (f *fixture) hook(t *testing.T) string {
	t.Helper()
	made := f.person.do(t, "POST", "/api/users/user/webhooks", object{"url": f.receiver.URL, "events": []string{"quota.threshold"}})
	return text(t, made.ok(t, http.StatusCreated), "webhook", "id")
}

// delivery sends a test to a webhook, and returns the delivery's id.
func (f *fixture) delivery(t *testing.T, hook string) string {
	t.Helper()
	return text(t, f.person.do(t, "POST", "/api/users/user/webhooks/"+hook+"/test", nil).ok(t, http.StatusAccepted), "delivery")
}

func webhookOperations() map[string]goCall {
	return map[string]goCall{
		"listEvents": func(ctx context.Context, _ *testing.T, f *fixture) error {
			return errorOf(f.c.Account.Events(ctx, client.EventsQuery{Wait: time.Second, Limit: 5}))
		},
		"listWebhooks": func(ctx context.Context, _ *testing.T, f *fixture) error { return errorOf(f.s.Webhooks.List(ctx)) },
		"createWebhook": func(ctx context.Context, _ *testing.T, f *fixture) error {
			below := client.Credits(1_000_000)
			return errorOf(f.s.Webhooks.Create(ctx, client.NewWebhook{
				URL: f.receiver.URL, Events: []string{client.EventQuotaThreshold, client.EventBalanceLow}, Thresholds: []int{90}, BalanceBelow: &below,
			}))
		},
		"getWebhook": func(ctx context.Context, t *testing.T, f *fixture) error {
			return errorOf(f.s.Webhooks.Get(ctx, f.hook(t)))
		},
		"updateWebhook": func(ctx context.Context, t *testing.T, f *fixture) error {
			return errorOf(f.s.Webhooks.Update(ctx, f.hook(t), client.WebhookChange{Thresholds: client.Reset[[]int](), BalanceBelow: client.Set(client.Credits(5))}))
		},
		"deleteWebhook": func(ctx context.Context, t *testing.T, f *fixture) error {
			return errorOf(f.s.Webhooks.Delete(ctx, f.hook(t)))
		},
		"rotateWebhookSecret": func(ctx context.Context, t *testing.T, f *fixture) error {
			return errorOf(f.s.Webhooks.RotateSecret(ctx, f.hook(t)))
		},
		"testWebhook": func(ctx context.Context, t *testing.T, f *fixture) error {
			return errorOf(f.s.Webhooks.Test(ctx, f.hook(t)))
		},
		"listDeliveries": func(ctx context.Context, t *testing.T, f *fixture) error {
			hook := f.hook(t)
			f.delivery(t, hook)
			return errorOf(first(f.s.Webhooks.Deliveries(ctx, hook)))
		},
		"replayDelivery": func(ctx context.Context, t *testing.T, f *fixture) error {
			hook := f.hook(t)
			return errorOf(f.s.Webhooks.ReplayDelivery(ctx, hook, f.delivery(t, hook)))
		},
	}
}

// spoils are the operations after which the session or the key of a fixture is of no use, or its webhooks are too many.
func spoils(id string) bool {
	return slices.Contains([]string{
		"closeSession", "deleteSession", "closeAllSessions", "deleteAccount", "changePassword", "changeEmail", "regenerateApiKey", "regenerateKeyWithOverlap", "changeApiKey",
	}, id)
}

// takesKey tells whether an operation takes an Idempotency-Key.
func takesKey(documented *openapi3.Operation) bool {
	return documented.Parameters.GetByInAndName("header", "Idempotency-Key") != nil
}

func TestTheGoClientHasAMethodForEachOperation(t *testing.T) {
	i, _ := shop(t, behindProxy(), with("QUIRE_WEBHOOK_ALLOW_PRIVATE", "1"))
	receiver := newHookReceiver(t)
	ops := contentOperations()
	maps.Copy(ops, accountOperations())
	maps.Copy(ops, webhookOperations())
	shared := newFixture(t, i, receiver)
	tried := 0
	for path, item := range specification().docs[0].Paths.Map() {
		for method, documented := range item.Operations() {
			id := documented.OperationID
			op := ops[id]
			delete(ops, id)
			if why := elsewhere(documented.Tags[0], id); why != "" {
				if op != nil {
					t.Errorf("%s has a method, although %s", id, why)
				}
				continue
			}
			if op == nil {
				t.Errorf("the Go client has no method for %s, %s %s", id, method, path)
				continue
			}
			f := shared
			if spoils(id) {
				f = newFixture(t, i, receiver)
			}
			tried++
			if err := op(t.Context(), t, f); err != nil {
				t.Errorf("%s: %v", id, err)
			}
			calls := append(f.calls.seen(), f.also.seen()...)
			if len(calls) != 1 {
				t.Errorf("%s sent %d calls", id, len(calls))
				continue
			}
			route, _, err := specification().route(calls[0])
			if err != nil || route.Operation.OperationID != id {
				t.Errorf("%s called %s %s: %v", id, calls[0].Method, calls[0].URL.Path, err)
			}
			if once, want := calls[0].Header.Get("Idempotency-Key") != "", takesKey(documented); once != want {
				t.Errorf("%s has an Idempotency-Key: %v", id, once)
			}
		}
	}
	for id := range ops {
		t.Errorf("%s is not in the document", id)
	}
	if tried < 30 {
		t.Errorf("%d operations were tried", tried)
	}
}

func TestTheGoClientTransfersFiles(t *testing.T) {
	i := common(t)
	a := i.account(t, "pro")
	c, err := client.New(a.key, client.WithBaseURL(newInjector(t, i).server.URL)) // to which links lead as well
	if err != nil {
		t.Fatal(err)
	}
	content := randomBytes(3<<20 + 17)
	var told []int64
	up, err := c.Files.Upload(t.Context(), client.NewFile{
		Name: "random", Content: bytes.NewReader(content),
		Progress: func(done, total int64) {
			if total != int64(len(content)) {
				t.Errorf("the upload has %d bytes", total)
			}
			told = append(told, done)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(told) < 2 || told[len(told)-1] != int64(len(content)) || !slices.IsSorted(told) {
		t.Errorf("progress of the upload: %d", told)
	}
	var got bytes.Buffer
	told = nil
	file, err := c.Files.Download(t.Context(), up.ID, &got, func(done, _ int64) { told = append(told, done) })
	if err != nil || !bytes.Equal(got.Bytes(), content) || file.SHA256 != up.SHA256 {
		t.Errorf("%d bytes of %d: %v", got.Len(), len(content), err)
	}
	if len(told) < 2 || told[len(told)-1] != int64(len(content)) || !slices.IsSorted(told) {
		t.Errorf("progress of the download: %d", told)
	}
	if used := a.used(t, "files.get"); used != 1 {
		t.Errorf("a download counts as %d", used)
	}
}

// The examples of the Go client do what they show, against a server.
func TestTheGoClientsExamples(t *testing.T) {
	i := start(t)
	cmd := exec.CommandContext(t.Context(), "go", "test", "-count=1", "-run", "^Example", "-v", "quire.dev/client")
	cmd.Env = append(os.Environ(), "QUIRE_URL="+newInjector(t, i).server.URL, "QUIRE_API_KEY="+i.account(t, "pro").key)
	out, err := cmd.CombinedOutput()
	if ran := strings.Count(string(out), "--- PASS: Example"); err != nil || ran < 6 {
		t.Errorf("%d examples: %v\n%s", ran, err, out)
	}
}

// The Go client brings no other modules along.
func TestTheGoClientHasNoDependencies(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), "go", "list", "-m", "all")
	cmd.Dir = "../../../clients/go"
	cmd.Env = append(os.Environ(), "GOWORK=off")
	out, err := cmd.CombinedOutput()
	if err != nil || string(out) != "quire.dev/client\n" {
		t.Errorf("%v\n%s", err, out)
	}
}
