package scenario

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"quire.dev/pkg/eventually"
)

// signInAdmin is a visitor with a session of the admin token.
func (i *instance) signInAdmin(t *testing.T) *visitor {
	t.Helper()
	v := i.visitor()
	form := v.open(t, "/console/admin/sign-in").shows(t, http.StatusOK, `type="password"`)
	v.submit(t, form, "/console/admin/sign-in", "token", i.adminToken).leads(t, "/console/admin")
	return v
}

// TestAnAdminHasASessionOfItsOwn, which no user's session is, and which ends where the admin signs out. The token is in no page and no cookie.
func TestAnAdminHasASessionOfItsOwn(t *testing.T) {
	i := common(t)
	user, _, _ := i.signUp(t)
	user.open(t, "/console/admin").leads(t, "/console/admin/sign-in?next=%2Fconsole%2Fadmin")
	v := i.visitor()
	v.open(t, "/console/admin/log").leads(t, "/console/admin/sign-in?next=%2Fconsole%2Fadmin%2Flog")
	form := v.open(t, "/console/admin/sign-in?next=/console/admin/log").shows(t, http.StatusOK, `value="/console/admin/log"`)
	refused := v.submit(t, form, "/console/admin/sign-in", "token", "none of the tokens").shows(t, http.StatusUnauthorized, "admin-token-error", "not one of this Quire").hides(t, "none of the tokens")
	if v.cookies != nil {
		t.Errorf("cookies %v", v.cookies)
	}
	v.submit(t, refused, "/console/admin/sign-in", "token", i.adminToken).leads(t, "/console/admin/log")
	if len(v.cookies) != 1 || !v.cookies[0].HttpOnly || v.cookies[0].SameSite != http.SameSiteStrictMode || v.cookies[0].MaxAge != 30*60 || strings.Contains(v.cookies[0].Value, i.adminToken) {
		t.Fatalf("cookies %v", v.cookies)
	}
	v.open(t, "/console/admin/sign-in?next=//evil.example").leads(t, "/console/admin")
	for range 2 { // each edge knows the session
		v.open(t, "/console/admin/log").shows(t, http.StatusOK, "Admin <b>").hides(t, i.adminToken).hasHeader(t, "Cache-Control", "no-store")
	}
	v.open(t, "/console").leads(t, "/console/sign-in") // it is none of an account
	right := *v.cookies[0]
	for n, part := range strings.Split(right.Value, "~") {
		changed := right
		other := "0" // in place of the first character: the last one of base64 may have bits that mean nothing
		if part[0] == '0' {
			other = "1"
		}
		changed.Value = strings.Replace(right.Value, part, other+part[1:], 1)
		v.cookies = []*http.Cookie{&changed}
		if got := v.open(t, "/console/admin"); got.status != http.StatusSeeOther {
			t.Errorf("a cookie whose part %d is changed: %d", n, got.status)
		}
	}
	v.cookies = []*http.Cookie{&right}
	page := v.open(t, "/console/admin")
	for _, path := range []string{"/console/admin/sign-in", "/console/admin/sign-out", "/console/admin/audits", "/console/admin/accounts/AAAAAAAAAAA/tier", "/console/admin/accounts/AAAAAAAAAAA/suspend"} {
		r := browser("Sec-Fetch-Site", "cross-site", "Content-Type", "application/x-www-form-urlencoded")
		r.cookies, r.body = v.cookies, strings.NewReader("tier=admin")
		i.page(t, "POST", path, r).shows(t, http.StatusForbidden, "cross_origin")
	}
	v.submit(t, page, "/console/admin/sign-out").leads(t, "/console/admin/sign-in")
	if v.cookies != nil {
		t.Errorf("cookies %v", v.cookies)
	}
	v.open(t, "/console/admin").leads(t, "/console/admin/sign-in?next=%2Fconsole%2Fadmin")
}

