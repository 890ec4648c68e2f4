package scenario

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"mime/multipart"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"
)

const mostFileBytes = 50 << 20

func form(t *testing.T, fields map[string]string, name string, content []byte) request {
	t.Helper()
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	for field, value := range fields {
		if err := w.WriteField(field, value); err != nil {
			t.Fatal(err)
		}
	}
	part, err := w.CreateFormFile("file", name)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := part.Write(content); err != nil {
		t.Fatal(err)
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
			return a.with(t, "POST", "/api/dev/files/upload", form(t, map[string]string{"name": "päper.pdf", "visibility": "public", "expiresIn": "1h"}, "x.bin", content))
		},
		"body": func() answer {
			return a.with(t, "POST", "/api/dev/files/upload?name="+url.QueryEscape("päper.pdf")+"&visibility=public&expiresIn=1h", request{body: content})
		},
	}
	for way, upload := range uploads {
		t.Run(way, func(t *testing.T) {
			made := upload()
			body := made.ok(t, http.StatusCreated)
			id := text(t, body, "id")
			if number(t, body, "size") != int64(len(content)) || text(t, body, "sha256") != hex.EncodeToString(sum[:]) || text(t, body, "name") != "päper.pdf" {
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
				if d := got.header.Get("Content-Disposition"); !strings.HasPrefix(d, "attachment") || !strings.Contains(d, "p%C3%A4per.pdf") {
					t.Errorf("Content-Disposition %q", d)
				}
			}
			signed := text(t, info, "file", "downloadUrl")
			if got := i.do(t, "GET", signed, request{}); got.status != http.StatusOK || !bytes.Equal(got.body, content) {
				t.Errorf("signed link: %d, %d bytes", got.status, len(got.body))
			}
			tampered := strings.Replace(signed, id, "000000000000", 1)
			if got := i.do(t, "GET", tampered, request{}); got.status == http.StatusOK {
				t.Error("a signed link is good for another file")
			}
		})
	}
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

func TestUploadsThatAreNotWellFormed(t *testing.T) {
	a := common(t).account(t, "pro")
	a.with(t, "POST", "/api/dev/files/upload", request{body: []byte("x")}).fails(t, 400, "invalid_field", "")
	a.with(t, "POST", "/api/dev/files/upload?nam=f", request{body: []byte("x")}).fails(t, 400, "unknown_field", "")
	a.with(t, "POST", "/api/dev/files/upload?name=f&visibility=x", request{body: []byte("x")}).fails(t, 400, "invalid_field", "")
	a.with(t, "POST", "/api/dev/files/upload", request{body: "--x", header: map[string]string{"Content-Type": "multipart/form-data; boundary=x"}}).fails(t, 400, "invalid_field", "")
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
	content := make([]byte, mostFileBytes)
	id := a.upload(t, "large", content)
	got := a.with(t, "GET", "/api/dev/files/get/"+id+"?download=1", request{header: map[string]string{"Range": "bytes=52428790-"}})
	if got.status != http.StatusPartialContent || len(got.body) != 10 {
		t.Errorf("%d, %d bytes", got.status, len(got.body))
	}
	a.do(t, "DELETE", "/api/dev/files/delete/"+id, nil).ok(t, http.StatusOK)
	a.with(t, "POST", "/api/dev/files/upload", form(t, nil, "f", append(content, 'x'))).fails(t, 413, "too_large", "")
	if used := a.used(t, "files.upload"); used != 1 {
		t.Errorf("%d were counted", used)
	}
}

// TestTooLargeIsAnsweredWhileTheClientStillSends: the answer must reach a client that has not finished,
// and goes on sending for a while.
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
				for range 70 { // over the limit; an error here means that the server has closed, after its answer
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
