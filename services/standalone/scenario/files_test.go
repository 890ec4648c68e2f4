package scenario

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"mime/multipart"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"
)

const maxFileBytes = 50 << 20

// part is a field of a form, or, if it has a name, a file.
type part struct {
	field, name string
	content     []byte
}

func field(name, value string) part { return part{field: name, content: []byte(value)} }

// form is an upload of these parts, in their order.
func form(t *testing.T, parts ...part) request {
	t.Helper()
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	for _, p := range parts {
		create := func() (io.Writer, error) { return w.CreateFormField(p.field) }
		if p.name != "" {
			create = func() (io.Writer, error) { return w.CreateFormFile(p.field, p.name) }
		}
		to, err := create()
		if err == nil {
			_, err = to.Write(p.content)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return request{body: &b, header: map[string]string{"Content-Type": w.FormDataContentType()}}
}

func randomBytes(n int) []byte {
	b := make([]byte, n)
	rand.Read(b)
	return b
}

func TestAFileIsUploadedEitherWayAndReadBack(t *testing.T) {
	i := common(t)
	a := i.account(t, "pro")
	content := randomBytes(300_000)
	sum := sha256.Sum256(content)
	uploads := map[string]func() answer{
		"form": func() answer {
			return a.with(t, "POST", "/api/dev/files/upload", form(t,
				field("name", "päper.pdf"), field("visibility", "public"), field("expiresIn", "1h"), part{"file", "x.bin", content}))
		},
		"body": func() answer {
			return a.with(t, "POST", "/api/dev/files/upload?name="+url.QueryEscape("päper.pdf")+"&visibility=public&expiresIn=1h", request{
				body: content, header: map[string]string{"Content-Type": "application/x-quire"},
			})
		},
	}
	types := map[string]string{"form": "application/octet-stream", "body": "application/x-quire"}
	for way, upload := range uploads {
		t.Run(way, func(t *testing.T) {
			made := upload()
			body := made.ok(t, http.StatusCreated)
			id := text(t, body, "id")
			if number(t, body, "size") != int64(len(content)) || text(t, body, "sha256") != hex.EncodeToString(sum[:]) || text(t, body, "name") != "päper.pdf" || text(t, body, "contentType") != types[way] {
				t.Errorf("%v", body)
			}
			if made.header.Get("Location") == "" {
				t.Error("no Location")
			}
			info := a.do(t, "GET", "/api/dev/files/get/"+id, nil).ok(t, http.StatusOK)
			if text(t, info, "file", "visibility") != "public" || at(t, info, "file", "expiresAt") == nil || text(t, info, "file", "sha256") != hex.EncodeToString(sum[:]) {
				t.Errorf("%v", info)
			}
			byQuery := a.do(t, "GET", "/api/dev/files/get/"+id+"?download=1", nil)
			byAccept := a.with(t, "GET", "/api/dev/files/get/"+id, request{header: map[string]string{"Accept": "application/octet-stream"}})
			for _, got := range []answer{byQuery, byAccept} {
				if got.status != http.StatusOK || !bytes.Equal(got.body, content) {
					t.Fatalf("%s: %d, %d bytes", got.what, got.status, len(got.body))
				}
				if got.header.Get("ETag") == "" || got.header.Get("X-Quota-Remaining") == "" {
					t.Errorf("headers %v", got.header)
				}
				got.hasHeader(t, "Content-Type", types[way])
				got.hasHeader(t, "X-Content-Type-Options", "nosniff")
				got.hasHeader(t, "X-Charge-Source", "quota")
				if d := got.header.Get("Content-Disposition"); !strings.HasPrefix(d, "attachment") || !strings.Contains(d, "p%C3%A4per.pdf") {
					t.Errorf("Content-Disposition %q", d)
				}
			}
			signed := text(t, info, "file", "downloadUrl")
			if got := i.do(t, "GET", signed, request{}); got.status != http.StatusOK || !bytes.Equal(got.body, content) {
				t.Errorf("signed link: %d, %d bytes", got.status, len(got.body))
			}
			for _, forged := range []string{
				strings.Replace(signed, id, "000000000000", 1),
				strings.Replace(signed, "signature=", "signature=A", 1),
				strings.Replace(signed, "expires=", "expires=1", 1),
			} {
				i.do(t, "GET", forged, request{}).fails(t, http.StatusNotFound, "not_found", "")
			}
			a.do(t, "DELETE", "/api/dev/files/delete/"+id, nil).ok(t, http.StatusOK)
			i.do(t, "GET", signed, request{}).fails(t, http.StatusNotFound, "not_found", "")
		})
	}
}

// TestADownloadLinkIsForItsFileAlone: with it anyone can open a private file, it names no account, and opens no other file.
func TestADownloadLinkIsForItsFileAlone(t *testing.T) {
	i := common(t)
	a := i.account(t, "pro")
	var ids, links []string
	for _, content := range []string{"the first", "the second"} {
		made := a.do(t, "POST", "/api/dev/files/upload?name=f&visibility=private", []byte(content)).ok(t, http.StatusCreated)
		id := text(t, made, "id")
		link := text(t, a.do(t, "GET", "/api/dev/files/get/"+id, nil).ok(t, http.StatusOK), "file", "downloadUrl")
		ids, links = append(ids, id), append(links, link)
		i.do(t, "GET", link, request{}).shows(t, http.StatusOK, content)
		at, err := url.Parse(link)
		if err != nil {
			t.Fatal(err)
		}
		names := slices.Sorted(maps.Keys(at.Query()))
		if !slices.Equal(names, []string{"expires", "signature"}) || strings.Contains(link, a.id) {
			t.Errorf("the link says more than it must: %s", link)
		}
		for _, path := range []string{"", "/raw", "/view"} { // the signature is for the download alone
			i.do(t, "GET", strings.Replace(link, "/download", path, 1), request{}).fails(t, http.StatusNotFound, "not_found", "")
		}
	}
	i.do(t, "GET", strings.Replace(links[0], ids[0], ids[1], 1), request{}).fails(t, http.StatusNotFound, "not_found", "")
	i.do(t, "GET", links[0]+"&as="+a.id, request{}).fails(t, http.StatusBadRequest, "unknown_field", "")
}

func TestRangesOfAFile(t *testing.T) {
	a := common(t).account(t, "pro")
	content := []byte("0123456789abcdefghij")
	id := a.upload(t, "f.txt", content)
	path := "/api/dev/files/get/" + id + "?download=1"
	etag := a.do(t, "GET", path, nil).header.Get("ETag")
	for _, test := range []struct {
		rng, ifRange string
		status       int
		want, head   string
	}{
		{"bytes=0-4", "", 206, "01234", "bytes 0-4/20"},
		{"bytes=15-", "", 206, "fghij", "bytes 15-19/20"},
		{"bytes=-3", "", 206, "hij", "bytes 17-19/20"},
		{"bytes=5-500", "", 206, "56789abcdefghij", "bytes 5-19/20"},
		{"bytes=0-4", etag, 206, "01234", "bytes 0-4/20"},
		{"bytes=0-4", `"another"`, 200, string(content), ""},
		{"lines=1-2", "", 200, string(content), ""},
		{"bytes=20-", "", 416, "", "bytes */20"},
	} {
		header := map[string]string{"Range": test.rng}
		if test.ifRange != "" {
			header["If-Range"] = test.ifRange
		}
		got := a.with(t, "GET", path, request{header: header})
		if got.status != test.status || test.status != 416 && string(got.body) != test.want {
			t.Errorf("%s: %d %q, want %d %q", test.rng, got.status, got.body, test.status, test.want)
		}
		got.hasHeader(t, "Content-Range", test.head)
		if test.status == 416 {
			got.fails(t, 416, "range_not_satisfiable", "")
			got.hasHeader(t, "X-Charge-Source", "none")
		}
	}
	if got := a.with(t, "GET", path, request{header: map[string]string{"If-None-Match": etag}}); got.status != http.StatusNotModified {
		t.Errorf("If-None-Match: %d", got.status)
	}
}

func TestStorageIsCountedByTheUploadAndGivenBackByTheDelete(t *testing.T) {
	a := common(t).account(t, "pro")
	used := func() int64 { return number(t, a.usage(t), "storage", "usedBytes") }
	first := a.upload(t, "a", randomBytes(100_000))
	if got := used(); got != 100_000 {
		t.Errorf("used %d after an upload of 100,000 bytes", got)
	}
	second := a.upload(t, "b", randomBytes(7))
	if got := used(); got != 100_007 {
		t.Errorf("used %d", got)
	}
	for _, id := range []string{first, second} {
		a.do(t, "DELETE", "/api/dev/files/delete/"+id, nil).ok(t, http.StatusOK)
		a.do(t, "GET", "/api/dev/files/get/"+id, nil).fails(t, http.StatusNotFound, "not_found", "")
	}
	if got := used(); got != 0 {
		t.Errorf("used %d after the deletes", got)
	}
	if free := number(t, a.usage(t), "storage", "freeBytes"); free != 10<<30 {
		t.Errorf("%d bytes are free", free)
	}
}

func TestFileVisibility(t *testing.T) {
	i := common(t)
	a, other := i.account(t, "pro"), i.account(t, "pro")
	for visibility, want := range map[string]int{"public": 200, "unlisted": 200, "private": 404} {
		id := text(t, a.with(t, "POST", "/api/dev/files/upload?name=f&visibility="+visibility, request{body: []byte("x")}).ok(t, http.StatusCreated), "id")
		if got := other.do(t, "GET", "/api/dev/files/get/"+id, nil); got.status != want {
			t.Errorf("%s: others get %d", visibility, got.status)
		}
		if got := i.do(t, "GET", "/f/"+id, request{}); got.status != want {
			t.Errorf("%s: its page is %d", visibility, got.status)
		}
		denied := other.do(t, "DELETE", "/api/dev/files/delete/"+id, nil)
		if want == 404 {
			denied.fails(t, 404, "not_found", "")
		} else {
			denied.fails(t, 403, "not_owner", "")
		}
	}
}

func TestFileList(t *testing.T) {
	a := common(t).account(t, "pro")
	ids := map[string]bool{}
	for n := range 5 {
		ids[a.upload(t, fmt.Sprintf("file %d", n), []byte("x"))] = true
	}
	body := a.do(t, "GET", "/api/dev/files/list?limit=3", nil).ok(t, http.StatusOK)
	first := at(t, body, "files").([]any)
	rest := a.do(t, "GET", "/api/dev/files/list?limit=3&cursor="+text(t, body, "nextCursor"), nil).ok(t, http.StatusOK)
	for _, v := range append(first, at(t, rest, "files").([]any)...) {
		delete(ids, text(t, v.(object), "id"))
	}
	if len(first) != 3 || len(ids) != 0 || rest["hasMore"] != false {
		t.Errorf("first page %d, missing %v, then %v", len(first), ids, rest["hasMore"])
	}
}

func TestAFormNamesItsFileByAFieldOrByThePart(t *testing.T) {
	a := common(t).account(t, "pro")
	hello := part{"file", `C:\dir\name.txt`, []byte("hello")}
	for want, parts := range map[string][]part{
		"before.txt": {field("name", "before.txt"), hello},
		"behind.txt": {hello, field("name", "behind.txt"), field("expiresIn", "1h")},
		"name.txt":   {hello},
	} {
		body := a.with(t, "POST", "/api/dev/files/upload", form(t, parts...)).ok(t, http.StatusCreated)
		if text(t, body, "name") != want || number(t, body, "size") != 5 {
			t.Errorf("%v, want %s", body, want)
		}
	}
	upload := func(content string) answer {
		r := form(t, part{"file", "f", []byte(content)})
		r.header["Idempotency-Key"] = "form"
		return a.with(t, "POST", "/api/dev/files/upload", r)
	}
	first, again := upload("hello"), upload("hello")
	first.ok(t, http.StatusCreated)
	again.hasHeader(t, "Idempotency-Replayed", "true")
	if !bytes.Equal(again.body, first.body) {
		t.Errorf("%s, then %s", first.body, again.body)
	}
	upload("other").fails(t, http.StatusUnprocessableEntity, "idempotency_mismatch", "")
	if used := a.used(t, "files.upload"); used != 4 {
		t.Errorf("%d were counted", used)
	}
}

func TestUploadsThatAreNotWellFormed(t *testing.T) {
	a := common(t).account(t, "pro")
	file := part{"file", "f", []byte("x")}
	for _, wrong := range []struct {
		code  string
		parts []part
	}{
		{"invalid_field", []part{{"file", "f", nil}}},
		{"invalid_field", []part{field("name", "a")}},
		{"invalid_field", []part{file, file}},
		{"unknown_field", []part{field("nome", "a"), file}},
		{"invalid_field", []part{field("name", "../a"), file}},
	} {
		a.with(t, "POST", "/api/dev/files/upload", form(t, wrong.parts...)).fails(t, 400, wrong.code, "")
	}
	a.with(t, "POST", "/api/dev/files/upload?name=f", request{}).fails(t, 400, "invalid_field", "")
	// The edge sees the second file only after the admission. Such a request is malformed all the same, and does not count
	// as a failure: more than 100 failures would be refused.
	for range 102 {
		a.with(t, "POST", "/api/dev/files/upload", form(t, file, file)).fails(t, 400, "invalid_field", "")
	}
	a.with(t, "POST", "/api/dev/files/upload", request{body: []byte("x")}).fails(t, 400, "invalid_field", "")
	a.with(t, "POST", "/api/dev/files/upload?nam=f", request{body: []byte("x")}).fails(t, 400, "unknown_field", "")
	a.with(t, "POST", "/api/dev/files/upload?name=f&visibility=x", request{body: []byte("x")}).fails(t, 400, "invalid_field", "")
	a.with(t, "POST", "/api/dev/files/upload", request{body: "--x", header: map[string]string{"Content-Type": "multipart/form-data; boundary=x"}}).fails(t, 400, "malformed", "")
	a.with(t, "POST", "/api/dev/files/upload", request{body: "--x", header: map[string]string{"Content-Type": "multipart/form-data"}}).fails(t, 400, "malformed", "")
	if used := a.used(t, "files.upload"); used != 0 {
		t.Errorf("%d were counted", used)
	}
	if stored := number(t, a.usage(t), "storage", "usedBytes"); stored != 0 {
		t.Errorf("%d bytes are stored", stored)
	}
}

func TestTheLargestFileIsTakenAndOneByteMoreIsNot(t *testing.T) {
	i := common(t)
	a := i.account(t, "pro")
	content := make([]byte, maxFileBytes)
	id := a.upload(t, "large", content)
	got := a.with(t, "GET", "/api/dev/files/get/"+id+"?download=1", request{header: map[string]string{"Range": "bytes=52428790-"}})
	if got.status != http.StatusPartialContent || len(got.body) != 10 {
		t.Errorf("%d, %d bytes", got.status, len(got.body))
	}
	a.do(t, "DELETE", "/api/dev/files/delete/"+id, nil).ok(t, http.StatusOK)
	a.with(t, "POST", "/api/dev/files/upload", form(t, part{"file", "f", append(content, 'x')})).fails(t, 413, "too_large", "")
	unknownLength := request{body: io.MultiReader(bytes.NewReader(content))}
	if size := number(t, a.with(t, "POST", "/api/dev/files/upload?name=f", unknownLength).ok(t, http.StatusCreated), "size"); size != maxFileBytes {
		t.Errorf("%d bytes of unknown length came as %d", maxFileBytes, size)
	}
	if used := a.used(t, "files.upload"); used != 2 {
		t.Errorf("%d were counted", used)
	}
}

// TestTooLargeIsAnsweredWhileTheClientStillSends: the response must reach a client that has not finished, and that keeps
// sending for a while.
func TestTooLargeIsAnsweredWhileTheClientStillSends(t *testing.T) {
	i := common(t)
	a := i.account(t, "pro")
	for _, way := range []string{"declared", "chunked"} {
		t.Run(way, func(t *testing.T) {
			conn, err := net.Dial("tcp", i.address())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			if err := conn.SetDeadline(time.Now().Add(60 * time.Second)); err != nil {
				t.Fatal(err)
			}
			length := "Content-Length: 200000000"
			if way == "chunked" {
				length = "Transfer-Encoding: chunked"
			}
			fmt.Fprintf(conn, "POST /api/dev/files/upload?name=f HTTP/1.1\r\nHost: quire\r\nx-api-key: %s\r\nContent-Type: application/octet-stream\r\n%s\r\n\r\n", a.key, length)
			sent := make(chan struct{})
			go func() {
				defer close(sent)
				piece := make([]byte, 1<<20)
				for range 70 { // over the limit; after an error the server has answered and closed
					if way == "chunked" {
						fmt.Fprintf(conn, "%x\r\n", len(piece))
					}
					if _, err := conn.Write(piece); err != nil {
						return
					}
					if way == "chunked" {
						fmt.Fprint(conn, "\r\n")
					}
				}
			}()
			head, err := readHead(conn)
			if err != nil {
				t.Fatalf("no answer: %v (got %q)", err, head)
			}
			if !strings.HasPrefix(head, "HTTP/1.1 413 ") || !strings.Contains(head, `"too_large"`) {
				t.Errorf("got %q", head)
			}
			conn.Close()
			<-sent
		})
	}
	if used := a.used(t, "files.upload"); used != 0 {
		t.Errorf("%d were counted", used)
	}
}

// readHead reads until the JSON body of an answer has ended.
func readHead(r io.Reader) (string, error) {
	var all []byte
	buf := make([]byte, 4096)
	for !bytes.Contains(all, []byte("\r\n\r\n")) || !bytes.HasSuffix(bytes.TrimSpace(all), []byte("}")) {
		n, err := r.Read(buf)
		all = append(all, buf[:n]...)
		if err != nil {
			return string(all), err
		}
	}
	return string(all), nil
}
