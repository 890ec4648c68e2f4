package standalone

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"

	"quire.dev/pkg/admin"
	"quire.dev/pkg/config"
	"quire.dev/pkg/event"
	"quire.dev/pkg/host"
	"quire.dev/pkg/inprocess"
	"quire.dev/pkg/trace/tracetest"
)

// runTraced runs quire with a share of its requests traced, and returns the headers of the journals' messages.
func runTraced(t *testing.T, settings host.Settings, share func(inprocess.Shared) inprocess.Shared, do func(q *Quire, key string)) (headers []nats.Header) {
	t.Helper()
	var log lockedBuffer
	settings.Listen, settings.Data, settings.AdminToken = "127.0.0.1:0", filepath.Join(t.TempDir(), "data"), config.Secret(testAdminToken)
	settings.Partitions, settings.ContentRetention = 1, 24*time.Hour
	q, err := New(settings, Deps{Logger: slog.New(slog.NewTextHandler(&log, nil)), Shared: share})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- q.Run(ctx) }()
	select {
	case err := <-ended:
		t.Fatalf("%v\n%s", err, log.String())
	case <-q.Ready():
	}
	made, err := admin.Client{Base: q.AdminURL(), Token: testAdminToken}.CreateAccount(t.Context(), admin.NewAccount{Email: "a@example.com", Tier: "pro"}, "")
	if err != nil {
		t.Fatal(err)
	}
	do(q, made.APIKey)
	js, err := jetstream.New(connectTo(t, q))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{event.Billing.Stream(0), event.Lite.Stream(0)} {
		stream, err := js.Stream(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		for n := stream.CachedInfo().State.FirstSeq; n <= stream.CachedInfo().State.LastSeq; n++ {
			m, err := stream.GetMsg(t.Context(), n)
			if err != nil {
				t.Fatal(err)
			}
			maps.DeleteFunc(m.Header, func(name string, _ []string) bool { return strings.HasPrefix(name, "Nats-") }) // the server's
			if len(m.Header) > 0 {
				headers = append(headers, m.Header)
			}
		}
	}
	stop()
	if err := <-ended; err != nil {
		t.Errorf("%v\n%s", err, log.String())
	}
	return headers
}

const (
	createTrace = "0af7651916cd43dd8448eb211c80319c"
	getTrace    = "1af7651916cd43dd8448eb211c80319c"
	otherTrace  = "2af7651916cd43dd8448eb211c80319c"
	clientSpan  = "b7ad6b7169203331"
)

// call makes a call with a traceparent, and returns the id of the request and the body.
func call(t *testing.T, q *Quire, key, method, path, body, traceparent string) (id, answer string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, q.URL()+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("x-api-key", key)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("traceparent", traceparent)
	a, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Body.Close()
	text, err := io.ReadAll(a.Body)
	if err != nil || a.StatusCode >= 300 {
		t.Fatalf("%s %s: %d %s %v", method, path, a.StatusCode, text, err)
	}
	return a.Header.Get("X-Request-Id"), string(text)
}

// traceBoth makes a create and a get that their client traces, and one of each that it does not.
func traceBoth(t *testing.T, q *Quire, key string) (created, got string) {
	t.Helper()
	const create, get = "/api/dev/paste-lite/create", "/api/dev/paste-lite/get/"
	created, answer := call(t, q, key, "POST", create, `{"content":"x"}`, "00-"+createTrace+"-"+clientSpan+"-01")
	var made struct{ ID string }
	if err := json.Unmarshal([]byte(answer), &made); err != nil {
		t.Fatal(err)
	}
	got, _ = call(t, q, key, "GET", get+made.ID, "", "00-"+getTrace+"-"+clientSpan+"-01")
	call(t, q, key, "POST", create, `{"content":"x"}`, "00-"+otherTrace+"-"+clientSpan+"-00")
	call(t, q, key, "GET", get+made.ID, "", "nonsense")
	return created, got
}

