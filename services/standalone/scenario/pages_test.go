package scenario

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"quire.dev/pkg/eventually"
)

// browser is a request as a browser sends it. header is names and values in turn.
func browser(header ...string) request {
	r := request{header: map[string]string{"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}}
	for n := 0; n+1 < len(header); n += 2 {
		r.header[header[n]] = header[n+1]
	}
	return r
}

// page is the answer to a request, which must be HTML.
func (i *instance) page(t *testing.T, method, path string, r request) answer {
	t.Helper()
	a := i.do(t, method, path, r)
	if !strings.HasPrefix(a.header.Get("Content-Type"), "text/html") {
		t.Errorf("%s: %d, type %q", a.what, a.status, a.header.Get("Content-Type"))
	}
	return a
}

func TestPagesShowWhatIsPublic(t *testing.T) {
	eachKind(t, func(t *testing.T, k kind) {
		i := common(t)
		a := i.account(t, "pro")
		content := "first line\n\t<script>alert('x')</script> & more\n"
		path := k.page + k.make(t, a, object{
			"content": content, "title": "A <title>", "visibility": "public", "language": "html", "tags": []string{"one"},
		})
		page := i.page(t, "GET", path, browser()).
			shows(t, http.StatusOK, ">first line\n</span>", "&lt;", "&amp; more", "A &lt;title&gt;", "HTML", "#one", `id="L2"`, `href="#L2"`,
				`"`+path+`/raw"`, `"`+path+`/download"`, `<meta property="og:url" content="`+i.public+path+`">`).
			hides(t, "<script>alert", "A <title>")
		page.hasHeader(t, "X-Robots-Tag", "")
		if csp := page.header.Get("Content-Security-Policy"); !strings.Contains(csp, "default-src 'none'") {
			t.Errorf("Content-Security-Policy %q", csp)
		}
		i.page(t, "GET", path, request{}).shows(t, http.StatusOK, "&amp; more")
		i.do(t, "HEAD", path, request{}).shows(t, http.StatusOK)
		i.do(t, "PUT", path, request{header: map[string]string{"Accept": "application/json"}}).fails(t, http.StatusMethodNotAllowed, "method_not_allowed", "")
		i.page(t, "GET", k.page+k.make(t, a, nil), browser()).hasHeader(t, "X-Robots-Tag", "noindex, nofollow")

		raw := i.do(t, "GET", path+"/raw", browser())
		if raw.status != http.StatusOK || string(raw.body) != content {
			t.Errorf("raw: %d %q", raw.status, raw.body)
		}
		for name, want := range map[string]string{
			"X-Content-Type-Options": "nosniff", "Content-Type": "text/plain; charset=utf-8", "ETag": `"1"`, "Accept-Ranges": "bytes",
			"Content-Security-Policy": "sandbox; default-src 'none'; frame-ancestors 'none'",
		} {
			raw.hasHeader(t, name, want)
		}
		for _, end := range []string{"/raw", "/download"} {
			i.do(t, "GET", path+end+"?version=1", browser()).fails(t, http.StatusBadRequest, "invalid_field", "")
		}
		i.do(t, "GET", path+"/raw?v=1", browser()).shows(t, http.StatusOK) // another parameter says nothing
		saved := i.do(t, "GET", path+"/download", browser())
		if saved.status != http.StatusOK || string(saved.body) != content {
			t.Errorf("download: %d %q", saved.status, saved.body)
		}
		saved.hasHeader(t, "Content-Disposition", `attachment; filename="A -title.html"`)
		saved.hasHeader(t, "Content-Security-Policy", "sandbox; default-src 'none'; frame-ancestors 'none'")
		part := i.do(t, "GET", path+"/raw", browser("Range", "bytes=2-4"))
		if part.status != http.StatusPartialContent || string(part.body) != "rst" {
			t.Errorf("range: %d %q", part.status, part.body)
		}
		part.hasHeader(t, "Content-Range", fmt.Sprintf("bytes 2-4/%d", len(content)))
		i.do(t, "GET", path+"/raw", browser("Range", "bytes=500-")).fails(t, http.StatusRequestedRangeNotSatisfiable, "range_not_satisfiable", "")
		if same := i.do(t, "GET", path+"/raw", browser("If-None-Match", `"1"`)); same.status != http.StatusNotModified || len(same.body) > 0 {
			t.Errorf("%d %q", same.status, same.body)
		}
		i.do(t, "GET", path+"/raw", browser("If-None-Match", `"2"`)).shows(t, http.StatusOK)
		if used := a.used(t, k.get); used != 0 {
			t.Errorf("pages were counted: %d", used)
		}
	})
}

func TestPagesOfWhatIsNotThere(t *testing.T) {
	eachKind(t, func(t *testing.T, k kind) {
		i := common(t)
		private := k.make(t, i.account(t, "pro"), object{"content": "secret", "visibility": "private"})
		for _, missing := range []string{private, "000000000000", "x", "%00"} {
			path := k.page + missing
			i.page(t, "GET", path, browser()).shows(t, http.StatusNotFound, "<!doctype html>").hides(t, "secret")
			i.page(t, "POST", path, browser()).shows(t, http.StatusNotFound).hides(t, "secret")
			i.do(t, "GET", path, request{}).fails(t, http.StatusNotFound, "not_found", "")
			i.do(t, "GET", path+"/raw", browser()).fails(t, http.StatusNotFound, "not_found", "")
		}
	})
}

func TestAPathThatDoesNotExistIsAPageForABrowser(t *testing.T) {
	i := common(t)
	for _, path := range []string{"/nothing", "/nothing?x=1", "/nothing/here", "/p", "/docs/guides/nothing"} {
		i.page(t, "GET", path, browser()).shows(t, http.StatusNotFound, "<!doctype html>")
		i.do(t, "GET", path, request{}).fails(t, http.StatusNotFound, "not_found", "")
	}
	i.do(t, "GET", "/api/nothing", browser()).fails(t, http.StatusNotFound, "not_found", "")
	i.do(t, "POST", "/nothing", browser()).fails(t, http.StatusNotFound, "not_found", "")
}

func TestAPageShowsTheBeginningOfALargeText(t *testing.T) {
	i := common(t)
	a := i.account(t, "pro")
	content := "é" + strings.Repeat("ю", 400<<10) // the page ends within a character
	path := "/p/" + a.paste(t, object{"content": content})
	shown := i.page(t, "GET", path, browser()).shows(t, http.StatusOK, "Only the beginning is shown.", "éюю").hides(t, "\uFFFD")
	if len(shown.body) < 500<<10 || len(shown.body) > 540<<10 {
		t.Errorf("a page of %d bytes", len(shown.body))
	}
	if raw := i.do(t, "GET", path+"/raw", request{}); string(raw.body) != content {
		t.Errorf("%d bytes of %d", len(raw.body), len(content))
	}
	whole := "/p/" + a.paste(t, object{"content": strings.Repeat("x", 100<<10) + "the end"}) // stored as a blob
	i.page(t, "GET", whole, browser()).shows(t, http.StatusOK, "xthe end\n</span></span></code>").hides(t, "Only the beginning")
}

func TestABurningPasteIsShownAfterAClickOnly(t *testing.T) {
	eachKind(t, func(t *testing.T, k kind) {
		i := common(t)
		a := i.account(t, "pro")
		contents := []string{"the secret content", strings.Repeat("long ", 40<<10) + "the secret content"}
		if k.name == "paste" {
			contents = append(contents, strings.Repeat("long ", 150<<10)+"the secret content") // longer than a page of another paste would be
		}
		for _, content := range contents {
			id := k.make(t, a, object{"content": content, "title": "its title", "visibility": "unlisted", "burnAfterRead": true})
			path := k.page + id
			for range 3 { // previews
				i.page(t, "GET", path, browser()).shows(t, http.StatusOK, `method="post"`, "It can be read once").
					hides(t, "the secret content", "its title").hasHeader(t, "Cache-Control", "no-store")
				i.do(t, "HEAD", path, request{}).shows(t, http.StatusOK).hides(t, "the secret content")
			}
			i.do(t, "GET", path+"/raw", request{}).fails(t, http.StatusForbidden, "confirmation_required", "")
			for _, foreign := range []request{browser("Sec-Fetch-Site", "cross-site"), browser("Origin", "https://evil.example")} {
				i.page(t, "POST", path, foreign).shows(t, http.StatusForbidden).hides(t, "the secret content")
			}
			i.page(t, "POST", path, browser("Sec-Fetch-Site", "same-origin")).
				shows(t, http.StatusOK, "the secret content\n</span></span></code>", "its title", "now deleted").
				hides(t, "/raw", "Only the beginning").hasHeader(t, "Cache-Control", "no-store")
			i.page(t, "POST", path, browser("Sec-Fetch-Site", "same-origin")).shows(t, http.StatusNotFound).hides(t, "the secret content")
			i.page(t, "GET", path, browser()).shows(t, http.StatusNotFound)
			i.do(t, "GET", path+"/raw", request{}).fails(t, http.StatusNotFound, "not_found", "")
			a.do(t, "GET", k.base+"get/"+id, nil).fails(t, http.StatusNotFound, "not_found", "")
		}
	})
}

func TestOfManyClicksOneShowsThePaste(t *testing.T) {
	i := common(t)
	path := "/q/" + i.account(t, "pro").quick(t, object{"content": "only one sees this", "burnAfterRead": true})
	var shown, gone atomic.Int64
	var group sync.WaitGroup
	for range 16 {
		group.Go(func() {
			got, err := i.try(t.Context(), "POST", path, browser())
			switch {
			case err != nil:
				t.Error(err)
			case got.status == http.StatusOK:
				shown.Add(1)
			case got.status == http.StatusNotFound:
				gone.Add(1)
			}
		})
	}
	group.Wait()
	if shown.Load() != 1 || gone.Load() != 15 {
		t.Errorf("%d saw it, %d did not", shown.Load(), gone.Load())
	}
}

func TestAPageAsksForThePassword(t *testing.T) {
	i := common(t)
	a := i.account(t, "pro")
	const form = "application/x-www-form-urlencoded"
	submit := func(contentType, body string) request {
		r := browser("Content-Type", contentType)
		r.body = body
		return r
	}
	path := "/p/" + a.paste(t, object{"content": "the content", "title": "its title", "password": "pä ss&1"})
	i.page(t, "GET", path, browser()).shows(t, http.StatusOK, `type="password"`).hides(t, "the content", "its title")
	i.page(t, "POST", path, submit(form, "password=wrong")).shows(t, http.StatusForbidden, "Wrong password.").hides(t, "the content", "its title")
	i.page(t, "POST", path, browser()).shows(t, http.StatusForbidden).hides(t, "the content")
	i.page(t, "POST", path, submit(form, "password=p%C3%A4+ss%261")).shows(t, http.StatusOK, "the content", "its title").hides(t, "/raw")
	for _, wrong := range []struct {
		body, contentType, code string
		status                  int
	}{
		{"password=wrong", form, "wrong_password", 403},
		{"password=a&password=b", form, "invalid_field", 400},
		{"pass=a", form, "unknown_field", 400},
		{"password=%zz", form, "malformed", 400},
		{`{"password":"a"}`, "application/json", "unsupported_media_type", 415},
		{strings.Repeat("x", 20<<10), form, "too_large", 413},
	} {
		r := submit(wrong.contentType, wrong.body)
		delete(r.header, "Accept")
		i.do(t, "POST", path, r).fails(t, wrong.status, wrong.code, "")
	}
	i.do(t, "GET", path+"/raw", request{}).fails(t, http.StatusForbidden, "wrong_password", "")
	i.do(t, "GET", path+"/raw", browser("X-Paste-Password", "no")).fails(t, http.StatusForbidden, "wrong_password", "")
	i.do(t, "GET", path+"/raw", browser("X-Paste-Password", "pä ss&1")).shows(t, http.StatusOK, "the content").hasHeader(t, "Cache-Control", "no-store")

	both := "/p/" + a.paste(t, object{"content": "the content", "password": "right", "burnAfterRead": true})
	i.page(t, "GET", both, browser()).shows(t, http.StatusOK, `type="password"`, "It can be read once").hides(t, "the content")
	i.page(t, "POST", both, submit(form, "password=wrong")).shows(t, http.StatusForbidden).hides(t, "the content")
	i.page(t, "POST", both, submit(form, "password=right")).shows(t, http.StatusOK, "the content", "now deleted")
	i.page(t, "POST", both, submit(form, "password=right")).shows(t, http.StatusNotFound)
}

func TestGuessingAPasswordIsLimitedBySource(t *testing.T) {
	i := common(t)
	path := "/p/" + i.account(t, "pro").paste(t, object{"password": "right"}) + "/raw"
	source := newSource()
	guess := func(password string) answer {
		return i.do(t, "GET", path, request{source: source, header: map[string]string{"X-Paste-Password": password}})
	}
	long := strings.Repeat("x", 600) // is refused without being hashed: that takes long
	guesses := i.untilRefused(t, "too_many_failures", func() answer { return guess(long) }, func(got answer) {
		got.fails(t, http.StatusForbidden, "wrong_password", "")
	})
	if guesses < 101 {
		t.Errorf("refused after %d guesses", guesses)
	}
	for _, password := range []string{"wrong", "right"} {
		guess(password).fails(t, http.StatusTooManyRequests, "too_many_failures", "")
	}
}

func TestPagesOfFiles(t *testing.T) {
	i := common(t)
	a := i.account(t, "pro")
	const content = "<script>alert(1)</script>"
	upload := func(query string) string {
		r := request{body: content, header: map[string]string{"Content-Type": "text/html"}}
		return "/f/" + text(t, a.with(t, "POST", "/api/dev/files/upload?"+query, r).ok(t, http.StatusCreated), "id")
	}
	path := upload("name=%3Cb%3E.html")
	i.page(t, "GET", path, browser()).shows(t, http.StatusOK, "&lt;b&gt;.html", "25 bytes", path+"/raw", "text/html").hides(t, "<b>", "alert(1)")
	raw := i.do(t, "GET", path+"/raw", browser())
	if !strings.HasPrefix(raw.header.Get("Content-Disposition"), "attachment") || string(raw.body) != content {
		t.Errorf("%v %q", raw.header, raw.body)
	}
	raw.hasHeader(t, "X-Content-Type-Options", "nosniff")
	raw.hasHeader(t, "Content-Security-Policy", "sandbox; default-src 'none'")
	if part := i.do(t, "GET", path+"/raw", browser("Range", "bytes=-9")); part.status != http.StatusPartialContent || string(part.body) != "</script>" {
		t.Errorf("%d %q", part.status, part.body)
	}
	if same := i.do(t, "GET", path+"/raw", browser("If-None-Match", raw.header.Get("ETag"))); same.status != http.StatusNotModified {
		t.Errorf("%d", same.status)
	}
	private := upload("name=x&visibility=private")
	i.page(t, "GET", private, browser()).shows(t, http.StatusNotFound)
	i.do(t, "GET", private+"/raw", request{}).fails(t, http.StatusNotFound, "not_found", "")
}

func TestViewsOfPagesAreLimitedBySource(t *testing.T) {
	i := common(t)
	r := request{source: newSource()}
	i.untilRefused(t, "rate_limited", func() answer { return i.do(t, "GET", "/p/x", r) }, func(got answer) {
		got.fails(t, http.StatusNotFound, "not_found", "")
	})
	seen := browser()
	seen.source = r.source
	eventually.True(t, "a browser is refused with a page", func() bool { // views come back all the time
		return i.page(t, "GET", "/p/x", seen).status == http.StatusTooManyRequests
	})
	i.untilRefused(t, "rate_limited", func() answer { return i.do(t, "GET", "/f/x/download", r) }, func(got answer) {
		got.fails(t, http.StatusNotFound, "not_found", "")
	})
	i.do(t, "GET", "/p/x", request{}).fails(t, http.StatusNotFound, "not_found", "")
}

func TestPathsForOperatorsAndReaders(t *testing.T) {
	i := common(t)
	for _, base := range i.operators() {
		for path, want := range map[string]string{"/livez": "", "/readyz": "", "/metrics": "\nquire_"} {
			if status, body := plain(t, base+path); status != http.StatusOK || !strings.Contains(body, want) {
				t.Errorf("%s%s: %d %.200s", base, path, status, body)
			}
		}
	}
	for _, path := range []string{"/debug/pprof/", "/debug/pprof/heap", "/debug/pprof/profile"} { // for operators with a listener of their own
		i.do(t, "GET", path, request{}).fails(t, http.StatusNotFound, "not_found", "")
	}
	source, err := os.ReadFile(specificationFile)
	if err != nil {
		t.Fatal(err)
	}
	if served := i.do(t, "GET", "/docs/openapi.yaml", request{}); served.status != http.StatusOK || string(served.body) != string(source) {
		t.Errorf("what is served is not docs/openapi.yaml: %d, %d bytes", served.status, len(served.body))
	}
	for _, path := range []string{"/docs"} {
		if got := i.do(t, "GET", path, request{}); got.status != http.StatusOK || !strings.HasPrefix(got.header.Get("Content-Type"), "text/html") {
			t.Errorf("%s: %d %s", path, got.status, got.header.Get("Content-Type"))
		}
	}
}

// plain gets a path that is not part of the API.
func plain(t testing.TB, url string) (status int, body string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Close = true
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(data)
}

// Texts that once took gigabytes, or a core for a minute, to render.
func TestATextThatIsTooIntricateIsShownAsItsSource(t *testing.T) {
	i, k := common(t), kinds()[0]
	a := i.account(t, "pro")
	const columns = 4000
	for name, c := range map[string]struct{ content, shown, hidden string }{
		"a table of many columns and rows": {
			strings.Repeat("|a", columns) + "|\n" + strings.Repeat("|-", columns) + "|\n" + strings.Repeat("b\n", columns), "|-|-|", "<table>",
		},
		"many nodes": {strings.Repeat("`a`\n`b`", 25_001), "Too large or too complex", "<code>a</code>"},
		"many lines": {strings.Repeat("*a*\n\n", 20_000), "Too large or too complex", "<em>"},
	} {
		i.page(t, "GET", k.page+k.make(t, a, object{"content": c.content, "language": "markdown"}), browser()).
			shows(t, http.StatusOK, c.shown).hides(t, c.hidden)
		i.page(t, "GET", k.page+k.make(t, a, object{"content": "# After " + name, "language": "markdown"}), browser()).
			shows(t, http.StatusOK, "<h2 id=")
	}
}
