package scenario

import (
	"fmt"
	"io"
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

// TestAnAdminHasASessionOfItsOwn, separate from user sessions, which ends when the admin signs out. The token is in no page and
// no cookie.
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
		v.open(t, "/console/admin/log").shows(t, http.StatusOK, "Signed in with the admin token <b>").hides(t, i.adminToken).hasHeader(t, "Cache-Control", "no-store")
	}
	v.open(t, "/console").leads(t, "/console/sign-in") // it belongs to no account
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

// TestAnAdminActsOnAnAccountInTheConsole: each action shows in the API, and in the log.
func TestAnAdminActsOnAnAccountInTheConsole(t *testing.T) {
	i := common(t)
	v, a := i.signInAdmin(t), i.account(t, "free")
	path := "/console/admin/accounts/" + a.id
	v.open(t, "/console/admin?email="+strings.ToUpper(a.email)).shows(t, http.StatusOK, `href="`+path+`"`, a.email)
	v.open(t, "/console/admin?email=nobody@example.org").shows(t, http.StatusOK, "No such account")
	v.open(t, "/console/admin?email=none").shows(t, http.StatusBadRequest, "find-email-error", "The email must be an email address such as name@example.com.")
	v.open(t, "/console/admin?cursor=nonsense!").shows(t, http.StatusBadRequest, "invalid_cursor")
	v.open(t, "/console/admin").shows(t, http.StatusOK, "<table")
	page := v.open(t, path).shows(t, http.StatusOK, a.email, "Free plan", "pasteLite.create", "balance 0.000000 credits").hides(t, "Resume account")

	v.submit(t, page, path+"/tier", "tier", "gold").shows(t, http.StatusBadRequest, "tier-tier-error")
	v.submit(t, page, path+"/tier", "tier", "pro").leads(t, path+"?done=tier")
	v.open(t, path+"?done=tier").shows(t, http.StatusOK, "Pro plan", "Plan changed")
	v.submit(t, page, path+"/credits", "amount", "much", "reason", "x").shows(t, http.StatusBadRequest, "credits-amount-error", `value="much"`)
	v.submit(t, page, path+"/credits", "amount", "1", "reason", "").shows(t, http.StatusBadRequest, "credits-reason-error")
	v.submit(t, page, path+"/credits", "amount", "1", "reason", "x", "expiresAt", "2020-01-01T00:00").shows(t, http.StatusBadRequest, "credits-expiresAt-error")
	v.submit(t, page, path+"/credits", "amount", "-1", "reason", "x").shows(t, http.StatusConflict, "credits-amount-error", "The adjustment is larger than the balance.")
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
	page = v.open(t, path).shows(t, http.StatusOK, "sends spam", "Resume account").hides(t, "Suspend account")
	v.submit(t, page, path+"/resume", "reason", "sorry").leads(t, path+"?done=resume")
	quick(a.key).ok(t, http.StatusCreated)
	page = v.open(t, path)
	v.submit(t, page, path+"/key", "confirm", "nonsense").shows(t, http.StatusBadRequest, "key-confirm-error")
	fresh := shownKey(t, v.submit(t, page, path+"/key", "confirm", a.id).shows(t, http.StatusOK, "be shown again"))
	quick(a.key).fails(t, http.StatusUnauthorized, "invalid_api_key", "")
	quick(fresh).ok(t, http.StatusCreated)

	id := made.header.Get("X-Request-Id")
	v.open(t, "/console/admin/requests?id="+id).shows(t, http.StatusOK, "Request 1 of 5,000 for pasteLite.create", "BILLING_", `href="`+path+`"`)
	v.open(t, "/console/admin/requests?id=nonsense").shows(t, http.StatusBadRequest, "explain-id-error")
	v.open(t, "/console/admin/requests").shows(t, http.StatusOK, "X-Request-Id")
	v.open(t, "/console/admin/revenue").shows(t, http.StatusOK, "Outstanding credits", "Failed payments")
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
	page := v.open(t, "/console/admin/audits").shows(t, http.StatusOK, "Start audit")
	begun := v.submit(t, page, "/console/admin/audits").shows(t, http.StatusSeeOther)
	path := begun.header.Get("Location")
	if !regexp.MustCompile(`^/console/admin/audits/[0-9a-f-]+$`).MatchString(path) {
		t.Fatalf("leads to %s", path)
	}
	eventually.NoError(t, "the audit ends", func() error {
		if shown := v.open(t, path+"/progress").shows(t, http.StatusOK, "Partition", " of "); strings.Contains(string(shown.body), "Refresh") {
			return fmt.Errorf("it is under way")
		}
		return nil
	})
	audit := i.admin(t, "GET", "/api/admin/audits/"+path[strings.LastIndexByte(path, '/')+1:], nil).ok(t, http.StatusOK)
	if audit["match"] != true {
		t.Errorf("the audit: %v", audit)
	}
	v.open(t, path).shows(t, http.StatusOK, "Everything matches the journals.", ">matches<").hides(t, "differs", "data-hx-trigger")
}

