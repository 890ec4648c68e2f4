package scenario

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
)

func TestAnAdminReplacesAKey(t *testing.T) {
	i := common(t)
	a := i.account(t, "pro")
	path := "/api/admin/accounts/" + a.id + "/key/regenerate"
	keyed := request{header: map[string]string{"Authorization": "Bearer " + i.adminToken, "Idempotency-Key": "stolen"}}
	first, again := i.do(t, "POST", path, keyed), i.do(t, "POST", path, keyed)
	body := first.ok(t, http.StatusOK)
	again.hasHeader(t, "Idempotency-Replayed", "true")
	if string(again.body) != string(first.body) {
		t.Errorf("%s, then %s", first.body, again.body)
	}
	fresh := text(t, body, "apiKey")
	if !strings.HasPrefix(fresh, text(t, body, "key", "prefix")) || number(t, body, "key", "version") != 2 {
		t.Errorf("%v", body)
	}
	for range 4 {
		i.do(t, "GET", "/api/dev/paste-lite/list", request{key: a.key}).fails(t, http.StatusUnauthorized, "invalid_api_key", "")
		i.do(t, "GET", "/api/users/user", request{key: a.key}).fails(t, http.StatusUnauthorized, "invalid_api_key", "")
		i.do(t, "GET", "/api/dev/paste-lite/list", request{key: fresh}).ok(t, http.StatusOK)
	}
	for _, id := range []string{"00000000001", "nobody"} {
		i.admin(t, "POST", "/api/admin/accounts/"+id+"/key/regenerate", nil).fails(t, http.StatusNotFound, "not_found", "")
	}
}

