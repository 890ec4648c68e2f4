package scenario

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// exchange sends raw bytes over a separate connection and reads one response.
func (i *instance) exchange(t testing.TB, raw string) answer {
	t.Helper()
	conn, err := net.Dial("tcp", i.address())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(callLimit)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, raw); err != nil {
		t.Fatal(err)
	}
	if strings.HasSuffix(raw, "early") { // the end of the request
		if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
			t.Fatal(err)
		}
	}
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatalf("%.60q: %v", raw, err)
	}
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer{status: res.StatusCode, header: res.Header, body: body, what: fmt.Sprintf("%.60q", raw)}
}

// TestEveryFailureHasItsRequestIDAndDocs: fails holds requestId to X-Request-Id, and docs to the code. So do all other
// tests; these are the failures that happen before a handler, on the connection and in the framework.
func TestEveryFailureHasItsRequestIDAndDocs(t *testing.T) {
	i := common(t)
	a := i.account(t, "pro")
	post := "POST /api/dev/paste-lite/create HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nx-api-key: " + a.key + "\r\n"
	for _, tc := range []struct {
		raw    string
		status int
		code   string
	}{
		{"GET /nowhere HTTP/1.1\r\nHost: a\r\n\r\n", 404, "not_found"},
		{"GET /api/dev/pastes/get/a/b HTTP/1.1\r\nHost: a\r\n\r\n", 404, "not_found"},
		{"PATCH /api/dev/pastes/create HTTP/1.1\r\nHost: a\r\n\r\n", 405, "method_not_allowed"},
		{"BREW /api/dev/pastes/create HTTP/1.1\r\nHost: a\r\n\r\n", 405, "method_not_allowed"},
		{"nonsense\r\n\r\n", 400, "malformed"},
		{"GET /livez#x HTTP/1.1\r\nHost: a\r\n\r\n", 400, "malformed"},
		{"GET /metrics HTTP/1.1\r\nHost: a b\r\n\r\n", 400, "malformed"},
		{"POST /docs/openapi.yaml HTTP/1.1\r\nHost: a\r\n\r\n", 405, "method_not_allowed"},
		{"GET /assets/nothing HTTP/1.1\r\nHost: a\r\n\r\n", 404, "not_found"},
		{post + "x-api-key: " + a.key + "\r\nContent-Length: 2\r\n\r\n{}", 400, "malformed"},
		{post + "Transfer-Encoding: chunked\r\n\r\n10000000\r\n", 413, "too_large"},
		{post + "Transfer-Encoding: chun\u212aed\r\n\r\n0\r\n\r\n", 400, "malformed"},
		{"GET /livez HTTP/1.1\r\n\r\n", 400, "malformed"},
		{"GET /livez HTTP/1.1\r\nHost: a\r\nno colon\r\n\r\n", 400, "malformed"},
		{"GET /livez HTTP/1.1\r\nHost: a\r\nX: " + strings.Repeat("x", 9<<10) + "\r\n\r\n", 431, "headers_too_large"},
		{"GET /" + strings.Repeat("x", 9<<10) + " HTTP/1.1\r\nHost: a\r\n\r\n", 431, "headers_too_large"},
		{post + "Content-Length: 100000000\r\n\r\n{", 413, "too_large"},
		{post + "Content-Length: 1\r\nContent-Length: 2\r\n\r\n{}", 400, "malformed"},
		{post + "Transfer-Encoding: chunked\r\n\r\nzz\r\n", 400, "malformed"},
		{post + "Content-Length: 100\r\n\r\nearly", 400, "malformed"},
		{post + "Content-Encoding: br\r\nContent-Length: 2\r\n\r\n{}", 415, "unsupported_media_type"},
	} {
		i.exchange(t, tc.raw).fails(t, tc.status, tc.code, "")
	}
	if used := a.used(t, "pasteLite.create"); used != 0 {
		t.Errorf("%d requests that are no requests were counted", used)
	}
}

// says holds a failure to members beside reason and code; nil stands for no such member.
func (a answer) says(t testing.TB, members object) {
	t.Helper()
	body := a.json(t)
	for name, want := range members {
		got, is := body[name]
		if is != (want != nil) || is && fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s: %s is %v, want %v, in %s", a.what, name, got, want, a.body)
		}
	}
}

