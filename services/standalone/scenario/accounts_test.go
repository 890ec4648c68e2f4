package scenario

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// person is a user with a browser: an email, a password and a session cookie.
type person struct {
	i               *instance
	email, password string
	cookies         []*http.Cookie
}

var persons atomic.Uint64

func (i *instance) person(t testing.TB) *person {
	t.Helper()
	return i.personWith(t, "correct horse battery")
}

func (i *instance) personWith(t testing.TB, password string) *person {
	t.Helper()
	p := &person{i: i, email: fmt.Sprintf("person%d@example.org", persons.Add(1)), password: password}
	got := i.do(t, "POST", "/api/users/register", request{body: object{"email": p.email, "password": p.password}})
	body := got.ok(t, http.StatusCreated)
	if tier := text(t, body, "account", "tier"); tier != "free" {
		t.Errorf("a new account is %s", tier)
	}
	p.keep(t, got)
	return p
}

// keep stores the session cookie of a response.
func (p *person) keep(t testing.TB, a answer) {
	t.Helper()
	p.cookies = (&http.Response{Header: a.header}).Cookies()
	if len(p.cookies) != 1 {
		t.Fatalf("%s: cookies %v", a.what, a.header["Set-Cookie"])
	}
	c := p.cookies[0]
	if !c.HttpOnly || c.SameSite != http.SameSiteLaxMode || c.Secure || c.Path != "/" {
		t.Errorf("cookie %v", a.header["Set-Cookie"])
	}
}

// do sends a request like a page of the same origin.
func (p *person) do(t testing.TB, method, path string, body any) answer {
	t.Helper()
	return p.i.do(t, method, path, request{body: body, cookies: p.cookies, header: map[string]string{"Sec-Fetch-Site": "same-origin"}})
}

func TestRegisterLoginAndLogout(t *testing.T) {
	i := common(t)
	p := i.person(t)
	profile := p.do(t, "GET", "/api/users/user", nil).ok(t, http.StatusOK)
	if text(t, profile, "account", "email") != p.email || profile["key"] != nil {
		t.Errorf("%v", profile)
	}
	i.do(t, "POST", "/api/users/register", request{body: object{"email": strings.ToUpper(p.email), "password": "another password"}}).
		fails(t, http.StatusConflict, "email_taken", "")
	login := func(email, password string) answer {
		return i.do(t, "POST", "/api/users/login", request{body: object{"email": email, "password": password}})
	}
	wrong, unknown := login(p.email, "wrong password"), login("nobody@example.org", p.password)
	wrong.fails(t, http.StatusUnauthorized, "invalid_credentials", "")
	unknown.fails(t, http.StatusUnauthorized, "invalid_credentials", "")
	if !wrong.failsLike(t, unknown) {
		t.Errorf("the answer tells whether the address has an account: %s, %s", wrong.body, unknown.body)
	}
	again := login(p.email, p.password)
	again.ok(t, http.StatusOK)
	second := &person{i: i, email: p.email}
	second.keep(t, again)
	p.do(t, "POST", "/api/users/logout", nil).ok(t, http.StatusOK)
	p.do(t, "GET", "/api/users/user", nil).fails(t, http.StatusUnauthorized, "session_required", "")
	second.do(t, "GET", "/api/users/user", nil).ok(t, http.StatusOK)
	for _, body := range []object{
		{"email": "no address", "password": p.password}, {"email": "x@example.org", "password": "short"}, {"email": "x@example.org"}, {"password": p.password},
	} {
		i.do(t, "POST", "/api/users/register", request{body: body}).fails(t, http.StatusBadRequest, "invalid_field", "")
	}
}