// TestASuspendedAccountIsRefusedByEveryEdge: with a key every call is 403, while its pages stay and its holder can sign in.
func TestASuspendedAccountIsRefusedByEveryEdge(t *testing.T) {
	i := common(t)
	a := i.account(t, "pro")
	a.grant(t, "1")
	id, file := a.paste(t, object{"visibility": "public"}), a.upload(t, "notes.txt", []byte("hello"))
	quick := a.quick(t, nil)
	replayed := request{body: object{"content": "x"}, header: map[string]string{"Idempotency-Key": "before"}}
	a.with(t, "POST", "/api/dev/paste-lite/create", replayed).ok(t, http.StatusCreated)
	a.quick(t, nil)
	i.admin(t, "POST", "/api/admin/accounts/"+a.id+"/password", object{"password": "correct horse"}).ok(t, http.StatusOK)

	suspend := func(reason string) object {
		return i.admin(t, "POST", "/api/admin/accounts/"+a.id+"/suspend", object{"reason": reason}).ok(t, http.StatusOK)
	}
	since := text(t, suspend("sends spam"), "account", "suspendedAt")
	if again := text(t, suspend("sends a lot of spam"), "account", "suspendedAt"); again != since {
		t.Errorf("suspended since %s, then %s", since, again)
	}
	calls := []struct {
		method, path string
		body         any
	}{
		{"POST", "/api/dev/pastes/create", object{"content": "x"}},
		{"GET", "/api/dev/pastes/get/" + id, nil},
		{"PUT", "/api/dev/pastes/update/" + id, object{"content": "y"}},
		{"DELETE", "/api/dev/pastes/delete/" + id, nil},
		{"GET", "/api/dev/pastes/list", nil},
		{"GET", "/api/dev/pastes/versions/" + id, nil},
		{"POST", "/api/dev/paste-lite/create", object{"content": "x"}},
		{"GET", "/api/dev/paste-lite/get/" + quick, nil},
		{"PUT", "/api/dev/paste-lite/update/" + quick, object{"content": "y"}},
		{"DELETE", "/api/dev/paste-lite/delete/" + quick, nil},
		{"GET", "/api/dev/paste-lite/list", nil},
		{"POST", "/api/dev/files/upload?name=x", []byte("x")},
		{"GET", "/api/dev/files/get/" + file, nil},
		{"DELETE", "/api/dev/files/delete/" + file, nil},
		{"GET", "/api/dev/files/list", nil},
		{"POST", "/", []byte("x")},
		{"GET", "/api/users/user", nil},
		{"GET", "/api/users/user/dev-usage", nil},
		{"GET", "/api/users/user/credits", nil},
		{"GET", "/api/users/user/statements/" + i.now().Format("2006-01"), nil},
	}
	for _, c := range calls {
		for range 2 { // by each of two edges
			got := a.with(t, c.method, c.path, request{body: c.body, header: map[string]string{"Accept": "application/json"}})
			got.fails(t, http.StatusForbidden, "account_suspended", "")
			got.hasHeader(t, "X-Charge-Source", "")
		}
	}
	a.with(t, "POST", "/api/dev/paste-lite/create", replayed).fails(t, http.StatusForbidden, "account_suspended", "")
	i.do(t, "GET", "/api/dev/pastes/get/"+id, request{key: a.key + "x"}).fails(t, http.StatusUnauthorized, "invalid_api_key", "")
	i.account(t, "pro").do(t, "GET", "/api/dev/pastes/get/"+id, nil).ok(t, http.StatusOK)
	for _, page := range []string{"/p/" + id, "/p/" + id + "/raw", "/f/" + file} {
		if got := i.do(t, "GET", page, request{}); got.status != http.StatusOK {
			t.Errorf("%s of a suspended account: %d", page, got.status)
		}
	}

	seen := i.admin(t, "GET", "/api/admin/accounts/"+a.id, nil).ok(t, http.StatusOK)
	if text(t, seen, "account", "suspendedAt") != since || text(t, seen, "account", "suspensionReason") != "sends a lot of spam" {
		t.Errorf("%v", seen["account"])
	}
	p := &person{i: i, email: a.email}
	p.keep(t, i.do(t, "POST", "/api/users/login", request{body: object{"email": a.email, "password": "correct horse"}}))
	own := p.do(t, "GET", "/api/users/user/dev-usage", nil).ok(t, http.StatusOK)
	if text(t, own, "account", "suspendedAt") != since || strings.Contains(fmt.Sprint(own), "spam") {
		t.Errorf("its holder sees %v", own["account"])
	}
	p.do(t, "GET", "/api/users/user/credits", nil).ok(t, http.StatusOK)
	fresh := text(t, p.do(t, "POST", "/api/users/user/dev-key/regenerate", nil).ok(t, http.StatusOK), "apiKey")
	use := func() answer { return i.do(t, "GET", "/api/dev/pastes/get/"+id, request{key: fresh}) }
	use().fails(t, http.StatusForbidden, "account_suspended", "")

	resumed := i.admin(t, "POST", "/api/admin/accounts/"+a.id+"/resume", object{"reason": "sorry"}).ok(t, http.StatusOK)
	if _, still := resumed["account"].(map[string]any)["suspendedAt"]; still {
		t.Errorf("%v", resumed)
	}
	for range 2 * len(i.bases) {
		use().ok(t, http.StatusOK)
	}
	i.admin(t, "POST", "/api/admin/accounts/"+a.id+"/resume", object{"reason": "sorry"}).ok(t, http.StatusOK)
	for _, body := range []object{{}, {"reason": " "}, {"reason": strings.Repeat("x", 201)}, {"reason": "a\nb"}, {"reason": nil}} {
		i.admin(t, "POST", "/api/admin/accounts/"+a.id+"/suspend", body).fails(t, http.StatusBadRequest, "invalid_field", "")
		i.admin(t, "POST", "/api/admin/accounts/"+a.id+"/resume", body).fails(t, http.StatusBadRequest, "invalid_field", "")
	}
	use().ok(t, http.StatusOK)
	i.admin(t, "POST", "/api/admin/accounts/"+a.id+"/suspend", object{"reason": strings.Repeat("ю", 200)}).ok(t, http.StatusOK)
	i.admin(t, "POST", "/api/admin/accounts/00000000001/suspend", object{"reason": "x"}).fails(t, http.StatusNotFound, "not_found", "")
}

// TestNoRequestIsAdmittedAfterASuspension: clients use a key while its account is suspended. No request that begins after the
// answer may be admitted.
func TestNoRequestIsAdmittedAfterASuspension(t *testing.T) {
	i := common(t)
	a := i.account(t, "max")
	late := i.useBeyond(t, a.key, "account_suspended", http.StatusForbidden, func() {
		i.admin(t, "POST", "/api/admin/accounts/"+a.id+"/suspend", object{"reason": "x"}).ok(t, http.StatusOK)
	}, func(err error) bool {
		if !strings.Contains(err.Error(), " 403 ") {
			t.Error(err)
			return false
		}
		return true
	})
	if late > 0 {
		t.Errorf("%d requests were admitted after the account was suspended", late)
	}
}

func (p *person) signIn(t testing.TB, password string) *person {
	t.Helper()
	other := &person{i: p.i, email: p.email, password: password}
	other.keep(t, p.i.do(t, "POST", "/api/users/login", request{body: object{"email": p.email, "password": password}}))
	return other
}

func (p *person) signedIn(t testing.TB) bool {
	t.Helper()
	return p.do(t, "GET", "/api/users/user", nil).status == http.StatusOK
}