func TestFailuresNameWhatIsWrongAndWhatWasMeant(t *testing.T) {
	i := common(t)
	a := i.account(t, "pro")
	create := func(body any) answer { return a.do(t, "POST", "/api/dev/paste-lite/create", body) }
	plain := func(query, body string) answer {
		return a.with(t, "POST", "/api/dev/paste-lite/create"+query, request{body: body, header: map[string]string{"Content-Type": "text/plain"}})
	}
	meant := func(name string) string { return "did you mean `" + name + "`?" }
	tests := []struct {
		got    answer
		code   string
		reason string // a part of it
		says   object
	}{
		{create(object{"contnet": "x"}), "unknown_field", `Unknown field "contnet"`, object{"field": "contnet", "suggestion": meant("content")}},
		{create(object{"content": "x", "titel": "y"}), "unknown_field", "titel", object{"field": "titel", "suggestion": meant("title")}},
		{create(object{"content": "x", "nothing like it": 1}), "unknown_field", "nothing like it", object{"suggestion": nil}},
		{create(object{"content": "x", "visibility": "privat"}), "invalid_field", "public, unlisted or private", object{"field": "visibility", "suggestion": meant("private")}},
		{create(object{"content": "x", "title": strings.Repeat("t", 201)}), "invalid_field", "200", object{"field": "title", "limit": 200}},
		{create(object{"content": "x", "expiresIn": "soon"}), "invalid_field", "expiresIn", object{"field": "expiresIn", "limit": nil}},
		{create(object{"title": "x"}), "invalid_field", "content is required", object{"field": "content"}},
		{create(object{"content": ""}), "invalid_field", "content is required", object{"field": "content", "reason": "content is required"}},
		{create(""), "invalid_field", "content is required", object{"field": "content", "reason": "content is required"}},
		{plain("", ""), "invalid_field", "content is required", object{"field": "content", "reason": "content is required"}},
		{plain("?languag=go", "x"), "unknown_field", `Unknown query parameter "languag"`, object{"field": "languag", "suggestion": meant("language")}},
		{plain("?visibility=Public", "x"), "invalid_field", "visibility", object{"field": "visibility", "suggestion": meant("public")}},
		{a.do(t, "POST", "/api/dev/paste-lite/create?title=x", object{"content": "x"}), "unknown_field", "title must be a field of the JSON body", object{"field": "title"}},
		{a.do(t, "GET", "/api/dev/paste-lite/list?visiblity=public", nil), "unknown_field", "visiblity", object{"field": "visiblity", "suggestion": meant("visibility")}},
		{a.do(t, "GET", "/api/dev/paste-lite/list?order=descending", nil), "invalid_field", "desc or asc", object{"field": "order", "suggestion": meant("desc")}},
		{a.do(t, "GET", "/api/dev/paste-lite/list?limit=101", nil), "invalid_field", "1 to 100", object{"field": "limit", "limit": 100}},
		{a.do(t, "GET", "/api/dev/paste-lite/list?cursor=x", nil), "invalid_cursor", "cursor", object{"field": "cursor"}},
		{a.do(t, "PUT", "/api/dev/paste-lite/update/000000000000", ""), "malformed", "at least one field", object{}},
		{a.do(t, "POST", "/api/dev/files/upload?naem=x", []byte("x")), "unknown_field", "naem", object{"field": "naem", "suggestion": meant("name")}},
		{a.do(t, "POST", "/api/dev/files/upload", []byte("x")), "invalid_field", "name is required", object{"field": "name"}},
		{a.with(t, "GET", "/api/dev/pastes/get/000000000000", request{header: map[string]string{"If-None-Match": "3"}}), "invalid_field", "If-None-Match", object{"field": "If-None-Match"}},
		{i.admin(t, "POST", "/api/admin/accounts", object{"email": "a@example.org", "tier": "maxi"}), "invalid_field", "free, pro, max or admin", object{"field": "tier", "suggestion": meant("max")}},
		{i.admin(t, "POST", "/api/admin/accounts", ""), "invalid_field", "email is required", object{"field": "email"}},
		{i.do(t, "POST", "/api/users/login", request{}), "invalid_field", "email is required", object{"field": "email"}},
	}
	for _, test := range tests {
		test.got.fails(t, http.StatusBadRequest, test.code, "")
		test.got.says(t, test.says)
		if reason := text(t, test.got.json(t), "reason"); !strings.Contains(reason, test.reason) {
			t.Errorf("%s: reason %q does not say %q", test.got.what, reason, test.reason)
		}
	}
	large := create(object{"content": strings.Repeat("x", 256<<10+1)})
	large.fails(t, http.StatusRequestEntityTooLarge, "too_large", "")
	large.says(t, object{"field": "content", "limit": 256 << 10})
	larger := a.do(t, "POST", "/api/dev/paste-lite/create", object{"content": strings.Repeat("x", 2<<20)})
	larger.fails(t, http.StatusRequestEntityTooLarge, "too_large", text(t, large.json(t), "reason"))
	plain("", strings.Repeat("x", 256<<10+1)).says(t, object{"field": "content", "limit": 256 << 10, "reason": text(t, large.json(t), "reason")})
	locked := a.quick(t, object{"password": "p"})
	for header, reason := range map[string]string{"": "has a password", "wrong": "is wrong"} {
		got := a.with(t, "GET", "/api/dev/paste-lite/get/"+locked, request{header: map[string]string{"X-Paste-Password": header}})
		got.fails(t, http.StatusForbidden, "wrong_password", "")
		got.shows(t, http.StatusForbidden, reason)
		got.says(t, object{"field": "X-Paste-Password"})
	}
	stale := a.with(t, "PUT", "/api/dev/paste-lite/update/"+locked, request{body: object{"title": "x"}, header: map[string]string{"If-Match": `"7"`}})
	stale.fails(t, http.StatusPreconditionFailed, "version_mismatch", "")
	stale.says(t, object{"field": "If-Match"})
	method := a.do(t, "PATCH", "/api/dev/pastes/create", nil)
	method.fails(t, http.StatusMethodNotAllowed, "method_not_allowed", "Method not allowed: this path allows "+method.header.Get("Allow")+".")
}

