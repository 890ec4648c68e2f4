package scenario

import (
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
)

const quickBytes = 256 << 10

// pipe is a request as curl sends it, without a key. header is names and values in turn.
func pipe(body string, header ...string) request {
	r := request{body: strings.NewReader(body), header: map[string]string{"Accept": "*/*"}}
	for n := 0; n+1 < len(header); n += 2 {
		r.header[header[n]] = header[n+1]
	}
	return r
}

// piece is a part of a form, a file where it has a name.
func piece(field, name, content string) part { return part{field, name, []byte(content)} }

// line holds the answer to a line with an address, and returns the path.
func (a answer) line(t *testing.T, i *instance) string {
	t.Helper()
	if a.status != http.StatusCreated {
		t.Fatalf("%s: %d %s", a.what, a.status, a.body)
	}
	address, ok := strings.CutSuffix(string(a.body), "\n")
	if !ok || !strings.HasPrefix(address, i.public+"/q/") || strings.Contains(address, "\n") {
		t.Fatalf("%s: %q is not a line with an address", a.what, a.body)
	}
	a.hasHeader(t, "Location", address)
	a.hasHeader(t, "Content-Type", "text/plain; charset=utf-8")
	return strings.TrimPrefix(address, i.public)
}

// failsInText holds the answer to a line that says why, and the same call to an error in JSON.
func failsInText(t *testing.T, i *instance, method, path string, call func() request, status int, code, reason string) {
	t.Helper()
	a := i.do(t, method, path, call())
	if a.status != status || !strings.HasPrefix(string(a.body), "error: ") || strings.Count(string(a.body), "\n") != 1 || !strings.HasSuffix(string(a.body), "\n") {
		t.Errorf("%s: %d %q, want %d and a line", a.what, a.status, a.body, status)
	}
	if !strings.Contains(string(a.body), reason) {
		t.Errorf("%s: %q is not in %q", a.what, reason, a.body)
	}
	a.hasHeader(t, "Content-Type", "text/plain; charset=utf-8")
	r := call()
	r.header["Accept"] = "application/json"
	i.do(t, method, path, r).fails(t, status, code, "")
}

func TestEveryFormOfTerminalUseMakesAQuickPaste(t *testing.T) {
	i := common(t)
	content := "package main\n\n// ü & <b> %41+\r\n\x00\n"
	for name, test := range map[string]struct {
		method, path string
		r            func() request
	}{
		"curl -F 'f=<-'":           {"POST", "/", func() request { return form(t, piece("f", "", content)) }},
		"curl -F f=@-":             {"POST", "/", func() request { return form(t, piece("f", "-", content)) }},
		"curl -F x=@name":          {"POST", "/", func() request { return form(t, piece("x", "name", content)) }},
		"another part before":      {"POST", "/", func() request { return form(t, piece("x", "", "other"), piece("f", "", content)) }},
		"another file after":       {"POST", "/", func() request { return form(t, piece("x", "a", content), piece("f", "b", "other")) }},
		"curl --data-binary":       {"POST", "/", func() request { return pipe(content, "Content-Type", "application/x-www-form-urlencoded") }},
		"curl -H application/json": {"POST", "/", func() request { return pipe(content, "Content-Type", "application/json") }},
		"curl -H text/plain":       {"POST", "/", func() request { return pipe(content, "Content-Type", "text/plain; charset=UTF-8") }},
		"any type":                 {"POST", "/", func() request { return pipe(content, "Content-Type", "application/octet-stream") }},
		"curl -T name":             {"PUT", "/name", func() request { return pipe(content) }},
		"curl -T -":                {"PUT", "/", func() request { return pipe(content) }},
	} {
		t.Run(name, func(t *testing.T) {
			a := i.do(t, test.method, test.path, test.r())
			page := a.line(t, i)
			for header, want := range map[string]string{
				"X-Quota-Remaining": "9", "X-Charge-Source": "quota", "RateLimit-Policy": `"pasteLite.create";q=10`,
				"RateLimit": `"pasteLite.create";r=9;t=86400`, "Cache-Control": "no-store",
			} {
				a.hasHeader(t, header, want)
			}
			if raw := i.do(t, "GET", page+"/raw", request{}); raw.status != http.StatusOK || string(raw.body) != content {
				t.Errorf("%d %q, want %q", raw.status, raw.body, content)
			}
			token := request{header: map[string]string{"X-Manage-Token": a.header.Get("X-Manage-Token")}}
			i.do(t, "DELETE", "/api/dev/paste-lite/delete/"+strings.TrimPrefix(page, "/q/"), token).ok(t, http.StatusOK)
		})
	}
}

