package edge_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"mime/multipart"
	"slices"
	"strings"
	"testing"

	"quire.dev/pkg/plan"
	"quire.dev/services/edge"
)

func TestAPasteFromCreateToDelete(t *testing.T) {
	w := newWorld(t, nil)
	key, other := "X-Api-Key: "+w.owner, "Authorization: Bearer "+w.other
	made := w.call(t, "POST", "/api/dev/pastes/create", obj{
		"title": "naïve \"title\"", "content": "line 1\nline\t2 ünï\u2028 \x01", "language": "go", "tags": []string{"a", "b", "a"}, "expiresIn": "1h",
	}, key).want(201, "").wantAt(999, "remaining").wantAt(1, "version")
	id := made.str("id")
	made.wantHeader("Location", w.url+"/api/dev/pastes/get/"+id).wantAt(w.url+"/p/"+id, "url").wantAt(w.url+"/p/"+id+"/raw", "rawUrl").
		wantHeader("RateLimit-Policy", `"pastes.create";q=1000`).wantHeader("RateLimit", `"pastes.create";r=999;t=3600`).
		wantHeader("X-Charge-Source", "quota")
	got := w.call(t, "GET", "/api/dev/pastes/get/"+id, nil, other).want(200, "").
		wantAt("line 1\nline\t2 ünï\u2028 \x01", "paste", "content").wantAt("[a b]", "paste", "tags").wantAt("unlisted", "paste", "visibility").
		wantAt("go", "paste", "language").wantAt(`naïve "title"`, "paste", "title").wantHeader("Etag", `"1"`).wantAt(999, "remaining")
	if got.str("paste", "expiresAt") != made.str("expiresAt") || got.at("paste", "passwordProtected") != false {
		t.Errorf("%s", got.raw)
	}
	w.call(t, "GET", "/api/dev/pastes/get/"+id, nil, other, `If-None-Match: W/"1", "7"`).want(304, "").wantHeader("Etag", `"1"`).
		wantHeader("X-Charge-Source", "none").wantHeader("RateLimit", `"pastes.get";r=999;t=3600`)

	w.call(t, "PUT", "/api/dev/pastes/update/"+id, obj{"title": "x"}, other).want(403, "not_owner").wantHeader("X-Charge-Source", "none").
		wantHeader("RateLimit", `"pastes.update";r=1000;t=3600`)
	w.call(t, "PUT", "/api/dev/pastes/update/"+id, obj{"title": "x"}, key, `If-Match: "2"`).want(412, "version_mismatch")
	w.call(t, "PUT", "/api/dev/pastes/update/"+id, obj{"content": "two", "title": nil, "expiresIn": nil, "visibility": "private"}, key, `If-Match: "1"`).
		want(200, "").wantAt(2, "version").wantAt(999, "remaining")
	w.call(t, "GET", "/api/dev/pastes/get/"+id, nil, key).want(200, "").wantAt("two", "paste", "content").wantAt("", "paste", "title").
		wantAt(nil, "paste", "expiresAt").wantAt("go", "paste", "language")
	w.call(t, "GET", "/api/dev/pastes/get/"+id, nil, other).want(404, "not_found")
	w.call(t, "GET", "/api/dev/pastes/get/"+id+"?version=1", nil, key).want(200, "").wantAt(1, "paste", "version")
	w.call(t, "GET", "/api/dev/pastes/get/no-such-ref", nil, key).want(404, "not_found").wantHeader("X-Charge-Source", "none")

	w.call(t, "DELETE", "/api/dev/pastes/delete/"+id, nil, other).want(404, "not_found")
	w.call(t, "DELETE", "/api/dev/pastes/delete/"+id, nil, key).want(200, "").wantAt(id, "id").wantAt(999, "remaining")
	w.call(t, "GET", "/api/dev/pastes/get/"+id, nil, key).want(404, "not_found")
	w.call(t, "DELETE", "/api/dev/pastes/delete/"+id, nil, key).want(404, "not_found")
}

