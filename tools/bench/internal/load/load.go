// Package load sends requests to a server from this process: at a fixed rate, whatever the server does (an open loop), or
// to create documents whose ids are needed. wrk measures closed loops.
package load

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/valyala/fasthttp"

	"quire.dev/pkg/num"
)

// Request is sent again and again.
type Request struct {
	Method string `json:"method"`
	URL    string `json:"url"`
	Key    string `json:"key"`
	Body   string `json:"body,omitempty"` // JSON
}

// answerLimit bounds the wait for one answer.
const answerLimit = 30 * time.Second

func (r Request) client(connections int) (*fasthttp.HostClient, error) {
	target, err := url.Parse(r.URL)
	if err != nil {
		return nil, err
	}
	return &fasthttp.HostClient{
		Addr: target.Host, MaxConns: connections, ReadTimeout: answerLimit, WriteTimeout: answerLimit,
		// A request that was sent twice would be counted twice.
		MaxIdemponentCallAttempts: 1,
	}, nil
}

func (r Request) write(to *fasthttp.Request) {
	to.Header.SetMethod(r.Method)
	to.SetRequestURI(r.URL)
	to.Header.Set("x-api-key", r.Key)
	if r.Body != "" {
		to.Header.SetContentType("application/json")
		to.SetBodyString(r.Body)
	}
}

// Plan is an open loop.
type Plan struct {
	Request
	PerSecond   float64       `json:"perSecond"`
	Duration    time.Duration `json:"duration"`
	Connections int           `json:"connections"` // at most
}

// Point of a distribution: Share of the requests took Millis at most.
type Point struct {
	Share  float64 `json:"share"`
	Millis float64 `json:"millis"`
}

// Outcome of an open loop. Latencies are milliseconds from the time at which a request was due, so that a request which had to
// wait because the server, or this client, was late counts with its wait (no coordinated omission).
type Outcome struct {
	Succeeded    uint64  `json:"succeeded"`
	Failed       uint64  `json:"failed"` // without an answer, or with another status than 2xx
	Failure      string  `json:"failure,omitempty"`
	P50          float64 `json:"p50"`
	P99          float64 `json:"p99"`
	P999         float64 `json:"p999"`
	Most         float64 `json:"most"`
	SentLateP99  float64 `json:"sentLateP99"` // from when a request was due until it was sent
	Silent       int     `json:"silent"`      // seconds in which no request was answered
	PerSecond    []int   `json:"perSecond"`   // answers
	Distribution []Point `json:"distribution"`
}

// Latencies are kept from a microsecond to the limit of an answer and the wait before it, with three digits.
const (
	shortest = int64(time.Microsecond)
	longest  = int64(10 * time.Minute)
	digits   = 3
)

// figures are what an open loop has measured.
type figures struct {
	latency, late *hdrhistogram.Histogram
	answers       []int // by second
	failures      uint64
	failure       error // the last one
}

func newFigures() figures { return figures{latency: newHistogram(), late: newHistogram()} }

// countAnswer counts an answer that came in that second.
func (f *figures) countAnswer(latency time.Duration, second int) {
	record(f.latency, latency)
	for len(f.answers) <= second {
		f.answers = append(f.answers, 0)
	}
	f.answers[second]++
}

func (f *figures) fail(err error) { f.failures, f.failure = f.failures+1, err }

func newHistogram() *hdrhistogram.Histogram { return hdrhistogram.New(shortest, longest, digits) }

func record(h *hdrhistogram.Histogram, took time.Duration) {
	_ = h.RecordValue(min(max(int64(took), shortest), longest)) // it fails only for values outside of the bounds
}

// outcome of a plan of so many seconds.
func (f *figures) outcome(seconds int) Outcome {
	o := Outcome{Failed: f.failures, PerSecond: make([]int, max(seconds, len(f.answers)))}
	if f.failure != nil {
		o.Failure = f.failure.Error()
	}
	copy(o.PerSecond, f.answers)
	for _, n := range o.PerSecond[:seconds] {
		if n == 0 {
			o.Silent++
		}
	}
	at := func(h *hdrhistogram.Histogram, percent float64) float64 {
		return float64(h.ValueAtQuantile(percent)) / 1e6
	}
	o.Succeeded = num.Uint64(f.latency.TotalCount())
	o.P50, o.P99, o.P999, o.Most = at(f.latency, 50), at(f.latency, 99), at(f.latency, 99.9), float64(f.latency.Max())/1e6
	o.SentLateP99 = at(f.late, 99)
	for _, percent := range []float64{1, 10, 25, 50, 75, 90, 95, 99, 99.5, 99.9, 99.95, 99.99} {
		o.Distribution = append(o.Distribution, Point{percent / 100, at(f.latency, percent)})
	}
	return o
}

// Create sends a creation count times over the given number of connections, and returns the documents' ids. Each must succeed.
func Create(ctx context.Context, r Request, count, connections int) ([]string, error) {
	client, err := r.client(connections)
	if err != nil {
		return nil, err
	}
	defer client.CloseIdleConnections()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	ids := make([]string, count)
	var (
		next atomic.Int64
		all  sync.WaitGroup
	)
	for range connections {
		all.Go(func() {
			request, response := fasthttp.AcquireRequest(), fasthttp.AcquireResponse()
			defer fasthttp.ReleaseRequest(request)
			defer fasthttp.ReleaseResponse(response)
			r.write(request)
			for n := next.Add(1) - 1; n < int64(count) && ctx.Err() == nil; n = next.Add(1) - 1 {
				if err := create(client, request, response, &ids[n]); err != nil {
					cancel(fmt.Errorf("creation %d of %d: %w", n+1, count, err))
					return
				}
			}
		})
	}
	all.Wait()
	return ids, context.Cause(ctx)
}

func create(client *fasthttp.HostClient, request *fasthttp.Request, response *fasthttp.Response, id *string) error {
	if err := client.Do(request, response); err != nil {
		return err
	}
	var made struct {
		ID string `json:"id"`
	}
	if err := json.Unmarshal(response.Body(), &made); err != nil || made.ID == "" || response.StatusCode() != fasthttp.StatusCreated {
		return fmt.Errorf("status %d: %.200s", response.StatusCode(), response.Body())
	}
	*id = made.ID
	return nil
}