func TestANameGivesTitleAndLanguage(t *testing.T) {
	i := common(t)
	a := i.account(t, "pro")
	get := func(page string) object {
		return at(t, a.do(t, "GET", "/api/dev/paste-lite/get/"+strings.TrimPrefix(page, "/q/"), nil).ok(t, http.StatusOK), "paste").(object)
	}
	put := func(path string) answer { return i.do(t, "PUT", path, pipe("x")) }
	send := func(query string, parts ...part) answer { return i.do(t, "POST", "/"+query, form(t, parts...)) }
	for name, test := range map[string]struct {
		a               answer
		title, language string
	}{
		"an extension":             {put("/main.go"), "main.go", "go"},
		"percent signs":            {put("/a%20b%C3%BC%3F.py"), "a bü?.py", "python"},
		"a slash that is meant":    {put("/dir%2FMakefile"), "dir/Makefile", "makefile"},
		"a leading dot":            {put("/.bashrc"), ".bashrc", "bash"},
		"two dots":                 {put("/..notes.md"), "..notes.md", "markdown"},
		"none that is known":       {put("/README"), "README", "plaintext"},
		"no name":                  {put("/"), "", "plaintext"},
		"fields before the name":   {put("/main.go?title=mine&language=text&visibility=public"), "mine", "text"},
		"a file of a form":         {send("", piece("f", "main.rs", "x")), "main.rs", "rust"},
		"a path of another system": {send("", piece("f", `C:\dir\x.c`, "x")), "x.c", "c"},
		"a pipe":                   {send("", piece("f", "-", "x")), "", "plaintext"},
		"fields as parts":          {send("", piece("title", "", "mine"), piece("f", "x.c", "x"), piece("language", "", "text")), "mine", "text"},
		"fields in the query":      {send("?title=q", piece("f", "x.c", "x")), "q", "c"},
		"a title that is a name":   {send("?title=notes.md", piece("f", "-", "x")), "notes.md", "markdown"},
		"a content that is known":  {send("", piece("f", "-", "#!/bin/sh\nls\n")), "", "bash"},
		"a name before a content":  {send("", piece("f", "x.txt", "#!/bin/sh\nls\n")), "x.txt", "plaintext"},
	} {
		t.Run(name, func(t *testing.T) {
			if p := get(test.a.line(t, i)); p["title"] != test.title || p["language"] != test.language {
				t.Errorf("title %q, language %q; want %q, %q", p["title"], p["language"], test.title, test.language)
			}
		})
	}
	p := get(i.do(t, "POST", "/?expiresIn=1h&tags=a,b&visibility=public&burnAfterRead=false", pipe("x")).line(t, i))
	if p["visibility"] != "public" || fmt.Sprint(p["tags"]) != "[a b]" || p["expiresAt"] == nil {
		t.Errorf("%v", p)
	}
	secret := send("", piece("f", "", "x"), piece("password", "", "sesame")).line(t, i)
	i.do(t, "GET", secret+"/raw", request{}).fails(t, http.StatusForbidden, "wrong_password", "")
	i.do(t, "GET", secret+"/raw", request{header: map[string]string{"X-Paste-Password": "sesame"}}).shows(t, http.StatusOK, "x")
}

func TestTerminalUseIsMeteredAsACreation(t *testing.T) {
	i := common(t)
	a := i.account(t, "pro")
	keyed := pipe("x")
	keyed.header["x-api-key"] = a.key
	got := i.do(t, "PUT", "/x", keyed)
	page := got.line(t, i)
	got.hasHeader(t, "X-Quota-Remaining", "4999")
	got.hasHeader(t, "X-Manage-Token", "")
	bearer := i.do(t, "POST", "/?visibility=private", pipe("x", "Authorization", "Bearer "+a.key))
	bearer.line(t, i)
	if used := a.used(t, "pasteLite.create"); used != 2 {
		t.Errorf("%d creations are counted", used)
	}
	a.do(t, "DELETE", "/api/dev/paste-lite/delete/"+strings.TrimPrefix(page, "/q/"), nil).ok(t, http.StatusOK)
	admin := pipe("x", "x-api-key", i.account(t, "admin").key)
	i.do(t, "POST", "/", admin).hasHeader(t, "X-Quota-Remaining", "-1")
	failsInText(t, i, "POST", "/", func() request { return pipe("x", "x-api-key", "wrong") }, http.StatusUnauthorized, "invalid_api_key", "Invalid API key")

	source := newSource()
	for n := range anonLimit {
		r := []request{pipe("x"), form(t, piece("f", "", "x"))}[n%2]
		r.source = source
		created := i.do(t, "POST", "/", r)
		created.line(t, i)
		created.hasHeader(t, "X-Quota-Remaining", strconv.Itoa(anonLimit-1-n))
	}
	failsInText(t, i, "PUT", "/x", func() request {
		r := pipe("x")
		r.source = source
		return r
	}, http.StatusTooManyRequests, "anonymous_limit", "Anonymous limit of 10 quick pastes per 24 hours reached.")
	i.do(t, "POST", "/api/dev/paste-lite/create", request{body: object{"content": "x"}, source: source}).
		fails(t, http.StatusTooManyRequests, "anonymous_limit", "")
}

