package scenario

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"quire.dev/pkg/eventually"
)

const deletionDays = 14 * day

// deleteAccount asks for the deletion of the account, and returns when it is due.
func (p *person) deleteAccount(t testing.TB) time.Time {
	t.Helper()
	body := p.do(t, "DELETE", "/api/users/user", object{"currentPassword": p.password}).ok(t, http.StatusOK)
	at, err := time.Parse(time.RFC3339, text(t, body, "account", "deletesAt"))
	if err != nil {
		t.Fatal(err)
	}
	return at
}

// key creates an API key of the person, replacing the previous one.
func (p *person) key(t testing.TB) account {
	t.Helper()
	made := p.do(t, "POST", "/api/users/user/dev-key/regenerate", nil).ok(t, http.StatusOK)
	return account{i: p.i, id: p.profile(t)["id"].(string), email: p.email, key: text(t, made, "apiKey")}
}

func TestADeletionIsTakenBackBySigningIn(t *testing.T) {
	i := common(t)
	p, bystander := i.person(t), i.person(t)
	there := p.signIn(t, p.password)
	a := p.key(t)
	page := "/q/" + a.quick(t, object{"content": "to be seen", "visibility": "public"})
	ask := func(body object) answer { return p.do(t, "DELETE", "/api/users/user", body) }
	ask(object{"currentPassword": "wrong password"}).fails(t, http.StatusForbidden, "wrong_password", "")
	ask(object{}).fails(t, http.StatusBadRequest, "invalid_field", "")
	ask(object{"currentPassword": strings.Repeat("x", 129)}).fails(t, http.StatusBadRequest, "invalid_field", "")
	ask(object{"password": p.password}).fails(t, http.StatusBadRequest, "unknown_field", "")
	i.do(t, "DELETE", "/api/users/user", request{key: a.key, body: object{"currentPassword": p.password}}).
		fails(t, http.StatusUnauthorized, "session_required", "")
	i.do(t, "DELETE", "/api/users/user", request{
		cookies: p.cookies, header: map[string]string{"Sec-Fetch-Site": "cross-site"}, body: object{"currentPassword": p.password},
	}).fails(t, http.StatusForbidden, "cross_origin", "")
	a.do(t, "GET", "/api/dev/paste-lite/list", nil).ok(t, http.StatusOK)

	begun := i.now()
	due := p.deleteAccount(t)
	if due.Before(begun.Add(deletionDays-time.Minute)) || due.After(i.now().Add(deletionDays+time.Minute)) {
		t.Errorf("deleted at %v", due)
	}
	for range i.bases {
		if p.signedIn(t) || there.signedIn(t) || !bystander.signedIn(t) {
			t.Error("a session of the account stays, or one of another account does not")
		}
		a.do(t, "POST", "/api/dev/paste-lite/create", withContent(nil)).fails(t, http.StatusForbidden, "account_suspended", "")
		a.do(t, "GET", "/api/dev/paste-lite/list", nil).fails(t, http.StatusForbidden, "account_suspended", "")
		a.do(t, "GET", "/api/users/user/dev-usage", nil).fails(t, http.StatusForbidden, "account_suspended", "")
		i.do(t, "GET", page, request{}).shows(t, http.StatusOK, "to be seen")
		i.do(t, "POST", "/api/users/login", request{body: object{"email": p.email, "password": "wrong password"}}).
			fails(t, http.StatusUnauthorized, "invalid_credentials", "")
		i.do(t, "POST", "/api/users/register", request{body: object{"email": p.email, "password": "another person"}}).
			fails(t, http.StatusConflict, "email_taken", "")
	}
	p.do(t, "DELETE", "/api/users/user", object{"currentPassword": p.password}).fails(t, http.StatusUnauthorized, "session_required", "")
	text(t, i.admin(t, "GET", "/api/admin/accounts/"+a.id, nil).ok(t, http.StatusOK), "account", "deletesAt")
	listed := i.admin(t, "GET", "/api/admin/accounts?email="+url.QueryEscape(p.email), nil).ok(t, http.StatusOK)
	text(t, at(t, listed, "accounts").([]any)[0].(object), "deletesAt")

	i.do(t, "POST", "/api/users/register", request{body: object{"email": p.email, "password": p.password}}).
		fails(t, http.StatusConflict, "email_taken", "")
	a.do(t, "GET", "/api/dev/paste-lite/list", nil).fails(t, http.StatusForbidden, "account_suspended", "")
	login := func(cancel any) answer {
		body := object{"email": p.email, "password": p.password}
		if cancel != nil {
			body["cancelDeletion"] = cancel
		}
		return i.do(t, "POST", "/api/users/login", request{body: body})
	}
	for _, cancel := range []any{nil, false} {
		refused := login(cancel)
		refused.fails(t, http.StatusConflict, "deletion_scheduled", "")
		refused.hasHeader(t, "Set-Cookie", "")
		if got := text(t, refused.json(t), "deletesAt"); got != due.Format("2006-01-02T15:04:05.000Z") {
			t.Errorf("deletesAt is %s, want %v", got, due)
		}
		a.do(t, "GET", "/api/dev/paste-lite/list", nil).fails(t, http.StatusForbidden, "account_suspended", "")
	}
	login("yes").fails(t, http.StatusBadRequest, "invalid_field", "")
	i.do(t, "POST", "/api/users/login", request{body: object{"email": p.email, "password": "wrong password", "cancelDeletion": true}}).
		fails(t, http.StatusUnauthorized, "invalid_credentials", "")
	back := login(true)
	if back.ok(t, http.StatusOK)["deletionUndone"] != true {
		t.Errorf("it is not told: %s", back.body)
	}
	p.keep(t, back)
	for range i.bases {
		a.do(t, "GET", "/api/dev/paste-lite/list", nil).ok(t, http.StatusOK)
		if profile := p.profile(t); profile["deletesAt"] != nil || profile["id"] != a.id {
			t.Errorf("the account is %v", profile)
		}
	}
	a.do(t, "POST", "/api/dev/paste-lite/create", withContent(nil)).ok(t, http.StatusCreated)
	for _, cancel := range []any{nil, true} {
		if login(cancel).ok(t, http.StatusOK)["deletionUndone"] != nil {
			t.Error("a later sign-in has taken it back again")
		}
	}
}

