package bundle_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"quire.dev/services/standalone/internal/bundle"
)

const maxPart = 4 << 20

func write(t *testing.T, cfg bundle.Config) (bundle.Contents, map[string]string) {
	t.Helper()
	cfg.Now = time.Unix(1, 0)
	var archive bytes.Buffer
	contents, err := bundle.Write(t.Context(), &archive, cfg)
	if err != nil {
		t.Fatal(err)
	}
	unpacked, err := gzip.NewReader(&archive)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for r := tar.NewReader(unpacked); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return contents, files
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		files[strings.TrimPrefix(header.Name, "quire-debug/")] = string(text)
	}
}

// TestALogIsCutAtALine, so that no half of a secret stays at its beginning.
func TestALogIsCutAtALine(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		log, want string
		note      string
	}{
		"all of it":        {"a\n" + strings.Repeat("x", maxPart-3) + "\n", "a\n" + strings.Repeat("x", maxPart-3) + "\n", ""},
		"a byte too much":  {"ab\n" + strings.Repeat("x", maxPart-3) + "\n", strings.Repeat("x", maxPart-3) + "\n", "the last 4 MiB"},
		"a half secret":    {"half-of-a-secret" + strings.Repeat("x", maxPart-5) + "\nend\n", "end\n", "the last 4 MiB"},
		"one endless line": {strings.Repeat("x", maxPart+1), "", "the last 4 MiB"},
	} {
		path := filepath.Join(t.TempDir(), "log")
		if err := os.WriteFile(path, []byte(tc.log), 0o600); err != nil {
			t.Fatal(err)
		}
		contents, files := write(t, bundle.Config{Log: path, Secrets: []string{"half-of-a-secretxxx"}})
		if files["log.txt"] != tc.want {
			t.Errorf("%s: %d bytes, want %d", name, len(files["log.txt"]), len(tc.want))
		}
		for _, p := range contents.Parts {
			if p.Name == "log.txt" && p.Note != tc.note {
				t.Errorf("%s: %q, want %q", name, p.Note, tc.note)
			}
		}
	}
}

// TestABundleIsBounded against a server that answers without end, and against many of them. An unready process is no fault of it.
func TestABundleIsBounded(t *testing.T) {
	t.Parallel()
	line := []byte(strings.Repeat("m", 1<<16-1) + "\n")
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/readyz" {
			w.WriteHeader(http.StatusServiceUnavailable)
			fmt.Fprint(w, "journal.billing")
			return
		}
		for err := error(nil); err == nil; {
			_, err = w.Write(line)
		}
	}))
	t.Cleanup(server.Close)
	ops := make([]string, 20) // with two parts of maxPart each: more than an archive takes
	for n := range ops {
		ops[n] = server.URL
	}
	contents, files := write(t, bundle.Config{Ops: ops})
	total := 0
	for _, text := range files {
		total += len(text)
	}
	if total < 120<<20 || total > 129<<20 {
		t.Errorf("%d bytes", total)
	}
	if files["ops/1/readyz.json"] != "journal.billing" || len(files["ops/1/metrics.txt"]) != maxPart || files["ops/1/heap.pprof.gz"] != "" {
		t.Errorf("%q, %d, %d", files["ops/1/readyz.json"], len(files["ops/1/metrics.txt"]), len(files["ops/1/heap.pprof.gz"]))
	}
	var text bytes.Buffer
	if err := contents.Print(&text); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"ops/1/metrics.txt (the first 4 MiB)", "missing  ops/1/heap.pprof.gz: larger than 4 MiB", "missing  ops/20/metrics.txt: the archive would exceed 128 MiB"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("nothing says %q: %s", want, text.String())
		}
	}
	if files["contents.txt"] == "" {
		t.Error("a full archive has no list of its contents")
	}
}
