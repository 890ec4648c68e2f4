package scenario

import (
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
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

// leads holds an answer to a redirect to path.
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

func TestSomebodySignsUpMakesAKeyAndSignsOut(t *testing.T) {
	i := common(t)
	v := i.visitor()
	v.open(t, "/console").leads(t, "/console/sign-in")
	if !strings.Contains(string(v.open(t, "/").body), `href="/console/sign-up"`) {
		t.Error("the landing page does not lead to the form")
	}
	email := newEmail()
	form := v.open(t, "/console/sign-up").shows(t, http.StatusOK, `autocomplete="new-password"`, `href="/console/sign-in"`)
	v.submit(t, form, "/console/sign-up", "email", " "+email+" ", "password", correct).leads(t, "/console")
	if len(v.cookies) != 1 || !v.cookies[0].HttpOnly || v.cookies[0].SameSite != http.SameSiteLaxMode {
		t.Fatalf("cookies %v", v.cookies)
	}
	account := v.open(t, "/console").shows(t, http.StatusOK, email, "Free plan", "You have no key yet", "pasteLite.create", ">100<",
		"not on your plan", "0.000000", "10.0 GiB")
	account.hasHeader(t, "Cache-Control", "no-store")

	shown := v.submit(t, account, "/console/key").shows(t, http.StatusOK, "shown this once", "/api/users/user/dev-usage", "-T main.go "+i.public)
	shown.hasHeader(t, "Cache-Control", "no-store")
	shown.hasHeader(t, "Content-Encoding", "")
	key := regexp.MustCompile(`id="api-key">([^<]+)<`).FindStringSubmatch(string(shown.body))[1]
	keyed := pipe("x", "x-api-key", key)
	i.do(t, "POST", "/", keyed).line(t, i)
	again := v.submit(t, account, "/console/key") // a browser sends the form again where its reader goes back
	if !strings.Contains(string(again.body), key) {
		t.Error("the form sent twice makes two keys")
	}
	account = v.open(t, "/console").shows(t, http.StatusOK, "Your key begins with", key[:len("qk_")], ">1<", ">99<").hides(t, key)
	other := v.submit(t, account, "/console/key").shows(t, http.StatusOK).hides(t, key)
	i.do(t, "GET", "/api/users/user", request{key: key}).fails(t, http.StatusUnauthorized, "invalid_api_key", "")
	key = regexp.MustCompile(`id="api-key">([^<]+)<`).FindStringSubmatch(string(other.body))[1]
	i.do(t, "GET", "/api/users/user", request{key: key}).ok(t, http.StatusOK)

	before := v.cookies
	v.submit(t, account, "/console/sign-out").leads(t, "/")
	if v.cookies != nil {
		t.Errorf("cookies %v", v.cookies)
	}
	v.cookies = before // a session that is closed stays closed
	v.open(t, "/console").leads(t, "/console/sign-in")
	v.submit(t, account, "/console/key").leads(t, "/console/sign-in")
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
		v.open(t, "/console/sign-in?next="+url.QueryEscape(next)).leads(t, want) // there is nothing to sign in for
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
		"an address that is none":  {"/console/sign-up", `no"address<b>`, correct, 400, "email", "The email must be an email address."},
		"no address":               {"/console/sign-in", "", correct, 400, "email", "The email must be an email address."},
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
				refused.shows(t, test.status, `id="`+test.field+`-error"`, `aria-invalid="true"`)
			}
			if v.cookies != nil {
				t.Errorf("cookies %v", v.cookies)
			}
		})
	}
	// The same password is no other account: the form was sent twice.
	v := i.visitor()
	form := v.open(t, "/console/sign-up")
	email := newEmail()
	for range 2 {
		v.submit(t, form, "/console/sign-up", "email", email, "password", correct).leads(t, "/console")
	}
}

func TestTheConsoleTakesFormsOfItsOwnPagesOnly(t *testing.T) {
	i := common(t)
	v := i.visitor()
	v.submit(t, v.open(t, "/console/sign-up"), "/console/sign-up", "email", newEmail(), "password", correct).leads(t, "/console")
	for _, path := range []string{"/console/sign-up", "/console/sign-in", "/console/sign-out", "/console/key"} {
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
	v.open(t, "/console").shows(t, http.StatusOK, "You have no key yet")
}

// TestTheConsoleShowsWhatTheMonthCost: overage, spent credits and storage, as dev-usage does.
func TestTheConsoleShowsWhatTheMonthCost(t *testing.T) {
	i := common(t)
	v := i.visitor()
	email := newEmail()
	v.submit(t, v.open(t, "/console/sign-up"), "/console/sign-up", "email", email, "password", correct).leads(t, "/console")
	id := text(t, v.send(t, "GET", "/api/users/user", request{header: map[string]string{}}).ok(t, http.StatusOK), "account", "id")
	a := account{i: i, id: id, email: email}
	a.setTier(t, "pro")
	a.grant(t, "12.5")
	v.open(t, "/console").shows(t, http.StatusOK, "Pro plan", "12.500000", "5,000", "A request beyond its limit is paid from them").
		hides(t, "not on your plan")
	a.setTier(t, "admin")
	v.open(t, "/console").shows(t, http.StatusOK, "Admin plan", "unlimited")
}
