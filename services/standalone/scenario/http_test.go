package scenario

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// TestRequestsThatProxiesReadDifferentlyAreRefused: nobody behind a proxy may slip a request past it.
func TestRequestsThatProxiesReadDifferentlyAreRefused(t *testing.T) {
	i := common(t)
	a := i.account(t, "pro")
	list := "GET /api/dev/paste-lite/list HTTP/1.1\r\nx-api-key: " + a.key + "\r\n"
	for raw, reason := range map[string]string{
		list + "Host: a\r\nHost: a\r\n\r\n":                        "more than one Host",
		list + "Host: a\r\nhost: b\r\n\r\n":                        "more than one Host",
		list + "Host: a\r\nX: a\x00b\r\n\r\n":                      "NUL",
		list + "Host: a\r\nX: a\rb: c\r\n\r\n":                     "CR",
		strings.Replace(list, "1.1", "1.2", 1) + "Host: a\r\n\r\n": "HTTP/1.1",
		strings.Replace(list, "1.1", "2.0", 1) + "Host: a\r\n\r\n": "HTTP/1.1",
		strings.Replace(list, "1.1", "0.9", 1) + "Host: a\r\n\r\n": "HTTP/1.1",
		"GET /livez\r\n\r\n":                                       "HTTP/1.1",
	} {
		got := i.exchange(t, raw)
		got.fails(t, http.StatusBadRequest, "malformed", "")
		got.shows(t, http.StatusBadRequest, reason)
	}
	i.exchange(t, list+"Host: a\r\n\r\n").ok(t, http.StatusOK)
	i.exchange(t, strings.Replace(list, "1.1", "1.0", 1)+"\r\n").ok(t, http.StatusOK)
}

func TestAcceptIsReadWithItsQualities(t *testing.T) {
	i := common(t)
	a := i.account(t, "pro")
	id := a.upload(t, "f.bin", []byte("the bytes"))
	missing := "/q/000000000000"
	for accept, want := range map[string]struct{ bytes, html bool }{
		"*/*":                               {},
		"application/octet-stream":          {bytes: true},
		"application/octet-stream;q=0, */*": {},
		"application/octet-stream;q=0.2, application/json;q=0.8":  {},
		"application/octet-stream;q=0.8, application/json;q=0.2":  {bytes: true},
		"text/html,application/xhtml+xml,*/*;q=0.8":               {html: true},
		"text/html;q=0, application/json":                         {},
		"text/html;q=0.1, application/json":                       {},
		"application/json;q=0.1, text/html":                       {html: true},
		"Application/Octet-Stream ; Q=0.5 , text/html ; q = 0.5 ": {bytes: true, html: true},
	} {
		got := a.with(t, "GET", "/api/dev/files/get/"+id, request{header: map[string]string{"Accept": accept}})
		if bytes := string(got.body) == "the bytes"; got.status != http.StatusOK || bytes != want.bytes {
			t.Errorf("a file for %q: %d %.60q", accept, got.status, got.body)
		}
		got = i.do(t, "GET", missing, request{header: map[string]string{"Accept": accept}})
		if html := strings.HasPrefix(got.header.Get("Content-Type"), "text/html"); got.status != http.StatusNotFound || html != want.html {
			t.Errorf("a page for %q: %d %s", accept, got.status, got.header.Get("Content-Type"))
		}
	}
}