func TestALogoutEndsTheSessionEverywhere(t *testing.T) {
	i := common(t)
	p := i.person(t)
	i.do(t, "POST", "/api/users/logout", request{cookies: p.cookies, header: map[string]string{"Origin": "https://evil.example"}}).
		fails(t, http.StatusForbidden, "cross_origin", "")
	p.do(t, "GET", "/api/users/user/dev-usage", nil).ok(t, http.StatusOK)
	p.do(t, "POST", "/api/users/logout", nil).ok(t, http.StatusOK)
	for _, path := range []string{"/api/users/user", "/api/users/user/dev-usage", "/api/users/user/credits", "/api/users/user/statements/2026-11"} {
		p.do(t, "GET", path, nil).fails(t, http.StatusUnauthorized, "session_required", "")
		i.do(t, "GET", path, request{}).fails(t, http.StatusUnauthorized, "api_key_required", "API key required")
		i.do(t, "GET", path, request{cookies: p.cookies, key: "wrong"}).fails(t, http.StatusUnauthorized, "invalid_api_key", "Invalid API key")
	}
	p.do(t, "POST", "/api/users/logout", nil).ok(t, http.StatusOK)
	i.do(t, "POST", "/api/users/logout", request{}).ok(t, http.StatusOK)
}

func TestARegistrationIsReplayedWithASessionOfItsOwn(t *testing.T) {
	i := common(t)
	email := fmt.Sprintf("person%d@example.org", persons.Add(1))
	header := map[string]string{"Idempotency-Key": "registration of " + email}
	source := newSource()
	register := func(email, password string) answer {
		return i.do(t, "POST", "/api/users/register", request{body: object{"email": email, "password": password}, header: header, source: source})
	}
	first, again := register(email, "correct horse"), register(email, "correct horse")
	first.ok(t, http.StatusCreated)
	first.hasHeader(t, "Idempotency-Replayed", "")
	again.hasHeader(t, "Idempotency-Replayed", "true")
	if string(again.body) != string(first.body) {
		t.Errorf("%s, then %s", first.body, again.body)
	}
	for _, a := range []answer{first, again} {
		p := &person{i: i, email: email}
		p.keep(t, a)
		p.do(t, "GET", "/api/users/user", nil).ok(t, http.StatusOK)
	}
	for _, refused := range []answer{register(email, "another horse"), register("x-"+email, "correct horse")} {
		refused.fails(t, http.StatusUnprocessableEntity, "idempotency_mismatch", "")
		refused.hasHeader(t, "Set-Cookie", "")
	}
	header = nil // the same registration is accepted without the Idempotency-Key
	register("x-"+email, "correct horse").ok(t, http.StatusCreated)
}

func TestANewKeyIsShownAgainUnderItsIdempotencyKey(t *testing.T) {
	i := common(t)
	p := i.person(t)
	const path = "/api/users/user/dev-key/regenerate"
	i.do(t, "POST", path, request{}).fails(t, http.StatusUnauthorized, "session_required", "")
	p.do(t, "POST", path, object{"version": 1}).fails(t, http.StatusBadRequest, "unknown_field", "")
	keyed := request{cookies: p.cookies, header: map[string]string{"Idempotency-Key": "one"}}
	first := i.do(t, "POST", path, keyed)
	first.hasHeader(t, "Idempotency-Replayed", "")
	second := p.do(t, "POST", path, object{}).ok(t, http.StatusOK)
	again := i.do(t, "POST", path, keyed)
	again.hasHeader(t, "Idempotency-Replayed", "true")
	if string(again.body) != string(first.body) || text(t, first.ok(t, http.StatusOK), "apiKey") == text(t, second, "apiKey") {
		t.Errorf("%s, then %s", first.body, again.body)
	}
	if !strings.HasPrefix(text(t, second, "apiKey"), text(t, second, "key", "prefix")) {
		t.Errorf("%v", second)
	}
}