// TestAnAdminActsOnAnAccountInTheConsole, each time the API shows it, and it stands in the log.
func TestAnAdminActsOnAnAccountInTheConsole(t *testing.T) {
	i := common(t)
	v, a := i.signInAdmin(t), i.account(t, "free")
	path := "/console/admin/accounts/" + a.id
	v.open(t, "/console/admin?email="+strings.ToUpper(a.email)).shows(t, http.StatusOK, `href="`+path+`"`, a.email)
	v.open(t, "/console/admin?email=nobody@example.org").shows(t, http.StatusOK, "There is no such account")
	v.open(t, "/console/admin?email=none").shows(t, http.StatusBadRequest, "find-email-error", "The email must be an email address.")
	v.open(t, "/console/admin?cursor=nonsense!").shows(t, http.StatusBadRequest, "invalid_cursor")
	v.open(t, "/console/admin").shows(t, http.StatusOK, "<table")
	page := v.open(t, path).shows(t, http.StatusOK, a.email, "Free plan", "pasteLite.create", "balance 0.000000 credits").hides(t, "Resume it")

	v.submit(t, page, path+"/tier", "tier", "gold").shows(t, http.StatusBadRequest, "tier-tier-error")
	v.submit(t, page, path+"/tier", "tier", "pro").leads(t, path+"?done=tier")
	v.open(t, path+"?done=tier").shows(t, http.StatusOK, "Pro plan", "has the new plan")
	v.submit(t, page, path+"/credits", "amount", "much", "reason", "x").shows(t, http.StatusBadRequest, "credits-amount-error", `value="much"`)
	v.submit(t, page, path+"/credits", "amount", "1", "reason", "").shows(t, http.StatusBadRequest, "credits-reason-error")
	v.submit(t, page, path+"/credits", "amount", "1", "reason", "x", "expiresAt", "2020-01-01T00:00").shows(t, http.StatusBadRequest, "credits-expiresAt-error")
	v.submit(t, page, path+"/credits", "amount", "-1", "reason", "x").shows(t, http.StatusConflict, "credits-amount-error", "The balance is smaller")
	page = v.open(t, path)
	for range 2 { // sent twice, it does its work once
		v.submit(t, page, path+"/credits", "amount", "12.5", "reason", "a gift").leads(t, path+"?done=credits")
	}
	usage := i.admin(t, "GET", "/api/admin/accounts/"+a.id, nil).ok(t, http.StatusOK)
	if text(t, usage, "credits", "balance") != "12.500000" || text(t, usage, "account", "tier") != "pro" {
		t.Errorf("%v", usage)
	}

	quick := func(key string) answer {
		return i.do(t, "POST", "/api/dev/paste-lite/create", request{key: key, body: object{"content": "x"}})
	}
	made := quick(a.key)
	made.ok(t, http.StatusCreated)
	page = v.open(t, path)
	v.submit(t, page, path+"/suspend", "reason", "sends spam", "confirm", "nonsense").shows(t, http.StatusBadRequest, "suspend-confirm-error")
	quick(a.key).ok(t, http.StatusCreated)
	v.submit(t, page, path+"/suspend", "reason", "sends spam", "confirm", a.id).leads(t, path+"?done=suspend")
	quick(a.key).fails(t, http.StatusForbidden, "account_suspended", "")
	page = v.open(t, path).shows(t, http.StatusOK, "sends spam", "Resume it").hides(t, "Suspend it")
	v.submit(t, page, path+"/resume", "reason", "sorry").leads(t, path+"?done=resume")
	quick(a.key).ok(t, http.StatusCreated)
	page = v.open(t, path)
	v.submit(t, page, path+"/key", "confirm", "nonsense").shows(t, http.StatusBadRequest, "key-confirm-error")
	fresh := shownKey(t, v.submit(t, page, path+"/key", "confirm", a.id).shows(t, http.StatusOK, "shown this once"))
	quick(a.key).fails(t, http.StatusUnauthorized, "invalid_api_key", "")
	quick(fresh).ok(t, http.StatusCreated)

	id := made.header.Get("X-Request-Id")
	v.open(t, "/console/admin/requests?id="+id).shows(t, http.StatusOK, "Request 1 of 5,000 of pasteLite.create", "BILLING_", `href="`+path+`"`)
	v.open(t, "/console/admin/requests?id=nonsense").shows(t, http.StatusBadRequest, "explain-id-error")
	v.open(t, "/console/admin/requests").shows(t, http.StatusOK, "X-Request-Id")
	v.open(t, "/console/admin/prices").shows(t, http.StatusOK, "pasteLite.create", "5,000, then 0.000500", "unlimited")
	log := v.open(t, "/console/admin/log").shows(t, http.StatusOK, a.id, "request.explain", "accounts.find", "12.500000").hides(t, i.adminToken, fresh)
	entries := i.admin(t, "GET", "/api/admin/log", nil).ok(t, http.StatusOK)["entries"].([]any)
	if first := entries[0].(map[string]any)["action"].(string); !strings.Contains(string(log.body), first) {
		t.Errorf("the page of the log has no %s", first)
	}
	for _, missing := range []string{"/console/admin/accounts/00000000001", "/console/admin/accounts/nonsense", "/console/admin/audits/nonsense"} {
		v.open(t, missing).shows(t, http.StatusNotFound)
	}
}

