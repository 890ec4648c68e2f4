package standalone

import (
	"archive/zip"
	"bytes"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"quire.dev/pkg/eventually"
)

// holder is an account owner's browser.
type holder struct {
	client *http.Client
	key    string
}

// call makes a call that must be answered with a 2xx.
func (h *holder) call(t *testing.T, method, url string, body io.Reader) []byte {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, url, body)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Sec-Fetch-Site", "same-origin")
	request.Header.Set("Content-Type", "application/json")
	switch {
	case strings.Contains(url, "/api/admin/"):
		request.Header.Set("Authorization", "Bearer "+testAdminToken)
	case strings.Contains(url, "/api/dev/"):
		request.Header.Set("x-api-key", h.key)
		request.Header.Set("Content-Type", "application/octet-stream")
	}
	response, err := h.client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode/100 != 2 {
		t.Fatalf("%s %s: %s, %v\n%.1000s", method, url, response.Status, err, data)
	}
	return data
}

// export is the state of the account's export.
func (h *holder) export(t *testing.T, base string) (e struct {
	Status, URL string
	EndedAt     time.Time
},
) {
	t.Helper()
	var answer struct{ Export any }
	answer.Export = &e
	if err := json.Unmarshal(h.call(t, http.MethodGet, base+"/api/users/user/export", nil), &answer); err != nil {
		t.Fatal(err)
	}
	return e
}

// TestAnExportThatAKillCutOffIsMadeByTheNextEdge: the next process restarts the archive once the lease of the killed one has
// ended, and it is complete.
func TestAnExportThatAKillCutOffIsMadeByTheNextEdge(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(t.TempDir(), "data")
	c := launch(t, folder)
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	h := &holder{client: &http.Client{Jar: jar, Timeout: bootLimit}}
	var made struct {
		Account struct{ ID string }
		APIKey  string
	}
	for _, answer := range [][]byte{
		h.call(t, http.MethodPost, c.base+"/api/users/register", strings.NewReader(`{"email":"a@example.org","password":"correct horse battery"}`)),
		h.call(t, http.MethodPost, c.base+"/api/users/user/dev-key/regenerate", nil),
	} {
		if err := json.Unmarshal(answer, &made); err != nil {
			t.Fatal(err)
		}
	}
	h.key = made.APIKey
	h.call(t, http.MethodPut, c.base+"/api/admin/accounts/"+made.Account.ID+"/tier", strings.NewReader(`{"tier":"admin"}`))
	files := map[string][]byte{}
	for n := range 3 {
		content := make([]byte, 20<<20) // random: an archive of zeros would finish too fast
		if _, err := rand.Read(content); err != nil {
			t.Fatal(err)
		}
		name := fmt.Sprintf("%d.bin", n)
		h.call(t, http.MethodPost, c.base+"/api/dev/files/upload?name="+name, bytes.NewReader(content))
		files[name] = content
	}
	h.call(t, http.MethodPost, c.base+"/api/users/user/export", nil)
	eventually.True(t, "it is being made", func() bool { return h.export(t, c.base).Status == "running" })
	_ = c.end(t, syscall.SIGKILL) // "signal: killed"
	killed := time.Now().UTC()
	c = launch(t, folder, "QUIRE_DEV=1", "QUIRE_CLOCK_OFFSET=31s")
	e := h.export(t, c.base)
	eventually.True(t, "it is ready", func() bool { e = h.export(t, c.base); return e.Status == "ready" })
	if e.EndedAt.Before(killed) {
		t.Errorf("the archive was made at %v, before the kill at %v", e.EndedAt, killed)
	}
	data := h.call(t, http.MethodGet, e.URL, nil)
	in, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range in.File {
		_, name, ok := strings.Cut(f.Name, "/content/")
		if !ok {
			continue
		}
		r, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		if content, err := io.ReadAll(r); err != nil || !bytes.Equal(content, files[name]) {
			t.Errorf("%s has %d other bytes, %v", f.Name, len(content), err)
		}
		delete(files, name)
	}
	if len(files) != 0 {
		t.Errorf("%d files are missing", len(files))
	}
}
