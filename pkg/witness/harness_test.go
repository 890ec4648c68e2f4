package witness

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

// testLog is a log in memory. Its entries are counters, with the name of its history.
type testLog struct {
	t      testing.TB
	signer note.Signer
	key    string // verifier
	hashes []tlog.Hash
	size   int64
}

func newLog(t testing.TB, origin string) *testLog {
	t.Helper()
	secret, key, err := note.GenerateKey(rand.Reader, origin)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := note.NewSigner(secret)
	if err != nil {
		t.Fatal(err)
	}
	return &testLog{t: t, signer: signer, key: key}
}

// grow appends entries up to a size.
func (l *testLog) grow(size int64, history string) *testLog {
	l.t.Helper()
	for ; l.size < size; l.size++ {
		hashes, err := tlog.StoredHashes(l.size, fmt.Appendf(nil, "%s %d", history, l.size), l)
		if err != nil {
			l.t.Fatal(err)
		}
		l.hashes = append(l.hashes, hashes...)
	}
	return l
}

// fork is a log with the same key and the first entries.
func (l *testLog) fork(at int64) *testLog {
	return &testLog{t: l.t, signer: l.signer, key: l.key, size: at, hashes: append([]tlog.Hash(nil), l.hashes[:tlog.StoredHashCount(at)]...)}
}

// ReadHashes implements tlog.HashReader.
func (l *testLog) ReadHashes(indexes []int64) ([]tlog.Hash, error) {
	var out []tlog.Hash
	for _, i := range indexes {
		out = append(out, l.hashes[i])
	}
	return out, nil
}

func (l *testLog) root(size int64) tlog.Hash {
	l.t.Helper()
	root, err := tlog.TreeHash(size, l)
	if err != nil {
		l.t.Fatal(err)
	}
	return root
}

func (l *testLog) proof(old, size int64) []tlog.Hash {
	l.t.Helper()
	if old == 0 {
		return nil
	}
	proof, err := tlog.ProveTree(size, old, l)
	if err != nil {
		l.t.Fatal(err)
	}
	return proof
}

// checkpoint is the signed checkpoint of a size, with extension lines.
func (l *testLog) checkpoint(size int64, extensions ...string) []byte {
	l.t.Helper()
	return l.sign(fmt.Sprintf("%s\n%d\n%s\n%s", l.signer.Name(), size, l.root(size), strings.Join(extensions, "")))
}

func (l *testLog) sign(text string) []byte {
	l.t.Helper()
	signed, err := note.Sign(&note.Note{Text: text}, l.signer)
	if err != nil {
		l.t.Fatal(err)
	}
	return signed
}

// body is a valid request.
func (l *testLog) body(old, size int64) []byte {
	l.t.Helper()
	return formatRequest(old, l.proof(old, size), l.checkpoint(size))
}

// open opens a witness of logs.
func open(t testing.TB, folder string, keys ...string) *Server {
	t.Helper()
	s, err := Open(Config{Folder: folder, Logs: keys, Name: "witness.example/w1"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() }) // a test may have closed it
	return s
}

// reopen opens a copy of a witness's folder: what a kill leaves at this moment.
func reopen(t testing.TB, folder string, keys ...string) (*Server, string) {
	t.Helper()
	copied := filepath.Join(t.TempDir(), "copy")
	if err := os.CopyFS(copied, os.DirFS(folder)); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Join(copied, keyFile), 0o600); err != nil {
		t.Fatal(err)
	}
	return open(t, copied, keys...), copied
}

// serve serves a handler on 127.0.0.1.
func serve(t testing.TB, handler http.Handler) string {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return server.URL
}

// client returns the client of a witness.
func client(t testing.TB, key, url string) *Client {
	t.Helper()
	c, err := NewClient(key, url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.http.CloseIdleConnections)
	return c
}

// post sends a body and returns the response with its text.
func post(t testing.TB, url string, body []byte) (*http.Response, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/add-checkpoint", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response, string(text)
}

// want posts a body and compares the status, and the text if it isn't "".
func want(t testing.TB, url string, body []byte, status int, text string) {
	t.Helper()
	response, got := post(t, url, body)
	if response.StatusCode != status || text != "" && got != text {
		t.Errorf("status %d, %q; want %d, %q, for\n%.600s", response.StatusCode, got, status, text, body)
	}
	if sized := response.Header.Get("Content-Type") == sizeType; sized != (status == http.StatusConflict) {
		t.Errorf("status %d has the type %s", response.StatusCode, response.Header.Get("Content-Type"))
	}
}

// padded adds a signature of an unknown key to a checkpoint, so that the body of a request has a length.
func padded(t testing.TB, l *testLog, length int) []byte {
	t.Helper()
	body := l.body(0, l.size)
	rest := length - len(body) - len("— x \n")
	name := "x" + strings.Repeat("y", rest%4)
	body = append(body, "— "+name+" "+base64.StdEncoding.EncodeToString(make([]byte, rest/4*3))+"\n"...)
	if len(body) != length {
		t.Fatalf("%d bytes, want %d", len(body), length)
	}
	return body
}