// TestOnlyFormsThatChangeAnAccountAreLimited: creating content is metered instead, and admins share no account.
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

// healthRow is a line of the page of health.
type healthRow struct{ service, partition, instance, state, behind, holds string }

var healthRows = regexp.MustCompile(`<tr><th scope="row">(\w+) (\d+)</th><td>([^<]*)</td><td>(.*?)</td><td class="n">([^<]*)</td><td class="n">([^<]*)</td></tr>`)

// health reads the health page, or its live part.
func (v *visitor) health(t *testing.T, path string) (page answer, rows []healthRow) {
	t.Helper()
	v.source = newSource() // each may open so many pages a minute
	page = v.open(t, path).shows(t, http.StatusOK)
	for _, m := range healthRows.FindAllStringSubmatch(string(page.body), -1) {
		rows = append(rows, healthRow{m[1], m[2], m[3], m[4], m[5], m[6]})
	}
	return page, rows
}

// uploadSlowly begins an upload, which finish ends.
func (a account) uploadSlowly(t *testing.T) (finish func()) {
	t.Helper()
	body, write := io.Pipe()
	r, err := http.NewRequestWithContext(t.Context(), "POST", a.i.edge()+"/api/dev/files/upload?name=slow", body)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/octet-stream")
	r.Header.Set("x-api-key", a.key)
	status := make(chan string, 1)
	go func() {
		res, err := (&http.Client{Transport: &http.Transport{}}).Do(r)
		if err != nil {
			status <- err.Error()
			return
		}
		status <- res.Status
		res.Body.Close()
	}()
	if _, err := write.Write(make([]byte, 4<<20)); err != nil { // the rest has minutes to arrive then
		t.Fatal(err)
	}
	return func() {
		t.Helper()
		if err := write.Close(); err != nil {
			t.Fatal(err)
		}
		if got := <-status; got != "201 Created" {
			t.Errorf("the upload: %s", got)
		}
	}
}

// TestTheHealthOfThePartitionsIsShown: the instances of each, with their lag. A request in progress is a hold of one partition
// of billing.
func TestTheHealthOfThePartitionsIsShown(t *testing.T) {
	t.Parallel()
	i := start(t, behindProxy(), with("QUIRE_PARTITIONS", "3"))
	v, a := i.signInAdmin(t), i.account(t, "pro")
	// well asserts that all partitions are served and up to date, and how many have a hold.
	well := func(path string, holding int) func() error {
		return func() error {
			page, rows := v.health(t, path)
			if !strings.Contains(string(page.body), "Every partition is served.") || strings.Contains(string(page.body), "No response from") {
				return fmt.Errorf("%.3000s", page.body)
			}
			held := map[string]string{} // holds by partition, equal for its instances
			for _, r := range rows {
				partition := r.service + " " + r.partition
				if other, ok := held[partition]; ok && other != r.holds || r.instance == "none" || r.state != "serving" || r.behind != "0" {
					return fmt.Errorf("%+v in %+v", r, rows)
				}
				held[partition] = r.holds
			}
			counts := map[string]int{}
			for _, holds := range held {
				counts[holds]++
			}
			if want := map[string]int{"–": 3 * 3, "0": 3 - holding, "1": holding}; counts["–"] != want["–"] || counts["0"] != want["0"] || counts["1"] != want["1"] {
				return fmt.Errorf("partitions by their holds: %v, want %v", counts, want)
			}
			return nil
		}
	}
	for _, path := range []string{"/console/admin/health", "/console/admin/health/table", "/console/admin/health?from=0"} {
		eventually.NoError(t, "all is well", well(path, 0))
	}
	if _, rows := v.health(t, "/console/admin/health?from=2"); len(rows) == 0 || rows[0].partition != "2" {
		t.Errorf("from partition 2: %+v", rows)
	}
	v.open(t, "/console/admin/health?from=3").shows(t, http.StatusBadRequest, "from must be a partition number")

	finish := a.uploadSlowly(t)
	eventually.NoError(t, "the upload is a hold", well("/console/admin/health", 1))
	finish()
	eventually.NoError(t, "it is settled", well("/console/admin/health/table", 0))

	i.visitor().open(t, "/console/admin/health").leads(t, "/console/admin/sign-in?next=%2Fconsole%2Fadmin%2Fhealth")
}

