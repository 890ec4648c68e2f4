package load

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func serve(t *testing.T, handler http.HandlerFunc) string {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return server.URL
}

// TestAStallCountsForEveryRequestThatWasDue: a server that holds its first answer back for half a second is seen by one
// request of a closed loop, and by all that were due meanwhile of an open one.
func TestAStallCountsForEveryRequestThatWasDue(t *testing.T) {
	var first sync.Once
	base := serve(t, func(http.ResponseWriter, *http.Request) {
		first.Do(func() { <-time.After(500 * time.Millisecond) })
	})
	got, err := Open(t.Context(), Plan{
		Request: Request{Method: http.MethodGet, URL: base}, PerSecond: 100, Duration: time.Second, Connections: 1,
	})
	if err != nil || got.Succeeded != 100 || got.Failed != 0 {
		t.Fatalf("%+v, %v", got, err)
	}
	// Of the hundred requests, fifty were due during the stall. Of these, half waited for 250 ms or more.
	quarter := got.Distribution[slices.IndexFunc(got.Distribution, func(p Point) bool { return p.Share == 0.75 })]
	if quarter.Millis < 240 {
		t.Errorf("a quarter of the requests took %v ms or more, want 250", quarter.Millis)
	}
	if got.SentLateP99 < 400 {
		t.Errorf("requests were sent %v ms late", got.SentLateP99)
	}
}

func TestAnswersAreCountedBySecondAndStatus(t *testing.T) {
	var n atomic.Int64
	base := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("x-api-key") != "k" || r.Method != http.MethodPost {
			t.Errorf("%s with %q", r.Method, r.Header.Get("x-api-key"))
		}
		if n.Add(1)%10 == 0 {
			w.WriteHeader(http.StatusTooManyRequests)
			_, _ = w.Write([]byte("exhausted"))
		}
	})
	got, err := Open(t.Context(), Plan{
		Request: Request{Method: http.MethodPost, URL: base, Key: "k", Body: "{}"}, PerSecond: 50, Duration: 2 * time.Second, Connections: 8,
	})
	sum := 0
	for _, n := range got.PerSecond {
		sum += n
	}
	if err != nil || got.Succeeded != 90 || got.Failed != 10 || sum != 90 || !strings.Contains(got.Failure, "429: exhausted") {
		t.Errorf("%+v, %v", got, err)
	}
}

// serveBytes serves connections with answers that are given as bytes. Between two pieces of one, it waits until the client has
// had time to read the first.
func serveBytes(t *testing.T, closes bool, pieces ...string) (base string, connections *atomic.Int64) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	connections = &atomic.Int64{}
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			connections.Add(1)
			go answerWith(conn, closes, pieces)
		}
	}()
	return "http://" + listener.Addr().String(), connections
}

func answerWith(conn net.Conn, closes bool, pieces []string) {
	defer func() { _ = conn.Close() }()
	requests := bufio.NewReader(conn)
	for {
		if _, err := http.ReadRequest(requests); err != nil {
			return
		}
		for i, piece := range pieces {
			if i > 0 {
				<-time.After(5 * time.Millisecond)
			}
			if _, err := conn.Write([]byte(piece)); err != nil {
				return
			}
		}
		if closes {
			return
		}
	}
}

func TestAnswersAreReadAsTheyCome(t *testing.T) {
	const count = 20
	for name, c := range map[string]struct {
		closes    bool
		pieces    []string
		failure   string // of each request, "": none
		reconnect bool
	}{
		"in pieces": {pieces: []string{"HTTP/1.1 200 OK\r\nConte", "nt-Length: 4\r\n\r", "\nab", "cd"}},
		"then the server closes, as it said": {
			closes: true, pieces: []string{"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nab"}, reconnect: true,
		},
		"then the server closes in the middle": {
			closes: true, pieces: []string{"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nab"}, failure: "EOF", reconnect: true,
		},
		"without a length": {pieces: []string{"HTTP/1.1 200 OK\r\n\r\nab"}, failure: "Content-Length", reconnect: true},
		"of no HTTP":       {pieces: []string{"hello\r\n\r\n"}, failure: "hello", reconnect: true},
	} {
		t.Run(name, func(t *testing.T) {
			base, connections := serveBytes(t, c.closes, c.pieces...)
			got, err := Open(t.Context(), Plan{
				Request: Request{Method: http.MethodGet, URL: base}, PerSecond: count, Duration: time.Second, Connections: 1,
			})
			succeeded, failed := uint64(count), uint64(0)
			if c.failure != "" {
				succeeded, failed = 0, count
			}
			if err != nil || got.Succeeded != succeeded || got.Failed != failed || !strings.Contains(got.Failure, c.failure) {
				t.Errorf("%+v, %v", got, err)
			}
			want := int64(1)
			if c.reconnect {
				want = count
			}
			if connections.Load() != want {
				t.Errorf("%d connections, want %d", connections.Load(), want)
			}
		})
	}
}

func TestASecondWithoutAnswersIsSilent(t *testing.T) {
	seen := newFigures()
	seen.countAnswer(time.Millisecond, 0)
	seen.countAnswer(2*time.Millisecond, 2)
	seen.countAnswer(time.Millisecond, 5)
	got := seen.outcome(4)
	if got.Silent != 2 || !slices.Equal(got.PerSecond, []int{1, 0, 1, 0, 0, 1}) {
		t.Errorf("%d silent seconds of %v", got.Silent, got.PerSecond) // what comes after the plan is no part of it
	}
	if got.Succeeded != 3 || got.P50 < 0.9 || got.P50 > 1.1 || got.P999 < 1.9 || got.Most > 2.1 {
		t.Errorf("%+v", got)
	}
}

func TestAWrongPlanIsAnError(t *testing.T) {
	for _, plan := range []Plan{{}, {PerSecond: 1, Duration: time.Second}, {PerSecond: 1, Duration: time.Millisecond, Connections: 1}} {
		if got, err := Open(t.Context(), plan); err == nil {
			t.Errorf("%+v: %+v", plan, got)
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	plan := Plan{Request: Request{URL: "http://127.0.0.1:1"}, PerSecond: 1, Duration: time.Hour, Connections: 1}
	if _, err := Open(ended, plan); !errors.Is(err, context.Canceled) {
		t.Errorf("of an ended context: %v", err)
	}
}

func TestEachDocumentIsMadeOnce(t *testing.T) {
	var n atomic.Int64
	base := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusCreated)
		fmt.Fprintf(w, `{"success":true,"id":"d%d"}`, n.Add(1))
	})
	ids, err := Create(t.Context(), Request{Method: http.MethodPost, URL: base, Body: "{}"}, 100, 8)
	slices.Sort(ids)
	if err != nil || n.Load() != 100 || len(slices.Compact(ids)) != 100 || ids[0] == "" {
		t.Errorf("%d calls, %v, %v", n.Load(), ids, err)
	}
	refusing := serve(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTooManyRequests) })
	if _, err := Create(t.Context(), Request{Method: http.MethodPost, URL: refusing}, 100, 8); err == nil || !strings.Contains(err.Error(), "429") {
		t.Errorf("of refused creations: %v", err)
	}
}
