package s3_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"time"

	"quire.dev/pkg/blob"
	"quire.dev/pkg/blob/blobtest"
	"quire.dev/pkg/blob/s3"
)

// failingServer answers the opening of its bucket and of uploads. The test's handler answers all else.
func failingServer(t *testing.T, timeout time.Duration, answer http.HandlerFunc) *s3.Store {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method == http.MethodHead && r.URL.Path == "/bucket/":
		case r.Method == http.MethodGet && r.URL.Query().Has("versioning"):
			_, _ = io.WriteString(w, `<VersioningConfiguration/>`)
		case r.Method == http.MethodPost && r.URL.Query().Has("uploads"):
			_, _ = io.WriteString(w, `<InitiateMultipartUploadResult><Bucket>bucket</Bucket><Key>a/b</Key><UploadId>7</UploadId></InitiateMultipartUploadResult>`)
		default:
			answer(w, r)
		}
	}))
	t.Cleanup(server.Close)
	at := strings.Replace(server.URL, "http://", "http://key:secretsecret@", 1) + "/bucket"
	store, err := s3.Open(t.Context(), s3.Config{URL: at, Timeout: timeout, Uploads: 1})
	if err != nil {
		t.Fatal(err)
	}
	return store
}

// Timeouts of stores whose server hangs, and of others, which a busy machine must not reach.
const (
	impatient = time.Second
	patient   = time.Minute
)

// hang answers nothing until the client has gone.
func hang(_ http.ResponseWriter, r *http.Request) {
	// The server notices that the client has gone only once the body is read.
	_, _ = io.Copy(io.Discard, r.Body)
	<-r.Context().Done()
}

func TestAServerThatHangsOrFailsIsUnavailable(t *testing.T) {
	servers := map[string]struct {
		timeout time.Duration
		answer  http.HandlerFunc
	}{
		"hangs": {impatient, hang},
		"fails": {patient, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) }},
		"drops": {patient, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }},
	}
	for name, server := range servers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := failingServer(t, server.timeout, server.answer)
			_, putSmall := store.Put(t.Context(), "a/b", strings.NewReader("x"), 1)
			_, putLarge := store.Put(t.Context(), "a/b", blobtest.Content(1, 11<<20), -1)
			_, _, get := store.Get(t.Context(), "a/b", 0, -1)
			_, _, stat := store.Get(t.Context(), "a/b", 0, 0)
			sweep := store.Sweep(t.Context(), "a/", time.Now(), func(blob.Info) error { return nil })
			errs := map[string]error{
				"small put": putSmall, "large put": putLarge, "get": get, "empty get": stat, "sweep": sweep,
				"delete": store.Delete(t.Context(), "a/b"),
			}
			for call, err := range errs {
				if !errors.Is(err, blob.ErrUnavailable) {
					t.Errorf("%s: %v, want ErrUnavailable", call, err)
				}
			}
		})
	}
}

// TestASlowReaderTakesNoSlot: a Put waits for its reader without keeping others from theirs. The store sends one part at a time.
func TestASlowReaderTakesNoSlot(t *testing.T) {
	store := failingServer(t, patient, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("ETag", `"7"`)
		if r.Method == http.MethodPost {
			_, _ = io.WriteString(w, `<CompleteMultipartUploadResult><Bucket>bucket</Bucket><Key>a/b</Key><ETag>7</ETag></CompleteMultipartUploadResult>`)
		}
	})
	const slow = 5
	ended := make(chan error, slow)
	var writers []*io.PipeWriter
	for n := range slow {
		r, w := io.Pipe()
		writers = append(writers, w)
		go func() {
			_, err := store.Put(context.Background(), fmt.Sprint("slow/", n), r, -1)
			ended <- err
		}()
		if _, err := io.Copy(w, io.LimitReader(blobtest.Content(1, 6<<20), 6<<20)); err != nil { // a part and a piece
			t.Fatal(err)
		}
	}
	for n := range 20 {
		if _, err := store.Put(t.Context(), fmt.Sprint("quick/", n), strings.NewReader("x"), 1); err != nil {
			t.Fatal(err)
		}
	}
	for _, w := range writers {
		if err := w.Close(); err != nil {
			t.Error(err)
		}
		if err := <-ended; err != nil {
			t.Errorf("a slow blob: %v", err)
		}
	}
}

func TestNoServerIsUnavailableAndItsSecretIsNotShown(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	at := strings.Replace(server.URL, "http://", "http://key:secretsecret@", 1) + "/bucket"
	server.Close()
	_, err := s3.Open(t.Context(), s3.Config{URL: at})
	if !errors.Is(err, blob.ErrUnavailable) || strings.Contains(err.Error(), "secretsecret") {
		t.Errorf("open: %v, want ErrUnavailable without the secret", err)
	}
}