// TestTheConsoleAsksBeforeASignInCancelsADeletion, and only who knows the password. The answer needs no password, is valid once, and
// only for the password and the deletion of the question.
func TestTheConsoleAsksBeforeASignInCancelsADeletion(t *testing.T) {
	i := common(t)
	p := i.person(t)
	a := p.key(t)
	v := i.visitor()
	const signIn, keep = "/console/sign-in", "/console/sign-in/keep"
	send := func(password string) answer {
		return v.submit(t, v.open(t, signIn+"?next=/docs"), signIn, "email", p.email, "password", password)
	}
	proofOf := func(page answer) string {
		return regexp.MustCompile(`name="proof" value="([^"]+)"`).FindStringSubmatch(string(page.body))[1]
	}
	answered := func(proof string) answer {
		r := browser("Content-Type", "application/x-www-form-urlencoded")
		r.body = strings.NewReader(url.Values{"proof": {proof}, "next": {"/docs"}}.Encode())
		return v.send(t, "POST", keep, r)
	}
	due := p.deleteAccount(t)
	send("wrong password").shows(t, http.StatusUnauthorized, "Invalid email or password").hides(t, "deletion")
	asked := send(p.password).shows(t, http.StatusConflict, "Keep your account?", p.email, due.Format(time.RFC3339), `name="next" value="/docs"`, `href="/console/sign-in"`).
		hides(t, p.password)
	if v.cookies != nil {
		t.Errorf("the question signs in: %v", v.cookies)
	}
	a.do(t, "GET", "/api/dev/paste-lite/list", nil).fails(t, http.StatusForbidden, "account_suspended", "")
	proof := proofOf(asked)
	parts := strings.Split(proof, "~")
	later := parts[1][:len(parts[1])-4] + "9999"
	for _, forged := range []string{"", "~~", "x", parts[0] + "~" + later + "~" + parts[2], i.account(t, "free").id + "~" + parts[1] + "~" + parts[2], parts[0] + "~1~" + parts[2], proof + "~"} {
		answered(forged).shows(t, http.StatusUnauthorized, "Sign in again.", `autocomplete="current-password"`)
	}
	a.do(t, "GET", "/api/dev/paste-lite/list", nil).fails(t, http.StatusForbidden, "account_suspended", "")

	v.submit(t, asked, keep).leads(t, "/console?done=kept")
	v.open(t, "/console?done=kept").shows(t, http.StatusOK, "The deletion of your account is canceled.")
	a.do(t, "GET", "/api/dev/paste-lite/list", nil).ok(t, http.StatusOK)
	v.cookies = nil
	answered(proof).shows(t, http.StatusUnauthorized, "Sign in again.") // it was answered
	p.keep(t, i.do(t, "POST", "/api/users/login", request{body: object{"email": p.email, "password": p.password}}))
	p.deleteAccount(t)
	answered(proof).shows(t, http.StatusUnauthorized, "Sign in again.") // it was another deletion
	a.do(t, "GET", "/api/dev/paste-lite/list", nil).fails(t, http.StatusForbidden, "account_suspended", "")
	v.submit(t, send(p.password), keep).leads(t, "/console?done=kept")
}

