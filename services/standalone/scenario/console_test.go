package scenario

import (
	"archive/zip"
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"html"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"quire.dev/pkg/eventually"
)

// visitor is a browser without scripts.
type visitor struct {
	i       *instance
	source  string
	cookies []*http.Cookie
}

func (i *instance) visitor() *visitor { return &visitor{i: i, source: newSource()} }

func (v *visitor) send(t *testing.T, method, path string, r request) answer {
	t.Helper()
	r.header["Sec-Fetch-Site"] = "same-origin"
	r.source, r.cookies = v.source, v.cookies
	a := v.i.do(t, method, path, r)
	for _, c := range (&http.Response{Header: a.header}).Cookies() {
		v.cookies = []*http.Cookie{c}
		if c.MaxAge < 0 || c.Value == "" {
			v.cookies = nil
		}
	}
	return a
}

func (v *visitor) open(t *testing.T, path string) answer {
	t.Helper()
	return v.send(t, "GET", path, browser())
}

// listen opens a stream of events. It ends with the test.
func (v *visitor) listen(t *testing.T, method, address string) *http.Response {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, address, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range v.cookies {
		r.AddCookie(c)
	}
	r.Header.Set("X-Forwarded-For", v.source)
	res, err := (&http.Client{Transport: &http.Transport{}}).Do(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { res.Body.Close() })
	return res
}

// submit fills in the form of a page and sends it. fields are names and values in turn; hidden ones are the page's.
func (v *visitor) submit(t *testing.T, page answer, action string, fields ...string) answer {
	t.Helper()
	form := regexp.MustCompile(`(?s)<form[^>]* action="` + regexp.QuoteMeta(action) + `".*?</form>`).FindString(string(page.body))
	if form == "" {
		t.Fatalf("%s: no form for %s in\n%.3000s", page.what, action, page.body)
	}
	values := make(url.Values)
	for _, input := range regexp.MustCompile(`<input type="hidden" name="([^"]*)" value="([^"]*)"`).FindAllStringSubmatch(form, -1) {
		values.Set(input[1], input[2])
	}
	for n := 0; n+1 < len(fields); n += 2 {
		if !strings.Contains(form, ` name="`+fields[n]+`"`) {
			t.Errorf("%s: the form has no field %s", page.what, fields[n])
		}
		values.Set(fields[n], fields[n+1])
	}
	r := browser("Content-Type", "application/x-www-form-urlencoded")
	r.body = strings.NewReader(values.Encode())
	return v.send(t, "POST", action, r)
}

// leads asserts a redirect to path.
func (a answer) leads(t *testing.T, path string) {
	t.Helper()
	a.shows(t, http.StatusSeeOther)
	a.hasHeader(t, "Location", path)
	a.hasHeader(t, "Cache-Control", "no-store")
}

func newEmail() string {
	return fmt.Sprintf("visitor%d-%s@example.org", accounts.Add(1), strings.ReplaceAll(newSource(), ".", "-"))
}

const correct = "correct horse battery"

