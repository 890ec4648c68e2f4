// Package trace records the spans of sampled requests and sends them to an OpenTelemetry collector, by OTLP over HTTP. It is apart from
// package telemetry since only programs that serve requests need its exporter.
//
// Everything works on nil and does nothing: a process without a collector has a nil Recorder and nil Scopes, and a request that is not
// sampled a nil Span. So what is traced costs a comparison while it is not.
package trace

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	otel "go.opentelemetry.io/otel/trace"
	"golang.org/x/time/rate"

	"quire.dev/pkg/telemetry"
)

// Config configures a Recorder.
type Config struct {
	Endpoint string            // URL of the collector; spans go to /v1/traces below it. Empty: nothing is recorded
	Headers  map[string]string // of each export; may hold secrets
	Service  string            // the process, as service.name
	// Share is the share of the requests without a traceparent that are sampled, 0 to 1. Those with one are sampled as it says.
	Share float64
	// PerSecond bounds the sampled requests a second: those with a traceparent, which any client can send, and the others each.
	PerSecond int
	Logger    *slog.Logger       // for failed exports
	Metrics   *telemetry.Metrics // may be nil
}

// Recorder records the spans of a process. Safe for concurrent use.
type Recorder struct {
	provider    *sdk.TracerProvider
	share       float64
	asked, ours *rate.Limiter
}

const (
	exportTimeout = 10 * time.Second
	closeTimeout  = 5 * time.Second
)

// New returns a Recorder, nil without Config.Endpoint. It contacts nothing: spans are sent in the background, and dropped if the
// collector does not keep up.
func New(ctx context.Context, cfg Config) (*Recorder, error) {
	spans := cfg.Metrics.CounterVec(telemetry.Desc{
		Service: "trace", Name: "spans_total", Help: "Spans sent to the collector of traces, and those it did not take.",
	}, "result", "sent", "failed")
	if cfg.Endpoint == "" {
		return nil, nil
	}
	client, err := otlptracehttp.New(ctx, otlptracehttp.WithEndpointURL(strings.TrimSuffix(cfg.Endpoint, "/")+"/v1/traces"),
		otlptracehttp.WithHeaders(cfg.Headers), otlptracehttp.WithTimeout(exportTimeout))
	if err != nil {
		return nil, fmt.Errorf("export traces: %w", err)
	}
	counted := &exporter{SpanExporter: client, sent: spans.WithLabelValues("sent"), failed: spans.WithLabelValues("failed"), log: cfg.Logger}
	provider := sdk.NewTracerProvider(sdk.WithBatcher(counted), sdk.WithSampler(sdk.AlwaysSample()),
		sdk.WithResource(resource.NewSchemaless(attribute.String("service.name", cfg.Service))))
	limit := func() *rate.Limiter { return rate.NewLimiter(rate.Limit(cfg.PerSecond), cfg.PerSecond) }
	return &Recorder{provider: provider, share: cfg.Share, asked: limit(), ours: limit()}, nil
}

// exporter counts what it sends. It keeps its errors from the SDK, which would print them.
type exporter struct {
	sdk.SpanExporter
	sent, failed prometheus.Counter
	log          *slog.Logger
}

func (e *exporter) ExportSpans(ctx context.Context, spans []sdk.ReadOnlySpan) error {
	if err := e.SpanExporter.ExportSpans(ctx, spans); err != nil {
		e.failed.Add(float64(len(spans)))
		e.log.Warn("spans were not sent to the collector", "spans", len(spans), "error", err)
		return nil
	}
	e.sent.Add(float64(len(spans)))
	return nil
}

// Flush sends what is recorded.
func (r *Recorder) Flush(ctx context.Context) error {
	if r == nil {
		return nil
	}
	return r.provider.ForceFlush(ctx)
}

// Close sends what is recorded, within some seconds, and ends the recording.
func (r *Recorder) Close() error {
	if r == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	return r.provider.Shutdown(ctx)
}

// Scope returns the part of the Recorder for a service of the process.
func (r *Recorder) Scope(service string) *Scope {
	if r == nil {
		return nil
	}
	return &Scope{r: r, tracer: r.provider.Tracer("quire.dev/" + service)}
}

// Scope records the spans of a service. Safe for concurrent use.
type Scope struct {
	r      *Recorder
	tracer otel.Tracer
}

// Attr is an attribute of a span.
type Attr = attribute.KeyValue

// Text is an attribute with a text.
func Text(key, value string) Attr { return attribute.String(key, value) }

// Number is an attribute with a whole number.
func Number[N int | int64 | uint32 | uint64](key string, value N) Attr {
	return attribute.Int64(key, int64(value))
}

// Request is the attribute with the id of a request.
func Request(id fmt.Stringer) Attr { return Text("quire.request_id", id.String()) }

