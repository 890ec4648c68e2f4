package scenario

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"quire.dev/pkg/eventually"
)

var sources atomic.Uint32

// newSource is a network address that no other request comes from. It is sent as X-Forwarded-For.
func newSource() string {
	n := sources.Add(1)
	return fmt.Sprintf("100.%d.%d.%d", 64+n>>16&63, n>>8&255, n&255)
}

// request is one call. The zero value of each field leaves it out.
type request struct {
	key     string            // x-api-key
	body    any               // a string, []byte or io.Reader is sent as it is, all else as JSON
	header  map[string]string // set last, over the headers of the other fields
	source  string            // X-Forwarded-For; empty: a new one
	cookies []*http.Cookie
}

// answer is the answer to one request.
type answer struct {
	status int
	header http.Header
	body   []byte
	what   string // method and path, for messages
}

// do sends a request and reads the answer.
func (i *instance) do(t testing.TB, method, path string, r request) answer {
	t.Helper()
	a, err := i.try(t.Context(), method, path, r)
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	return a
}

func (i *instance) try(ctx context.Context, method, path string, r request) (answer, error) {
	body, contentType, err := encodeBody(r.body)
	if err != nil {
		return answer{}, err
	}
	req, err := http.NewRequestWithContext(ctx, method, i.edge()+strings.TrimPrefix(path, i.public), body)
	if err != nil {
		return answer{}, err
	}
	if contentType != "" {
		req.Header.Set("Content-Type", contentType)
	}
	if r.key != "" {
		req.Header.Set("x-api-key", r.key)
	}
	if r.source == "" {
		r.source = newSource()
	}
	req.Header.Set("X-Forwarded-For", r.source)
	for name, value := range r.header {
		req.Header.Set(name, value)
	}
	for _, c := range r.cookies {
		req.AddCookie(c)
	}
	res, err := i.client.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	if err != nil {
		return answer{}, err
	}
	return answer{status: res.StatusCode, header: res.Header, body: data, what: method + " " + path}, nil
}

func encodeBody(body any) (io.Reader, string, error) {
	switch b := body.(type) {
	case nil:
		return nil, "", nil
	case string:
		return strings.NewReader(b), "application/json", nil
	case []byte:
		return bytes.NewReader(b), "application/octet-stream", nil
	case io.Reader:
		return b, "", nil
	}
	data, err := json.Marshal(body)
	return bytes.NewReader(data), "application/json", err
}

// object is a JSON object.
type object = map[string]any

// ok asserts the status and returns the body.
func (a answer) ok(t testing.TB, status int) object {
	t.Helper()
	if a.status != status {
		t.Fatalf("%s: %d %s, want %d", a.what, a.status, a.body, status)
	}
	return a.json(t)
}

func (a answer) json(t testing.TB) object {
	t.Helper()
	var out object
	decoder := json.NewDecoder(bytes.NewReader(a.body))
	decoder.UseNumber()
	if err := decoder.Decode(&out); err != nil {
		t.Fatalf("%s: %d %.200q is no JSON object: %v", a.what, a.status, a.body, err)
	}
	return out
}

// fails asserts an error response. An empty reason matches any.
func (a answer) fails(t testing.TB, status int, code, reason string) {
	t.Helper()
	if a.status != status {
		t.Fatalf("%s: %d %s, want %d %s", a.what, a.status, a.body, status, code)
	}
	body := a.json(t)
	if body["success"] != false || body["code"] != code || reason != "" && body["reason"] != reason {
		t.Fatalf("%s: %d %s, want code %q, reason %q", a.what, a.status, a.body, code, reason)
	}
	if text, _ := body["reason"].(string); text == "" {
		t.Errorf("%s: no reason in %s", a.what, a.body)
	}
	if body["requestId"] != a.header.Get("X-Request-Id") {
		t.Errorf("%s: X-Request-Id is %q in %s", a.what, a.header.Get("X-Request-Id"), a.body)
	}
	if docs, _ := body["docs"].(string); !strings.HasSuffix(docs, "/docs/errors#"+code) {
		t.Errorf("%s: docs is %q", a.what, docs)
	}
}

// failsLike reports whether two failures differ only in the request.
func (a answer) failsLike(t testing.TB, other answer) bool {
	t.Helper()
	one, two := a.json(t), other.json(t)
	delete(one, "requestId")
	delete(two, "requestId")
	return a.status == other.status && reflect.DeepEqual(one, two)
}

// hasHeader asserts the value of a header; "" means no such header.
func (a answer) hasHeader(t testing.TB, name, want string) {
	t.Helper()
	if got := a.header.Get(name); got != want {
		t.Errorf("%s: %s is %q, want %q", a.what, name, got, want)
	}
}

// shows asserts the status and texts in the body.
func (a answer) shows(t testing.TB, status int, texts ...string) answer {
	t.Helper()
	if a.status != status {
		t.Errorf("%s: %d %.600s, want %d", a.what, a.status, a.body, status)
	}
	for _, text := range texts {
		if !strings.Contains(string(a.body), text) {
			t.Errorf("%s: %q is not in\n%.2000s", a.what, text, a.body)
		}
	}
	return a
}

// hides asserts that the body lacks these texts.
func (a answer) hides(t testing.TB, texts ...string) answer {
	t.Helper()
	for _, text := range texts {
		if strings.Contains(string(a.body), text) {
			t.Errorf("%s: %q is in\n%.2000s", a.what, text, a.body)
		}
	}
	return a
}

// at is a value inside a JSON object: at(o, "usage", "pastes.get", "used").
func at(t testing.TB, o object, path ...string) any {
	t.Helper()
	var v any = o
	for _, name := range path {
		inner, ok := v.(object)
		if !ok {
			t.Fatalf("no %s in %v", strings.Join(path, "."), o)
		}
		if v, ok = inner[name]; !ok {
			t.Fatalf("no %s in %v", strings.Join(path, "."), o)
		}
	}
	return v
}