func TestABodyThatStallsOrIsCutIsUnavailable(t *testing.T) {
	bodies := map[string]struct {
		timeout time.Duration
		after   http.HandlerFunc
	}{
		"stalls": {impatient, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }},
		"is cut": {patient, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }},
	}
	for name, body := range bodies {
		t.Run(name, func(t *testing.T) {
			store := failingServer(t, body.timeout, func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Length", "1000")
				w.Header().Set("Last-Modified", "Sat, 21 Nov 2026 01:00:00 GMT")
				_, _ = io.WriteString(w, strings.Repeat("x", 10))
				_ = http.NewResponseController(w).Flush()
				body.after(w, r)
			})
			r, info, err := store.Get(t.Context(), "a/b", 0, -1)
			if err != nil || info.Size != 1000 {
				t.Fatalf("get: %+v, %v", info, err)
			}
			n, err := io.Copy(io.Discard, r)
			if n != 10 || !errors.Is(err, blob.ErrUnavailable) {
				t.Errorf("read %d bytes, then %v, want 10 and ErrUnavailable", n, err)
			}
			if err := r.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestAFailedUploadIsAborted(t *testing.T) {
	gone := errors.New("the client went away")
	tests := []struct {
		name    string
		timeout time.Duration
		answer  http.HandlerFunc // of the second part
		after   func(cancel func()) io.Reader
		want    error
	}{
		{"a part fails", patient, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) }, nil, blob.ErrUnavailable},
		{"a part hangs", impatient, hang, nil, blob.ErrUnavailable},
		{"the reader fails", patient, accept, func(func()) io.Reader { return iotest.ErrReader(gone) }, gone},
		{"the context ends", patient, accept, func(cancel func()) io.Reader {
			return readerFunc(func([]byte) (int, error) { cancel(); return 0, io.EOF })
		}, context.Canceled},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var aborts atomic.Int64
			store := failingServer(t, test.timeout, func(w http.ResponseWriter, r *http.Request) {
				switch {
				case r.Method == http.MethodDelete && r.URL.Query().Get("uploadId") == "7":
					aborts.Add(1)
					w.WriteHeader(http.StatusNoContent)
				case r.URL.Query().Get("partNumber") == "2":
					test.answer(w, r)
				case r.Method == http.MethodPut:
					accept(w, r)
				default:
					t.Errorf("%s %s: nothing else was to be asked", r.Method, r.URL)
				}
			})
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			content := blobtest.Content(1, 11<<20)
			if test.after != nil {
				content = io.MultiReader(content, test.after(cancel))
			}
			if _, err := store.Put(ctx, "a/b", content, -1); !errors.Is(err, test.want) {
				t.Errorf("put: %v, want %v", err, test.want)
			}
			if aborts.Load() != 1 {
				t.Errorf("the upload was aborted %d times, want once", aborts.Load())
			}
		})
	}
}

func accept(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	w.Header().Set("ETag", fmt.Sprintf(`"part%s"`, r.URL.Query().Get("partNumber")))
}

type readerFunc func(p []byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

func TestPartsBeyondTheBoundWaitForTheirTurn(t *testing.T) {
	release, sending := make(chan struct{}), make(chan struct{}, 10)
	store := failingServer(t, patient, func(w http.ResponseWriter, r *http.Request) { // it takes one part at a time
		sending <- struct{}{}
		<-release
		accept(w, r)
	})
	first := make(chan error, 1)
	go func() {
		_, err := store.Put(t.Context(), "a/b", strings.NewReader("x"), 1)
		first <- err
	}()
	<-sending
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := store.Put(ctx, "a/c", strings.NewReader("x"), 1); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("second put: %v, want it to wait until its context ends", err)
	}
	if len(sending) > 0 {
		t.Error("the second put was sent")
	}
	close(release)
	if err := <-first; err != nil {
		t.Errorf("first put: %v", err)
	}
	if _, err := store.Put(t.Context(), "a/c", strings.NewReader("x"), 1); err != nil {
		t.Errorf("put after the first: %v", err)
	}
}

// S3 answers the question for a bucket with 403 to a user who may list some of its prefixes only, and to wrong credentials.
func TestAUserOfAPartOfTheBucketOpensIt(t *testing.T) {
	const denied = `<Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>`
	tests := map[string]struct {
		status int
		answer string
		want   string // in the error; empty: none
	}{
		"no versions":       {http.StatusOK, `<VersioningConfiguration/>`, ""},
		"versions":          {http.StatusOK, `<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>`, "versioned"},
		"no right to tell":  {http.StatusForbidden, denied, "Access Denied"},
		"wrong credentials": {http.StatusForbidden, `<Error><Code>InvalidAccessKeyId</Code><Message>No such key id</Message></Error>`, "No such key id"},
		"no bucket":         {http.StatusNotFound, `<Error><Code>NoSuchBucket</Code><Message>No such bucket</Message></Error>`, "No such bucket"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Query().Has("versioning") {
					w.WriteHeader(test.status)
					_, _ = io.WriteString(w, test.answer)
					return
				}
				if r.Method != http.MethodHead {
					t.Errorf("%s %s: it may neither make the bucket nor list it", r.Method, r.URL)
				}
				w.WriteHeader(http.StatusForbidden)
			}))
			defer server.Close()
			_, err := s3.Open(t.Context(), s3.Config{URL: strings.Replace(server.URL, "http://", "http://key:secretsecret@", 1) + "/bucket"})
			if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("open: %v, want %q", err, test.want)
			}
		})
	}
}