func TestWhatIsWrongCostsNothing(t *testing.T) {
	w := newWorld(t, nil)
	create, key, text := "/api/dev/pastes/create", "X-Api-Key: "+w.owner, "Content-Type: text/plain"
	for _, tc := range []struct {
		name   string
		path   string
		body   any
		header []string
		status int
		code   string
		reason string
	}{
		{"no key", create, obj{"content": "a"}, nil, 401, "api_key_required", "API key required"},
		{"wrong key", create, obj{"content": "a"}, []string{"X-Api-Key: qk_nonsense", "Authorization: Bearer " + w.owner}, 401, "invalid_api_key", "Invalid API key"},
		{"wrong key where none is needed", "/api/dev/paste-lite/create", obj{"content": "a"}, []string{"X-Api-Key: x"}, 401, "invalid_api_key", "Invalid API key"},
		{"unknown field", create, obj{"content": "a", "titel": "b"}, []string{key}, 400, "unknown_field", "titel"},
		{"unknown parameter", create + "?titel=b", "a", []string{key, text}, 400, "unknown_field", "titel"},
		{"content twice", create + "?content=b", "a", []string{key, text}, 400, "unknown_field", "content"},
		{"wrong type", create, obj{"content": "a", "tags": "b"}, []string{key}, 400, "invalid_field", "tags"},
		{"no content", create, obj{"title": "b"}, []string{key}, 400, "invalid_field", "content"},
		{"no JSON", create, "{\"content\":\"a\"", []string{key, "Content-Type: application/json"}, 400, "malformed", ""},
		{"XML", create, "<a/>", []string{key, "Content-Type: application/xml"}, 415, "unsupported_media_type", "text/plain"},
		{"too much text", create, strings.Repeat("a", 4<<20+1), []string{key, text}, 413, "too_large", "4 MiB"},
		{"too much JSON", create, obj{"content": strings.Repeat("\n", 4<<20+1)}, []string{key}, 413, "too_large", "4 MiB"},
		{"too much for a quick paste", "/api/dev/paste-lite/create", obj{"content": strings.Repeat("a", 256<<10+1)}, []string{key}, 413, "too_large", "256 KiB"},
		{"private without a key", "/api/dev/paste-lite/create", obj{"content": "a", "visibility": "private"}, nil, 400, "invalid_field", "visibility"},
		{"compressed", create, "{}", []string{key, "Content-Type: application/json", "Content-Encoding: gzip"}, 415, "unsupported_media_type", "Content-Encoding"},
		{"no UTF-8", create, "\xff", []string{key, text}, 400, "invalid_field", "content"},
		{"idempotency key", create, obj{"content": "a"}, []string{key, "Idempotency-Key: " + strings.Repeat("k", 129)}, 400, "invalid_field", "Idempotency-Key"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			a := w.call(t, "POST", tc.path, tc.body, tc.header...).want(tc.status, tc.code)
			if !strings.Contains(a.str("reason"), tc.reason) {
				t.Errorf("reason %q", a.str("reason"))
			}
		})
	}
	w.call(t, "PUT", "/api/dev/pastes/update/"+strings.Repeat("a", 12), obj{}, key).want(400, "malformed")
	w.call(t, "PUT", "/api/dev/pastes/update/"+strings.Repeat("a", 12), obj{"content": nil}, key).want(400, "invalid_field")
	w.call(t, "GET", "/api/dev/pastes/get/aaaaaaaaaaaa?version=0", nil, key).want(400, "invalid_field")
	w.call(t, "GET", "/api/dev/pastes/get/aaaaaaaaaaaa", nil, key, "If-None-Match: 1").want(400, "invalid_field")
	w.call(t, "GET", "/api/dev/pastes/get/aaaaaaaaaaaa", nil, key).want(404, "not_found")
	// The 404 is the only one of all these that billing has seen.
	w.billing.want(t, plan.PastesGet, counts{used: 0, void: 1, failed: 1})
	w.billing.want(t, plan.PastesCreate, counts{used: 0, void: 1, failed: 1})
	w.billing.want(t, plan.LiteCreate, counts{used: 0, void: 1, failed: 1})
}