// chunked hides the length of a body.
type chunked struct{ io.Reader }

func TestTheContentFromATerminalHasTheLimitOfAQuickPaste(t *testing.T) {
	i := common(t)
	full := strings.Repeat("é", quickBytes/2)
	for name, test := range map[string]struct {
		method, path string
		r            func(content string) request
	}{
		"a body":  {"POST", "/", func(content string) request { return pipe(content) }},
		"a name":  {"PUT", "/x", func(content string) request { return pipe(content) }},
		"chunks":  {"POST", "/", func(content string) request { r := pipe(""); r.body = chunked{strings.NewReader(content)}; return r }},
		"a field": {"POST", "/", func(content string) request { return form(t, piece("f", "", content)) }},
		"a file": {"POST", "/", func(content string) request {
			return form(t, piece(strings.Repeat("n", 2000), strings.Repeat("m", 150), content))
		}},
		"in chunks": {"POST", "/", func(content string) request {
			r := form(t, piece("f", "", content))
			r.body = chunked{r.body.(io.Reader)}
			return r
		}},
	} {
		t.Run(name, func(t *testing.T) {
			page := i.do(t, test.method, test.path, test.r(full)).line(t, i)
			if raw := i.do(t, "GET", page+"/raw", request{}); string(raw.body) != full {
				t.Errorf("%d bytes came back", len(raw.body))
			}
			for _, more := range []string{full + "x", full + strings.Repeat("x", 2<<20)} {
				failsInText(t, i, test.method, test.path, func() request { return test.r(more) },
					http.StatusRequestEntityTooLarge, "too_large", "256 KB")
			}
		})
	}
}

