package readers

import (
	"context"
	"crypto/sha256"
	"io"
	"strings"
	"testing"

	"quire.dev/pkg/blob"
	"quire.dev/pkg/blob/disk"
	"quire.dev/pkg/event"
	"quire.dev/services/edge/internal/endpoint"
	"quire.dev/services/edge/internal/endpoint/endpointtest"
	"quire.dev/services/edge/internal/kind"
	"quire.dev/services/edge/internal/pages"
)

// watchedStore calls opened before each read.
type watchedStore struct {
	blob.Store
	opened func(ctx context.Context)
}

func (w watchedStore) Get(ctx context.Context, key string, offset, length int64) (io.ReadCloser, blob.Info, error) {
	w.opened(ctx)
	return w.Store.Get(ctx, key, offset, length)
}

// TestAPageWaitsForTheStoreWithoutMemoryToRenderIn: a slow store must not keep the pages of others from being made.
func TestAPageWaitsForTheStoreWithoutMemoryToRenderIn(t *testing.T) {
	store, err := disk.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Repeat("package main\n", 6000)
	if _, err := store.Put(t.Context(), "blob", strings.NewReader(text), int64(len(text))); err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256([]byte(text))
	doc := &event.Document{Title: "main.go", Language: "go", Content: &event.Content{SizeBytes: uint64(len(text)), Sha256: sum[:], Blob: "blob"}}
	reads := make(chan struct{}, 10)
	edge := endpointtest.New(t, endpoint.Config{})
	var s *Readers
	s = newForTest(edge, watchedStore{store, func(ctx context.Context) {
		if _, ends := ctx.Deadline(); !ends {
			t.Error("nothing ends a read of the store")
		}
		if s.rendering.TryAcquire(renderBudget) {
			s.rendering.Release(renderBudget)
		} else {
			t.Error("the page holds memory to render in while it reads the store")
		}
		reads <- struct{}{}
	}})
	k := kind.QuickPastes()
	addr := edge.Serve(
		t,
		endpoint.Row{Path: "/try/file", Rules: endpoint.Page, Handle: func(c *endpoint.Call) error { return s.showTextFile(c, &pages.File{Document: doc}) }},
		endpoint.Row{Path: "/try/text", Rules: endpoint.Page, Handle: func(c *endpoint.Call) error {
			return s.showContent(c, k, doc, &viewing{read: &event.Read{}}, "/")
		}},
		endpoint.Row{Path: "/try/diff", Rules: endpoint.Page, Handle: func(c *endpoint.Call) error { return s.compare(c, k, &comparing{}, doc, doc, nil) }},
	)
	for path, want := range map[string]int{"file": 1, "text": 1, "diff": 2} {
		a := endpointtest.Exchange(t, addr, "GET /try/"+path+" HTTP/1.1\r\nHost: a\r\nAccept: text/html\r\n\r\n", 1)[0]
		if a.Status != 200 || len(reads) != want {
			t.Errorf("%s: %d after %d reads: %.300s", path, a.Status, len(reads), a.Body)
		}
		for range len(reads) {
			<-reads
		}
	}
}

// TestSecretTextsAreNotKept: render.TestAnUncachedTextIsForgotten holds the renderer to it.
func TestSecretTextsAreNotKept(t *testing.T) {
	s := newForTest(endpointtest.New(t, endpoint.Config{}), nil)
	plain, burning, locked := &event.Document{}, &event.Document{BurnAfterRead: true}, &event.Document{PasswordHash: []byte("x")}
	for _, test := range []struct {
		docs  []*event.Document
		keeps bool
	}{
		{[]*event.Document{plain}, true},
		{[]*event.Document{plain, plain}, true},
		{[]*event.Document{burning}, false},
		{[]*event.Document{locked}, false},
		{[]*event.Document{plain, locked}, false},
		{[]*event.Document{locked, plain}, false},
	} {
		if (s.Renderer(test.docs...) == s.render) != test.keeps {
			t.Errorf("%v: want one that keeps: %v", test.docs, test.keeps)
		}
	}
}

// TestBytesAreNotShownAsText: thousands of control characters, each made visible, are a heavy page that nobody reads.
func TestBytesAreNotShownAsText(t *testing.T) {
	for content, want := range map[string]bool{
		"":                   false,
		"a\tb\r\nc\fd":       true,
		"\x1b[31mred\x1b[0m": true, // output of a terminal
		"шрифт \u0085\u200e": true,
		"a\x00b":             false,
		"\x07\x07\x07":       false,
		"a\x0bb":             false,
		"a\x1fb":             false,
		"\xff\xfe":           false,
	} {
		if got := isText([]byte(content)); got != want {
			t.Errorf("%q: %v, want %v", content, got, want)
		}
	}
}
