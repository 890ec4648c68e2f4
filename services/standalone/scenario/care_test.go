package scenario

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
)

func TestAnEmailIsChanged(t *testing.T) {
	i := common(t)
	p, other := i.person(t), i.person(t)
	there := p.signIn(t, p.password)
	before, fresh := p.email, "New-"+strings.ToUpper(p.email)
	change := func(current, email string) answer {
		return p.do(t, "PUT", "/api/users/user/email", object{"currentPassword": current, "email": email})
	}
	change("wrong password", fresh).fails(t, http.StatusForbidden, "wrong_password", "")
	change(p.password, strings.ToUpper(other.email)).fails(t, http.StatusConflict, "email_taken", "")
	for _, body := range []object{
		{"currentPassword": p.password},
		{"email": fresh},
		{"currentPassword": p.password, "email": "no address"},
		{"currentPassword": p.password, "email": strings.Repeat("x", 64) + "@" + strings.Repeat("a.", 94) + "de"},
	} {
		p.do(t, "PUT", "/api/users/user/email", body).fails(t, http.StatusBadRequest, "invalid_field", "")
	}
	p.do(t, "PUT", "/api/users/user/email", object{"currentPassword": p.password, "email": fresh, "mail": "x"}).
		fails(t, http.StatusBadRequest, "unknown_field", "")
	i.do(t, "PUT", "/api/users/user/email", request{
		cookies: p.cookies, header: map[string]string{"Origin": "https://evil.example"}, body: object{"currentPassword": p.password, "email": fresh},
	}).fails(t, http.StatusForbidden, "cross_origin", "")
	i.do(t, "PUT", "/api/users/user/email", request{body: object{"currentPassword": p.password, "email": fresh}}).
		fails(t, http.StatusUnauthorized, "session_required", "")
	if email := p.profile(t)["email"]; email != before {
		t.Fatalf("a refused change made the email %v", email)
	}

	keyed := request{
		cookies: p.cookies, body: object{"currentPassword": p.password, "email": fresh},
		header: map[string]string{"Sec-Fetch-Site": "same-origin", "Idempotency-Key": "change"},
	}
	i.do(t, "PUT", "/api/users/user/email", keyed).ok(t, http.StatusOK)
	again := i.do(t, "PUT", "/api/users/user/email", keyed)
	again.ok(t, http.StatusOK)
	again.hasHeader(t, "Idempotency-Replayed", "true")
	keyed.body = object{"currentPassword": p.password, "email": "third" + p.email}
	i.do(t, "PUT", "/api/users/user/email", keyed).fails(t, http.StatusUnprocessableEntity, "idempotency_mismatch", "")
	for range i.bases {
		if email := p.profile(t)["email"]; email != fresh || !there.signedIn(t) {
			t.Errorf("the email is %v, or a session has ended", email)
		}
		i.do(t, "POST", "/api/users/login", request{body: object{"email": before, "password": p.password}}).
			fails(t, http.StatusUnauthorized, "invalid_credentials", "")
		(&person{i: i, email: strings.ToLower(fresh)}).signIn(t, p.password)
	}
	i.do(t, "POST", "/api/users/register", request{body: object{"email": fresh, "password": "not the password"}}).
		fails(t, http.StatusConflict, "email_taken", "")

	// The previous address is free, even for its former user.
	change(p.password, before).ok(t, http.StatusOK)
	keyed.body = object{"currentPassword": p.password, "email": fresh}
	late := i.do(t, "PUT", "/api/users/user/email", keyed) // sent again after a later change
	late.ok(t, http.StatusOK)
	late.hasHeader(t, "Idempotency-Replayed", "true")
	if email := p.profile(t)["email"]; email != before {
		t.Errorf("a repeated change has made the email %v", email)
	}
	change(p.password, strings.ToUpper(before)).ok(t, http.StatusOK) // the same address
	change(p.password, fresh).ok(t, http.StatusOK)
	made := i.do(t, "POST", "/api/users/register", request{body: object{"email": before, "password": "another person"}}).ok(t, http.StatusCreated)
	if text(t, made, "account", "id") == p.profile(t)["id"] {
		t.Error("a registration with the address of before opened the account that had it")
	}
}

// profile is the account as shown to its owner.
func (p *person) profile(t testing.TB) object {
	t.Helper()
	return at(t, p.do(t, "GET", "/api/users/user", nil).ok(t, http.StatusOK), "account").(object)
}

// TestOneOfManyGetsAnAddress: some register with it while others change to it, through all edges.
func TestOneOfManyGetsAnAddress(t *testing.T) {
	i := common(t)
	const each = 6
	email := fmt.Sprintf("wanted%d@example.org", persons.Add(1))
	var changers []*person
	for range each {
		changers = append(changers, i.person(t))
	}
	var all sync.WaitGroup
	answers := make([]answer, 2*each)
	for n, p := range changers {
		all.Go(func() {
			answers[n], _ = i.try(t.Context(), "PUT", "/api/users/user/email", request{
				cookies: p.cookies, header: map[string]string{"Sec-Fetch-Site": "same-origin"}, body: object{"currentPassword": p.password, "email": email},
			})
		})
		all.Go(func() {
			answers[each+n], _ = i.try(t.Context(), "POST", "/api/users/register", request{
				body: object{"email": email, "password": fmt.Sprintf("password %d", n)},
			})
		})
	}
	all.Wait()
	got := 0
	for _, a := range answers {
		switch a.status {
		case http.StatusOK, http.StatusCreated:
			got++
		case http.StatusConflict:
		default:
			t.Errorf("%s: %d %s", a.what, a.status, a.body)
		}
	}
	if got != 1 {
		t.Errorf("%d accounts have got one address", got)
	}
}