func TestTerminalUseIsRefusedInALine(t *testing.T) {
	i := common(t)
	octets := "\x89PNG\xff\x00"
	for name, test := range map[string]struct {
		method, path string
		r            func() request
		status       int
		code, reason string
	}{
		"bytes that are no text":    {"POST", "/", func() request { return pipe(octets) }, 415, "unsupported_media_type", "/api/dev/files/upload"},
		"a file that is no text":    {"PUT", "/x.png", func() request { return pipe(octets) }, 415, "unsupported_media_type", "/api/dev/files/upload"},
		"a part that is no text":    {"POST", "/", func() request { return form(t, piece("f", "x.png", octets)) }, 415, "unsupported_media_type", "/api/dev/files/upload"},
		"another charset":           {"POST", "/", func() request { return pipe("x", "Content-Type", "text/plain; charset=latin1") }, 415, "unsupported_media_type", "UTF-8"},
		"a compressed body":         {"POST", "/", func() request { return pipe("x", "Content-Encoding", "gzip") }, 415, "unsupported_media_type", "uncompressed"},
		"nothing":                   {"POST", "/", func() request { return pipe("") }, 400, "invalid_field", "error: content is required\n"},
		"an empty file":             {"PUT", "/x", func() request { return pipe("") }, 400, "invalid_field", "error: content is required\n"},
		"an empty part":             {"POST", "/", func() request { return form(t, piece("f", "", "")) }, 400, "invalid_field", "error: content is required\n"},
		"a form without a file":     {"POST", "/", func() request { return form(t, piece("x", "", "content")) }, 400, "malformed", "curl -F 'f=<-'"},
		"a form by PUT":             {"PUT", "/x.go", func() request { return form(t, piece("f", "main.go", "x")) }, 415, "unsupported_media_type", "Send a form with POST, or the bytes themselves with PUT."},
		"a file's name, no text":    {"POST", "/", func() request { return form(t, piece("f", "\xff.go", "x")) }, 400, "invalid_field", "UTF-8"},
		"a form without a boundary": {"POST", "/", func() request { return pipe("x", "Content-Type", "multipart/form-data") }, 400, "malformed", "boundary"},
		"a form that is cut off": {"POST", "/", func() request {
			return pipe("--x\r\nContent-Disposition: form-data; name=\"f\"\r\n\r\nabc", "Content-Type", "multipart/form-data; boundary=x")
		}, 400, "malformed", "multipart"},
		"a field that is unknown":  {"POST", "/?tite=x", func() request { return pipe("x") }, 400, "unknown_field", "tite"},
		"content as a parameter":   {"PUT", "/x?content=x", func() request { return pipe("x") }, 400, "unknown_field", "content"},
		"a field that is wrong":    {"PUT", "/x?expiresIn=1s", func() request { return pipe("x") }, 400, "invalid_field", "expiresIn"},
		"a part that is wrong":     {"POST", "/", func() request { return form(t, piece("f", "", "x"), piece("burnAfterRead", "", "perhaps")) }, 400, "invalid_field", "burnAfterRead"},
		"a field that comes twice": {"POST", "/?title=a", func() request { return form(t, piece("f", "", "x"), piece("title", "", "b")) }, 400, "invalid_field", "once"},
		"private without a key":    {"POST", "/?visibility=private", func() request { return pipe("x") }, 400, "invalid_field", "visibility"},
		"a name that is too long":  {"PUT", "/" + strings.Repeat("n", 201), func() request { return pipe("x") }, 400, "invalid_field", "200"},
		"a name of two lines":      {"PUT", "/a%0Ab", func() request { return pipe("x") }, 400, "invalid_field", "control"},
		"a name that is no text":   {"PUT", "/a%FF", func() request { return pipe("x") }, 400, "invalid_field", "UTF-8"},
		"another site's page":      {"POST", "/", func() request { return pipe("x", "Sec-Fetch-Site", "cross-site") }, 403, "cross_origin", "origin"},
		"an older browser's page":  {"POST", "/", func() request { return pipe("x", "Origin", "https://evil.example") }, 403, "cross_origin", "origin"},
		"a put of another site":    {"PUT", "/x", func() request { return pipe("x", "Sec-Fetch-Site", "same-site") }, 403, "cross_origin", "origin"},
	} {
		t.Run(name, func(t *testing.T) {
			failsInText(t, i, test.method, test.path, test.r, test.status, test.code, test.reason)
		})
	}
	i.do(t, "PUT", "/"+strings.Repeat("n", 200), pipe("x")).line(t, i)
	i.do(t, "POST", "/", pipe("x", "Sec-Fetch-Site", "same-origin")).line(t, i)
	i.do(t, "POST", "/", pipe("x", "Sec-Fetch-Site", "none")).line(t, i)
	// With a key no visitor's allowance is at stake.
	keyed := pipe("x", "Origin", "https://other.example", "x-api-key", i.account(t, "free").key)
	i.do(t, "POST", "/", keyed).line(t, i)
}

func TestARetryFromATerminalGivesTheSamePaste(t *testing.T) {
	i := common(t)
	source := newSource()
	send := func(method, path string, r request) answer {
		r.source = source
		r.header["Idempotency-Key"] = "one"
		return i.do(t, method, path, r)
	}
	for name, test := range map[string]struct{ first, again, other request }{
		"form": {form(t, piece("f", "a", "x")), form(t, piece("f", "a", "x")), form(t, piece("f", "b", "x"))},
		"body": {pipe("x"), pipe("x"), pipe("y")},
	} {
		method, path := "POST", "/"
		if name == "body" {
			method, path = "PUT", "/x"
		}
		first, again := send(method, path, test.first), send(method, path, test.again)
		if first.line(t, i) != again.line(t, i) {
			t.Errorf("%s: %s, then %s", name, first.body, again.body)
		}
		again.hasHeader(t, "Idempotency-Replayed", "true")
		again.hasHeader(t, "X-Charge-Source", "none")
		again.hasHeader(t, "RateLimit-Policy", first.header.Get("RateLimit-Policy"))
		again.hasHeader(t, "X-Manage-Token", first.header.Get("X-Manage-Token"))
		again.hasHeader(t, "X-Quota-Remaining", first.header.Get("X-Quota-Remaining"))
		mismatch := send(method, path, test.other)
		if mismatch.status != http.StatusUnprocessableEntity || !strings.HasPrefix(string(mismatch.body), "error: ") {
			t.Errorf("%s: %d %s", name, mismatch.status, mismatch.body)
		}
		for _, a := range []answer{again, mismatch} {
			if left, _, _ := strings.Cut(a.header.Get("RateLimit"), ";t="); left != `"pasteLite.create";r=`+first.header.Get("X-Quota-Remaining") {
				t.Errorf("%s: RateLimit is %q", a.what, a.header.Get("RateLimit"))
			}
		}
	}
	r := pipe("z")
	r.source = source
	i.do(t, "POST", "/", r).hasHeader(t, "X-Quota-Remaining", "7") // of 10, after two
}