func TestADownloadIsHeldToItsConditions(t *testing.T) {
	i := common(t)
	a := i.account(t, "pro")
	id := text(t, a.do(t, "POST", "/api/dev/files/upload?name=f&visibility=public", []byte("the bytes")).ok(t, http.StatusCreated), "id")
	quick := a.quick(t, object{"visibility": "public"})
	signed := text(t, a.do(t, "GET", "/api/dev/files/get/"+id, nil).ok(t, http.StatusOK), "file", "downloadUrl")
	api := "/api/dev/files/get/" + id + "?download=1"
	used := a.used(t, "files.get")
	served := int64(0)
	for _, path := range []string{api, "/f/" + id + "/raw", signed, "/q/" + quick + "/raw"} {
		get := func(header ...string) answer {
			r := request{header: map[string]string{}}
			for n := 0; n < len(header); n += 2 {
				r.header[header[n]] = header[n+1]
			}
			if path == api {
				r.key = a.key
			}
			got := i.do(t, "GET", path, r)
			if path == api && got.status/100 == 2 {
				served++
			}
			return got
		}
		etag := get().header.Get("ETag")
		for _, c := range []struct {
			header []string
			status int
		}{
			{[]string{"If-Match", etag}, 200},
			{[]string{"If-Match", `"other", ` + etag}, 200},
			{[]string{"If-Match", "*"}, 200},
			{[]string{"If-Match", etag, "Range", "bytes=0-2"}, 206},
			{[]string{"If-Match", `"other"`, "Range", "bytes=0-2"}, 412},
			{[]string{"If-Match", `"other"`}, 412},
			{[]string{"If-Match", "W/" + etag}, 412}, // a weak tag may be of other bytes
			{[]string{"If-Match", `"other"`, "If-None-Match", etag}, 412},
			{[]string{"If-Match", etag, "If-None-Match", etag}, 304},
			{[]string{"If-Match", "no tag"}, 400},
		} {
			got := get(c.header...)
			if got.status != c.status {
				t.Errorf("%s %v: %d %s, want %d", path, c.header, got.status, got.body, c.status)
			}
			if c.status == 412 {
				got.fails(t, 412, "version_mismatch", "")
				got.says(t, object{"field": "If-Match"})
				got.hasHeader(t, "ETag", "")
			}
		}
	}
	if now := a.used(t, "files.get"); now != used+served {
		t.Errorf("%d downloads are counted, %d were served", now-used, served)
	}
}

// TestARetryMayBeWrittenInAnotherWay: what a client's library writes in another order or spelling is the same request.
func TestARetryMayBeWrittenInAnotherWay(t *testing.T) {
	a := common(t).account(t, "pro")
	try := func(key, query, contentType, body string) answer {
		return a.with(t, "POST", "/api/dev/paste-lite/create"+query, request{
			body: body, header: map[string]string{"Idempotency-Key": key, "Content-Type": contentType},
		})
	}
	const query, plain = "?title=a+b&language=go&tags=x&tags=y", "text/plain; charset=utf-8"
	first := try("text", query, plain, "content")
	first.ok(t, http.StatusCreated)
	for _, again := range []answer{
		try("text", "?language=go&tags=x&title=a%20b&tags=y", plain, "content"),
		try("text", "?tags=x&%74ags=y&title=a%20b&language=%67o", "text/plain", "content"),
		try("text", query, "Text/Plain", "content"),
		try("text", query, `text/plain;charset="UTF-8"`, "content"),
	} {
		again.hasHeader(t, "Idempotency-Replayed", "true")
		if again.status != http.StatusCreated || string(again.body) != string(first.body) {
			t.Errorf("%d %s, the first answer was %s", again.status, again.body, first.body)
		}
	}
	for n, other := range []answer{
		try("text", "?title=a+b&language=go&tags=y&tags=x", plain, "content"), // the tags in another order
		try("text", "?title=a+b&language=go&tags=x", plain, "content"),
		try("text", "?title=a%2Bb&language=go&tags=x&tags=y", plain, "content"),
		try("text", query, "application/x-www-form-urlencoded", "content"),
		try("text", query, plain, "Content"),
	} {
		other.fails(t, http.StatusUnprocessableEntity, "idempotency_mismatch", "")
		if t.Failed() {
			t.Fatal(fmt.Sprint("request ", n))
		}
	}
	json := try("json", "", "application/json", `{"content":"x"}`)
	json.ok(t, http.StatusCreated)
	try("json", "", "application/JSON; charset=utf-8", `{"content":"x"}`).hasHeader(t, "Idempotency-Replayed", "true")
	if used := a.used(t, "pasteLite.create"); used != 2 {
		t.Errorf("%d creations are counted", used)
	}
}

