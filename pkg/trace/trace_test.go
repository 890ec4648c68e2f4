package trace_test

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"quire.dev/pkg/telemetry"
	"quire.dev/pkg/trace"
)

const (
	sampled   = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	unsampled = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"
)

func scope(t *testing.T, cfg trace.Config) *trace.Scope {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) }))
	t.Cleanup(server.Close)
	cfg.Endpoint, cfg.Logger = server.URL, slog.New(slog.DiscardHandler)
	r, err := trace.New(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	return r.Scope("edge")
}

// TestSamplingIsBounded: by the traceparent of a request or by the share, and in number, since any client can ask for it.
func TestSamplingIsBounded(t *testing.T) {
	now := time.Now()
	s := scope(t, trace.Config{Share: 1, PerSecond: 2})
	for i, c := range []struct {
		traceparent string
		at          time.Duration
		want        bool
	}{
		{unsampled, 0, false},
		{sampled, 0, true},
		{sampled, 0, true},
		{sampled, 0, false},
		{sampled, time.Second, true},
		{"", 0, true},
		{"nonsense", 0, true},
		{"", 0, false}, // a budget of their own
	} {
		if span := s.Begin("GET /", c.traceparent, now.Add(c.at)); (span != nil) != c.want {
			t.Errorf("request %d is sampled: %v", i, span != nil)
		} else if span != nil && c.traceparent == sampled && span.TraceID() != "0af7651916cd43dd8448eb211c80319c" {
			t.Errorf("request %d is in the trace %s", i, span.TraceID())
		}
	}
	if scope(t, trace.Config{Share: 0, PerSecond: 2}).Begin("GET /", "", now) != nil {
		t.Error("a share of 0 is sampled")
	}
}

// TestTheHeaderOfAMessageIsBounded, and what others wrote into it does no harm.
func TestTheHeaderOfAMessageIsBounded(t *testing.T) {
	span := scope(t, trace.Config{Share: 1, PerSecond: 1}).Begin("GET /", "", time.Now())
	var h trace.Headers
	h.Add(0, nil)
	if h.Header() != nil {
		t.Errorf("without a traced request there is %v", h.Header())
	}
	for offset := range trace.MaxInMessage + 1 {
		h.Add(10*offset, span)
	}
	var offsets []int
	trace.In(h.Header(), func(offset int, traceparent string) {
		if offsets = append(offsets, offset); traceparent != span.Parent() {
			t.Errorf("%q, want %q", traceparent, span.Parent())
		}
	})
	if len(offsets) != trace.MaxInMessage || offsets[1] != 10 {
		t.Errorf("the header has %v", offsets)
	}
	bytes := 0
	for name, values := range h.Header() {
		for _, v := range values {
			bytes += len(name) + len(": ") + len(v) + len("\r\n")
		}
		for _, bad := range []string{"", "x " + span.Parent(), "-1 " + span.Parent()} {
			trace.In(map[string][]string{name: {bad}}, func(int, string) { t.Errorf("%q is read", bad) })
		}
	}
	if bytes > 4*75 {
		t.Errorf("%d bytes", bytes)
	}
	if span.Child("x", time.Now()) == nil || scope(t, trace.Config{}).Continue("x", "nonsense", time.Now()) != nil {
		t.Error("only a valid traceparent is continued")
	}
}

// TestNothingWorksWithoutACollector: every call on nil is allowed, and allocates nothing.
func TestNothingWorksWithoutACollector(t *testing.T) {
	r, err := trace.New(t.Context(), trace.Config{})
	if r != nil || err != nil {
		t.Fatalf("%v, %v", r, err)
	}
	now := time.Now()
	s := r.Scope("edge")
	allocations := testing.AllocsPerRun(100, func() {
		span := s.Begin("GET /", sampled, now)
		span.Child("a", now).End(now)
		span.PartOf(nil, "b", now, now)
		span.Fail("c")
		if span.Parent() != "" || span.TraceID() != "" {
			t.Error("nil is a span")
		}
	})
	if allocations != 0 {
		t.Errorf("%v allocations", allocations)
	}
	if r.Close() != nil || r.Flush(t.Context()) != nil {
		t.Error("nil can't be closed")
	}
}

// TestACollectorThatRefusesIsCounted and does not stop anything.
func TestACollectorThatRefusesIsCounted(t *testing.T) {
	refuses := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		http.Error(w, "no", http.StatusForbidden)
	}))
	defer refuses.Close()
	var log strings.Builder
	metrics := telemetry.NewMetrics()
	r, err := trace.New(t.Context(), trace.Config{
		Endpoint: refuses.URL, Share: 1, PerSecond: 10, Logger: slog.New(slog.NewTextHandler(&log, nil)), Metrics: metrics,
	})
	if err != nil {
		t.Fatal(err)
	}
	r.Scope("edge").Begin("GET /", "", time.Now()).End(time.Now())
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	spans := metrics.CounterVec(telemetry.Desc{
		Service: "trace", Name: "spans_total", Help: "Spans sent to the collector of traces, and those it did not take.",
	}, "result")
	if failed := testutil.ToFloat64(spans.WithLabelValues("failed")); failed != 1 || !strings.Contains(log.String(), "403") {
		t.Errorf("%v spans failed: %s", failed, log.String())
	}
}