func TestAWriteWithASessionIsTakenFromTheSameOriginOnly(t *testing.T) {
	i := common(t)
	p := i.person(t)
	send := func(method, path string, header map[string]string) answer {
		return i.do(t, method, path, request{cookies: p.cookies, header: header})
	}
	const regenerate = "/api/users/user/dev-key/regenerate"
	for _, foreign := range []map[string]string{
		{"Sec-Fetch-Site": "cross-site"}, {"Sec-Fetch-Site": "same-site"}, {"Origin": "https://evil.example"}, {"Origin": "null"},
	} {
		got := send("POST", regenerate, foreign)
		got.fails(t, http.StatusForbidden, "cross_origin", "")
	}
	for _, own := range []map[string]string{{"Sec-Fetch-Site": "same-origin"}, {"Origin": i.public}} {
		send("POST", regenerate, own).ok(t, http.StatusOK)
	}
	// A read is accepted from any origin.
	send("GET", "/api/users/user", map[string]string{"Sec-Fetch-Site": "cross-site"}).ok(t, http.StatusOK)
}

func TestANewKeyEndsTheOldOneAtOnce(t *testing.T) {
	i := common(t)
	p := i.person(t)
	regenerate := func() (string, int64) {
		body := p.do(t, "POST", "/api/users/user/dev-key/regenerate", nil).ok(t, http.StatusOK)
		return text(t, body, "apiKey"), number(t, body, "key", "version")
	}
	use := func(key string) answer {
		return i.do(t, "GET", "/api/dev/paste-lite/list", request{key: key})
	}
	old, version := regenerate()
	use(old).ok(t, http.StatusOK)
	for range 5 {
		fresh, next := regenerate()
		if next != version+1 {
			t.Errorf("version %d after %d", next, version)
		}
		use(old).fails(t, http.StatusUnauthorized, "invalid_api_key", "Invalid API key")
		i.do(t, "GET", "/api/users/user/dev-usage", request{key: old}).fails(t, http.StatusUnauthorized, "invalid_api_key", "Invalid API key")
		use(fresh).ok(t, http.StatusOK)
		old, version = fresh, next
	}
	usage := i.do(t, "GET", "/api/users/user/dev-usage", request{key: old}).ok(t, http.StatusOK)
	if prefix := text(t, usage, "key", "prefix"); !strings.HasPrefix(old, prefix) || number(t, usage, "key", "version") != version {
		t.Errorf("key %v, want %s", usage["key"], old[:12])
	}
	if p.do(t, "GET", "/api/users/user/dev-usage", nil).status != http.StatusOK {
		t.Error("dev-usage does not take the session")
	}
}

// TestNoRequestIsAdmittedAfterARevocation: clients use a key while it is replaced. No request that begins after the answer may
// be admitted.
func TestNoRequestIsAdmittedAfterARevocation(t *testing.T) {
	i := common(t)
	p := i.person(t)
	body := p.do(t, "POST", "/api/users/user/dev-key/regenerate", nil).ok(t, http.StatusOK)
	key := text(t, body, "apiKey")
	late := i.useBeyond(t, key, "invalid_api_key", http.StatusUnauthorized, func() {
		p.do(t, "POST", "/api/users/user/dev-key/regenerate", nil).ok(t, http.StatusOK)
	}, func(err error) bool {
		return strings.Contains(err.Error(), " 401 ") // otherwise the limit for bad keys has been reached
	})
	if late > 0 {
		t.Errorf("%d requests were admitted after the key was replaced", late)
	}
}

// useBeyond lets clients use a key while end invalidates it, and for 20 more calls, which must be refused. It returns how many
// requests that began after end were admitted. A client whose call fails continues if expected allows it.
func (i *instance) useBeyond(t *testing.T, key, code string, status int, end func(), expected func(error) bool) (late int64) {
	t.Helper()
	var ended atomic.Bool
	var admitted atomic.Int64
	stop := make(chan struct{})
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			w, err := dialWire(i.address())
			if err != nil {
				t.Error(err)
				return
			}
			defer w.conn.Close()
			for {
				select {
				case <-stop:
					return
				default:
				}
				was := ended.Load()
				_, err := w.do(key, operation{"GET", "/api/dev/paste-lite/list", "", http.StatusOK})
				if err == nil && was {
					admitted.Add(1)
				}
				if err != nil && !expected(err) {
					return
				}
			}
		})
	}
	end()
	ended.Store(true)
	for range 20 {
		i.do(t, "GET", "/api/dev/paste-lite/list", request{key: key}).fails(t, status, code, "")
	}
	close(stop)
	group.Wait()
	return admitted.Load()
}