func TestSomebodySignsUpAndMakesAPasteAtOnce(t *testing.T) {
	i := common(t)
	v := i.visitor()
	v.open(t, "/console").leads(t, "/console/sign-in")
	if !strings.Contains(string(v.open(t, "/").body), `href="/console/sign-up"`) {
		t.Error("the landing page does not lead to the form")
	}
	email := newEmail()
	form := v.open(t, "/console/sign-up").shows(t, http.StatusOK, `autocomplete="new-password"`, `href="/console/sign-in"`)
	shown := v.submit(t, form, "/console/sign-up", "email", " "+email+" ", "password", correct).
		shows(t, http.StatusOK, "Welcome to Quire", email, "be shown again", "/api/users/user/dev-usage", "-T main.go "+i.public, "Uses 1 of the 100 quick pastes",
			"You are on the Free plan", "quire.dev/client", "quire-client")
	shown.hasHeader(t, "Cache-Control", "no-store")
	shown.hasHeader(t, "Content-Encoding", "")
	if len(v.cookies) != 1 || !v.cookies[0].HttpOnly || v.cookies[0].SameSite != http.SameSiteLaxMode {
		t.Fatalf("cookies %v", v.cookies)
	}
	key := shownKey(t, shown)
	again := v.submit(t, form, "/console/sign-up", "email", email, "password", correct) // a browser resends the form when its reader goes back
	if shownKey(t, again) != key {
		t.Error("the form sent twice makes two keys")
	}
	made := v.submit(t, shown, "/paste/create", "content", "my first paste").shows(t, http.StatusSeeOther)
	made.hasHeader(t, "X-Quota-Remaining", "")
	v.open(t, made.header.Get("Location")).shows(t, http.StatusOK, "Paste created.", "my first paste", "50 quick paste edits").hides(t, "X-Manage-Token")
	if list := (account{i: i, key: key}).do(t, "GET", "/api/dev/paste-lite/list", nil).ok(t, http.StatusOK); len(list["pastes"].([]any)) != 1 {
		t.Errorf("the account has %v", list)
	}
	v.submit(t, shown, "/paste/create", "content", "my first paste").leads(t, made.header.Get("Location"))
	v.submit(t, shown, "/paste/create", "content", "").shows(t, http.StatusBadRequest, "content-error", key)
	page := v.open(t, "/console").shows(t, http.StatusOK, email, "Free plan", "pasteLite.create", ">100<", ">1<", ">99<",
		"Not on your plan", "2 requests in the last 30 days.", "10.0 GB", "<svg").hides(t, key, "You have no API key yet")
	page.hasHeader(t, "Cache-Control", "no-store")

	before := v.cookies
	v.submit(t, page, "/console/sign-out").leads(t, "/")
	if v.cookies != nil {
		t.Errorf("cookies %v", v.cookies)
	}
	v.cookies = before // a session that is closed stays closed
	v.open(t, "/console").leads(t, "/console/sign-in")
	v.open(t, "/console/keys").leads(t, "/console/sign-in?next=%2Fconsole%2Fkeys")
	v.send(t, "GET", "/console/usage", request{header: map[string]string{}}).fails(t, http.StatusUnauthorized, "session_required", "")
	v.send(t, "GET", "/console/events", request{header: map[string]string{}}).fails(t, http.StatusUnauthorized, "session_required", "")
}

// shownKey is the API key that a page shows.
func shownKey(t *testing.T, page answer) string {
	t.Helper()
	found := regexp.MustCompile(`id="api-key">([^<]+)<`).FindStringSubmatch(string(page.body))
	if found == nil {
		t.Fatalf("%s shows no key:\n%.2000s", page.what, page.body)
	}
	return found[1]
}

// signUp is a visitor with an account.
func (i *instance) signUp(t *testing.T) (v *visitor, email, key string) {
	t.Helper()
	v, email = i.visitor(), newEmail()
	shown := v.submit(t, v.open(t, "/console/sign-up"), "/console/sign-up", "email", email, "password", correct).shows(t, http.StatusOK)
	return v, email, shownKey(t, shown)
}

func TestSomebodySignsInAndGoesOn(t *testing.T) {
	i := common(t)
	email := newEmail()
	i.do(t, "POST", "/api/users/register", request{body: object{"email": email, "password": correct}}).ok(t, http.StatusCreated)
	for next, want := range map[string]string{
		"/docs?q=x#y": "/docs?q=x#y", "": "/console", "//evil.example/": "/console", "https://evil.example/": "/console",
		`/\evil.example`: "/console", "/\t/evil.example": "/console", "evil": "/console", "javascript:alert(1)": "/console",
		"/console/sign-in": "/console", "/console/sign-up?next=%2F": "/console", strings.Repeat("/a", 600): "/console",
	} {
		v := i.visitor()
		form := v.open(t, "/console/sign-in?next="+url.QueryEscape(next)).shows(t, http.StatusOK, `autocomplete="current-password"`)
		v.submit(t, form, "/console/sign-in", "email", strings.ToUpper(email), "password", correct).leads(t, want)
		v.open(t, "/console/sign-in?next="+url.QueryEscape(next)).leads(t, want) // already signed in
		v.open(t, "/console/sign-up").leads(t, "/console")
	}
}