// TestAnAuditIsWatchedInTheConsole, by partition, until it matches.
func TestAnAuditIsWatchedInTheConsole(t *testing.T) {
	i := common(t)
	v := i.signInAdmin(t)
	page := v.open(t, "/console/admin/audits").shows(t, http.StatusOK, "Begin an audit")
	begun := v.submit(t, page, "/console/admin/audits").shows(t, http.StatusSeeOther)
	path := begun.header.Get("Location")
	if !regexp.MustCompile(`^/console/admin/audits/[0-9a-f-]+$`).MatchString(path) {
		t.Fatalf("leads to %s", path)
	}
	eventually.NoError(t, "the audit ends", func() error {
		if shown := v.open(t, path+"/progress").shows(t, http.StatusOK, "Partition", " of "); strings.Contains(string(shown.body), "Look again") {
			return fmt.Errorf("it is under way")
		}
		return nil
	})
	v.open(t, path).shows(t, http.StatusOK, "It matches", ">matches<").hides(t, "differs", "data-hx-trigger")
	i.admin(t, "GET", "/api/admin/audits/"+path[strings.LastIndexByte(path, '/')+1:], nil).ok(t, http.StatusOK)
}

// TestOnlyFormsThatChangeAnAccountAreLimited: making content is metered instead, and admins share no account.
func TestOnlyFormsThatChangeAnAccountAreLimited(t *testing.T) {
	i := common(t)
	v, _ := i.holderOf(t, "pro")
	most, status := 310*len(i.bases), 0
	page := v.open(t, "/console/keys")
	for n := 0; n < most && status != http.StatusTooManyRequests; n++ {
		v.source = newSource() // each has a limit of pages
		status = v.submit(t, page, "/console/spending-cap", "amount", "2.5", "period", "day").status
	}
	if status != http.StatusTooManyRequests {
		t.Errorf("the last of %d changes: %d", most, status)
	}
	v.source = newSource()
	if made := v.submit(t, v.open(t, "/console/quick/new"), "/console/quick", "content", "made"); made.status != http.StatusSeeOther {
		t.Errorf("a quick paste after that: %d", made.status)
	}
	admin := i.visitor()
	form := admin.open(t, "/console/admin/sign-in")
	for n := range most {
		admin.source = newSource()
		if got := admin.submit(t, form, "/console/admin/sign-in", "token", i.adminToken); got.status != http.StatusSeeOther {
			t.Fatalf("sign-in %d: %d", n, got.status)
		}
	}
}