func TestLimitsOfContentAreExact(t *testing.T) {
	w := newWorld(t, nil)
	key := "X-Api-Key: " + w.owner
	for _, tc := range []struct {
		path string
		size int
	}{{"pastes", 1}, {"pastes", 64 << 10}, {"pastes", 64<<10 + 1}, {"pastes", 4 << 20}, {"paste-lite", 256 << 10}} {
		content := strings.Repeat("é\n\"", tc.size/4+1)[:tc.size/4*4] + strings.Repeat("x", tc.size%4)
		var id string
		if tc.size%2 == 0 {
			id = w.call(t, "POST", "/api/dev/"+tc.path+"/create", obj{"content": content}, key).want(201, "").str("id")
		} else {
			id = w.call(t, "POST", "/api/dev/"+tc.path+"/create?title=from+text&tags=a,b&tags=c", content, key, "Content-Type: text/plain; charset=utf-8").
				want(201, "").str("id")
		}
		got := w.call(t, "GET", "/api/dev/"+tc.path+"/get/"+id, nil, key).want(200, "").wantAt(tc.size, "paste", "size")
		if got.str("paste", "content") != content {
			t.Errorf("%s of %d bytes came back as %d bytes", tc.path, tc.size, len(got.str("paste", "content")))
		}
		if tc.size%2 == 1 {
			got.wantAt("from text", "paste", "title").wantAt("[a b c]", "paste", "tags")
		}
	}
}

func TestIdempotencyKeys(t *testing.T) {
	w := newWorld(t, nil)
	key, idem := "X-Api-Key: "+w.owner, "Idempotency-Key: once"
	first := w.call(t, "POST", "/api/dev/paste-lite/create", obj{"content": "a"}, key, idem).want(201, "").wantHeader("Idempotency-Replayed", "")
	again := w.call(t, "POST", "/api/dev/paste-lite/create", obj{"content": "a"}, key, idem).want(201, "").
		wantHeader("Idempotency-Replayed", "true").wantHeader("Location", first.header.Get("Location"))
	if again.raw != first.raw {
		t.Errorf("first %s, then %s", first.raw, again.raw)
	}
	w.call(t, "POST", "/api/dev/paste-lite/create", obj{"content": "b"}, key, idem).want(422, "idempotency_mismatch")
	w.billing.want(t, plan.LiteCreate, counts{used: 1, void: -1})
	other := w.call(t, "POST", "/api/dev/paste-lite/create", obj{"content": "a"}, "X-Api-Key: "+w.other, idem).want(201, "")
	if other.str("id") == first.str("id") {
		t.Error("another account's key replayed")
	}
	keyless := w.call(t, "POST", "/api/dev/paste-lite/create", obj{"content": "a"}, idem).want(201, "")
	replayed := w.call(t, "POST", "/api/dev/paste-lite/create", obj{"content": "a"}, idem).want(201, "").wantHeader("Idempotency-Replayed", "true")
	if keyless.str("manageToken") == "" || keyless.raw != replayed.raw {
		t.Errorf("first %s, then %s", keyless.raw, replayed.raw)
	}
	id := first.str("id")
	for range 2 {
		w.call(t, "PUT", "/api/dev/paste-lite/update/"+id, obj{"title": "t"}, key, "Idempotency-Key: u").want(200, "").wantAt(2, "version")
		w.call(t, "PUT", "/api/dev/paste-lite/update/"+id, obj{"title": "t"}, key, "Idempotency-Key: v", `If-Match: "1"`).want(412, "version_mismatch")
		w.call(t, "DELETE", "/api/dev/paste-lite/delete/"+id, nil, key, "Idempotency-Key: d").want(200, "")
	}
	w.call(t, "DELETE", "/api/dev/paste-lite/delete/"+id, nil, key, "Idempotency-Key: e").want(404, "not_found")
	w.billing.want(t, plan.LiteUpdate, counts{used: 1, void: -1})
	w.billing.want(t, plan.LiteDelete, counts{used: 1, void: -1})
}