func TestAFormOfTheConsoleThatIsRefusedSaysWhereAndWhy(t *testing.T) {
	i := common(t)
	taken := newEmail()
	i.do(t, "POST", "/api/users/register", request{body: object{"email": taken, "password": correct}}).ok(t, http.StatusCreated)
	for name, test := range map[string]struct {
		path, email, password string
		status                int
		field, says           string
	}{
		"an address that is none":  {"/console/sign-up", `no"address<b>`, correct, 400, "email", "The email must be an email address such as name@example.com."},
		"no address":               {"/console/sign-in", "", correct, 400, "email", "The email is required."},
		"a password that is short": {"/console/sign-up", newEmail(), "1234567", 400, "password", "The password must have 8 to 128 characters."},
		"a password that is long":  {"/console/sign-up", newEmail(), strings.Repeat("p", 129), 400, "password", "8 to 128"},
		"an address that is taken": {"/console/sign-up", taken, "another password", 409, "email", "already"},
		"a wrong password":         {"/console/sign-in", taken, "another password", 401, "", "Invalid email or password"},
		"an address nobody has":    {"/console/sign-in", newEmail(), correct, 401, "", "Invalid email or password"},
	} {
		t.Run(name, func(t *testing.T) {
			v := i.visitor()
			form := v.open(t, test.path+"?next=/docs")
			refused := v.submit(t, form, test.path, "email", test.email, "password", test.password)
			refused.shows(t, test.status, test.says, `name="next" value="/docs"`).hides(t, "<b>", test.password+`"`)
			if want := strings.NewReplacer(`"`, "&#34;", "<", "&lt;", ">", "&gt;").Replace(test.email); !strings.Contains(string(refused.body), `value="`+want+`"`) {
				t.Errorf("what was written is lost:\n%s", refused.body)
			}
			if test.field != "" {
				refused.shows(t, test.status, `id="sign-`+test.field+`-error"`, `aria-invalid="true"`)
			}
			if v.cookies != nil {
				t.Errorf("cookies %v", v.cookies)
			}
		})
	}
	// The same password is not another account: the form was sent twice.
	v := i.visitor()
	form := v.open(t, "/console/sign-up")
	email := newEmail()
	for range 2 {
		v.submit(t, form, "/console/sign-up", "email", email, "password", correct).shows(t, http.StatusOK, "Welcome")
	}
	// A visitor who was on the way to a page gets there. The first key is then created in the console.
	v = i.visitor()
	v.submit(t, v.open(t, "/console/sign-up?next=/docs"), "/console/sign-up", "email", newEmail(), "password", correct).leads(t, "/docs")
	page := v.open(t, "/console").shows(t, http.StatusOK, "You have no API key yet")
	other := v.open(t, "/console/keys").shows(t, http.StatusOK, "You have no API key yet")
	key := shownKey(t, v.submit(t, page, "/console/key"))
	if shownKey(t, v.submit(t, page, "/console/key")) != key {
		t.Error("the form sent twice makes two keys")
	}
	v.submit(t, other, "/console/key").shows(t, http.StatusBadRequest, "already has an API key") // a page that was open all the time
	i.do(t, "GET", "/api/users/user", request{key: key}).ok(t, http.StatusOK)
}