func TestANewPasswordEndsTheOtherSessions(t *testing.T) {
	i := common(t)
	p := i.person(t)
	there := p.signIn(t, p.password)
	key := text(t, p.do(t, "POST", "/api/users/user/dev-key/regenerate", nil).ok(t, http.StatusOK), "apiKey")
	change := func(current, password string) answer {
		return p.do(t, "PUT", "/api/users/user/password", object{"currentPassword": current, "password": password})
	}
	change("wrong password", "another horse").fails(t, http.StatusForbidden, "wrong_password", "")
	for _, body := range []object{
		{"currentPassword": p.password},
		{"password": "another horse"},
		{"currentPassword": p.password, "password": "1234567"},
		{"currentPassword": p.password, "password": strings.Repeat("x", 129)},
		{"currentPassword": p.password, "password": nil},
	} {
		p.do(t, "PUT", "/api/users/user/password", body).fails(t, http.StatusBadRequest, "invalid_field", "")
	}
	i.do(t, "PUT", "/api/users/user/password", request{key: key, body: object{"currentPassword": p.password, "password": "another horse"}}).
		fails(t, http.StatusUnauthorized, "session_required", "")
	i.do(t, "PUT", "/api/users/user/password", request{
		cookies: p.cookies, header: map[string]string{"Sec-Fetch-Site": "cross-site"}, body: object{"currentPassword": p.password, "password": "another horse"},
	}).fails(t, http.StatusForbidden, "cross_origin", "")
	if !there.signedIn(t) {
		t.Error("a refused change ended a session")
	}

	keyed := request{
		cookies: p.cookies, body: object{"currentPassword": p.password, "password": "another horse"},
		header: map[string]string{"Sec-Fetch-Site": "same-origin", "Idempotency-Key": "change"},
	}
	first, again := i.do(t, "PUT", "/api/users/user/password", keyed), i.do(t, "PUT", "/api/users/user/password", keyed)
	first.ok(t, http.StatusOK)
	again.ok(t, http.StatusOK)
	again.hasHeader(t, "Idempotency-Replayed", "true")
	keyed.body = object{"currentPassword": p.password, "password": "a third horse"}
	i.do(t, "PUT", "/api/users/user/password", keyed).fails(t, http.StatusUnprocessableEntity, "idempotency_mismatch", "")
	if there.signedIn(t) || !p.signedIn(t) {
		t.Error("the other session stays, or this one does not")
	}
	i.do(t, "POST", "/api/users/login", request{body: object{"email": p.email, "password": p.password}}).
		fails(t, http.StatusUnauthorized, "invalid_credentials", "")
	p.signIn(t, "another horse")
	i.do(t, "GET", "/api/users/user", request{key: key}).ok(t, http.StatusOK)
	change("another horse", strings.Repeat("ю", 128)).ok(t, http.StatusOK)
}

func TestOneSignsOutEverywhere(t *testing.T) {
	i := common(t)
	p, bystander := i.person(t), i.person(t)
	there := p.signIn(t, p.password)
	i.do(t, "DELETE", "/api/users/user/sessions", request{cookies: p.cookies, header: map[string]string{"Origin": "https://evil.example"}}).
		fails(t, http.StatusForbidden, "cross_origin", "")
	out := p.do(t, "DELETE", "/api/users/user/sessions", nil)
	out.ok(t, http.StatusOK)
	if cookies := (&http.Response{Header: out.header}).Cookies(); len(cookies) != 1 || cookies[0].Value != "" {
		t.Errorf("cookies %v", cookies)
	}
	for range len(i.bases) {
		if p.signedIn(t) || there.signedIn(t) || !bystander.signedIn(t) {
			t.Error("a session of the account stays, or one of another account does not")
		}
	}
	p.do(t, "DELETE", "/api/users/user/sessions", nil).fails(t, http.StatusUnauthorized, "session_required", "")
	if again := p.signIn(t, p.password); !again.signedIn(t) {
		t.Error("nobody can sign in any more")
	}
}