// TestContentIsHeldToDatesAsToTags: Last-Modified works in every condition that takes a date.
func TestContentIsHeldToDatesAsToTags(t *testing.T) {
	const past, future = "Sun, 06 Nov 1994 08:49:37 GMT", "Thursday, 30-Nov-72 00:00:00 GMT"
	i := common(t)
	a := i.account(t, "pro")
	id := text(t, a.do(t, "POST", "/api/dev/files/upload?name=f&visibility=public", []byte("the bytes")).ok(t, http.StatusCreated), "id")
	quick := a.quick(t, object{"visibility": "public", "content": "the bytes"})
	signed := text(t, a.do(t, "GET", "/api/dev/files/get/"+id, nil).ok(t, http.StatusOK), "file", "downloadUrl")
	for _, path := range []string{"/api/dev/files/get/" + id + "?download=1", "/f/" + id + "/raw", signed, "/q/" + quick + "/raw", "/q/" + quick + "/download"} {
		try := func(method string, header ...string) answer {
			r := request{header: map[string]string{}}
			if strings.HasPrefix(path, "/api/") {
				r.key = a.key
			}
			for n := 0; n < len(header); n += 2 {
				r.header[header[n]] = header[n+1]
			}
			return i.do(t, method, path, r)
		}
		whole := try("GET")
		etag, date := whole.header.Get("ETag"), whole.header.Get("Last-Modified")
		for _, c := range []struct {
			header []string
			status int
		}{
			{[]string{"If-Modified-Since", date}, 304},
			{[]string{"If-Modified-Since", future}, 304},
			{[]string{"If-Modified-Since", past}, 200},
			{[]string{"If-Modified-Since", "no date"}, 200},
			{[]string{"If-Modified-Since", date, "If-None-Match", `"other"`}, 200},
			{[]string{"If-Modified-Since", past, "If-None-Match", etag}, 304},
			{[]string{"If-Unmodified-Since", date}, 200},
			{[]string{"If-Unmodified-Since", past}, 412},
			{[]string{"If-Unmodified-Since", past, "If-Match", etag}, 200},
			{[]string{"If-Unmodified-Since", past, "If-None-Match", etag}, 412},
			{[]string{"If-Unmodified-Since", "no date"}, 200},
			{[]string{"Range", "bytes=0-2", "If-Range", date}, 206},
			{[]string{"Range", "bytes=0-2", "If-Range", past}, 200},
			{[]string{"Range", "bytes=0-2", "If-Modified-Since", date}, 304},
			{[]string{"Range", "bytes=0-2", "If-Unmodified-Since", past}, 412},
		} {
			for _, method := range []string{"GET", "HEAD"} {
				want := c.status
				if method == "HEAD" && want == 206 {
					want = 200
				}
				got := try(method, c.header...)
				if got.status != want {
					t.Errorf("%s %s %v: %d %s, want %d", method, path, c.header, got.status, got.body, want)
				}
				if method == "GET" && want == 412 {
					got.fails(t, 412, "version_mismatch", "")
					got.says(t, object{"field": "If-Unmodified-Since"})
				}
				if want == 304 && len(got.body) > 0 {
					t.Errorf("%s %s: a 304 with %q", method, path, got.body)
				}
			}
		}
	}
}

