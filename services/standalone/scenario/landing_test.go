package scenario

import (
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
)

// pasteForm is a request as a browser sends the landing page's form. fields are names and values in turn.
func pasteForm(source string, fields ...string) request {
	values := url.Values{
		"content": {"x"}, "title": {""}, "language": {"plaintext"}, "visibility": {"unlisted"}, "expiresIn": {"30d"}, "password": {""}, "once": {""},
	}
	for n := 0; n+1 < len(fields); n += 2 {
		values.Set(fields[n], fields[n+1])
	}
	r := browser("Content-Type", "application/x-www-form-urlencoded", "Sec-Fetch-Site", "same-origin")
	r.body, r.source = strings.NewReader(values.Encode()), source
	return r
}

func (i *instance) sendPasteForm(t *testing.T, source string, fields ...string) answer {
	t.Helper()
	return i.page(t, "POST", "/paste/create", pasteForm(source, fields...))
}

func TestTheLandingPageMakesAQuickPaste(t *testing.T) {
	i := common(t)
	source := newSource()
	landing := browser()
	landing.source = source
	i.page(t, "GET", "/", landing).shows(t, http.StatusOK, `action="/paste/create"`, "10 of 10 anonymous pastes left per 24 hours",
		"curl -F 'f=&lt;-' "+i.public, "curl -T main.go "+i.public, "curl --data-binary @notes.txt "+i.public,
		`href="/console/sign-up"`, `href="/console/sign-in"`, "All systems operational.",
		"10 GB", "$0.03", "10,000 <small>then 0.001</small>", `<td class="n">unlimited</td>`)

	content := "first\r\n\r\n<b>ü</b> & more\r\n" // as a browser writes line ends
	made := i.sendPasteForm(t, source, "content", content, "title", "a <title>.go", "language", "go", "expiresIn", "1h").
		shows(t, http.StatusCreated, "be shown again", "9 anonymous pastes left")
	made.hasHeader(t, "Cache-Control", "no-store")
	made.hasHeader(t, "Content-Encoding", "")
	path := made.header.Get("Location")
	if !strings.HasPrefix(path, "/q/") || !strings.Contains(string(made.body), i.public+path) {
		t.Fatalf("Location %q, %s", path, made.body)
	}
	if raw := i.do(t, "GET", path+"/raw", request{}); string(raw.body) != "first\n\n<b>ü</b> & more\n" {
		t.Errorf("the content is %q", raw.body)
	}
	i.page(t, "GET", path, browser()).shows(t, http.StatusOK, "a &lt;title&gt;.go")
	landing.header = browser().header
	i.page(t, "GET", "/", landing).shows(t, http.StatusOK, "9 of 10 anonymous pastes left per 24 hours").hides(t, "Next one")

	keyed := pasteForm(source)
	keyed.header["x-api-key"] = i.account(t, "pro").key
	i.page(t, "POST", "/paste/create", keyed).shows(t, http.StatusCreated).hides(t, "anonymous pastes left")

	token := regexp.MustCompile(`id="token">([^<]+)<`).FindSubmatch(made.body)
	if token == nil {
		t.Fatalf("no token in %s", made.body)
	}
	i.do(t, "DELETE", "/api/dev/paste-lite/delete/"+strings.TrimPrefix(path, "/q/"), request{
		header: map[string]string{"X-Manage-Token": string(token[1])},
	}).ok(t, http.StatusOK)
	i.page(t, "GET", path, browser()).shows(t, http.StatusNotFound)
}

func TestAFormThatIsSentAgainMakesOnePaste(t *testing.T) {
	i := common(t)
	source := newSource()
	first := i.sendPasteForm(t, source, "content", "a", "once", "ABC")
	again := i.sendPasteForm(t, source, "content", "a", "once", "ABC")
	if again.status != http.StatusCreated || again.header.Get("Location") != first.header.Get("Location") {
		t.Errorf("%d %q, then %d %q", first.status, first.header.Get("Location"), again.status, again.header.Get("Location"))
	}
	named := func(content string) answer {
		r := pasteForm(source, "content", content)
		r.header["Idempotency-Key"] = "one"
		return i.page(t, "POST", "/paste/create", r)
	}
	made, replayed := named("c"), named("c")
	replayed.shows(t, http.StatusCreated).hasHeader(t, "Idempotency-Replayed", "true")
	replayed.hasHeader(t, "Location", made.header.Get("Location"))
	replayed.hasHeader(t, "RateLimit-Policy", `"pasteLite.create";q=10`)
	named("d").shows(t, http.StatusUnprocessableEntity, "This form was sent before with other input.")
	if i.sendPasteForm(t, source, "content", "b", "once", "ABC").header.Get("Location") == first.header.Get("Location") {
		t.Error("another text is the same paste")
	}
	landing := browser()
	landing.source = source
	i.page(t, "GET", "/", landing).shows(t, http.StatusOK, "7 of 10 anonymous pastes left")
}

