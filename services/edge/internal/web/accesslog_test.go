package web

import (
	"bytes"
	"encoding/json"
	"strings"
	"sync"
	"testing"

	"quire.dev/pkg/eventually"
	"quire.dev/services/edge/internal/endpoint"
	"quire.dev/services/edge/internal/endpoint/endpointtest"
	"quire.dev/services/edge/internal/fault"
)

// lines collects what is written to it.
type lines struct {
	mu  sync.Mutex
	all bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.String()
}

// TestTheAccessLogSaysHowARequestWentAndNothingPrivate: no path, query, address, key or cookie.
func TestTheAccessLogSaysHowARequestWentAndNothingPrivate(t *testing.T) {
	var log lines
	_, addr := startServer(t, Config{Config: endpoint.Config{AccessLog: endpoint.AccessLog{To: &log}}}, func(s *Server) {
		row := func(path string, handle func(*endpoint.Call) error) {
			s.http.Handle("POST", path, s.Handler(&endpoint.Row{
				Method: "POST", Path: path, Who: endpoint.Anybody, Body: endpoint.Fields, Rules: endpoint.AnyQuery, Handle: handle,
			}))
		}
		row("/broken/:id", func(*endpoint.Call) error { return fault.New(fault.Unavailable, "on purpose") })
		row("/works/:id", func(c *endpoint.Call) error { return c.SendString("it works") })
	})
	post := func(path string) endpointtest.Answer {
		return endpointtest.Exchange(t, addr, "POST "+path+"?token=private HTTP/1.1\r\nHost: a\r\nX-Api-Key: private\r\nCookie: c=private\r\n"+
			"X-Request-Id: order-4711\r\nContent-Type: application/json\r\nContent-Length: 15\r\n\r\n{\"a\":\"private\"}", 1)[0]
	}
	post("/works/private-1")
	failed := post("/broken/private-2")
	eventually.True(t, "the failure is logged", func() bool { return strings.HasSuffix(log.String(), "\n") })
	var line struct {
		RequestID, ClientRequestID, Method, Route, Error, Time string
		Status, Bytes                                          int
		DurationMs                                             float64
	}
	if err := json.Unmarshal([]byte(log.String()), &line); err != nil { // fails for two lines too
		t.Fatalf("%v: %s", err, log.String())
	}
	if line.RequestID != failed.Header.Get("X-Request-Id") || line.ClientRequestID != "order-4711" || line.Method != "POST" ||
		line.Route != "/broken/:id" || line.Error != "unavailable" || line.Status != 503 || line.Bytes != len(failed.Body) || line.DurationMs <= 0 {
		t.Errorf("%s", log.String())
	}
	if strings.Contains(log.String(), "private") || strings.Contains(log.String(), "127.0.0.1") {
		t.Errorf("the log says too much: %s", log.String())
	}
}