func TestAnAdminSetsAPassword(t *testing.T) {
	i := common(t)
	p := i.person(t)
	id := text(t, p.do(t, "GET", "/api/users/user", nil).ok(t, http.StatusOK), "account", "id")
	path := "/api/admin/accounts/" + id + "/password"
	keyed := request{body: object{"password": "another horse"}, header: map[string]string{"Authorization": "Bearer " + i.adminToken, "Idempotency-Key": "lost"}}
	i.do(t, "POST", path, keyed).ok(t, http.StatusOK)
	if p.signedIn(t) {
		t.Error("the session stays")
	}
	i.do(t, "POST", "/api/users/login", request{body: object{"email": p.email, "password": p.password}}).
		fails(t, http.StatusUnauthorized, "invalid_credentials", "")
	fresh := p.signIn(t, "another horse")
	again := i.do(t, "POST", path, keyed)
	again.ok(t, http.StatusOK)
	again.hasHeader(t, "Idempotency-Replayed", "true")
	fresh.do(t, "PUT", "/api/users/user/password", object{"currentPassword": "another horse", "password": "my own horse"}).ok(t, http.StatusOK)
	i.do(t, "POST", path, keyed).ok(t, http.StatusOK) // done, and not repeated
	fresh.signIn(t, "my own horse")

	made := i.account(t, "pro") // by an admin, without a password
	i.admin(t, "POST", "/api/admin/accounts/"+made.id+"/password", object{"password": "12345678"}).ok(t, http.StatusOK)
	(&person{i: i, email: made.email}).signIn(t, "12345678")
	for _, body := range []object{{}, {"password": "1234567"}, {"password": strings.Repeat("x", 129)}} {
		i.admin(t, "POST", path, body).fails(t, http.StatusBadRequest, "invalid_field", "")
	}
	i.admin(t, "POST", "/api/admin/accounts/00000000001/password", object{"password": "12345678"}).fails(t, http.StatusNotFound, "not_found", "")
}

func TestAccountsAreLookedUpAndListed(t *testing.T) {
	i := common(t)
	a, p := i.account(t, "max"), i.person(t)
	i.admin(t, "POST", "/api/admin/accounts/"+a.id+"/suspend", object{"reason": "x"}).ok(t, http.StatusOK)
	find := func(email string) []any {
		body := i.admin(t, "GET", "/api/admin/accounts?email="+email, nil).ok(t, http.StatusOK)
		if body["nextCursor"] != nil || body["hasMore"] != false {
			t.Errorf("%v", body)
		}
		return body["accounts"].([]any)
	}
	found := find(strings.ToUpper(a.email))
	if len(found) != 1 || text(t, found[0].(object), "id") != a.id || text(t, found[0].(object), "tier") != "max" || found[0].(object)["suspendedAt"] == nil {
		t.Errorf("%v", found)
	}
	if found = find(p.email); len(found) != 1 || text(t, found[0].(object), "email") != p.email || found[0].(object)["suspendedAt"] != nil {
		t.Errorf("%v", found)
	}
	if found = find("nobody@example.org"); len(found) != 0 {
		t.Errorf("%v", found)
	}
	var ids []string
	for next := "/api/admin/accounts?limit=7"; next != ""; {
		body := i.admin(t, "GET", next, nil).ok(t, http.StatusOK)
		page := body["accounts"].([]any)
		if len(page) > 7 {
			t.Fatalf("%d accounts on a page", len(page))
		}
		for _, item := range page {
			ids = append(ids, text(t, item.(object), "id"))
		}
		if next = ""; body["hasMore"] == true {
			next = "/api/admin/accounts?limit=7&cursor=" + text(t, body, "nextCursor")
		}
	}
	if !slices.Contains(ids, a.id) || len(slices.Compact(slices.Sorted(slices.Values(ids)))) != len(ids) {
		t.Errorf("%s is in %v, or one is there twice", a.id, ids)
	}
	for path, code := range map[string]string{"?email=x": "invalid_field", "?limit=0": "invalid_field", "?limit=101": "invalid_field", "?cursor=x": "invalid_cursor", "?tier=pro": "unknown_field"} {
		i.admin(t, "GET", "/api/admin/accounts"+path, nil).fails(t, http.StatusBadRequest, code, "")
	}
}