func TestQuickPastesWithoutAKey(t *testing.T) {
	w := newWorld(t, nil)
	w.billing.setLimit(plan.LiteCreate, 2)
	made := w.call(t, "POST", "/api/dev/paste-lite/create", obj{"content": "a"}).want(201, "").wantAt(1, "remaining")
	id, token := made.str("id"), "X-Manage-Token: "+made.str("manageToken")
	if made.at("expiresAt") == nil {
		t.Error("a keyless paste never expires")
	}
	path := "/api/dev/paste-lite/"
	w.call(t, "PUT", path+"update/"+id, obj{"title": "x"}).want(401, "manage_token_required").wantAt("Management token required", "reason")
	w.call(t, "DELETE", path+"delete/"+id, nil, "X-Manage-Token: mt_wrong").want(403, "invalid_manage_token").wantAt("Invalid management token", "reason")
	w.call(t, "DELETE", path+"delete/AAAAAAAAAAAA", nil, "X-Manage-Token: mt_wrong").want(404, "not_found")
	w.call(t, "PUT", path+"update/"+id, obj{"title": "x"}, "X-Api-Key: "+w.owner, token).want(403, "not_owner")
	w.call(t, "PUT", path+"update/"+id, obj{"expiresIn": "31d"}, token).want(400, "invalid_field")
	w.call(t, "PUT", path+"update/"+id, obj{"title": "x"}, token).want(200, "").wantAt(-1, "remaining").wantAt(2, "version").
		wantHeader("X-Charge-Source", "none").wantHeader("RateLimit", "")
	for _, replayed := range []string{"", "true"} {
		w.call(t, "PUT", path+"update/"+id, obj{"title": "y"}, token, "Idempotency-Key: k").want(200, "").wantAt(-1, "remaining").
			wantAt(3, "version").wantHeader("Idempotency-Replayed", replayed)
	}
	w.call(t, "GET", path+"get/"+id, nil).want(401, "api_key_required")
	w.call(t, "DELETE", path+"delete/"+id, nil, token).want(200, "").wantAt(-1, "remaining")
	w.call(t, "DELETE", path+"delete/"+id, nil, token).want(404, "not_found")

	w.call(t, "POST", path+"create", "b", "Content-Type: text/plain").want(201, "").wantAt(0, "remaining")
	w.call(t, "POST", path+"create", obj{"content": "c"}).want(429, "anonymous_limit").wantHeader("Retry-After", "3600").
		wantAt("Anonymous limit of 2 quick pastes per 24 hours reached. Use an API key to continue.", "reason")
}