// TestAPathThatIsANameHidesNoOther: PUT /<name> is for names that are nothing else.
func TestAPathThatIsANameHidesNoOther(t *testing.T) {
	i := common(t)
	for _, test := range []struct {
		method, path string
		status       int
		allow        string
	}{
		{"PUT", "/docs", 405, "GET, HEAD, OPTIONS"},
		{"PUT", "/api/users/user", 405, "GET, HEAD, DELETE, OPTIONS"},
		{"PUT", "/p/abc", 405, "GET, HEAD, POST, OPTIONS"},
		{"PUT", "/dir/main.go", 404, ""},
		{"PUT", "/main.go/", 404, ""},
		{"PUT", "//main.go", 404, ""},
		{"GET", "/main.go", 404, ""},
		{"HEAD", "/main.go", 404, ""},
		{"POST", "/main.go", 404, ""},
		{"DELETE", "/main.go", 404, ""},
		{"OPTIONS", "/main.go", 404, ""},
		{"PATCH", "/", 405, "GET, HEAD, POST, PUT, OPTIONS"},
		{"DELETE", "/", 405, "GET, HEAD, POST, PUT, OPTIONS"},
		{"OPTIONS", "/", 204, "GET, HEAD, POST, PUT, OPTIONS"},
	} {
		a := i.do(t, test.method, test.path, request{body: strings.NewReader("x")})
		if a.status != test.status {
			t.Errorf("%s: %d %s, want %d", a.what, a.status, a.body, test.status)
		}
		a.hasHeader(t, "Allow", test.allow)
		line := test.method == "PUT" && !strings.HasPrefix(test.path, "/api/") || test.path == "/"
		if a.status >= 400 && test.method != "HEAD" && strings.HasPrefix(string(a.body), "error: ") != line {
			t.Errorf("%s: %s", a.what, a.body)
		}
		if line && a.status >= 400 {
			json := pipe("x", "Accept", "application/json")
			i.do(t, test.method, test.path, json).fails(t, test.status, map[int]string{404: "not_found", 405: "method_not_allowed"}[test.status], "")
		}
	}
}

func TestATerminalIsToldWhatItCanDo(t *testing.T) {
	i := common(t)
	source := newSource()
	usage := func(header ...string) string {
		r := pipe("", header...)
		r.source, r.body = source, nil
		a := i.do(t, "GET", "/", r).shows(t, http.StatusOK, "curl -F 'f=<-' "+i.public, "curl -T main.go "+i.public,
			"--data-binary", "256 KB", i.public+"/docs", "10 per 24 hours")
		a.hasHeader(t, "Content-Type", "text/plain; charset=utf-8")
		a.hasHeader(t, "Vary", "Accept")
		if lines := strings.Count(string(a.body), "\n"); lines > 24 {
			t.Errorf("%d lines", lines)
		}
		return string(a.body)
	}
	for range 3 { // asking takes nothing
		if text := usage("User-Agent", "curl/8.5.0"); !strings.Contains(text, "You have 10 left.") {
			t.Errorf("%s", text)
		}
	}
	for n := range anonLimit {
		r := pipe("x")
		r.source = source
		i.do(t, "POST", "/", r).line(t, i)
		if text := usage(); !strings.Contains(text, fmt.Sprintf("You have %d left. Next one in ", anonLimit-1-n)) {
			t.Errorf("after %d:\n%s", n+1, text)
		}
	}
	usage("User-Agent", "Wget/1.21.3", "Accept", "*/*", "Accept-Encoding", "identity")
	usage("User-Agent", "HTTPie/3.2.2", "Accept", "*/*", "Accept-Encoding", "gzip, deflate")
	usage("Accept", "application/json, */*;q=0.5")
	head := i.do(t, "HEAD", "/", pipe(""))
	if head.status != http.StatusOK || len(head.body) > 0 {
		t.Errorf("HEAD: %d %q", head.status, head.body)
	}
	i.page(t, "GET", "/", browser()).shows(t, http.StatusOK, "Quire").hasHeader(t, "Vary", "Accept, Accept-Encoding")
}