func TestAdminPathsAskForTheToken(t *testing.T) {
	i := common(t)
	a := i.account(t, "free")
	calls := []struct{ method, path string }{
		{"POST", "/api/admin/accounts"},
		{"GET", "/api/admin/accounts/" + a.id},
		{"PUT", "/api/admin/accounts/" + a.id + "/tier"},
		{"POST", "/api/admin/accounts/" + a.id + "/credits"},
		{"POST", "/api/admin/accounts/" + a.id + "/key/regenerate"},
		{"POST", "/api/admin/accounts/" + a.id + "/suspend"},
		{"POST", "/api/admin/accounts/" + a.id + "/resume"},
		{"POST", "/api/admin/accounts/" + a.id + "/password"},
		{"GET", "/api/admin/accounts"},
		{"GET", "/api/admin/log"},
		{"GET", "/api/admin/requests/01900000-0000-7000-8000-000000000000"},
		{"POST", "/api/admin/audit"},
	}
	for _, c := range calls {
		for _, header := range []map[string]string{{}, {"Authorization": "Bearer wrong"}, {"Authorization": i.adminToken}, {"Authorization": "Bearer " + a.key}, {"x-api-key": i.adminToken}} {
			i.do(t, c.method, c.path, request{header: header}).fails(t, http.StatusUnauthorized, "admin_token_required", "")
		}
	}
}

func TestAdminCommands(t *testing.T) {
	i := common(t)
	for _, body := range []object{{"email": "x", "tier": "pro"}, {"email": "admin-test@example.org", "tier": "gold"}, {"tier": "pro"}, {"email": "admin-test@example.org"}} {
		i.admin(t, "POST", "/api/admin/accounts", body).fails(t, http.StatusBadRequest, "invalid_field", "")
	}
	i.admin(t, "POST", "/api/admin/accounts", object{"email": "a@example.org", "tier": "pro", "name": "x"}).fails(t, http.StatusBadRequest, "unknown_field", "")
	a := i.account(t, "free")
	i.admin(t, "POST", "/api/admin/accounts", object{"email": a.email, "tier": "free"}).fails(t, http.StatusConflict, "email_taken", "")
	i.admin(t, "PUT", "/api/admin/accounts/"+a.id+"/tier", object{"tier": "gold"}).fails(t, http.StatusBadRequest, "invalid_field", "")
	for _, id := range []string{"00000000001", "nobody"} {
		i.admin(t, "GET", "/api/admin/accounts/"+id, nil).fails(t, http.StatusNotFound, "not_found", "")
		i.admin(t, "PUT", "/api/admin/accounts/"+id+"/tier", object{"tier": "pro"}).fails(t, http.StatusNotFound, "not_found", "")
		i.admin(t, "POST", "/api/admin/accounts/"+id+"/credits", object{"amount": "1", "reason": "r"}).fails(t, http.StatusNotFound, "not_found", "")
	}
	seen := i.admin(t, "GET", "/api/admin/accounts/"+a.id, nil).ok(t, http.StatusOK)
	if text(t, seen, "account", "email") != a.email || text(t, seen, "account", "id") != a.id {
		t.Errorf("%v", seen)
	}
	changed := i.admin(t, "PUT", "/api/admin/accounts/"+a.id+"/tier", object{"tier": "max"}).ok(t, http.StatusOK)
	if text(t, changed, "account", "tier") != "max" {
		t.Errorf("%v", changed)
	}
}

