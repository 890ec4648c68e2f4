package edge_test

import (
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"quire.dev/pkg/plan"
)

const browser = "Accept: text/html,application/xhtml+xml,*/*;q=0.8"

// page is what a browser would show.
func (w *world) page(t *testing.T, method, path string, body any, header ...string) *answer {
	t.Helper()
	a := w.call(t, method, path, body, append([]string{browser}, header...)...)
	if !strings.HasPrefix(a.header.Get("Content-Type"), "text/html") {
		t.Errorf("%s %s: %d, type %q", method, path, a.status, a.header.Get("Content-Type"))
	}
	return a
}

func (a *answer) shows(status int, texts ...string) *answer {
	a.t.Helper()
	if a.status != status {
		a.t.Errorf("got %d %.600s, want %d", a.status, a.raw, status)
	}
	for _, text := range texts {
		if !strings.Contains(a.raw, text) {
			a.t.Errorf("%q is not in\n%s", text, a.raw)
		}
	}
	return a
}

func (a *answer) hides(texts ...string) *answer {
	a.t.Helper()
	for _, text := range texts {
		if strings.Contains(a.raw, text) {
			a.t.Errorf("%q is in\n%s", text, a.raw)
		}
	}
	return a
}

// create makes a paste, or with /paste-lite a quick paste, and returns its page's path.
func (w *world) create(t *testing.T, api, prefix string, fields obj) string {
	t.Helper()
	return prefix + w.call(t, "POST", "/api/dev/"+api+"/create", fields, "x-api-key: "+w.owner).want(201, "").str("id")
}

func TestPagesOfTexts(t *testing.T) {
	w := newWorld(t, nil)
	for _, k := range []struct{ api, prefix string }{{"pastes", "/p/"}, {"paste-lite", "/q/"}} {
		path := w.create(t, k.api, k.prefix, obj{"content": "<b>bold</b>\n\t& more", "title": "A <title>", "language": "html", "tags": []string{"one"}})
		w.page(t, "GET", path, nil).shows(200, "&lt;b&gt;bold&lt;/b&gt;\n\t&amp; more", "A &lt;title&gt;", "html", "#one", path+"/raw").
			hides("<b>").wantHeader("X-Robots-Tag", "noindex, nofollow")
		w.call(t, "GET", path, nil).shows(200, "&lt;b&gt;")
		if head := w.call(t, "HEAD", path, nil); head.status != 200 || head.raw != "" {
			t.Errorf("HEAD: %d %q", head.status, head.raw)
		}
		w.billing.want(t, plan.PastesGet, counts{}) // a page is not metered
		w.billing.want(t, plan.LiteGet, counts{})
		public := w.create(t, k.api, k.prefix, obj{"content": "x", "visibility": "public"})
		w.page(t, "GET", public, nil).shows(200).wantHeader("X-Robots-Tag", "")
		private := w.create(t, k.api, k.prefix, obj{"content": "secret", "visibility": "private"})
		for _, missing := range []string{private, k.prefix + "000000000000", k.prefix + "x", k.prefix + "%00"} {
			w.page(t, "GET", missing, nil).shows(404, "<!doctype html>").hides("secret")
			w.page(t, "POST", missing, nil).shows(404).hides("secret")
			w.call(t, "GET", missing, nil).want(404, "not_found")
			w.call(t, "GET", missing+"/raw", nil, browser).want(404, "not_found")
		}
		w.call(t, "PUT", path, nil).want(405, "method_not_allowed")
	}
}

