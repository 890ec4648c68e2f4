package proofs_test

import (
	"context"
	"fmt"
	"io"
	"strings"
	"testing"

	"quire.dev/pkg/blob"
	"quire.dev/pkg/blob/disk"
	"quire.dev/services/edge/internal/endpoint"
	"quire.dev/services/edge/internal/endpoint/endpointtest"
	"quire.dev/services/edge/internal/proofs"
)

// guarded fails a test that reads anything but the log.
type guarded struct {
	blob.Store
	t    *testing.T
	down bool
}

func (g *guarded) Get(ctx context.Context, key string, offset, length int64) (io.ReadCloser, blob.Info, error) {
	if !strings.HasPrefix(key, "log/") {
		g.t.Errorf("%q is read", key)
	}
	if g.down {
		return nil, blob.Info{}, blob.ErrUnavailable
	}
	return g.Store.Get(ctx, key, offset, length)
}

func TestTheLogIsServed(t *testing.T) {
	store, err := disk.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	for key, content := range map[string]string{
		"log/checkpoint": "a note", "log/key": "a key\n", "log/tile/0/x001/067": "hashes", "log/tile/entries/000.p/7": "entries",
		"log/secret": "no part of the log", "archive/log/state": "no part of the log", "log/tile/1/000": strings.Repeat("x", 256<<10), "log/tile/2/000": strings.Repeat("x", 256<<10+1),
	} {
		if _, err := store.Put(t.Context(), key, strings.NewReader(content), int64(len(content))); err != nil {
			t.Fatal(err)
		}
	}
	blobs := &guarded{Store: store, t: t}
	edge := endpointtest.New(t, endpoint.Config{})
	addr := edge.Serve(t, proofs.New(edge.Base, blobs, 1).Rows()...)
	get := func(path, more string) endpointtest.Answer {
		t.Helper()
		return endpointtest.Exchange(t, addr, fmt.Sprintf("GET %s HTTP/1.1\r\nHost: a\r\nConnection: close\r\n%s\r\n", path, more), 1)[0]
	}
	for path, c := range map[string]struct {
		body, cache string
	}{
		"/log/checkpoint":           {"a note", "no-cache"},
		"/log/key":                  {"a key\n", "no-cache"},
		"/log/tile/0/x001/067":      {"hashes", "public, max-age=31536000, immutable"},
		"/log/tile/entries/000.p/7": {"entries", "public, max-age=31536000, immutable"},
		"/log/tile/1/000":           {strings.Repeat("x", 256<<10), "public, max-age=31536000, immutable"},
	} {
		answer := get(path, "Origin: https://example.com\r\n")
		if answer.Status != 200 || answer.Body != c.body || answer.Header.Get("Cache-Control") != c.cache || answer.Header.Get("Access-Control-Allow-Origin") != "*" {
			t.Errorf("%s: %d, %.100q, %v", path, answer.Status, answer.Body, answer.Header)
		}
		if again := get(path, "If-None-Match: "+answer.Header.Get("ETag")+"\r\n"); again.Status != 304 {
			t.Errorf("%s again: %d", path, again.Status)
		}
	}
	for path, status := range map[string]int{
		"/log/tile/0/000": 404, "/log/tile/0/000.p/256": 404, "/log/tile/0/x000/000": 404, "/log/tile/secret": 404, "/log/secret": 404,
		"/log/tile/../secret": 404, "/log/tile/%2e%2e/secret": 404, "/log/tile/0/..%2f..%2fsecret": 404, "/log/tile/" + strings.Repeat("x000/", 100) + "000": 404,
		"/log/tile/2/000": 503,
	} {
		if answer := get(path, ""); answer.Status != status {
			t.Errorf("%s: %d %s, want %d", path, answer.Status, answer.Body, status)
		}
	}
	blobs.down = true
	if answer := get("/log/checkpoint", ""); answer.Status != 503 {
		t.Errorf("without a store: %d", answer.Status)
	}
}
