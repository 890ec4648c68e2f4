package endpoint

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/gofiber/fiber/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/valyala/fasthttp"

	"quire.dev/pkg/apikey"
	"quire.dev/pkg/telemetry"
	"quire.dev/services/edge/internal/httpin"
)

// AccessLog configures the access log: a line of JSON for each request that is answered 5xx, was slow, or is sampled.
type AccessLog struct {
	To     io.Writer     // gets a line with each Write; nil: no log
	Slow   time.Duration // requests that took at least as long are logged; 0: none for their time
	Sample float64       // share of the other requests, 0 to 1
}

// accessQueue bounds the lines that wait to be written. Further ones are dropped.
const accessQueue = 1024

type accessLog struct {
	AccessLog
	lines   chan []byte
	dropped prometheus.Counter
	log     *slog.Logger
}

func newAccessLog(cfg AccessLog, metrics *telemetry.Metrics, log *slog.Logger) *accessLog {
	return &accessLog{AccessLog: cfg, lines: make(chan []byte, accessQueue), log: log, dropped: metrics.Counter(telemetry.Desc{
		Service: "edge", Name: "access_log_dropped_total", Help: "Lines of the access log that were dropped, since its output did not keep up.",
	})}
}

// accessLine has no address, no path, no query and nothing that a header or a body said, except the client's id of the request: the
// retention of the request log does not reach an operator's logs.
type accessLine struct {
	Time            string      `json:"time"`
	Service         string      `json:"service"`
	Message         string      `json:"msg"`
	RequestID       string      `json:"requestId"`
	ClientRequestID string      `json:"clientRequestId,omitempty"`
	Method          string      `json:"method"`
	Route           string      `json:"route,omitempty"` // pattern of the path; empty: no route matched
	Status          int         `json:"status"`
	Error           string      `json:"error,omitempty"` // code
	Bytes           int         `json:"bytes"`           // of the answer's body; -1: not known when it began
	DurationMs      float64     `json:"durationMs"`      // until the answer began
	Parts           accessParts `json:"parts"`
	TraceID         string      `json:"traceId,omitempty"`
	Account         string      `json:"account,omitempty"`
	Key             string      `json:"key,omitempty"` // id of the API key
}

// accessParts are the parts of a request's time that the edge knows, in milliseconds. Parts of 0 are left out.
type accessParts struct {
	Body       float64 `json:"bodyMs,omitempty"` // waiting for the client to send the body
	AdmitQueue float64 `json:"admitQueueMs,omitempty"`
	AdmitSync  float64 `json:"admitSyncMs,omitempty"`
	AdmitFold  float64 `json:"admitFoldMs,omitempty"`
	WriteQueue float64 `json:"writeQueueMs,omitempty"`
	WriteSync  float64 `json:"writeSyncMs,omitempty"`
	WriteFold  float64 `json:"writeFoldMs,omitempty"`
	Read       float64 `json:"readMs,omitempty"`
	Blob       float64 `json:"blobMs,omitempty"`
}

// wants reports whether a request is logged.
func (l *accessLog) wants(status int, took time.Duration) bool {
	if l.To == nil {
		return false
	}
	return status >= fasthttp.StatusInternalServerError || l.Slow > 0 && took >= l.Slow || l.Sample > 0 && rand.Float64() < l.Sample
}

// add queues the line of a request, or drops it.
func (l *accessLog) add(ctx *fasthttp.RequestCtx, a *httpin.Answer, c *Call) {
	line := accessLine{
		Time: a.Started.UTC().Format(time.RFC3339Nano), Service: "edge", Message: "request", RequestID: a.RequestID,
		ClientRequestID: string(clientRequestID(&ctx.Request.Header)), Method: string(ctx.Method()), Status: ctx.Response.StatusCode(),
		Bytes: bodyBytes(&ctx.Response), DurationMs: millis(a.Took), Parts: accessParts{Body: millis(a.BodyWait)},
	}
	if c != nil {
		line.describe(c)
	}
	text, err := json.Marshal(&line)
	if err != nil {
		l.log.Error("a line of the access log can't be encoded", "error", err) // a bug
		return
	}
	select {
	case l.lines <- append(text, '\n'):
	default:
		l.dropped.Inc()
	}
}

// describe adds what the route's checks and handler found out.
func (line *accessLine) describe(c *Call) {
	line.Route, line.Error, line.TraceID = c.Row.Path, string(c.failure), c.Timing.Span.TraceID()
	if c.Who.Account != 0 {
		line.Account = c.Who.Account.String()
		if c.Who.Key.Version != 0 {
			line.Key = apikey.ID(c.Who.Key.Number)
		}
	}
	t, p := &c.Timing, &line.Parts
	p.AdmitQueue, p.AdmitSync, p.AdmitFold = millis(t.Admit.Queue), millis(t.Admit.Sync), millis(t.Admit.Fold)
	p.WriteQueue, p.WriteSync, p.WriteFold = millis(t.Write.Queue), millis(t.Write.Sync), millis(t.Write.Fold)
	p.Read, p.Blob = millis(t.Read), millis(t.Blob)
}

// millis is a duration in milliseconds, with three decimals.
func millis(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// bodyBytes is the length of the answer's body, -1 for a stream of unknown length.
func bodyBytes(r *fasthttp.Response) int {
	switch {
	case r.SkipBody:
		return 0
	case r.IsBodyStream():
		return r.Header.ContentLength()
	}
	return len(r.Body())
}

// WriteAccessLog writes the access log until ctx ends, and then the lines that wait.
func (s *Base) WriteAccessLog(ctx context.Context) {
	l := s.access
	for {
		select {
		case line := <-l.lines:
			l.write(line)
		case <-ctx.Done():
			for {
				select {
				case line := <-l.lines:
					l.write(line)
				default:
					return
				}
			}
		}
	}
}

func (l *accessLog) write(line []byte) {
	if _, err := l.To.Write(line); err != nil {
		l.dropped.Inc()
	}
}

// maxClientRequestID is the maximum length of a client's id of a request, in bytes.
const maxClientRequestID = 128

// clientRequestID returns the client's own id of the request, from X-Request-Id; nil without a valid one. It aliases the header.
func clientRequestID(h *fasthttp.RequestHeader) []byte {
	if id := h.Peek(fiber.HeaderXRequestID); ValidClientRequestID(id) {
		return id
	}
	return nil
}

// ValidClientRequestID reports whether the text can be a client's id of a request.
func ValidClientRequestID[T string | []byte](id T) bool {
	for i := range len(id) {
		if !isIDByte(id[i]) {
			return false
		}
	}
	return len(id) > 0 && len(id) <= maxClientRequestID
}

// isIDByte reports whether a client's id of a request may contain a byte: a letter, a digit, or one of -._~:/+=@.
func isIDByte(c byte) bool {
	switch {
	case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		return true
	}
	switch c {
	case '-', '.', '_', '~', ':', '/', '+', '=', '@':
		return true
	}
	return false
}

// answered counts an answered request, and logs it.
func (s *Base) answered(ctx *fasthttp.RequestCtx, a httpin.Answer) {
	status := ctx.Response.StatusCode()
	c, _ := a.Note.(*Call)
	routes := otherRoutes
	if c != nil {
		routes = c.group
	}
	trace := ""
	if c != nil && c.Timing.Span != nil {
		trace = c.Timing.Span.TraceID()
		endTrace(ctx, c, &a)
	}
	s.metrics.observe(routes, status, a.Took, trace)
	if s.access.wants(status, a.Took) {
		s.access.add(ctx, &a, c)
	}
}