func TestAFormThatIsRefusedKeepsTheText(t *testing.T) {
	i := common(t)
	source := newSource()
	kept := "line one\n</textarea><script>alert(1)</script>"
	for field, test := range map[string]struct{ value, message string }{
		"title":      {strings.Repeat("t", 201), "The title must"},
		"language":   {"c sharp", "The language may only have"},
		"visibility": {"private", "must not be private without an account"},
		"expiresIn":  {"1y", "must be between 1 minute and 30 days"},
		"password":   {strings.Repeat("p", 129), "The password must have 1 to 128 characters"},
	} {
		a := i.sendPasteForm(t, source, "content", kept, field, test.value, "burnAfterRead", "true").
			shows(t, http.StatusBadRequest, test.message, `id="`+field+`-error"`, field+`-error" autofocus`,
				"line one\n&lt;/textarea&gt;&lt;script&gt;", `value="true" checked`).
			hides(t, "<script>alert")
		if strings.Count(string(a.body), `aria-invalid="true"`) != 1 {
			t.Errorf("%s: another field is marked too", field)
		}
	}
	// Pages show no password, and one that got lost here would make a paste without.
	i.sendPasteForm(t, source, "title", strings.Repeat("t", 201), "password", "the password").
		shows(t, http.StatusBadRequest, ` required aria-describedby="password-hint"`, "Enter the password again", "<details open>").hides(t, "the password\"")
	i.sendPasteForm(t, source, "content", "").shows(t, http.StatusBadRequest, "Enter some text.", `id="content-error"`)
	i.sendPasteForm(t, source, "content", strings.Repeat("\n", quickBytes)).shows(t, http.StatusCreated)
	i.sendPasteForm(t, source, "content", strings.Repeat("ü", quickBytes/2)+"x").shows(t, http.StatusRequestEntityTooLarge, "at most 256 KB", "üü")

	for range anonLimit - 1 {
		i.sendPasteForm(t, source).shows(t, http.StatusCreated)
	}
	i.sendPasteForm(t, source, "content", kept, "title", "kept too").
		shows(t, http.StatusTooManyRequests, "You have created 10 quick pastes in 24 hours, the most without an account.", "line one", "kept too", "0 of 10 anonymous pastes left", "Next one in 24 hours.")
}

func TestTheFormTakesNothingElse(t *testing.T) {
	i := common(t)
	source := newSource()
	i.sendPasteForm(t, source, "contents", "x").shows(t, http.StatusBadRequest, "Unknown field")
	i.sendPasteForm(t, source, "once", strings.Repeat("x", 65)).shows(t, http.StatusBadRequest)
	for header, value := range map[string]string{"Sec-Fetch-Site": "cross-site", "Content-Type": "text/plain"} {
		r := pasteForm(source)
		r.header = maps.Clone(r.header)
		r.header[header] = value
		a := i.page(t, "POST", "/paste/create", r)
		if a.status != http.StatusForbidden && a.status != http.StatusUnsupportedMediaType {
			t.Errorf("%s %s: %d", header, value, a.status)
		}
	}
	r := pasteForm(source, "content", "")
	delete(r.header, "Accept")
	i.do(t, "POST", "/paste/create", r).fails(t, http.StatusBadRequest, "invalid_field", "content is required")
	landing := browser()
	landing.source = source
	i.page(t, "GET", "/", landing).shows(t, http.StatusOK, "10 of 10 anonymous pastes left")
}

func TestTheFormMakesPastesWithAPasswordAndThatBurn(t *testing.T) {
	i := common(t)
	source := newSource()
	var secret answer
	for range 2 { // the answer to a form that is sent again says the same
		secret = i.sendPasteForm(t, source, "content", "the secret", "password", "pass", "once", "ABC").
			shows(t, http.StatusCreated, "password protected").hides(t, "/raw", "the secret")
	}
	i.page(t, "GET", secret.header.Get("Location"), browser()).shows(t, http.StatusOK, "Password").hides(t, "the secret")
	burning := i.sendPasteForm(t, source, "content", "the secret", "burnAfterRead", "true").
		shows(t, http.StatusCreated, "Do not open it yourself").hides(t, "/raw")
	i.page(t, "GET", burning.header.Get("Location"), browser()).shows(t, http.StatusOK, "It can be read once").hides(t, "the secret")
}

// TestTheLandingPageHasTheLivePrices starts with another limit than the published one.
func TestTheLandingPageHasTheLivePrices(t *testing.T) {
	i := start(t, with("QUIRE_ANON_LIMIT", "3"))
	i.page(t, "GET", "/", browser()).shows(t, http.StatusOK, fmt.Sprintf("%d of %d anonymous pastes left", 3, 3), "5,000 <small>then 0.0005</small>")
}
