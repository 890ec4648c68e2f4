package scenario

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"testing"
	"time"

	"quire.dev/pkg/wait"
)

// fault is what an injector does to one request.
type fault string

const (
	noFault           fault = "none"
	dropBefore        fault = "dropped before the service has it"
	cutRequest        fault = "cut off in the middle of its body"
	unavailableBefore fault = "503 before the service has it"
	dropAfter         fault = "dropped after the service has answered"
	unavailableAfter  fault = "503 after the service has answered"
	timeoutAfter      fault = "504 after the service has answered"
	slowAnswer        fault = "answered slowly"
	cutAnswer         fault = "reset in the middle of the answer"
)

func faultKinds() []fault {
	return []fault{dropBefore, cutRequest, unavailableBefore, dropAfter, unavailableAfter, timeoutAfter, slowAnswer, cutAnswer}
}

// injector is a proxy between a client and the edges that breaks connections and answers. Each request goes to the next edge.
type injector struct {
	i      *instance
	server *httptest.Server
	source string // X-Forwarded-For of its requests

	mu   sync.Mutex
	plan []fault // of the requests to come; without one they pass
	done []fault
	errs []error // of edges that did not answer, or not as documented
}

func newInjector(t testing.TB, i *instance) *injector {
	t.Helper()
	p := &injector{i: i, source: newSource()}
	p.server = httptest.NewServer(http.HandlerFunc(p.serve))
	t.Cleanup(p.server.Close)
	return p
}

// inject sets what happens to the next requests.
func (p *injector) inject(plan ...fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.plan, p.done, p.errs = plan, nil, nil
}

// injected are the faults since inject, and what went wrong beside them.
func (p *injector) injected() ([]fault, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.done, errors.Join(p.errs...)
}

func (p *injector) note(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.errs = append(p.errs, err)
}

func (p *injector) next() fault {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.plan) == 0 {
		return noFault
	}
	f := p.plan[0]
	p.plan, p.done = p.plan[1:], append(p.done, f)
	return f
}

func (p *injector) serve(w http.ResponseWriter, r *http.Request) {
	f := p.next()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client has gone
	}
	switch f {
	case dropBefore:
		reset(w)
		return
	case unavailableBefore:
		proxyFails(w, http.StatusServiceUnavailable, "unavailable")
		return
	}
	answer, content, err := p.forward(r, body, f)
	if err != nil && !errors.Is(err, errCutOff) && r.Context().Err() == nil {
		p.note(err)
	}
	switch {
	case f == cutRequest || f == dropAfter:
		reset(w)
	case f == unavailableAfter:
		proxyFails(w, http.StatusServiceUnavailable, "unavailable")
	case f == timeoutAfter:
		proxyFails(w, http.StatusGatewayTimeout, "outcome_unknown")
	case err != nil:
		reset(w)
	default:
		give(w, answer, content, f)
	}
}

var errCutOff = errors.New("cut off")

// forward sends a request to an edge and reads the answer. Its links lead through the proxy.
func (p *injector) forward(r *http.Request, body []byte, f fault) (*http.Response, []byte, error) {
	var sent io.Reader = bytes.NewReader(body)
	if f == cutRequest && len(body) > 0 {
		sent = io.MultiReader(bytes.NewReader(body[:len(body)/2]), failingReader{})
	}
	out, err := http.NewRequestWithContext(r.Context(), r.Method, p.i.edge()+r.URL.RequestURI(), sent)
	if err != nil {
		return nil, nil, err
	}
	out.Header = r.Header.Clone()
	out.Header.Del("Expect") // the body is here already
	out.Header.Set("X-Forwarded-For", p.source)
	out.ContentLength = int64(len(body))
	answer, err := p.transport().RoundTrip(out)
	if err != nil {
		return nil, nil, err
	}
	defer answer.Body.Close()
	content, err := io.ReadAll(answer.Body)
	return answer, bytes.ReplaceAll(content, []byte(p.i.public+"/"), []byte(p.server.URL+"/")), err
}

// transport is that of the tests, which holds each answer to the document.
func (p *injector) transport() http.RoundTripper { return p.i.client.Transport }

type failingReader struct{}

func (failingReader) Read([]byte) (int, error) { return 0, errCutOff }

// pieces is how many parts a slow answer comes in.
const pieces = 4

// give sends the client an answer.
func give(w http.ResponseWriter, answer *http.Response, content []byte, f fault) {
	maps.Copy(w.Header(), answer.Header)
	w.Header().Set("Content-Length", strconv.Itoa(len(content)))
	w.WriteHeader(answer.StatusCode)
	switch f {
	case slowAnswer:
		for n := range pieces {
			if _, err := w.Write(content[n*len(content)/pieces : (n+1)*len(content)/pieces]); err != nil {
				return
			}
			flush(w)
			wait.For(context.Background(), 20*time.Millisecond)
		}
	case cutAnswer:
		if _, err := w.Write(content[:len(content)/2]); err != nil {
			return
		}
		flush(w)
		reset(w)
	default:
		_, _ = w.Write(content) // the client may have gone
	}
}

func flush(w http.ResponseWriter) { _ = http.NewResponseController(w).Flush() }

// reset ends the client's connection as a crashed peer does.
func reset(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler) // the answer has begun: the server ends the connection
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	conn.Close()
}

func proxyFails(w http.ResponseWriter, status int, code string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	fmt.Fprintf(w, `{"success":false,"reason":"The proxy says so.","code":%q,"requestId":"","docs":""}`, code)
}