func number(t testing.TB, o object, path ...string) int64 {
	t.Helper()
	n, ok := at(t, o, path...).(json.Number)
	if !ok {
		t.Fatalf("%s of %v is no number", strings.Join(path, "."), o)
	}
	v, err := n.Int64()
	if err != nil {
		t.Fatalf("%s: %v", strings.Join(path, "."), err)
	}
	return v
}

func text(t testing.TB, o object, path ...string) string {
	t.Helper()
	s, ok := at(t, o, path...).(string)
	if !ok {
		t.Fatalf("%s of %v is no text", strings.Join(path, "."), o)
	}
	return s
}

// account is an account created by a test.
type account struct {
	i              *instance
	id, email, key string
}

var accounts atomic.Uint64

// account creates an account through the admin API.
func (i *instance) account(t testing.TB, tier string) account {
	t.Helper()
	email := fmt.Sprintf("user%d-%d@example.org", accounts.Add(1), time.Now().UnixNano())
	body := i.admin(t, http.MethodPost, "/api/admin/accounts", object{"email": email, "tier": tier}).ok(t, http.StatusCreated)
	return account{i: i, id: text(t, body, "account", "id"), email: email, key: text(t, body, "apiKey")}
}

func (i *instance) admin(t testing.TB, method, path string, body any) answer {
	t.Helper()
	return i.do(t, method, path, request{body: body, header: map[string]string{"Authorization": "Bearer " + i.adminToken}})
}

// do sends a request with the account's key.
func (a account) do(t testing.TB, method, path string, body any) answer {
	t.Helper()
	return a.i.do(t, method, path, request{key: a.key, body: body})
}

func (a account) with(t testing.TB, method, path string, r request) answer {
	t.Helper()
	r.key = a.key
	return a.i.do(t, method, path, r)
}

// grant adds credits and returns the balance after it.
func (a account) grant(t testing.TB, amount string) string {
	t.Helper()
	return text(t, a.i.admin(t, http.MethodPost, "/api/admin/accounts/"+a.id+"/credits",
		object{"amount": amount, "reason": "test"}).ok(t, http.StatusOK), "balance")
}

func (a account) setTier(t testing.TB, tier string) {
	t.Helper()
	a.i.admin(t, http.MethodPut, "/api/admin/accounts/"+a.id+"/tier", object{"tier": tier}).ok(t, http.StatusOK)
}

// usage is the account's dev-usage.
func (a account) usage(t testing.TB) object {
	t.Helper()
	return a.do(t, http.MethodGet, "/api/users/user/dev-usage", nil).ok(t, http.StatusOK)
}

// used is the number of requests counted under a quota key.
func (a account) used(t testing.TB, quotaKey string) int64 {
	t.Helper()
	return number(t, a.usage(t), "usage", quotaKey, "used")
}

func (a account) balance(t testing.TB) string {
	t.Helper()
	return text(t, a.usage(t), "credits", "balance")
}

// paste creates a paste, quick a quick paste, upload a file; each returns the id.
func (a account) paste(t testing.TB, fields object) string {
	t.Helper()
	return text(t, a.do(t, http.MethodPost, "/api/dev/pastes/create", withContent(fields)).ok(t, http.StatusCreated), "id")
}

func (a account) quick(t testing.TB, fields object) string {
	t.Helper()
	return text(t, a.do(t, http.MethodPost, "/api/dev/paste-lite/create", withContent(fields)).ok(t, http.StatusCreated), "id")
}

func withContent(fields object) object {
	out := object{"content": "some content"}
	for name, value := range fields {
		out[name] = value
	}
	return out
}

func (a account) upload(t testing.TB, name string, content []byte) string {
	t.Helper()
	return text(t, a.do(t, http.MethodPost, "/api/dev/files/upload?name="+url.QueryEscape(name), content).ok(t, http.StatusCreated), "id")
}

// untilRefused repeats a call until every edge refuses it with this code, and returns how many calls were answered before: each
// edge counts only the failures and views it sees.
func (i *instance) untilRefused(t testing.TB, code string, call func() answer, answered func(answer)) int {
	t.Helper()
	calls := 0
	for refused := 0; refused < len(i.bases); {
		if calls > 1000*len(i.bases) {
			t.Fatalf("%d calls, and none is refused with %s", calls, code)
		}
		got := call()
		if got.status != http.StatusTooManyRequests {
			answered(got)
			calls++
			refused = 0
			continue
		}
		got.fails(t, http.StatusTooManyRequests, code, "")
		if got.header.Get("Retry-After") == "" {
			t.Errorf("%s: no Retry-After", got.what)
		}
		refused++
	}
	return calls
}

// auditEnd is the end of an audit that was begun.
func (i *instance) auditEnd(t testing.TB, begun answer) (body object) {
	t.Helper()
	if begun.status != http.StatusAccepted {
		return begun.ok(t, http.StatusOK)
	}
	address := begun.header.Get("Location")
	begun.ok(t, http.StatusAccepted)
	eventually.NoError(t, "the audit ends", func() error {
		body = i.admin(t, http.MethodGet, address, nil).ok(t, http.StatusOK)
		if body["match"] == nil {
			return fmt.Errorf("%v of %v", body["done"], body["total"])
		}
		return nil
	})
	return body
}

// audit requests an audit, which must match.
func (i *instance) audit(t testing.TB) object {
	t.Helper()
	body := i.auditEnd(t, i.admin(t, http.MethodPost, "/api/admin/audit", nil))
	if body["match"] != true {
		t.Fatalf("the audit does not match: %v", body)
	}
	return body
}