func TestAChangeIsHeldToItsDate(t *testing.T) {
	const past, future = "Sun, 06 Nov 1994 08:49:37 GMT", "Thursday, 30-Nov-72 00:00:00 GMT"
	a := common(t).account(t, "pro")
	id := a.paste(t, nil)
	n := 0
	change := func(header ...string) answer {
		n++
		r := request{body: object{"title": fmt.Sprint(n)}, header: map[string]string{}}
		for n := 0; n < len(header); n += 2 {
			r.header[header[n]] = header[n+1]
		}
		return a.with(t, "PUT", "/api/dev/pastes/update/"+id, r)
	}
	used := a.used(t, "pastes.update")
	refused := func(got answer, field string) {
		t.Helper()
		got.fails(t, http.StatusPreconditionFailed, "version_mismatch", "")
		got.says(t, object{"field": field})
		got.hasHeader(t, "X-Charge-Source", "none")
	}
	refused(change("If-Unmodified-Since", past), "If-Unmodified-Since")
	refused(change("If-None-Match", "*"), "If-None-Match")
	refused(change("If-Match", `"7"`, "If-Unmodified-Since", future), "If-Match")
	change("If-Unmodified-Since", future).ok(t, http.StatusOK)
	change("If-Match", `"2"`, "If-Unmodified-Since", past).ok(t, http.StatusOK)
	change("If-Unmodified-Since", "no date").ok(t, http.StatusOK)
	change("If-Modified-Since", future).ok(t, http.StatusOK)
	change("If-None-Match", `"1"`).ok(t, http.StatusOK)
	if now := a.used(t, "pastes.update"); now != used+5 {
		t.Errorf("%d updates are counted, 5 were made", now-used)
	}
	again := func(date string) answer {
		return a.with(t, "PUT", "/api/dev/pastes/update/"+id, request{body: object{"title": "again"}, header: map[string]string{
			"Idempotency-Key": "dated", "If-Unmodified-Since": date,
		}})
	}
	again(future).ok(t, http.StatusOK)
	again(future).hasHeader(t, "Idempotency-Replayed", "true")
	again("Sat, 30 Nov 2030 00:00:00 GMT").fails(t, http.StatusUnprocessableEntity, "idempotency_mismatch", "")
	remove := func(header, value string) answer {
		return a.with(t, "DELETE", "/api/dev/pastes/delete/"+id, request{header: map[string]string{header: value}})
	}
	refused(remove("If-Unmodified-Since", past), "If-Unmodified-Since")
	remove("If-Unmodified-Since", future).ok(t, http.StatusOK)
	remove("If-Unmodified-Since", past).fails(t, http.StatusNotFound, "not_found", "")

	file := a.upload(t, "f", []byte("bytes"))
	etag := a.do(t, "GET", "/api/dev/files/get/"+file+"?download=1", nil).header.Get("ETag")
	removeFile := func(header, value string) answer {
		return a.with(t, "DELETE", "/api/dev/files/delete/"+file, request{header: map[string]string{header: value}})
	}
	refused(removeFile("If-Match", `"other"`), "If-Match")
	refused(removeFile("If-Unmodified-Since", past), "If-Unmodified-Since")
	removeFile("If-Match", etag).ok(t, http.StatusOK)
	file = a.upload(t, "f", []byte("bytes"))
	refused(removeFile("If-Match", `"2"`), "If-Match")
	removeFile("If-Match", `"1"`).ok(t, http.StatusOK)
}

// TestAConditionThatFailsBurnsNothing: what is not shown is not read.
func TestAConditionThatFailsBurnsNothing(t *testing.T) {
	i := common(t)
	a, reader := i.account(t, "pro"), i.account(t, "pro")
	id := a.paste(t, object{"burnAfterRead": true, "content": "once"})
	for header, status := range map[[2]string]int{
		{"If-Match", `"7"`}: 412, {"If-None-Match", `"1"`}: 304, {"If-Unmodified-Since", "Sun, 06 Nov 1994 08:49:37 GMT"}: 412,
	} {
		got := reader.with(t, "GET", "/api/dev/pastes/get/"+id, request{header: map[string]string{header[0]: header[1]}})
		if got.status != status {
			t.Errorf("%v: %d %s", header, got.status, got.body)
		}
	}
	reader.do(t, "GET", "/api/dev/pastes/get/"+id, nil).ok(t, http.StatusOK)
	reader.do(t, "GET", "/api/dev/pastes/get/"+id, nil).fails(t, http.StatusNotFound, "not_found", "")
}