func TestTheConsoleTakesFormsOfItsOwnPagesOnly(t *testing.T) {
	i := common(t)
	v, email, key := i.signUp(t)
	for _, path := range []string{
		"/console/sign-up", "/console/sign-in", "/console/sign-in/keep", "/console/sign-out", "/console/key", "/console/keys", "/console/keys/default", "/console/keys/default/rotate",
		"/console/keys/default/revoke", "/console/spending-cap", "/console/email", "/console/password", "/console/sessions", "/console/sessions/000000000000000000000000", "/console/delete", "/console/export",
		"/console/plan/checkout", "/console/plan/portal", "/console/plan/cancel", "/console/plan/top-up",
		"/console/billing/webhooks", "/console/billing/webhooks/wh_00000000001", "/console/billing/webhooks/wh_00000000001/rotate-secret", "/console/billing/webhooks/wh_00000000001/test",
		"/console/billing/webhooks/wh_00000000001/delete", "/console/billing/webhooks/wh_00000000001/deliveries/evt_1/replay",
		"/console/pastes", "/console/pastes/000000000000", "/console/pastes/000000000000/open", "/console/pastes/000000000000/access", "/console/quick/000000000000/access", "/console/pastes/delete", "/console/quick", "/console/files", "/console/files/delete",
	} {
		for _, header := range [][]string{{"Sec-Fetch-Site", "cross-site"}, {"Sec-Fetch-Site", "same-site"}, {"Origin", "https://evil.example"}} {
			r := browser(append(header, "Content-Type", "application/x-www-form-urlencoded")...)
			r.cookies, r.body = v.cookies, strings.NewReader("email=a@b.example&password="+url.QueryEscape(correct))
			i.page(t, "POST", path, r).shows(t, http.StatusForbidden, "cross_origin").hasHeader(t, "Set-Cookie", "")
			r.header["Accept"] = "application/json"
			r.body = strings.NewReader("email=a@b.example&password=x")
			i.do(t, "POST", path, r).fails(t, http.StatusForbidden, "cross_origin", "")
		}
	}
	for body, code := range map[string]string{"tite=x": "unknown_field", "email=a&email=b": "invalid_field", "email=%ff": "malformed", "%zz": "malformed"} {
		r := request{body: strings.NewReader(body), header: map[string]string{"Content-Type": "application/x-www-form-urlencoded"}}
		i.do(t, "POST", "/console/sign-in", r).fails(t, http.StatusBadRequest, code, "")
	}
	i.do(t, "POST", "/console/sign-in", request{body: `{"email": "x"}`}).fails(t, http.StatusUnsupportedMediaType, "unsupported_media_type", "")
	v.open(t, "/console").shows(t, http.StatusOK, email)
	i.do(t, "GET", "/api/users/user", request{key: key}).ok(t, http.StatusOK)
}

// TestTheConsoleShowsWhatTheMonthCost: overage, spent credits and storage, as dev-usage does.
func TestTheConsoleShowsWhatTheMonthCost(t *testing.T) {
	i := common(t)
	v, email, _ := i.signUp(t)
	id := text(t, v.send(t, "GET", "/api/users/user", request{header: map[string]string{}}).ok(t, http.StatusOK), "account", "id")
	a := account{i: i, id: id, email: email}
	a.setTier(t, "pro")
	a.grant(t, "12.5")
	v.open(t, "/console").shows(t, http.StatusOK, "Pro plan", ">12.50</span>", "12.500000 credits", "5,000", "Requests over quota use credits").
		hides(t, "Not on your plan")
	a.setTier(t, "admin")
	v.open(t, "/console").shows(t, http.StatusOK, "Admin plan", "unlimited")
}

// TestTheConsoleChartsUsageByDay: the values of its table are those that the API has by day.
func TestTheConsoleChartsUsageByDay(t *testing.T) {
	i := common(t)
	v, email, _ := i.signUp(t)
	v.open(t, "/console").shows(t, http.StatusOK, "No requests in the last 30 days.").hides(t, "<figure")
	id := text(t, v.send(t, "GET", "/api/users/user", request{header: map[string]string{}}).ok(t, http.StatusOK), "account", "id")
	a := account{i: i, id: id, email: email}
	a.setTier(t, "pro")
	for n := range 3 {
		name := []string{"<b>ci", "deploy", "deploy"}[n]
		if n == 2 { // a revoked key frees its name
			v.send(t, "DELETE", "/api/users/user/keys/k2", request{header: map[string]string{"Sec-Fetch-Site": "same-origin"}}).ok(t, http.StatusOK)
		}
		made := v.send(t, "POST", "/api/users/user/keys", request{body: object{"name": name}, header: map[string]string{"Sec-Fetch-Site": "same-origin"}}).ok(t, http.StatusCreated)
		for range n + 1 {
			i.do(t, "GET", "/api/dev/paste-lite/list", request{key: text(t, made, "apiKey")}).ok(t, http.StatusOK)
		}
	}
	days := v.send(t, "GET", "/api/users/user/usage", request{header: map[string]string{}}).ok(t, http.StatusOK)["days"].([]any)
	month := text(t, days[0].(object), "day")[:len("2026-11")]
	v.open(t, "/console").shows(t, http.StatusOK, "6 requests in the last 30 days.", "List quick pastes <b>6</b>", "<th class=\"n\" scope=\"col\">Over quota</th>")
	for _, query := range []string{"range=7&by=key", "range=90&by=key&of=requests", "by=key&range=" + month + "&utm_source=x"} {
		v.open(t, "/console?"+query).shows(t, http.StatusOK, "6 requests in ", "&lt;b&gt;ci <b>1</b>", "deploy (k2) <b>2</b>", "deploy (k3) <b>3</b>", "/console/usage?").hides(t, "<b>ci")
	}
	v.open(t, "/console?of=credits").shows(t, http.StatusOK, "No credits spent in the last 30 days.").hides(t, "<figure")
	v.open(t, "/console?range=1970-01").shows(t, http.StatusOK, "No requests in January 1970.")
	v.send(t, "GET", "/console/usage?range=7&by=key", request{header: map[string]string{}}).shows(t, http.StatusOK, "deploy (k3) <b>3</b>")
	for query, field := range map[string]string{"range=6": "range", "range=1969-12": "range", "of=money": "of", "by=day": "by"} {
		v.open(t, "/console?"+query).shows(t, http.StatusBadRequest, field+" must be ")
		v.send(t, "GET", "/console/usage?"+query, request{header: map[string]string{}}).fails(t, http.StatusBadRequest, "invalid_field", "")
	}
}