func TestRawTexts(t *testing.T) {
	w := newWorld(t, nil)
	const content = "0123456789 <script>"
	path := w.create(t, "pastes", "/p/", obj{"content": content})
	raw := w.call(t, "GET", path+"/raw", nil, browser).shows(200).
		wantHeader("Content-Type", "text/plain; charset=utf-8").wantHeader("X-Content-Type-Options", "nosniff").
		wantHeader("Content-Security-Policy", "sandbox; default-src 'none'; frame-ancestors 'none'").
		wantHeader("ETag", `"1"`).wantHeader("Accept-Ranges", "bytes")
	if raw.raw != content {
		t.Errorf("%q", raw.raw)
	}
	part := w.call(t, "GET", path+"/raw", nil, "Range: bytes=2-4").shows(206).wantHeader("Content-Range", "bytes 2-4/19")
	if part.raw != "234" {
		t.Errorf("%q", part.raw)
	}
	w.call(t, "GET", path+"/raw", nil, "Range: bytes=19-").want(416, "range_not_satisfiable")
	if same := w.call(t, "GET", path+"/raw", nil, `If-None-Match: "1"`); same.status != 304 || same.raw != "" {
		t.Errorf("%d %q", same.status, same.raw)
	}
	w.call(t, "GET", path+"/raw", nil, `If-None-Match: "2"`).shows(200)
	w.call(t, "DELETE", "/api/dev/pastes/delete/"+path[3:], nil, "x-api-key: "+w.owner).want(200, "")
	w.call(t, "GET", path+"/raw", nil).want(404, "not_found")
	w.page(t, "GET", path, nil).shows(404)
}

func TestAPageShowsTheBeginningOfALargeText(t *testing.T) {
	w := newWorld(t, nil)
	content := "é" + strings.Repeat("ю", 400<<10) // the cut falls into a character
	path := w.create(t, "pastes", "/p/", obj{"content": content})
	shown := w.page(t, "GET", path, nil).shows(200, "Only the beginning is shown here.", "éюю")
	if len(shown.raw) < 500<<10 || len(shown.raw) > 540<<10 || strings.Contains(shown.raw, "\uFFFD") {
		t.Errorf("a page of %d bytes", len(shown.raw))
	}
	if raw := w.call(t, "GET", path+"/raw", nil); raw.raw != content {
		t.Errorf("%d bytes of %d", len(raw.raw), len(content))
	}
	whole := w.create(t, "pastes", "/p/", obj{"content": strings.Repeat("x", 100<<10) + "the end"}) // a blob, but not as large
	w.page(t, "GET", whole, nil).shows(200, "xthe end</code>").hides("Only the beginning")
}

func TestAPageBurnsAfterAClickOnly(t *testing.T) {
	w := newWorld(t, nil)
	for name, content := range map[string]string{"inline": "the message", "blob": strings.Repeat("long ", 150<<10) + "the message"} {
		t.Run(name, func(t *testing.T) {
			path := w.create(t, "pastes", "/p/", obj{"content": content, "title": "its title", "burnAfterRead": true})
			for range 3 {
				w.page(t, "GET", path, nil).shows(200, `method="post"`, "It can be read once").hides("the message", "its title").wantHeader("Cache-Control", "no-store")
				w.call(t, "HEAD", path, nil).shows(200)
			}
			w.call(t, "GET", path+"/raw", nil).want(403, "confirmation_required")
			w.page(t, "POST", path, nil, "Sec-Fetch-Site: cross-site").shows(403).hides("the message")
			w.page(t, "POST", path, nil, "Origin: https://evil.example").shows(403).hides("the message")
			w.page(t, "POST", path, nil, "Sec-Fetch-Site: same-origin").shows(200, "the message</code>", "its title", "gone now").
				hides("/raw", "Only the beginning").wantHeader("Cache-Control", "no-store")
			w.page(t, "POST", path, nil).shows(404).hides("the message")
			w.page(t, "GET", path, nil).shows(404)
			w.call(t, "GET", path+"/raw", nil).want(404, "not_found")
		})
	}
}

