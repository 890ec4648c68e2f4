package scenario

import (
	"net/http"
	"slices"
	"strings"
	"testing"
)

// script is a request that a page of another site makes. header is names and values in turn.
func script(header ...string) request {
	r := request{header: map[string]string{"Origin": "https://app.example", "Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "cors"}}
	for n := 0; n+1 < len(header); n += 2 {
		r.header[header[n]] = header[n+1]
	}
	return r
}

// readable holds an answer to whether a page of another site may read it, and its headers with it.
func (a answer) readable(t *testing.T, want bool) {
	t.Helper()
	origin, exposed := "", a.header.Get("Access-Control-Expose-Headers")
	if want {
		origin = "*"
		for _, name := range []string{
			"X-Request-Id", "RateLimit", "RateLimit-Policy", "X-Charge-Source", "X-Credits-Cost",
			"X-Credits-Balance", "X-Quota-Remaining", "X-Receipt", "Retry-After", "Location", "Allow", "ETag", "Idempotency-Replayed", "Content-Range",
		} {
			if !slices.Contains(strings.Split(exposed, ", "), name) {
				t.Errorf("%s: %s is not exposed", a.what, name)
			}
		}
	} else if exposed != "" {
		t.Errorf("%s: %q is exposed", a.what, exposed)
	}
	a.hasHeader(t, "Access-Control-Allow-Origin", origin)
	a.hasHeader(t, "Access-Control-Allow-Credentials", "")
}

func TestAScriptOfAnotherSiteMayCallTheAPIWithAKey(t *testing.T) {
	i := common(t)
	a := i.account(t, "free")
	create := func(r request) answer {
		r.body = object{"content": "x"}
		return i.do(t, "POST", "/api/dev/paste-lite/create", r)
	}
	made := create(script("x-api-key", a.key))
	id := text(t, made.ok(t, http.StatusCreated), "id")
	made.readable(t, true)
	create(script("Authorization", "Bearer "+a.key)).readable(t, true)
	create(request{key: a.key}).readable(t, false) // no page asks

	refused := create(script("x-api-key", "wrong"))
	refused.fails(t, http.StatusUnauthorized, "invalid_api_key", "")
	refused.readable(t, true)
	missing := i.do(t, "GET", "/api/dev/paste-lite/get/000000000000", script("x-api-key", a.key))
	missing.fails(t, http.StatusNotFound, "not_found", "")
	missing.readable(t, true)
	above := i.do(t, "GET", "/api/dev/pastes/get/"+id, script("x-api-key", a.key))
	above.fails(t, http.StatusTooManyRequests, "plan_upgrade_required", "")
	above.readable(t, true)
	unknown := i.do(t, "GET", "/api/dev/paste-lite/get/"+id+"?x=1", script("x-api-key", a.key))
	unknown.fails(t, http.StatusBadRequest, "unknown_field", "")
	unknown.readable(t, true)
	if used := a.used(t, "pasteLite.create"); used != 3 {
		t.Errorf("%d creations are counted", used)
	}
}

func TestAScriptOfAnotherSiteMayReadWhatIsRaw(t *testing.T) {
	i := common(t)
	a := i.account(t, "pro")
	for _, path := range []string{"/q/" + a.quick(t, nil), "/p/" + a.paste(t, nil), "/f/" + a.upload(t, "f", []byte("bytes"))} {
		raw := i.do(t, "GET", path+"/raw", script())
		raw.shows(t, http.StatusOK).readable(t, true)
		i.do(t, "GET", path+"/raw", script("Range", "bytes=0-1")).shows(t, http.StatusPartialContent).readable(t, true)
		i.do(t, "GET", path+"/raw", script("If-None-Match", raw.header.Get("ETag"))).shows(t, http.StatusNotModified).readable(t, true)
		i.do(t, "GET", path+"/raw", request{}).readable(t, true) // a cache may keep it for a script
		i.do(t, "GET", path, script()).readable(t, false)
	}
	secret := "/q/" + a.quick(t, object{"password": "sesame"}) + "/raw"
	i.do(t, "GET", secret, script()).shows(t, http.StatusForbidden).readable(t, true)
	i.do(t, "GET", secret, script("X-Paste-Password", "sesame")).shows(t, http.StatusOK).readable(t, true)
	i.do(t, "GET", "/q/000000000000/raw", script()).shows(t, http.StatusNotFound).readable(t, true)
}

// TestNoOtherAnswerIsForScripts: a cookie or a source's allowance would count.
func TestNoOtherAnswerIsForScripts(t *testing.T) {
	i := common(t)
	a := i.account(t, "free")
	for _, test := range []struct {
		method, path string
		r            request
		status       int
	}{
		{"POST", "/api/dev/paste-lite/create", script("Content-Type", "text/plain"), http.StatusForbidden},
		{"GET", "/api/dev/paste-lite/list", script(), http.StatusUnauthorized},
		{"PUT", "/api/dev/paste-lite/update/000000000000", script("X-Manage-Token", "x"), http.StatusNotFound},
		{"GET", "/api/users/user", script("x-api-key", a.key), http.StatusOK},
		{"GET", "/api/users/user/dev-usage", script("x-api-key", a.key), http.StatusOK},
		{"POST", "/api/users/login", script(), http.StatusForbidden},
		{"GET", "/api/admin/accounts/" + a.id, script("Authorization", "Bearer "+i.adminToken), http.StatusOK},
		{"POST", "/", script("x-api-key", a.key), http.StatusCreated},
		{"POST", "/", script(), http.StatusForbidden},
		{"GET", "/", script(), http.StatusOK},
		{"GET", "/docs", script(), http.StatusOK},
		{"GET", "/nowhere", script("x-api-key", a.key), http.StatusNotFound},
	} {
		test.r.body = strings.NewReader(`{"content": "x"}`)
		if test.method == "GET" {
			test.r.body = nil
		} else if test.r.header["Content-Type"] == "" {
			test.r.header["Content-Type"] = "application/json"
		}
		got := i.do(t, test.method, test.path, test.r)
		got.shows(t, test.status).readable(t, false)
	}
	// What was refused took nothing.
	source := newSource()
	refused := script("Content-Type", "text/plain")
	refused.body, refused.source = strings.NewReader("x"), source
	i.do(t, "POST", "/api/dev/paste-lite/create", refused).fails(t, http.StatusForbidden, "cross_origin", "")
	first := i.do(t, "POST", "/api/dev/paste-lite/create", request{body: object{"content": "x"}, source: source})
	if left := number(t, first.ok(t, http.StatusCreated), "remaining"); left != anonLimit-1 {
		t.Errorf("%d are left after the first", left)
	}
}

func TestAPreflightSaysWhatAScriptMaySend(t *testing.T) {
	i := common(t)
	preflight := func(method, headers string) request {
		return script("Access-Control-Request-Method", method, "Access-Control-Request-Headers", headers)
	}
	for _, test := range []struct {
		path, methods string
		r             request
		may           bool
	}{
		{"/api/dev/paste-lite/create", "POST", preflight("POST", "content-type,x-api-key"), true},
		{"/api/dev/paste-lite/create", "POST", preflight("POST", "authorization, idempotency-key"), true},
		{"/api/dev/paste-lite/get/x", "GET, HEAD", preflight("GET", "x-api-key"), true},
		{"/api/dev/pastes/update/x", "PUT", preflight("PUT", "x-api-key,if-match"), true},
		{"/api/dev/files/delete/x", "DELETE", preflight("DELETE", "X-API-Key"), true},
		{"/api/dev/pastes/create", "POST", preflight("POST", "content-type"), true}, // the call is 401 without a key
		{"/api/dev/paste-lite/list", "GET, HEAD", preflight("GET", ""), true},
		{"/q/x/raw", "GET, HEAD", preflight("GET", "x-paste-password"), true},
		{"/f/x/raw", "GET, HEAD", preflight("GET", "range"), true},
		{"/api/dev/paste-lite/create", "POST", preflight("POST", "content-type"), false},
		{"/api/dev/paste-lite/update/x", "PUT", preflight("PUT", "x-manage-token"), false},
		{"/api/dev/paste-lite/create", "POST", script(), false},
		{"/api/dev/paste-lite/create", "POST", request{header: map[string]string{"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "x-api-key"}}, false},
		{"/api/users/user/dev-usage", "GET, HEAD", preflight("GET", "x-api-key"), false},
		{"/api/users/login", "POST", preflight("POST", "content-type"), false},
		{"/api/admin/accounts/x", "GET, HEAD", preflight("GET", "authorization"), false},
		{"/", "GET, HEAD, POST, PUT", preflight("POST", "x-api-key"), false},
		{"/q/x", "GET, HEAD, POST", preflight("POST", "x-api-key"), false},
	} {
		a := i.do(t, "OPTIONS", test.path, test.r)
		if a.status != http.StatusNoContent || len(a.body) > 0 {
			t.Errorf("%s: %d %s", a.what, a.status, a.body)
		}
		a.hasHeader(t, "Allow", test.methods+", OPTIONS")
		want := map[string]string{"Access-Control-Allow-Origin": "", "Access-Control-Allow-Methods": "", "Access-Control-Max-Age": ""}
		if test.may {
			want = map[string]string{"Access-Control-Allow-Origin": "*", "Access-Control-Allow-Methods": test.methods, "Access-Control-Max-Age": "7200"}
			allowed := strings.Split(strings.ToLower(a.header.Get("Access-Control-Allow-Headers")), ", ")
			for _, name := range []string{
				"x-api-key", "authorization", "content-type", "idempotency-key", "if-match", "if-none-match",
				"if-range", "range", "x-manage-token", "x-paste-password",
			} {
				if !slices.Contains(allowed, name) {
					t.Errorf("%s: %s is not allowed", a.what, name)
				}
			}
		}
		for name, value := range want {
			a.hasHeader(t, name, value)
		}
		a.hasHeader(t, "Access-Control-Allow-Credentials", "")
	}
	missing := i.do(t, "OPTIONS", "/api/dev/nothing", preflight("GET", "x-api-key"))
	if missing.status != http.StatusNoContent || missing.header.Get("Access-Control-Allow-Origin") != "*" {
		t.Errorf("%s: %d, %v", missing.what, missing.status, missing.header)
	}
	i.do(t, "OPTIONS", "/api/dev/nothing", preflight("GET", "content-type")).fails(t, http.StatusNotFound, "not_found", "")
	i.do(t, "OPTIONS", "/api/dev/nothing", request{header: map[string]string{"Access-Control-Request-Headers": "x-api-key"}}).fails(t, http.StatusNotFound, "not_found", "")
	nowhere := i.do(t, "GET", "/api/dev/nothing", script("x-api-key", "x"))
	nowhere.fails(t, http.StatusNotFound, "not_found", "")
	nowhere.readable(t, true)
	i.do(t, "GET", "/api/dev/nothing", script()).readable(t, false)
	wrong := i.do(t, "DELETE", "/api/dev/paste-lite/get/x", script("x-api-key", "x"))
	wrong.fails(t, http.StatusMethodNotAllowed, "method_not_allowed", "")
	wrong.readable(t, true)
	wrong.hasHeader(t, "Allow", "GET, HEAD, OPTIONS")
}