// Begin begins the span of a request that came with a traceparent, empty if it has none. It is nil unless the request is sampled.
func (s *Scope) Begin(name, traceparent string, at time.Time) *Span {
	if s == nil {
		return nil
	}
	parent := parse(traceparent)
	if parent.IsValid() {
		if !parent.IsSampled() || !s.r.asked.AllowN(at, 1) {
			return nil
		}
	} else if s.r.share == 0 || rand.Float64() >= s.r.share || !s.r.ours.AllowN(at, 1) {
		return nil
	}
	return s.start(parent, name, at, otel.WithSpanKind(otel.SpanKindServer))
}

// Continue begins a child of another service's span, which traceparent names. It returns nil without a valid, sampled traceparent.
func (s *Scope) Continue(name, traceparent string, at time.Time, attrs ...Attr) *Span {
	if s == nil {
		return nil
	}
	parent := parse(traceparent)
	if !parent.IsSampled() {
		return nil
	}
	return s.start(parent, name, at, otel.WithSpanKind(otel.SpanKindConsumer), otel.WithAttributes(attrs...))
}

// Fold begins the span of a service's fold of a message, at begun, and records what the request waited for before: the journal, from the
// arrival of the message at its leader until it was delivered, by the clocks of two machines. It returns nil like Continue.
func (s *Scope) Fold(service, traceparent string, arrived, begun time.Time, attrs ...Attr) *Span {
	if arrived.Before(begun) {
		s.Continue(service+" journal", traceparent, arrived, attrs...).End(begun)
	}
	return s.Continue(service+" fold", traceparent, begun, attrs...)
}

// Batch begins a new trace of work that is done for several requests together, with links to their spans. It returns nil without requests.
func (s *Scope) Batch(name string, at time.Time, requests []*Span, attrs ...Attr) *Span {
	if s == nil || len(requests) == 0 {
		return nil
	}
	links := make([]otel.Link, 0, len(requests))
	for _, r := range requests {
		links = append(links, otel.Link{SpanContext: r.span.SpanContext()})
	}
	return s.start(otel.SpanContext{}, name, at, otel.WithSpanKind(otel.SpanKindProducer), otel.WithLinks(links...), otel.WithAttributes(attrs...))
}

func (s *Scope) start(parent otel.SpanContext, name string, at time.Time, options ...otel.SpanStartOption) *Span {
	ctx := context.Background()
	if parent.IsValid() {
		ctx = otel.ContextWithSpanContext(ctx, parent)
	}
	_, span := s.tracer.Start(ctx, name, append(options, otel.WithTimestamp(at))...)
	return &Span{scope: s, span: span}
}

func parse(traceparent string) otel.SpanContext {
	if traceparent == "" {
		return otel.SpanContext{}
	}
	ctx := propagation.TraceContext{}.Extract(context.Background(), propagation.MapCarrier{"traceparent": traceparent})
	return otel.SpanContextFromContext(ctx)
}

// Span is a part of the time of a sampled request, or of a batch of them. Safe for concurrent use.
type Span struct {
	scope *Scope
	span  otel.Span
}

// Child begins a span below s.
func (s *Span) Child(name string, at time.Time, attrs ...Attr) *Span {
	if s == nil {
		return nil
	}
	return s.scope.start(s.span.SpanContext(), name, at, otel.WithAttributes(attrs...))
}

// Part records a span below s that has ended.
func (s *Span) Part(name string, from, to time.Time, attrs ...Attr) {
	s.Child(name, from, attrs...).End(to)
}

// PartOf is Part for a piece of the work that batch does for several requests, to which it links.
func (s *Span) PartOf(batch *Span, name string, from, to time.Time) {
	if s == nil {
		return
	}
	c := s.Child(name, from)
	if batch != nil {
		c.span.AddLink(otel.Link{SpanContext: batch.span.SpanContext()})
	}
	c.End(to)
}

// Set adds attributes.
func (s *Span) Set(attrs ...Attr) {
	if s != nil {
		s.span.SetAttributes(attrs...)
	}
}

// Fail marks the span as failed, with the code of an error.
func (s *Span) Fail(code string) {
	if s != nil {
		s.span.SetStatus(codes.Error, code)
	}
}

// End ends the span.
func (s *Span) End(at time.Time) {
	if s != nil {
		s.span.End(otel.WithTimestamp(at))
	}
}

// Parent is the traceparent of spans below s; empty without one.
func (s *Span) Parent() string {
	if s == nil {
		return ""
	}
	c := s.span.SpanContext()
	return "00-" + c.TraceID().String() + "-" + c.SpanID().String() + "-01"
}

// TraceID is the id of the trace, in hexadecimal digits; empty without one.
func (s *Span) TraceID() string {
	if s == nil {
		return ""
	}
	return s.span.SpanContext().TraceID().String()
}

// Spans are the spans of several requests that wait for the same work.
type Spans []*Span

// Part records a part of the work on each, from a time until now.
func (list Spans) Part(name string, from time.Time) {
	if len(list) == 0 {
		return
	}
	now := time.Now()
	for _, s := range list {
		s.Part(name, from, now)
	}
}

// End ends all at a time.
func (list Spans) End(at time.Time) {
	for _, s := range list {
		s.End(at)
	}
}