// TestATraceShowsWhereARequestWaited: from the edge to billing and the document's service and their stores, the same in one process and
// over NATS, below the span that the client named. Nothing else is traced.
func TestATraceShowsWhereARequestWaited(t *testing.T) {
	t.Parallel()
	for name, share := range map[string]func(inprocess.Shared) inprocess.Shared{
		"shared": nil, "plain": func(inprocess.Shared) inprocess.Shared { return inprocess.Shared{} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := tracetest.Collector{Authorization: "Bearer the token"}
			server := httptest.NewServer(&c)
			defer server.Close()
			settings := host.Settings{TraceEndpoint: server.URL, TraceHeaders: "authorization=Bearer%20the%20token", TraceRate: 100}
			var created, got string
			headers := runTraced(t, settings, share, func(q *Quire, key string) { created, got = traceBoth(t, q, key) })
			below := func(trace, name string, parent *otlp.Span) *otlp.Span {
				t.Helper()
				span := c.Find(trace, name, parent.GetSpanId())
				if span == nil {
					t.Fatalf("no %q below %q in:\n%s", name, parent.GetName(), c.String())
				}
				if span.StartTimeUnixNano < parent.StartTimeUnixNano && !strings.HasSuffix(name, "journal") { // another clock's
					t.Errorf("%q begins before %q", name, parent.Name)
				}
				return span
			}
			client := &otlp.Span{SpanId: []byte{0xb7, 0xad, 0x6b, 0x71, 0x69, 0x20, 0x33, 0x31}}
			waits := func(trace, request, name string, root *otlp.Span, folds string) {
				t.Helper()
				wait := below(trace, name, root)
				below(trace, "queue", wait)
				below(trace, "fold", wait)
				if c.BatchOf(wait) == nil || c.BatchOf(below(trace, "sync", wait)) != c.BatchOf(wait) {
					t.Errorf("the batch of %q is not linked:\n%s", name, c.String())
				}
				below(trace, folds+" journal", wait)
				if fold := below(trace, folds+" fold", wait); tracetest.Attribute(fold, "quire.request_id") != request {
					t.Errorf("%q is of request %q, want %q", fold.Name, tracetest.Attribute(fold, "quire.request_id"), request)
				}
			}
			create := below(createTrace, "POST /api/dev/paste-lite/create", client)
			get := below(getTrace, "GET /api/dev/paste-lite/get/:ref", client)
			if tracetest.Attribute(create, "quire.request_id") != created || tracetest.Attribute(get, "quire.request_id") != got || created == "" {
				t.Errorf("the spans are of %q and %q, want %q and %q", tracetest.Attribute(create, "quire.request_id"), tracetest.Attribute(get, "quire.request_id"), created, got)
			}
			waits(createTrace, created, "admit", create, "billing")
			waits(createTrace, created, "write", create, "lite")
			fold := below(createTrace, "lite fold", below(createTrace, "write", create))
			for _, part := range []string{"load", "settle", "commit"} {
				below(createTrace, part, fold)
			}
			waits(getTrace, got, "admit", get, "billing")
			below(getTrace, "lite read", below(getTrace, "read", get))
			if strings.Contains(c.String(), otherTrace) {
				t.Errorf("a request is traced that its client does not trace:\n%s", c.String())
			}
			if len(headers) != 3 { // the admissions of both, and the write
				t.Errorf("%d messages of the journals have headers: %v", len(headers), headers)
			}
			for _, h := range headers {
				if list := h["Quire-Trace"]; len(h) != 1 || len(list) != 1 || len(list[0]) != len("0 00--"+createTrace+"-01")+len(clientSpan) {
					t.Errorf("a message of a journal has the headers %v", h)
				}
			}
		})
	}
}

// TestNothingIsTracedWithoutACollector, whatever clients ask for: no header reaches a journal.
func TestNothingIsTracedWithoutACollector(t *testing.T) {
	t.Parallel()
	headers := runTraced(t, host.Settings{TraceShare: 1, TraceRate: 100}, nil, func(q *Quire, key string) { traceBoth(t, q, key) })
	if len(headers) != 0 {
		t.Errorf("messages of the journals have the headers %v", headers)
	}
}