func TestOfManyClicksOneShowsThePaste(t *testing.T) {
	w := newWorld(t, nil)
	path := w.create(t, "paste-lite", "/q/", obj{"content": "only one sees this", "burnAfterRead": true})
	var shown, gone atomic.Int64
	var group sync.WaitGroup
	for range 16 {
		group.Go(func() {
			res, err := http.Post(w.url+path, "", nil)
			if err != nil {
				t.Error(err)
				return
			}
			res.Body.Close()
			switch res.StatusCode {
			case 200:
				shown.Add(1)
			case 404:
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
	w := newWorld(t, nil)
	const form = "Content-Type: application/x-www-form-urlencoded"
	path := w.create(t, "pastes", "/p/", obj{"content": "the content", "title": "its title", "password": "pä ss&1"})
	w.page(t, "GET", path, nil).shows(200, `type="password"`).hides("the content", "its title")
	w.page(t, "POST", path, "password=wrong", form).shows(403, "That is not the password.").hides("the content", "its title")
	w.page(t, "POST", path, nil).shows(403).hides("the content")
	w.call(t, "POST", path, "password=wrong", form).want(403, "wrong_password")
	w.page(t, "POST", path, "password=p%C3%A4+ss%261", form).shows(200, "the content", "its title").hides("/raw")
	for _, bad := range []struct {
		body, header, code string
		status             int
	}{
		{"password=a&password=b", form, "invalid_field", 400},
		{"pass=a", form, "unknown_field", 400},
		{"password=%zz", form, "malformed", 400},
		{`{"password":"a"}`, "Content-Type: application/json", "unsupported_media_type", 415},
		{strings.Repeat("x", 20<<10), form, "too_large", 413},
	} {
		w.call(t, "POST", path, bad.body, bad.header).want(bad.status, bad.code)
	}
	w.call(t, "GET", path+"/raw", nil).want(403, "wrong_password")
	w.call(t, "GET", path+"/raw", nil, "X-Paste-Password: no").want(403, "wrong_password")
	w.call(t, "GET", path+"/raw", nil, "X-Paste-Password: pä ss&1").shows(200, "the content").wantHeader("Cache-Control", "no-store")

	both := w.create(t, "pastes", "/p/", obj{"content": "the content", "password": "right", "burnAfterRead": true})
	w.page(t, "GET", both, nil).shows(200, `type="password"`, "It can be read once").hides("the content")
	w.page(t, "POST", both, "password=wrong", form).shows(403).hides("the content")
	w.page(t, "POST", both, "password=right", form).shows(200, "the content", "gone now")
	w.page(t, "POST", both, "password=right", form).shows(404)
}

func TestGuessingAPasswordIsLimitedBySource(t *testing.T) {
	w := newWorld(t, nil)
	path := w.create(t, "pastes", "/p/", obj{"content": "x", "password": "right"})
	for range 101 {
		w.call(t, "GET", path+"/raw", nil, "X-Paste-Password: "+strings.Repeat("x", 600)).want(403, "wrong_password") // too long: not hashed
	}
	for _, password := range []string{"wrong", "right"} {
		w.call(t, "GET", path+"/raw", nil, "X-Paste-Password: "+password).want(429, "too_many_failures")
	}
}

func TestPagesOfFiles(t *testing.T) {
	w := newWorld(t, nil)
	const content = "<script>alert(1)</script>"
	upload := func(query string) string {
		return "/f/" + w.call(t, "POST", "/api/dev/files/upload?"+query, content, "x-api-key: "+w.owner, "Content-Type: text/html").want(201, "").str("id")
	}
	path := upload("name=%3Cb%3E.html")
	w.page(t, "GET", path, nil).shows(200, "&lt;b&gt;.html", "25 bytes", path+"/raw", "text/html").hides("<b>", "alert(1)")
	raw := w.call(t, "GET", path+"/raw", nil, browser).shows(200).wantHeader("X-Content-Type-Options", "nosniff").
		wantHeader("Content-Security-Policy", "sandbox; default-src 'none'")
	if !strings.HasPrefix(raw.header.Get("Content-Disposition"), "attachment") || raw.raw != content {
		t.Errorf("%v %q", raw.header, raw.raw)
	}
	if part := w.call(t, "GET", path+"/raw", nil, "Range: bytes=-9"); part.status != 206 || part.raw != "</script>" {
		t.Errorf("%d %q", part.status, part.raw)
	}
	if same := w.call(t, "GET", path+"/raw", nil, "If-None-Match: "+raw.header.Get("ETag")); same.status != 304 {
		t.Errorf("%d", same.status)
	}
	private := upload("name=x&visibility=private")
	w.page(t, "GET", private, nil).shows(404)
	w.call(t, "GET", private+"/raw", nil).want(404, "not_found")
}

func TestViewsOfPagesAreLimited(t *testing.T) {
	w := newWorld(t, nil)
	limited := 0
	for range 400 {
		if a := w.call(t, "GET", "/p/x", nil); a.status == 429 {
			a.want(429, "rate_limited")
			limited++
		}
	}
	if limited == 0 {
		t.Error("400 views were shown")
	}
	w.page(t, "GET", "/p/x", nil).shows(429)
}
