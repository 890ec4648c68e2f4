// Package load sends requests to a server from this process: at a fixed rate, whatever the server does (an open loop), or
// to make documents whose ids are needed. wrk measures closed loops.
package load

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/valyala/fasthttp"
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

// worker is one connection with its own figures, so that workers share no lock.
type worker struct {
	latency, late *hdrhistogram.Histogram
	answers       []int
	failed        uint64
	failure       error
}

// Open runs an open loop. The error is that of the plan, or of ctx; requests that fail are counted.
func Open(ctx context.Context, p Plan) (Outcome, error) {
	if p.PerSecond <= 0 || p.Duration < time.Second || p.Connections < 1 {
		return Outcome{}, errors.New("an open loop needs a rate, a second at least and a connection")
	}
	client, err := p.client(p.Connections)
	if err != nil {
		return Outcome{}, err
	}
	defer client.CloseIdleConnections()
	var (
		due     atomic.Int64 // number of the next request
		all     sync.WaitGroup
		workers = make([]worker, p.Connections)
		total   = int64(p.PerSecond * p.Duration.Seconds())
		started = time.Now()
	)
	for i := range workers {
		w := &workers[i]
		w.latency, w.late = newHistogram(), newHistogram()
		all.Go(func() {
			timer := time.NewTimer(time.Hour)
			defer timer.Stop()
			for {
				n := due.Add(1) - 1
				if n >= total {
					return
				}
				at := started.Add(time.Duration(float64(n) / p.PerSecond * float64(time.Second)))
				if left := time.Until(at); left > 0 {
					timer.Reset(left)
					select {
					case <-timer.C:
					case <-ctx.Done():
						return
					}
				} else if ctx.Err() != nil {
					return
				}
				w.send(client, p.Request, started, at)
			}
		})
	}
	all.Wait()
	if ctx.Err() != nil {
		return Outcome{}, ctx.Err()
	}
	return outcome(workers, int(p.Duration.Seconds())), nil
}

func (w *worker) send(client *fasthttp.HostClient, r Request, started, due time.Time) {
	request, response := fasthttp.AcquireRequest(), fasthttp.AcquireResponse()
	defer fasthttp.ReleaseRequest(request)
	defer fasthttp.ReleaseResponse(response)
	r.write(request)
	record(w.late, time.Since(due))
	err := client.Do(request, response)
	now := time.Now()
	if err == nil && response.StatusCode()/100 != 2 {
		err = fmt.Errorf("status %d: %.200s", response.StatusCode(), response.Body())
	}
	if err != nil {
		w.failed, w.failure = w.failed+1, err
		return
	}
	record(w.latency, now.Sub(due))
	second := int(now.Sub(started) / time.Second)
	for len(w.answers) <= second {
		w.answers = append(w.answers, 0)
	}
	w.answers[second]++
}

func newHistogram() *hdrhistogram.Histogram { return hdrhistogram.New(shortest, longest, digits) }

func record(h *hdrhistogram.Histogram, took time.Duration) {
	_ = h.RecordValue(min(max(int64(took), shortest), longest)) // it fails only for values outside of the bounds
}

// outcome adds up what the workers have seen, over a plan of so many seconds.
func outcome(workers []worker, seconds int) Outcome {
	latency, late := newHistogram(), newHistogram()
	o := Outcome{PerSecond: make([]int, seconds)}
	for i := range workers {
		w := &workers[i]
		latency.Merge(w.latency)
		late.Merge(w.late)
		o.Failed += w.failed
		if w.failure != nil {
			o.Failure = w.failure.Error()
		}
		for second, n := range w.answers {
			for len(o.PerSecond) <= second {
				o.PerSecond = append(o.PerSecond, 0)
			}
			o.PerSecond[second] += n
		}
	}
	for _, n := range o.PerSecond[:seconds] {
		if n == 0 {
			o.Silent++
		}
	}
	at := func(h *hdrhistogram.Histogram, percent float64) float64 {
		return float64(h.ValueAtQuantile(percent)) / 1e6
	}
	o.Succeeded = uint64(latency.TotalCount())
	o.P50, o.P99, o.P999, o.Most = at(latency, 50), at(latency, 99), at(latency, 99.9), float64(latency.Max())/1e6
	o.SentLateP99 = at(late, 99)
	for _, percent := range []float64{1, 10, 25, 50, 75, 90, 95, 99, 99.5, 99.9, 99.95, 99.99} {
		o.Distribution = append(o.Distribution, Point{percent / 100, at(latency, percent)})
	}
	return o
}

// Create sends a creation count times over so many connections, and returns the ids of the documents. Each must succeed.
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