// TestKeysAreMadeChangedReplacedAndRevokedInTheConsole, and each time the API shows it.
func TestKeysAreMadeChangedReplacedAndRevokedInTheConsole(t *testing.T) {
	i := common(t)
	v, _, first := i.signUp(t)
	page := v.open(t, "/console/keys").shows(t, http.StatusOK, "/console/keys/default", first[:len("qk_")+4]).hides(t, first)
	refused := v.submit(t, page, "/console/keys", "name", "", "scopes", "some", "expiresIn", "30d", "quotas.pastes.get", "many")
	refused.shows(t, http.StatusBadRequest, `aria-invalid="true"`, `value="many"`, "<details open>")
	v.submit(t, page, "/console/keys", "name", "ci", "scopes", "some").shows(t, http.StatusBadRequest, "Choose at least one request, or allow all requests.", "create-scopes-error")
	v.submit(t, page, "/console/keys", "name", "ci", "spendingCap.amount", "much").shows(t, http.StatusBadRequest, "The amount must be from 0", "create-spendingCap-amount-error")
	v.submit(t, page, "/console/keys", "name", strings.Repeat("n", 101)).shows(t, http.StatusBadRequest, "The name must have at most 100 characters.")

	filled := []string{
		"name", "ci", "expiresIn", "30d", "scopes", "some", "scopes.pasteLite.create", "on", "spendingCap.amount", "0.5", "spendingCap.period", "day", "quotas.pasteLite.create", "7",
	}
	page = v.open(t, "/console/keys")
	made := v.submit(t, page, "/console/keys", filled...).shows(t, http.StatusOK, "Your new API key", "Create a quick paste with this key")
	ci := shownKey(t, made)
	if shownKey(t, v.submit(t, page, "/console/keys", filled...)) != ci {
		t.Error("the form sent twice makes two keys")
	}
	quick := func(key string) answer {
		return i.do(t, "POST", "/api/dev/paste-lite/create", request{key: key, body: object{"content": "x"}})
	}
	quick(ci).ok(t, http.StatusCreated)
	i.do(t, "GET", "/api/dev/pastes/list", request{key: ci}).fails(t, http.StatusForbidden, "key_scope", "")
	keys := v.send(t, "GET", "/api/users/user/keys", request{header: map[string]string{}}).ok(t, http.StatusOK)["keys"].([]any)
	if len(keys) != 2 {
		t.Fatalf("%v", keys)
	}
	view := keys[1].(map[string]any)
	if view["name"] != "ci" || fmt.Sprint(view["scopes"]) != "[pasteLite.create]" || fmt.Sprint(view["quotas"]) != "map[pasteLite.create:7]" || view["expiresAt"] == nil ||
		!strings.Contains(fmt.Sprint(view["spendingCap"]), "amount:0.500000 period:day") {
		t.Errorf("made as %v", view)
	}
	path := "/console/keys/" + view["id"].(string)

	one := v.open(t, path).shows(t, http.StatusOK, "ci", ">1<", ">7<", `value="0.5"`)
	v.submit(t, one, path, "name", "build", "scopes", "all", "spendingCap.amount", "", "quotas.pasteLite.create", "").leads(t, path+"?done=key-uncapped")
	v.open(t, path+"?done=key-uncapped").shows(t, http.StatusOK, "<h1>build</h1>", "Changes saved. The key’s spending cap is cleared", "expires <time").hides(t, ">7<")
	i.do(t, "GET", "/api/dev/pastes/list", request{key: ci}).ok(t, http.StatusOK)

	v.submit(t, v.open(t, path), path+"/rotate", "overlap", "0s", "confirm", "ci").shows(t, http.StatusBadRequest, "rotate-confirm-error", "Type “build” to confirm.")
	v.submit(t, v.open(t, path), path+"/rotate", "overlap", "8d").shows(t, http.StatusBadRequest, "rotate-overlap-error")
	replaced := v.submit(t, v.open(t, path), path+"/rotate", "overlap", "1h").shows(t, http.StatusOK, "The old key works until <time")
	next := shownKey(t, replaced)
	quick(ci).ok(t, http.StatusCreated)
	quick(next).ok(t, http.StatusCreated)
	v.open(t, path).shows(t, http.StatusOK, "This key was replaced").hides(t, path+"/rotate")

	v.submit(t, v.open(t, path), path+"/revoke", "confirm", "nonsense").shows(t, http.StatusBadRequest, "revoke-confirm-error")
	quick(ci).ok(t, http.StatusCreated)
	stale := v.open(t, path)
	v.submit(t, stale, path+"/revoke", "confirm", "Build ").leads(t, "/console/keys?done=revoked")
	quick(ci).fails(t, http.StatusUnauthorized, "invalid_api_key", "")
	v.submit(t, one, path+"/rotate", "overlap", "1h").shows(t, http.StatusNotFound) // a page that was open all the time
	v.open(t, "/console/keys?done=revoked").shows(t, http.StatusOK, "Key revoked", "Revoked and expired keys")

	// The default key is replaced at once by its name.
	v.submit(t, v.open(t, "/console/keys/default"), "/console/keys/default/rotate", "overlap", "0s", "confirm", "default").shows(t, http.StatusOK).hides(t, "The old key works until")
	quick(first).fails(t, http.StatusUnauthorized, "invalid_api_key", "")
	for _, missing := range []string{"/console/keys/k999", "/console/keys/nonsense", "/console/keys/k0"} {
		v.open(t, missing).shows(t, http.StatusNotFound)
	}
}