func TestRefusalsSayWhichLimitAndUntilWhen(t *testing.T) {
	i := common(t)
	free := i.account(t, "free")
	missing := free.do(t, "POST", "/api/dev/pastes/create", object{"content": "x"})
	missing.fails(t, http.StatusTooManyRequests, "plan_upgrade_required", "pastes.create is not available on the Free plan. Upgrade your plan to continue.")
	missing.says(t, object{"quotaKey": "pastes.create", "limit": 0, "resetAt": nil, "upgradeUrl": i.public + "/console/plan?quotaKey=pastes.create"})

	id := free.quick(t, nil)
	update := func() answer { return free.do(t, "PUT", "/api/dev/paste-lite/update/"+id, object{"title": "x"}) }
	for range 50 {
		update().ok(t, http.StatusOK)
	}
	exhausted := update()
	exhausted.fails(t, http.StatusTooManyRequests, "quota_exhausted", "Monthly limit of 50 requests reached for pasteLite.update. Upgrade your plan to continue.")
	now := i.now()
	month := time.Date(now.Year(), now.Month()+1, 1, 0, 0, 0, 0, time.UTC)
	exhausted.says(t, object{"quotaKey": "pasteLite.update", "limit": 50, "upgradeUrl": i.public + "/console/plan?quotaKey=pasteLite.update"})
	if reset := instant(t, text(t, exhausted.json(t), "resetAt")); !reset.Equal(month) {
		t.Errorf("resetAt is %v, want %v", reset, month)
	}

	source := newSource()
	keyless := func() answer {
		return i.do(t, "POST", "/api/dev/paste-lite/create", request{body: object{"content": "x"}, source: source})
	}
	var first time.Time
	for n := range anonLimit {
		made := instant(t, text(t, keyless().ok(t, http.StatusCreated), "createdAt"))
		if n == 0 {
			first = made
		}
	}
	anonymous := keyless()
	anonymous.fails(t, http.StatusTooManyRequests, "anonymous_limit", "")
	anonymous.says(t, object{"quotaKey": "pasteLite.create", "limit": anonLimit, "upgradeUrl": nil})
	// The oldest creation leaves the log 24 hours after it was admitted. Waiting is told in whole seconds.
	reset := instant(t, text(t, anonymous.json(t), "resetAt"))
	if off := reset.Sub(first.Add(24 * time.Hour)); off < -time.Minute || off > time.Minute {
		t.Errorf("resetAt is %v, the first creation was at %v", reset, first)
	}

	pro := i.account(t, "pro")
	var failed answer
	for range 102 {
		failed = pro.do(t, "GET", "/api/dev/paste-lite/get/000000000000", nil)
	}
	failed.fails(t, http.StatusTooManyRequests, "too_many_failures", "")
	failed.says(t, object{"limit": 100, "quotaKey": nil, "upgradeUrl": nil})
	if reset := instant(t, text(t, failed.json(t), "resetAt")); reset.After(i.now().Add(61*time.Second)) || failed.header.Get("Retry-After") == "" {
		t.Errorf("resetAt is %v, and Retry-After %q", reset, failed.header.Get("Retry-After"))
	}
}