func TestPasswordsAndBurning(t *testing.T) {
	w := newWorld(t, nil)
	key, other := "X-Api-Key: "+w.owner, "X-Api-Key: "+w.other
	for _, size := range []int{10, 100 << 10} {
		content := strings.Repeat("s", size)
		id := w.call(t, "POST", "/api/dev/pastes/create", obj{"content": content, "password": "pässword", "burnAfterRead": true}, key).want(201, "").str("id")
		path := "/api/dev/pastes/get/" + id
		w.call(t, "GET", path, nil, other).want(403, "wrong_password").wantHeader("Etag", "")
		w.call(t, "GET", path, nil, key, "X-Paste-Password: nope").want(403, "wrong_password")
		w.call(t, "GET", path, nil, key, "X-Paste-Password: pässword").want(200, "").wantAt(true, "paste", "passwordProtected")
		w.call(t, "HEAD", path, nil, other, "X-Paste-Password: pässword").want(200, "")
		if got := w.call(t, "GET", path, nil, other, "X-Paste-Password: pässword").want(200, ""); got.str("paste", "content") != content {
			t.Errorf("%d bytes burned as %d: %.300s", size, len(got.str("paste", "content")), got.raw)
		}
		w.call(t, "GET", path, nil, other, "X-Paste-Password: pässword").want(404, "not_found")
		w.call(t, "GET", path, nil, key, "X-Paste-Password: pässword").want(404, "not_found")
	}
	id := w.call(t, "POST", "/api/dev/pastes/create", obj{"content": "c", "password": "p"}, key).want(201, "").str("id")
	w.call(t, "PUT", "/api/dev/pastes/update/"+id, obj{"password": nil}, key).want(200, "")
	w.call(t, "GET", "/api/dev/pastes/get/"+id, nil, other).want(200, "").wantAt(false, "paste", "passwordProtected")
}

func TestFiles(t *testing.T) {
	w := newWorld(t, nil)
	key, other := "X-Api-Key: "+w.owner, "X-Api-Key: "+w.other
	content := bytes.Repeat([]byte("0123456789"), 20_000)
	sum := sha256.Sum256(content)
	made := w.call(t, "POST", "/api/dev/files/upload?name=d%C3%A4ta.bin&visibility=private&expiresIn=3600", content, key, "Content-Type: application/x-quire").
		want(201, "").wantAt("däta.bin", "name").wantAt(200_000, "size").wantAt("application/x-quire", "contentType").
		wantAt(hex.EncodeToString(sum[:]), "sha256").wantAt(999, "remaining")
	id := made.str("id")
	got := w.call(t, "GET", "/api/dev/files/get/"+id, nil, key).want(200, "").wantAt("private", "file", "visibility").wantAt("däta.bin", "file", "name")
	w.call(t, "GET", "/api/dev/files/get/"+id, nil, other).want(404, "not_found")
	bytesOf := w.call(t, "GET", "/api/dev/files/get/"+id+"?download=1", nil, key).want(200, "").wantHeader("X-Quota-Remaining", "998").
		wantHeader("X-Content-Type-Options", "nosniff").wantHeader("Content-Type", "application/x-quire").wantHeader("X-Charge-Source", "quota").
		wantHeader("Content-Disposition", `attachment; filename="d_ta.bin"; filename*=UTF-8''d%C3%A4ta.bin`)
	if bytesOf.raw != string(content) {
		t.Errorf("%d bytes", len(bytesOf.raw))
	}
	tag := bytesOf.header.Get("Etag")
	accept := "Accept: application/octet-stream"
	w.call(t, "GET", "/api/dev/files/get/"+id, nil, key, accept, "Range: bytes=5-9").want(206, "").wantHeader("Content-Range", "bytes 5-9/200000").
		wantHeader("Content-Length", "5")
	w.call(t, "GET", "/api/dev/files/get/"+id, nil, key, accept, "Range: bytes=200000-").want(416, "range_not_satisfiable").
		wantHeader("Content-Range", "bytes */200000").wantHeader("X-Charge-Source", "none")
	w.call(t, "GET", "/api/dev/files/get/"+id, nil, key, accept, "If-None-Match: "+tag).want(304, "").wantHeader("Etag", tag)
	if part := w.call(t, "GET", "/api/dev/files/get/"+id, nil, key, accept, "Range: bytes=-3", `If-Range: "other"`).want(200, ""); len(part.raw) != len(content) {
		t.Errorf("%d bytes", len(part.raw))
	}
	link := strings.TrimPrefix(got.str("file", "downloadUrl"), w.url)
	if linked := w.call(t, "GET", link, nil).want(200, ""); linked.raw != string(content) {
		t.Errorf("%d bytes behind the link", len(linked.raw))
	}
	w.call(t, "GET", strings.Replace(link, "signature=", "signature=A", 1), nil).want(404, "not_found")
	w.call(t, "GET", strings.Replace(link, "expires=", "expires=1", 1), nil).want(404, "not_found")

	w.call(t, "DELETE", "/api/dev/files/delete/"+id, nil, other).want(404, "not_found")
	w.call(t, "DELETE", "/api/dev/files/delete/"+id, nil, key).want(200, "").wantAt(id, "id")
	w.call(t, "GET", link, nil).want(404, "not_found")
}