// TestTheSpendingCapIsSetInTheConsole, shown on the overview, and removed.
func TestTheSpendingCapIsSetInTheConsole(t *testing.T) {
	i := common(t)
	v, _, _ := i.signUp(t)
	page := v.open(t, "/console/keys")
	v.submit(t, page, "/console/spending-cap", "amount", "-1", "period", "month").shows(t, http.StatusBadRequest, "cap-amount-error", `value="-1"`)
	v.submit(t, page, "/console/spending-cap", "amount", "1", "period", "week").shows(t, http.StatusBadRequest, "cap-period-error")
	v.submit(t, v.open(t, "/console/keys"), "/console/spending-cap", "amount", "2.5", "period", "day").leads(t, "/console/keys?done=cap")
	v.open(t, "/console").shows(t, http.StatusOK, ">0</span> of <span title=\"2.500000 credits\">2.50</span> per day")
	view := v.send(t, "GET", "/api/users/user/keys", request{header: map[string]string{}}).ok(t, http.StatusOK)
	if got := fmt.Sprint(view["spendingCap"]); !strings.Contains(got, "amount:2.500000 period:day") {
		t.Error(got)
	}
	v.submit(t, v.open(t, "/console/keys"), "/console/spending-cap", "amount", "", "period", "day").leads(t, "/console/keys?done=uncapped")
	v.open(t, "/console/keys?done=uncapped").shows(t, http.StatusOK, "Spending cap cleared.")
	v.open(t, "/console").shows(t, http.StatusOK, "Set a spending cap")
}

