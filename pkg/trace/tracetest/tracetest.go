// Package tracetest collects spans as an OpenTelemetry collector does, for tests.
package tracetest

import (
	"bytes"
	"cmp"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// Collector receives spans over OTLP/HTTP. The zero value is empty. It is safe for concurrent use.
type Collector struct {
	Authorization string // of each export; others are refused

	mu    sync.Mutex
	spans []*otlp.Span
}

func (c *Collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	var request collector.ExportTraceServiceRequest
	if err == nil {
		err = proto.Unmarshal(body, &request)
	}
	if err != nil || r.URL.Path != "/v1/traces" || r.Header.Get("Authorization") != c.Authorization {
		http.Error(w, "not an export", http.StatusBadRequest)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, resource := range request.ResourceSpans {
		for _, scope := range resource.ScopeSpans {
			c.spans = append(c.spans, scope.Spans...)
		}
	}
}

// Below returns the spans of a trace whose parent has an id, the longest first.
func (c *Collector) Below(trace string, parent []byte) (list []*otlp.Span) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.spans {
		if hex.EncodeToString(s.TraceId) == trace && bytes.Equal(s.ParentSpanId, parent) {
			list = append(list, s)
		}
	}
	slices.SortStableFunc(list, func(a, b *otlp.Span) int { return cmp.Compare(nanos(b), nanos(a)) })
	return list
}

func nanos(s *otlp.Span) uint64 { return s.EndTimeUnixNano - s.StartTimeUnixNano }

// Find returns the longest span of a trace with a name whose parent has an id; nil without one.
func (c *Collector) Find(trace, name string, parent []byte) *otlp.Span {
	for _, s := range c.Below(trace, parent) {
		if s.Name == name {
			return s
		}
	}
	return nil
}

// BatchOf returns the span of the batch that a span links to, or that links to a span.
func (c *Collector) BatchOf(span *otlp.Span) *otlp.Span {
	c.mu.Lock()
	defer c.mu.Unlock()
	linked := func(from, to *otlp.Span) bool {
		return slices.ContainsFunc(from.Links, func(l *otlp.Span_Link) bool { return bytes.Equal(l.SpanId, to.SpanId) })
	}
	for _, s := range c.spans {
		if s.Name == "batch" && (linked(s, span) || linked(span, s)) {
			return s
		}
	}
	return nil
}

// String describes the spans, for a failed test.
func (c *Collector) String() (text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.spans {
		text += fmt.Sprintf("%x %x below %x: %s\n", s.TraceId, s.SpanId, s.ParentSpanId, s.Name)
	}
	return text
}

// Attribute returns a span's attribute that is text, or "".
func Attribute(s *otlp.Span, key string) string {
	for _, a := range s.Attributes {
		if a.Key == key {
			return a.Value.GetStringValue()
		}
	}
	return ""
}
