package standalone

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"quire.dev/pkg/config"
	"quire.dev/pkg/host"
	"quire.dev/pkg/natsfiles"
)

// TestADamagedBlobIsNeverAnsweredWhole: a bit of the file on the disk flips while quire runs.
func TestADamagedBlobIsNeverAnsweredWhole(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(t.TempDir(), "data")
	c := launch(t, folder)
	text := bytes.Repeat([]byte("what was stored\n"), 8<<10) // 128 KiB: too large for the journal
	answer, err := http.Post(c.base+"/?language=plaintext", "text/plain", bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	page, err := io.ReadAll(answer.Body)
	answer.Body.Close()
	if err != nil || answer.StatusCode != http.StatusCreated {
		t.Fatalf("%s: %s, %v", answer.Status, page, err)
	}
	raw := strings.TrimSpace(string(page)) + "/raw"
	get := func(ranged string) (status int, got []byte, err error) {
		t.Helper()
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, raw, nil)
		if err != nil {
			t.Fatal(err)
		}
		if ranged != "" {
			request.Header.Set("Range", ranged)
		}
		answer, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		got, err = io.ReadAll(answer.Body)
		return answer.StatusCode, got, err
	}
	for range 2 { // the second time from the cached result of the first
		if status, got, err := get("bytes=100-199"); status != http.StatusPartialContent || !bytes.Equal(got, text[100:200]) || err != nil {
			t.Errorf("a range of a sound blob: %d with %d bytes, %v", status, len(got), err)
		}
	}
	for range 2 {
		if status, got, err := get(""); status != http.StatusOK || !bytes.Equal(got, text) || err != nil {
			t.Errorf("a sound blob: %d with %d bytes, %v", status, len(got), err)
		}
	}
	flipBit(t, filepath.Join(folder, "blobs", "keys", "lite"), len(text)/2)
	for _, ranged := range []string{"bytes=0-99", "bytes=0-", "bytes=60000-70000", "bytes=-1"} {
		if status, got, err := get(ranged); status != http.StatusServiceUnavailable {
			t.Errorf("%s of a damaged blob: %d with %d bytes, %v", ranged, status, len(got), err)
		}
	}
	if status, got, err := get(""); err == nil && status == http.StatusOK {
		t.Errorf("the damaged blob is answered with %d bytes and ends well", len(got))
	}
}

// TestNoPageShowsAPartOfADamagedBlob: a page shows the beginning of a long text, which has no separate hash.
func TestNoPageShowsAPartOfADamagedBlob(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(t.TempDir(), "data")
	c := launch(t, folder)
	text := bytes.Repeat([]byte("what was stored\n"), 64<<10) // 1 MiB
	create, err := http.NewRequestWithContext(t.Context(), http.MethodPost, c.base+"/api/dev/pastes/create?language=plaintext", bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	create.Header.Set("Content-Type", "text/plain")
	create.Header.Set("X-API-Key", accountKey(t, c.base))
	answer, err := http.DefaultClient.Do(create)
	if err != nil {
		t.Fatal(err)
	}
	var created struct{ URL string }
	err = json.NewDecoder(answer.Body).Decode(&created)
	answer.Body.Close()
	if err != nil || answer.StatusCode != http.StatusCreated || created.URL == "" {
		t.Fatalf("%s: %+v, %v", answer.Status, created, err)
	}
	show := func() (status int, page []byte) {
		t.Helper()
		answer, err := http.Get(created.URL)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		if page, err = io.ReadAll(answer.Body); err != nil {
			t.Fatal(err)
		}
		return answer.StatusCode, page
	}
	if status, page := show(); status != http.StatusOK || !bytes.Contains(page, []byte("what was stored")) {
		t.Errorf("the page of a sound blob: %d with %d bytes", status, len(page))
	}
	flipBit(t, filepath.Join(folder, "blobs", "keys", "paste"), 0)
	if status, page := show(); status != http.StatusServiceUnavailable {
		t.Errorf("the page of a damaged blob: %d with %d bytes", status, len(page))
	}
}

// TestDamageInAnOldFileOfAJournalIsFoundInUse: a start with large journals after an orderly stop does not wait until all is
// read.
func TestDamageInAnOldFileOfAJournalIsFoundInUse(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(t.TempDir(), "data")
	c := launch(t, folder)
	key := accountKey(t, c.base)
	text := bytes.Repeat([]byte("what was stored\n"), 4000)
	for range 170 { // more than a file of 8 MiB
		create, err := http.NewRequestWithContext(t.Context(), http.MethodPost, c.base+"/?language=plaintext", bytes.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		create.Header.Set("X-API-Key", key)
		answer, err := http.DefaultClient.Do(create)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		if answer.StatusCode != http.StatusCreated {
			t.Fatal(answer.Status)
		}
	}
	if err := c.end(t, syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	messages := filepath.Join(folder, "nats", "jetstream", "$G", "streams", "LITE_0", "msgs")
	if _, err := os.Stat(filepath.Join(messages, "2.blk")); err != nil {
		t.Fatal(err)
	}
	old := filepath.Join(messages, "1.blk")
	data, err := os.ReadFile(old)
	if err != nil {
		t.Fatal(err)
	}
	data[len(data)/2] ^= 1
	if err := os.WriteFile(old, data, 0o600); err != nil {
		t.Fatal(err)
	}
	q, err := New(host.Settings{
		Listen: "127.0.0.1:0", Data: folder, AdminToken: config.Secret(testAdminToken), Partitions: 1, ContentRetention: 24 * time.Hour,
	}, Deps{CheckAtOnce: 1})
	if err != nil {
		t.Fatal(err)
	}
	if err := q.Run(t.Context()); !errors.Is(err, natsfiles.ErrDamaged) || !strings.Contains(err.Error(), old) {
		t.Errorf("the process ends with %v", err)
	}
	refuses(t, folder, "damaged", messages, "restore the data folder from a backup")
	data[len(data)/2] ^= 1
	if err := os.WriteFile(old, data, 0o600); err != nil {
		t.Fatal(err)
	}
	c = launch(t, folder)
	if _, err := os.Stat(filepath.Join(folder, "SUSPECT")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("after a start with whole journals: %v", err)
	}
	if err := c.end(t, syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	report, err := natsfiles.Check(t.Context(), filepath.Join(folder, "nats"), natsfiles.Options{Clean: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range report.Streams {
		if s.Name == "LITE_0" && (s.First != 1 || s.Last < 170) {
			t.Errorf("in the end: %+v", s)
		}
	}
}

// flipBit changes the only blob under a folder.
func flipBit(t *testing.T, folder string, offset int) {
	t.Helper()
	var files []string
	err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			files = append(files, path)
		}
		return err
	})
	if err != nil || len(files) != 1 {
		t.Fatalf("blobs %v, %v", files, err)
	}
	data, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	data[offset] ^= 1
	if err := os.WriteFile(files[0], data, 0o600); err != nil {
		t.Fatal(err)
	}
	later := time.Now().Add(time.Second) // the clock of the file system may be coarse
	if err := os.Chtimes(files[0], later, later); err != nil {
		t.Fatal(err)
	}
}