// TestAnAccountIsChangedInTheConsole: its email, password and sessions, until it is deleted and kept.
func TestAnAccountIsChangedInTheConsole(t *testing.T) {
	i := common(t)
	v, email, key := i.signUp(t)
	page := v.open(t, "/console/account").shows(t, http.StatusOK, email, "this one")
	moved := newEmail()
	v.submit(t, page, "/console/email", "email", moved, "currentPassword", "wrong password").shows(t, http.StatusForbidden, "email-currentPassword-error", `value="`+moved+`"`).hides(t, "wrong password")
	v.submit(t, page, "/console/email", "email", "none", "currentPassword", correct).shows(t, http.StatusBadRequest, "The email must be an email address such as name@example.com.")
	v.submit(t, v.open(t, "/console/account"), "/console/email", "email", moved, "currentPassword", correct).leads(t, "/console/account?done=email")
	v.open(t, "/console/account?done=email").shows(t, http.StatusOK, moved, "Email changed").hides(t, email)

	other := i.visitor()
	other.submit(t, other.open(t, "/console/sign-in"), "/console/sign-in", "email", moved, "password", correct).leads(t, "/console")
	page = v.open(t, "/console/account")
	v.submit(t, page, "/console/password", "currentPassword", correct, "password", "short").shows(t, http.StatusBadRequest, "password-password-error", "The new password must have 8 to 128 characters.")
	const renewed = "another horse battery"
	v.submit(t, page, "/console/password", "currentPassword", correct, "password", renewed).leads(t, "/console/account?done=password")
	other.open(t, "/console").leads(t, "/console/sign-in") // its session has ended
	other.submit(t, other.open(t, "/console/sign-in"), "/console/sign-in", "email", moved, "password", renewed).leads(t, "/console")

	page = v.open(t, "/console/account")
	ids := regexp.MustCompile(`action="(/console/sessions/[0-9a-f]{24})"`).FindAllStringSubmatch(string(page.body), -1)
	if len(ids) != 2 {
		t.Fatalf("sessions %v", ids)
	}
	for _, id := range ids { // one of them is this one
		if answer := v.submit(t, page, id[1]); answer.header.Get("Location") == "/console/sign-in" {
			v.cookies = nil
			v.submit(t, v.open(t, "/console/sign-in"), "/console/sign-in", "email", moved, "password", renewed).leads(t, "/console")
		}
	}
	other.open(t, "/console").leads(t, "/console/sign-in")

	page = v.open(t, "/console/account")
	v.submit(t, page, "/console/delete", "confirm", email, "currentPassword", renewed).shows(t, http.StatusBadRequest, "delete-confirm-error")
	v.submit(t, page, "/console/delete", "confirm", moved, "currentPassword", "wrong password").shows(t, http.StatusForbidden, "delete-currentPassword-error")
	i.do(t, "GET", "/api/users/user", request{key: key}).ok(t, http.StatusOK)
	v.submit(t, v.open(t, "/console/account"), "/console/delete", "confirm", moved, "currentPassword", renewed).shows(t, http.StatusOK, "Your account will be deleted", "<time")
	i.do(t, "GET", "/api/users/user", request{key: key}).fails(t, http.StatusForbidden, "account_suspended", "")
	if v.cookies != nil {
		t.Errorf("cookies %v", v.cookies)
	}
	asked := v.submit(t, v.open(t, "/console/sign-in"), "/console/sign-in", "email", moved, "password", renewed)
	v.submit(t, asked.shows(t, http.StatusConflict, "Keep your account?"), "/console/sign-in/keep").leads(t, "/console?done=kept")
	i.do(t, "GET", "/api/users/user", request{key: key}).ok(t, http.StatusOK)
	page = v.open(t, "/console/account")
	v.submit(t, page, "/console/sessions").leads(t, "/console/sign-in")
	v.open(t, "/console").leads(t, "/console/sign-in")
}