// TestADeletedAccountLeavesItsBillingHistoryAlone takes an account through its deletion. After 14 days, and however often its
// erasure is cut off, nothing of it is left but what billing knows, which audits hold.
func TestADeletedAccountLeavesItsBillingHistoryAlone(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	i := start(t, behindProxy(), in(folder))
	p, other := i.person(t), i.account(t, "pro")
	a := p.key(t)
	a.setTier(t, "pro")
	a.grant(t, "3")
	const secret = "a text that nobody else has written"
	pages := []string{
		"/q/" + a.quick(t, object{"content": secret, "visibility": "public", "title": "title of " + secret}),
		"/q/" + a.quick(t, object{"expiresIn": "13d", "visibility": "public"}),
		"/p/" + a.paste(t, object{"content": strings.Repeat(secret+"\n", 4000), "visibility": "public"}),
		"/p/" + a.paste(t, object{"content": "first", "visibility": "public"}),
		"/f/" + a.upload(t, "name of "+secret+".txt", []byte(secret)),
	}
	a.do(t, "PUT", "/api/dev/pastes/update/"+strings.TrimPrefix(pages[3], "/p/"), object{"content": secret + ", again"}).ok(t, http.StatusOK)
	a.hammer(t, 120, func(n int) operation { // more than a page of one partition
		return operation{"POST", "/api/dev/paste-lite/create", fmt.Sprintf(`{"content": "%d: %s"}`, n, secret), http.StatusCreated}
	})
	stays := "/p/" + other.paste(t, object{"content": "stays", "visibility": "public"})
	before := i.admin(t, "GET", "/api/admin/accounts/"+a.id, nil).ok(t, http.StatusOK)
	if number(t, before, "storage", "usedBytes") == 0 {
		t.Fatal("nothing is stored")
	}
	const address = "hooks.invalid/an-address-that-nobody-else-has"
	hook, _ := p.hook(t, object{"url": "https://" + address, "events": []string{"quota.threshold"}})
	p.do(t, "POST", webhooksPath+"/"+hook+"/test", nil).ok(t, http.StatusAccepted)
	p.deleteAccount(t)
	i.audit(t)

	i.travel(t, deletionDays-time.Hour)
	a.do(t, "GET", "/api/users/user/dev-usage", nil).fails(t, http.StatusForbidden, "account_suspended", "")
	i.do(t, "GET", pages[0], request{}).shows(t, http.StatusOK, secret)
	i.travel(t, 2*time.Hour)
	i.restart(t) // in the middle, or before, or after
	var after object
	eventually.NoError(t, "the account is erased", func() error {
		after = i.admin(t, "GET", "/api/admin/accounts/"+a.id, nil).ok(t, http.StatusOK)
		account := at(t, after, "account").(object)
		if account["deletedAt"] == nil || account["email"] != "" || number(t, after, "storage", "usedBytes") != 0 {
			return fmt.Errorf("%v, storage %v", account, after["storage"])
		}
		return nil
	})
	for range i.bases {
		for _, page := range pages {
			if got := i.do(t, "GET", page, request{}); got.status != http.StatusNotFound {
				t.Errorf("%s: %d", page, got.status)
			}
		}
		i.do(t, "GET", stays, request{}).shows(t, http.StatusOK, "stays")
		a.do(t, "GET", "/api/dev/paste-lite/list", nil).fails(t, http.StatusUnauthorized, "invalid_api_key", "")
		a.do(t, "POST", "/api/dev/paste-lite/create", withContent(nil)).fails(t, http.StatusUnauthorized, "invalid_api_key", "")
		i.do(t, "POST", "/api/users/login", request{body: object{"email": p.email, "password": p.password}}).
			fails(t, http.StatusUnauthorized, "invalid_credentials", "")
	}
	if b := text(t, after, "credits", "balance"); b != text(t, before, "credits", "balance") {
		t.Errorf("the balance was %v and is %s", before["credits"], b)
	}
	i.admin(t, "POST", "/api/admin/accounts/"+a.id+"/credits", object{"amount": "1", "reason": "x"}).fails(t, http.StatusNotFound, "not_found", "")
	if listed := i.admin(t, "GET", "/api/admin/accounts?email="+url.QueryEscape(p.email), nil).ok(t, http.StatusOK); len(at(t, listed, "accounts").([]any)) != 0 {
		t.Errorf("the address still has %v", listed)
	}
	i.audit(t)

	i.travel(t, 8*day) // more than journals keep requests
	i.audit(t)
	holdsNoMore(t, filepath.Join(folder, "data"), "billing.db", p.email) // which knows the ids of what was deleted for an hour
	holdsNoMore(t, filepath.Join(folder, "data"), "nats", secret)        // whose journal purges by message, and overwrites later
	holdsNoMore(t, filepath.Join(folder, "data"), "nowhere", address)    // no journal has ever had it

	again := i.do(t, "POST", "/api/users/register", request{body: object{"email": p.email, "password": p.password}}).ok(t, http.StatusCreated)
	if text(t, again, "account", "id") == a.id {
		t.Error("a registration with the same address opened the account that was deleted")
	}
}

// holdsNoMore looks for a text in the data of a single process, but for one folder or file in it.
func holdsNoMore(t *testing.T, data, without, text string) {
	t.Helper()
	if *processes == "many" {
		return // whose servers of read models do not overwrite what they delete
	}
	eventually.NoError(t, "the deleted text leaves the files", func() error {
		return filepath.WalkDir(data, func(path string, entry fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			if entry.IsDir() && entry.Name() == without {
				return fs.SkipDir
			}
			if !entry.Type().IsRegular() || strings.HasPrefix(entry.Name(), without) {
				return nil
			}
			content, err := os.ReadFile(path)
			if err == nil && bytes.Contains(content, []byte(text)) {
				err = fmt.Errorf("%q is in %s", text, path)
			}
			if errors.Is(err, fs.ErrNotExist) {
				err = nil // it is gone by now
			}
			return err
		})
	})
}