// heldSession is a session in the list of its account.
type heldSession struct {
	id, client, network string
	current             bool
}

func sessionsOf(t testing.TB, p *person) (list []heldSession) {
	t.Helper()
	for _, v := range at(t, p.do(t, "GET", "/api/users/user/sessions", nil).ok(t, http.StatusOK), "sessions").([]any) {
		s := v.(object)
		list = append(list, heldSession{text(t, s, "id"), text(t, s, "client"), text(t, s, "network"), s["current"].(bool)})
	}
	return list
}

func TestSessionsAreListedAndEnded(t *testing.T) {
	i := common(t)
	p, bystander := i.person(t), i.person(t)
	open := func(agent, source string) *person {
		other := &person{i: i, email: p.email, password: p.password}
		other.keep(t, i.do(t, "POST", "/api/users/login", request{
			body: object{"email": p.email, "password": p.password}, source: source, header: map[string]string{"User-Agent": agent},
		}))
		return other
	}
	phone := open("Mozilla/5.0 (iPhone; CPU iPhone OS 19_1 like Mac OS X) AppleWebKit/605.1.15 Version/19.0 Mobile/15E148 Safari/604.1", "198.51.100.77")
	laptop := open("Mozilla/5.0 (X11; Linux x86_64; rv:145.0) Gecko/20100101 Firefox/145.0", "2001:db8:17:4::9")
	want := map[string]string{"Safari on iOS": "198.51.100.0/24", "Firefox on Linux": "2001:db8:17::/48"}
	list := sessionsOf(t, laptop)
	if len(list) != 3 {
		t.Fatalf("sessions %v", list)
	}
	var lost string
	for _, s := range list {
		if network := want[s.client]; network != "" && network != s.network {
			t.Errorf("%s from %s, want %s", s.client, s.network, network)
		}
		if s.current != (s.client == "Firefox on Linux") {
			t.Errorf("%v is taken for the session that asks, or is not", s)
		}
		if s.client == "Safari on iOS" {
			lost = s.id
		}
	}
	if lost == "" {
		t.Fatalf("the phone is not in %v", list)
	}
	bystander.do(t, "DELETE", "/api/users/user/sessions/"+lost, nil).fails(t, http.StatusNotFound, "not_found", "")
	for _, id := range []string{"x", lost[:22], lost + "00", strings.Repeat("0", 24)} {
		p.do(t, "DELETE", "/api/users/user/sessions/"+id, nil).fails(t, http.StatusNotFound, "not_found", "")
	}
	i.do(t, "DELETE", "/api/users/user/sessions/"+lost, request{cookies: p.cookies, header: map[string]string{"Sec-Fetch-Site": "cross-site"}}).
		fails(t, http.StatusForbidden, "cross_origin", "")
	i.do(t, "GET", "/api/users/user/sessions", request{}).fails(t, http.StatusUnauthorized, "session_required", "")
	if !phone.signedIn(t) {
		t.Fatal("a refused call ended the session")
	}
	ending := request{cookies: p.cookies, header: map[string]string{"Sec-Fetch-Site": "same-origin", "Idempotency-Key": "end"}}
	i.do(t, "DELETE", "/api/users/user/sessions/"+lost, ending).ok(t, http.StatusOK)
	for range i.bases {
		again := i.do(t, "DELETE", "/api/users/user/sessions/"+lost, ending)
		again.ok(t, http.StatusOK)
		again.hasHeader(t, "Idempotency-Replayed", "true")
		if phone.signedIn(t) || !p.signedIn(t) || !laptop.signedIn(t) || !bystander.signedIn(t) {
			t.Error("the session stays, or another one has ended")
		}
	}
	p.do(t, "DELETE", "/api/users/user/sessions/"+lost, nil).fails(t, http.StatusNotFound, "not_found", "")
	own := ""
	for _, s := range sessionsOf(t, laptop) {
		if s.current {
			own = s.id
		}
	}
	out := laptop.do(t, "DELETE", "/api/users/user/sessions/"+own, nil)
	out.ok(t, http.StatusOK)
	if cookies := (&http.Response{Header: out.header}).Cookies(); len(cookies) != 1 || cookies[0].Value != "" || laptop.signedIn(t) {
		t.Errorf("the session that ended itself is still there; cookies %v", cookies)
	}
	p.do(t, "PUT", "/api/users/user/password", object{"currentPassword": p.password, "password": "another horse"}).ok(t, http.StatusOK)
	if list := sessionsOf(t, p); len(list) != 1 || !list[0].current {
		t.Errorf("after a new password: %v", list)
	}
}