func form(t *testing.T, fields [][2]string) (body []byte, contentType string) {
	t.Helper()
	var b bytes.Buffer
	m := multipart.NewWriter(&b)
	for _, f := range fields {
		var to io.Writer
		var err error
		if f[0] == "file" {
			to, err = m.CreateFormFile("file", `C:\dir\name.txt`)
		} else {
			to, err = m.CreateFormField(f[0])
		}
		if err == nil {
			_, err = io.WriteString(to, f[1])
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	m.Close()
	return b.Bytes(), "Content-Type: " + m.FormDataContentType()
}

func TestUploadsByForm(t *testing.T) {
	w := newWorld(t, nil)
	key := "X-Api-Key: " + w.owner
	for _, tc := range []struct {
		name   string
		fields [][2]string
		status int
		code   string
		file   string
	}{
		{"name before", [][2]string{{"name", "a.txt"}, {"visibility", "public"}, {"file", "hello"}}, 201, "", "a.txt"},
		{"name behind", [][2]string{{"file", "hello"}, {"name", "b.txt"}, {"expiresIn", "1h"}}, 201, "", "b.txt"},
		{"name of the part", [][2]string{{"file", "hello"}}, 201, "", "name.txt"},
		{"empty", [][2]string{{"file", ""}}, 400, "invalid_field", ""},
		{"no file", [][2]string{{"name", "a"}}, 400, "invalid_field", ""},
		{"two files", [][2]string{{"file", "a"}, {"file", "b"}}, 400, "invalid_field", ""},
		{"unknown field", [][2]string{{"nome", "a"}, {"file", "a"}}, 400, "unknown_field", ""},
		{"bad name", [][2]string{{"name", "../a"}, {"file", "a"}}, 400, "invalid_field", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			body, contentType := form(t, tc.fields)
			a := w.call(t, "POST", "/api/dev/files/upload", body, key, contentType).want(tc.status, tc.code)
			if tc.status == 201 {
				a.wantAt(tc.file, "name").wantAt(5, "size").wantAt("application/octet-stream", "contentType")
			}
		})
	}
	body, contentType := form(t, [][2]string{{"file", "hello"}})
	first := w.call(t, "POST", "/api/dev/files/upload", body, key, contentType, "Idempotency-Key: f").want(201, "")
	again := w.call(t, "POST", "/api/dev/files/upload", body, key, contentType, "Idempotency-Key: f").want(201, "").wantHeader("Idempotency-Replayed", "true")
	if first.raw != again.raw {
		t.Errorf("first %s, then %s", first.raw, again.raw)
	}
	body, contentType = form(t, [][2]string{{"file", "other"}})
	w.call(t, "POST", "/api/dev/files/upload", body, key, contentType, "Idempotency-Key: f").want(422, "idempotency_mismatch")
	w.billing.want(t, plan.FilesUpload, counts{used: 4, void: -1})
}

func TestTheSizeOfFilesIsBounded(t *testing.T) {
	w := newWorld(t, nil)
	key, path := "X-Api-Key: "+w.owner, "/api/dev/files/upload?name=big"
	zeros := func(n int64) io.Reader { return io.LimitReader(zeroReader{}, n) } // of unknown length: chunked
	w.call(t, "POST", path, zeros(50<<20+1), key).want(413, "too_large").wantHeader("X-Charge-Source", "none")
	w.call(t, "POST", path, zeros(50<<20), key).want(201, "").wantAt(50<<20, "size")
	w.call(t, "POST", path, bytes.NewReader(make([]byte, 50<<20+1)), key).want(413, "too_large")
	w.call(t, "POST", path, nil, key).want(400, "invalid_field")
	w.call(t, "POST", path, "x").want(401, "api_key_required")
	w.billing.want(t, plan.FilesUpload, counts{used: 1, void: 1})
}

type zeroReader struct{}

func (zeroReader) Read(p []byte) (int, error) { clear(p); return len(p), nil }

func TestLists(t *testing.T) {
	w := newWorld(t, nil)
	key := "X-Api-Key: " + w.owner
	var ids []string
	for i := range 5 {
		ids = append(ids, w.call(t, "POST", "/api/dev/paste-lite/create", obj{"content": "c", "title": fmt.Sprintf("T%d", i), "tags": []string{"x"}}, key).
			want(201, "").str("id"))
	}
	var seen []string
	path := "/api/dev/paste-lite/list?order=asc&limit=2"
	for next := path; next != ""; {
		page := w.call(t, "GET", next, nil, key).want(200, "").wantAt(-1, "remaining").wantHeader("RateLimit", "")
		for _, p := range page.at("pastes").([]any) {
			item := p.(map[string]any)
			if _, has := item["content"]; has {
				t.Error("a list shows content")
			}
			seen = append(seen, fmt.Sprint(item["id"]))
		}
		next = ""
		if page.at("hasMore") == true {
			next = path + "&cursor=" + page.str("nextCursor")
		}
	}
	// In the order of their creation, also those of one millisecond.
	if !slices.Equal(seen, ids) {
		t.Errorf("listed %v, created %v", seen, ids)
	}
	page := w.call(t, "GET", "/api/dev/paste-lite/list?limit=1&q=t3", nil, key).want(200, "")
	if list := page.at("pastes").([]any); len(list) != 1 || list[0].(map[string]any)["title"] != "T3" {
		t.Errorf("%s", page.raw)
	}
	w.call(t, "GET", "/api/dev/paste-lite/list", nil, "X-Api-Key: "+w.other).want(200, "").wantAt("[]", "pastes").wantAt(false, "hasMore").wantAt(nil, "nextCursor")
	cursor := w.call(t, "GET", path, nil, key).str("nextCursor")
	for query, code := range map[string]string{
		"?cursor=" + cursor: "invalid_cursor", "?cursor=x": "invalid_cursor", "?order=asc&cursor=" + cursor + "A": "invalid_cursor",
		"?limit=0": "invalid_field", "?limit=101": "invalid_field", "?order=up": "invalid_field", "?page=2": "unknown_field", "?visibility=x": "invalid_field",
	} {
		w.call(t, "GET", "/api/dev/paste-lite/list"+query, nil, key).want(400, code)
	}
	w.call(t, "GET", "/api/dev/files/list", nil, key).want(200, "").wantAt("[]", "files")
}

func TestTooManyFailuresOfOneSource(t *testing.T) {
	w := newWorld(t, nil)
	path := "/api/dev/paste-lite/create"
	for range 101 {
		w.call(t, "POST", path, obj{"content": "a"}, "X-Api-Key: wrong").want(401, "invalid_api_key")
	}
	if a := w.call(t, "POST", path, obj{"content": "a"}, "X-Api-Key: wrong").want(429, "too_many_failures"); a.header.Get("Retry-After") == "" {
		t.Error("no Retry-After")
	}
	w.call(t, "POST", path, obj{"content": "a"}, "X-Api-Key: "+w.owner).want(201, "")
	w.call(t, "DELETE", "/api/dev/paste-lite/delete/AAAAAAAAAAAA", nil, "X-Manage-Token: x").want(429, "too_many_failures")
}

func TestQuotaExhausted(t *testing.T) {
	w := newWorld(t, func(cfg *edge.Config) { cfg.PublicURL = "https://quire.example/" })
	w.billing.setLimit(plan.PastesCreate, 1)
	key := "X-Api-Key: " + w.owner
	made := w.call(t, "POST", "/api/dev/pastes/create", obj{"content": "a"}, key).want(201, "").wantAt(0, "remaining")
	if !strings.HasPrefix(made.str("url"), "https://quire.example/p/") {
		t.Error(made.raw)
	}
	w.call(t, "POST", "/api/dev/pastes/create", obj{"content": "a"}, key).want(429, "quota_exhausted").wantHeader("Retry-After", "3600").
		wantAt("Monthly limit of 1 requests reached for pastes.create. Upgrade your plan to continue.", "reason").
		wantHeader("RateLimit", `"pastes.create";r=0;t=3600`).wantHeader("X-Charge-Source", "none")
}

func TestPathsForOperators(t *testing.T) {
	w := newWorld(t, nil)
	w.call(t, "GET", "/livez", nil).want(200, "")
	w.call(t, "GET", "/readyz", nil).want(200, "")
	if m := w.call(t, "GET", "/metrics", nil); !strings.Contains(m.raw, "quire_edge_answers_total") {
		t.Errorf("%d %.200s", m.status, m.raw)
	}
}

func TestAnUploadThatTookLongIsAdmittedAnew(t *testing.T) {
	w := newWorld(t, func(cfg *edge.Config) { cfg.AdmissionAge = 1 })
	key := "X-Api-Key: " + w.owner
	made := w.call(t, "POST", "/api/dev/files/upload?name=a", "slow", key, "Idempotency-Key: a").want(201, "").wantAt(999, "remaining")
	w.billing.want(t, plan.FilesUpload, counts{used: 1, void: 1})
	again := w.call(t, "POST", "/api/dev/files/upload?name=a", "slow", key, "Idempotency-Key: a").want(201, "").wantHeader("Idempotency-Replayed", "true")
	if made.raw != again.raw {
		t.Errorf("first %s, then %s", made.raw, again.raw)
	}
	w.call(t, "GET", "/api/dev/files/get/"+made.str("id"), nil, key).want(200, "")
}

func TestOfManyWithOneIdempotencyKeyOneIsExecuted(t *testing.T) {
	w := newWorld(t, nil)
	key := "X-Api-Key: " + w.owner
	answers := make(chan *answer)
	const many = 16
	for range many {
		go func() {
			answers <- w.call(t, "POST", "/api/dev/paste-lite/create", obj{"content": "a"}, key, "Idempotency-Key: race")
		}()
	}
	ids := map[string]bool{}
	for range many {
		switch a := <-answers; a.status {
		case 201:
			ids[a.str("id")] = true
		case 409:
			a.want(409, "idempotency_in_flight")
		default:
			t.Errorf("%d %s", a.status, a.raw)
		}
	}
	if len(ids) != 1 {
		t.Errorf("ids %v", ids)
	}
	w.billing.want(t, plan.LiteCreate, counts{used: 1, void: -1})
}

func TestOfManyReadersOneBurnsAPaste(t *testing.T) {
	w := newWorld(t, nil)
	id := w.call(t, "POST", "/api/dev/paste-lite/create", obj{"content": "secret", "burnAfterRead": true}).want(201, "").str("id")
	answers := make(chan *answer)
	const many = 16
	for range many {
		go func() { answers <- w.call(t, "GET", "/api/dev/paste-lite/get/"+id, nil, "X-Api-Key: "+w.owner) }()
	}
	shown := 0
	for range many {
		switch a := <-answers; a.status {
		case 200:
			shown++
			a.wantAt("secret", "paste", "content")
		default:
			a.want(404, "not_found")
		}
	}
	if shown != 1 {
		t.Errorf("shown %d times", shown)
	}
	w.billing.want(t, plan.LiteGet, counts{used: 1, void: many - 1, failed: many - 1})
}