// TestTheAdminLogTellsWhoDidWhat: each action with the name of its token, the newest first, by any edge and after a restart.
func TestTheAdminLogTellsWhoDidWhat(t *testing.T) {
	const ann, bob = "a-token-of-ann-for-tests", "a-token-of-bob-for-tests"
	i := start(t, with("QUIRE_ADMIN_TOKEN", "ann:"+ann+",bob:"+bob))
	by := func(token, method, path string, body any) answer {
		return i.do(t, method, path, request{body: body, header: map[string]string{"Authorization": "Bearer " + token, "Idempotency-Key": "the same"}})
	}
	get := func(token, path string) answer {
		return i.do(t, "GET", path, request{header: map[string]string{"Authorization": "Bearer " + token}})
	}
	made := by(ann, "POST", "/api/admin/accounts", object{"email": "eve@example.org", "tier": "pro"}).ok(t, http.StatusCreated)
	id, key := text(t, made, "account", "id"), text(t, made, "apiKey")
	path := "/api/admin/accounts/" + id
	metered := i.do(t, "GET", "/api/dev/pastes/get/aaaaaaaaaaaa", request{key: key}).header.Get("X-Request-Id")
	steps := []struct {
		token, action, outcome, account, detail string
		answer                                  answer
	}{
		{"bob", "tier.set", "done", id, "", by(bob, "PUT", path+"/tier", object{"tier": "max"})},
		{"ann", "credits.grant", "done", id, "a gift", by(ann, "POST", path+"/credits", object{"amount": "2.5", "reason": "a gift"})},
		{"bob", "credits.grant", "done", id, "another gift", by(bob, "POST", path+"/credits", object{"amount": "2.5", "reason": "another gift"})},
		{"bob", "credits.grant", "replayed", id, "another gift", by(bob, "POST", path+"/credits", object{"amount": "2.5", "reason": "another gift"})},
		{"ann", "credits.grant", "idempotency_mismatch", id, "more", by(ann, "POST", path+"/credits", object{"amount": "3", "reason": "more"})},
		{"bob", "account.suspend", "done", id, "sends spam", by(bob, "POST", path+"/suspend", object{"reason": "sends spam"})},
		{"ann", "account.resume", "done", id, "sorry", by(ann, "POST", path+"/resume", object{"reason": "sorry"})},
		{"bob", "key.regenerate", "done", id, "", by(bob, "POST", path+"/key/regenerate", nil)},
		{"ann", "password.set", "done", id, "", by(ann, "POST", path+"/password", object{"password": "correct horse"})},
		{"bob", "accounts.find", "done", id, "", get(bob, "/api/admin/accounts?email=eve@example.org")},
		{"bob", "accounts.list", "done", "", "", get(bob, "/api/admin/accounts")},
		{"ann", "request.explain", "done", "", metered, get(ann, "/api/admin/requests/"+metered)},
		{"bob", "audit.start", "done", "", "", by(bob, "POST", "/api/admin/audit", nil)},
	}
	get(ann, path).ok(t, http.StatusOK)
	by("wrong", "PUT", path+"/tier", object{"tier": "free"}).fails(t, http.StatusUnauthorized, "admin_token_required", "")
	by(ann, "PUT", path+"/tier", object{"tier": "gold"}).fails(t, http.StatusBadRequest, "invalid_field", "")

	log := func() (entries []object) {
		for next := "/api/admin/log?limit=5"; next != ""; {
			body := get(ann, next).ok(t, http.StatusOK)
			for _, e := range body["entries"].([]any) {
				entries = append(entries, e.(object))
			}
			if next = ""; body["hasMore"] == true {
				next = "/api/admin/log?limit=5&cursor=" + text(t, body, "nextCursor")
			}
		}
		return entries
	}
	check := func(entries []object) {
		t.Helper()
		if len(entries) != len(steps)+1 {
			t.Fatalf("%d entries, want %d: %v", len(entries), len(steps)+1, entries)
		}
		byRequest := map[string]object{}
		for n, e := range entries {
			byRequest[text(t, e, "requestId")] = e
			if n > 0 && text(t, e, "id") >= text(t, entries[n-1], "id") {
				t.Errorf("entry %d is newer than the one before: %v", n, e)
			}
		}
		for _, want := range steps {
			e := byRequest[want.answer.header.Get("X-Request-Id")]
			account, _ := e["account"].(string)
			detail, _ := e["detail"].(string)
			if e == nil || e["token"] != want.token || e["action"] != want.action || e["outcome"] != want.outcome || account != want.account || detail != want.detail {
				t.Errorf("%s %s: %v", want.token, want.action, e)
			}
		}
		last := entries[len(entries)-1]
		if last["action"] != "account.create" || last["tier"] != "pro" || last["account"] != id || last["token"] != "ann" {
			t.Errorf("%v", last)
		}
	}
	before := log()
	check(before)
	i.restart(t)
	check(log())
	for path, code := range map[string]string{"?limit=0": "invalid_field", "?limit=101": "invalid_field", "?cursor=x": "invalid_cursor", "?cursor=eA": "invalid_cursor", "?x=1": "unknown_field"} {
		get(ann, "/api/admin/log"+path).fails(t, http.StatusBadRequest, code, "")
	}
	for _, private := range []string{"eve@example.org", "correct horse", ann, bob, key} {
		if strings.Contains(fmt.Sprint(before), private) {
			t.Errorf("%s is in the log", private)
		}
	}
}