// TestAnAdminFoldsARequestAgain, of any account. The log shows it, and a request without a key has nothing to compare.
func TestAnAdminFoldsARequestAgain(t *testing.T) {
	i := common(t)
	v, a := i.signInAdmin(t), i.account(t, "free")
	made := a.do(t, "POST", "/api/dev/paste-lite/create", object{"content": "secret words"})
	made.ok(t, http.StatusCreated)
	id := made.header.Get("X-Request-Id")
	path := "/console/admin/requests/" + id
	eventually.NoError(t, "the request has ended", func() error {
		v.source = newSource()
		if !strings.Contains(string(v.open(t, path).body), "<li>Served</li>") {
			return fmt.Errorf("it is under way")
		}
		return nil
	})
	for _, page := range []string{"/console/admin/requests?id=" + id, path} {
		v.open(t, page).shows(t, http.StatusOK, "Request 1 of 100 for pasteLite.create", "Verify this charge", `action="`+path+`"`, `data-hx-get="`+path+`/fold"`, `value="`+id+`"`).hides(t, "Verified:", "secret words")
	}
	for _, page := range []string{path + "?run=new", path + "/fold?run=new", path + "/fold"} {
		folded := v.open(t, page).shows(t, http.StatusOK, "Verified:", "replayed", "Credits in the ledger").hides(t, "differs")
		for _, value := range []string{"<td>Admitted</td>", "<td>99</td>", "<td>Served</td>", "<td>quota</td>"} {
			if n := strings.Count(string(folded.body), value); n != 2 {
				t.Errorf("%s has %s %d times, want it as recorded and as folded again", page, value, n)
			}
		}
	}
	explained := 0
	for _, e := range i.admin(t, "GET", "/api/admin/log?limit=100", nil).ok(t, http.StatusOK)["entries"].([]any) {
		if entry := e.(map[string]any); entry["action"] == "request.explain" && entry["detail"] == id {
			explained++
		}
	}
	if explained < 6 { // the five above, and at least one before them
		t.Errorf("%d explanations of the request are in the log", explained)
	}
	keyless := i.do(t, "POST", "/api/dev/paste-lite/create", request{body: object{"content": "x"}})
	keyless.ok(t, http.StatusCreated)
	other := "/console/admin/requests/" + keyless.header.Get("X-Request-Id")
	v.open(t, other).shows(t, http.StatusOK, "anonymous quick pastes per network").hides(t, "Verify this charge")
	v.open(t, other+"/fold").shows(t, http.StatusOK, "sent without an API key").hides(t, "Verified:")
	v.open(t, path+"?run=nonsense").shows(t, http.StatusBadRequest)
	for _, missing := range []string{"/console/admin/requests/nonsense", "/console/admin/requests/00000000000000000000000000000000"} {
		v.open(t, missing).shows(t, http.StatusNotFound)
	}
	user, _, _ := i.signUp(t)
	for _, page := range []string{path, path + "/fold"} {
		user.open(t, page).leads(t, "/console/admin/sign-in?next="+strings.ReplaceAll(page, "/", "%2F"))
	}
}