func TestGrantsAdjustmentsAndTheLedger(t *testing.T) {
	i := common(t)
	a := i.account(t, "pro")
	credit := func(body object) answer {
		return i.admin(t, "POST", "/api/admin/accounts/"+a.id+"/credits", body)
	}
	for _, amount := range []any{"", "x", "1.2345678", "0", "1e3", "1,5", true, "999999999999999999999"} {
		got := credit(object{"amount": amount, "reason": "r"})
		got.fails(t, http.StatusBadRequest, "invalid_field", "")
	}
	credit(object{"amount": "1"}).fails(t, http.StatusBadRequest, "invalid_field", "")
	credit(object{"amount": "1", "reason": "r", "expiresAt": "2001-01-01T00:00:00Z"}).fails(t, http.StatusBadRequest, "invalid_field", "")
	if b := text(t, credit(object{"amount": "2.5", "reason": "a gift"}).ok(t, http.StatusOK), "balance"); b != "2.500000" {
		t.Errorf("balance %s", b)
	}
	if b := text(t, credit(object{"amount": "-1.000001", "reason": "taken back"}).ok(t, http.StatusOK), "balance"); b != "1.499999" {
		t.Errorf("balance %s", b)
	}
	credit(object{"amount": "-1.5", "reason": "too much"}).fails(t, http.StatusConflict, "insufficient_credits", "")
	if b := a.balance(t); b != "1.499999" {
		t.Errorf("an adjustment below zero changed the balance to %s", b)
	}
	entries := checkLedger(t, a)
	if len(entries) != 2 || entries[0].kind != "adjustment" || entries[0].reason != "taken back" || entries[1].kind != "grant" || entries[1].reason != "a gift" {
		t.Errorf("ledger %+v", entries)
	}
	if paged := ledger(t, a, 1); len(paged) != 2 || paged[0] != entries[0] || paged[1] != entries[1] {
		t.Errorf("in pages of one: %+v", paged)
	}
	a.do(t, "GET", "/api/users/user/credits?cursor=x", nil).fails(t, http.StatusBadRequest, "invalid_cursor", "")
	a.do(t, "GET", "/api/users/user/credits?limit=0", nil).fails(t, http.StatusBadRequest, "invalid_field", "")
}

func TestAdminWritesAreIdempotent(t *testing.T) {
	i := common(t)
	a := i.account(t, "pro")
	header := map[string]string{"Authorization": "Bearer " + i.adminToken, "Idempotency-Key": "grant of " + a.id}
	grant := func(amount string) answer {
		return i.do(t, "POST", "/api/admin/accounts/"+a.id+"/credits", request{body: object{"amount": amount, "reason": "r"}, header: header})
	}
	first := grant("3")
	first.ok(t, http.StatusOK)
	again := grant("3")
	again.hasHeader(t, "Idempotency-Replayed", "true")
	if string(again.body) != string(first.body) || a.balance(t) != "3.000000" {
		t.Errorf("granted twice: %s, balance %s", again.body, a.balance(t))
	}
	grant("4").fails(t, http.StatusUnprocessableEntity, "idempotency_mismatch", "")

	header["Idempotency-Key"] = "account of " + a.id
	create := func() answer {
		return i.do(t, "POST", "/api/admin/accounts", request{body: object{"email": "twice-" + a.email, "tier": "pro"}, header: header})
	}
	one, two := create(), create()
	one.ok(t, http.StatusCreated)
	two.hasHeader(t, "Idempotency-Replayed", "true")
	if string(one.body) != string(two.body) {
		t.Errorf("%s, then %s", one.body, two.body)
	}
	i.do(t, "GET", "/api/dev/paste-lite/list", request{key: text(t, two.json(t), "apiKey")}).ok(t, http.StatusOK)
}