// TestAnArchiveIsMadeInTheConsole, and is downloaded by the link on its page.
func TestAnArchiveIsMadeInTheConsole(t *testing.T) {
	i := common(t)
	v, email, key := i.signUp(t)
	i.do(t, "POST", "/api/dev/paste-lite/create", request{key: key, body: object{"content": "kept in the archive"}}).ok(t, http.StatusCreated)
	v.open(t, "/console/account").shows(t, http.StatusOK, `href="/console/export"`)
	page := v.open(t, "/console/export").shows(t, http.StatusOK, email, "Create an archive").hides(t, "Download")
	page.hasHeader(t, "Refresh", "")
	v.submit(t, page, "/console/export").leads(t, "/console/export")
	v.submit(t, page, "/console/export").leads(t, "/console/export") // sent twice
	eventually.NoError(t, "the archive is ready", func() error {     // by the API: pages are limited
		state := text(t, v.send(t, "GET", "/api/users/user/export", request{header: map[string]string{}}).ok(t, http.StatusOK), "export", "status")
		if state != "ready" {
			return errors.New(state)
		}
		return nil
	})
	page = v.open(t, "/console/export").shows(t, http.StatusOK, "Download", "Create a new archive")
	page.hasHeader(t, "Refresh", "")
	link := regexp.MustCompile(`href="([^"]*/exports/[^"]*)"`).FindStringSubmatch(string(page.body))
	if link == nil {
		t.Fatalf("no link in %s", page.body)
	}
	got := i.do(t, "GET", html.UnescapeString(link[1]), request{})
	files, err := zip.NewReader(bytes.NewReader(got.body), int64(len(got.body)))
	if err != nil || len(files.File) < 6 {
		t.Errorf("%d, %v", got.status, err)
	}
	v.cookies = nil
	v.open(t, "/console/export").leads(t, "/console/sign-in?next=%2Fconsole%2Fexport")
}

// TestAPageOfAnotherAccountChangesNothing: somebody signs in to another account while a page of the first one is open.
func TestAPageOfAnotherAccountChangesNothing(t *testing.T) {
	i := common(t)
	v, email, _ := i.signUp(t)
	stale := v.open(t, "/console/keys/default")
	other, _, key := i.signUp(t)
	v.cookies = other.cookies
	v.submit(t, stale, "/console/keys/default/revoke", "confirm", "default").shows(t, http.StatusBadRequest, "signed in to another account").hides(t, email)
	i.do(t, "GET", "/api/users/user", request{key: key}).ok(t, http.StatusOK)
}

// TestAPageIsToldOfNewRequests as they arrive, through another edge if there are two, until its session ends. At most eight
// pages of an account listen on one edge.
func TestAPageIsToldOfNewRequests(t *testing.T) {
	i := common(t)
	v, _, key := i.signUp(t)
	edge := i.edge()
	listen := func() *http.Response { return v.listen(t, http.MethodGet, edge+"/console/events") }
	const most = 8
	var first *bufio.Scanner
	for n := range most {
		res := listen()
		if res.StatusCode != http.StatusOK || res.Header.Get("Content-Type") != "text/event-stream" || res.Header.Get("Cache-Control") != "no-store" {
			t.Fatalf("%d: %d %v", n, res.StatusCode, res.Header)
		}
		lines := bufio.NewScanner(res.Body)
		if !lines.Scan() || lines.Text() != "event: rest" {
			t.Fatalf("%d begins with %q", n, lines.Text())
		}
		if n == 0 {
			first = lines
		}
	}
	if res := listen(); res.StatusCode != http.StatusTooManyRequests || res.Header.Get("Retry-After") == "" {
		t.Errorf("one more: %d %v", res.StatusCode, res.Header)
	}
	told := make(chan string)
	go func() {
		defer close(told)
		for first.Scan() {
			if strings.HasPrefix(first.Text(), "data: ") {
				told <- first.Text()
			}
		}
	}()
	create := func() {
		i.do(t, "POST", "/api/dev/paste-lite/create", request{key: key, body: object{"content": "x"}}).ok(t, http.StatusCreated)
	}
	// A request between the first query and its response would be included in it, so that nothing has changed since: send one
	// more.
	for n := 0; ; n++ {
		create()
		select {
		case line := <-told:
			if line != "data: changed" {
				t.Errorf("told %q", line)
			}
		case <-time.After(3 * time.Second):
			if n < 10 {
				continue
			}
			t.Fatal("nothing is told")
		}
		break
	}
	v.send(t, "GET", "/console/usage", request{header: map[string]string{}}).shows(t, http.StatusOK, "pasteLite.create").hides(t, "<html")
	v.submit(t, v.open(t, "/console/account"), "/console/sessions").leads(t, "/console/sign-in")
	deadline := time.After(time.Minute)
	for ended := false; !ended; { // earlier events say nothing of the account
		select {
		case _, open := <-told:
			ended = !open
		case <-deadline:
			t.Fatal("a page listens on after its session has ended")
		}
	}
}
