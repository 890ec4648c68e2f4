package journal

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"

	"quire.dev/pkg/telemetry"
	"quire.dev/pkg/wait"
)

// Metrics of the journals that a process uses: failed calls, and the
// replication of the streams that it observes. A nil *Metrics records nothing.
// Safe for concurrent use.
type Metrics struct {
	wanted, hasLeader, bytes *prometheus.GaugeVec   // by stream
	current, lag, leads      *prometheus.GaugeVec   // by stream and server
	leaderChanges            *prometheus.CounterVec // by stream
	errors                   *prometheus.CounterVec // by kind
}

// Kinds of errors.
const (
	kindNoLeader    = "no_leader"
	kindTimeout     = "timeout"
	kindFull        = "full"
	kindUnavailable = "unavailable"
	kindOther       = "other"
)

// NewMetrics registers the metrics; m may be nil.
func NewMetrics(m *telemetry.Metrics) *Metrics {
	desc := func(name, help string) telemetry.Desc {
		return telemetry.Desc{Service: "journal", Name: name, Help: help}
	}
	gauge := func(name, help string, labels ...string) *prometheus.GaugeVec {
		return m.GaugeVec(desc(name, help), labels...)
	}
	return &Metrics{
		wanted:    gauge("replicas", "Servers that are to hold the journal, of the journals that this instance folds.", "stream"),
		hasLeader: gauge("has_leader", "1 if the journal's leader answered the last query, else 0.", "stream"),
		bytes:     gauge("bytes", "Size of the journal on each of its servers.", "stream"),
		current: gauge("replica_current",
			"1 if the server has all that a majority has stored of the journal, 0 if it is behind or offline. Absent without a leader.", "stream", "server"),
		lag: gauge("replica_lag",
			"Operations that a majority has stored and the server has not, as last known by the journal's leader. Absent without one.", "stream", "server"),
		leads:         gauge("replica_leads", "1 if the server leads the journal, else 0. Absent without a leader.", "stream", "server"),
		leaderChanges: m.CounterVec(desc("leader_changes_total", "Changes of the journal's leader, as seen every 15 s."), "stream"),
		errors: m.CounterVec(desc("api_errors_total", "Failed calls to JetStream, appends included, by kind. Most are repeated."),
			"kind", kindNoLeader, kindTimeout, kindFull, kindUnavailable, kindOther),
	}
}

// With returns the Journal with its failed calls counted.
func (j *Journal) With(m *Metrics) *Journal {
	counted := *j
	counted.metrics = m
	return &counted
}

// count counts a failed call, and returns its error.
func (m *Metrics) count(err error) error {
	if kind := errorKind(err); m != nil && kind != "" {
		m.errors.WithLabelValues(kind).Inc()
	}
	return err
}

// errorKind is the kind under which an error counts; empty: it does not, because
// the caller has given up or the answer is no failure.
func errorKind(err error) string {
	var api *apiError
	code := 0
	if errors.As(err, &api) {
		code = api.ErrCode
	}
	switch {
	case err == nil, errors.Is(err, context.Canceled), errors.Is(err, ErrNoMessage):
		return ""
	case errors.Is(err, errNoLeader), code == codeClusterNotAvailable:
		return kindNoLeader
	case errors.Is(err, ErrFull), code == codeInsufficientResources, code == codeStorageLimits:
		return kindFull
	case errors.Is(err, nats.ErrTimeout), errors.Is(err, context.DeadlineExceeded):
		return kindTimeout
	case errors.Is(err, ErrUnavailable), isUnreached(err):
		return kindUnavailable
	}
	return kindOther
}

const (
	// observeEvery is the minimum interval between two queries of one stream, about that between two scrapes.
	observeEvery = 15 * time.Second
	// observeSpread is added at random, so that the queries of many streams spread out.
	observeSpread = time.Second
)

// Observe shows the replication of a stream until ctx ends, and removes its
// series then. Only one call per stream and process may run at a time. Watch
// can't do it: a busy journal is never asked, and while one does not answer,
// Watch must not wait for it.
func (m *Metrics) Observe(ctx context.Context, j *Journal) {
	if m == nil {
		return
	}
	o := newObserver(m, j)
	defer o.forget()
	for {
		o.look(ctx)
		if !wait.For(ctx, observeEvery+rand.N(observeSpread)) {
			return
		}
	}
}

// observer shows one stream. Not safe for concurrent use.
type observer struct {
	metrics *Metrics
	journal *Journal
	leader  string          // last one known
	shown   map[string]bool // servers with series
}

func newObserver(m *Metrics, j *Journal) *observer {
	m.leaderChanges.WithLabelValues(j.stream) // so that Prometheus sees the first change as one
	return &observer{metrics: m, journal: j, shown: map[string]bool{}}
}

// look queries the stream once. What the leader of a stream without one last
// reported of the servers would be stale, so it is removed.
func (o *observer) look(ctx context.Context) {
	r, err := o.journal.Replication(ctx)
	if ctx.Err() != nil {
		return
	}
	m, stream := o.metrics, o.journal.stream
	before := o.shown
	o.shown = map[string]bool{}
	m.hasLeader.WithLabelValues(stream).Set(boolValue(err == nil))
	if err == nil {
		m.wanted.WithLabelValues(stream).Set(float64(r.Replicas))
		m.bytes.WithLabelValues(stream).Set(float64(r.Bytes))
		if o.leader != "" && r.Leader != o.leader {
			m.leaderChanges.WithLabelValues(stream).Inc()
		}
		o.leader = r.Leader
		for _, p := range r.Peers {
			o.shown[p.Server] = true
			m.current.WithLabelValues(stream, p.Server).Set(boolValue(p.Current))
			m.lag.WithLabelValues(stream, p.Server).Set(float64(p.Lag))
			m.leads.WithLabelValues(stream, p.Server).Set(boolValue(p.Server == r.Leader))
		}
	}
	for server := range before {
		if !o.shown[server] {
			for _, vec := range []*prometheus.GaugeVec{m.current, m.lag, m.leads} {
				vec.DeleteLabelValues(stream, server)
			}
		}
	}
}

// forget removes all series of the stream.
func (o *observer) forget() {
	of := prometheus.Labels{"stream": o.journal.stream}
	m := o.metrics
	for _, vec := range []*prometheus.GaugeVec{m.wanted, m.hasLeader, m.bytes, m.current, m.lag, m.leads} {
		vec.DeletePartialMatch(of)
	}
	m.leaderChanges.DeletePartialMatch(of)
}

func boolValue(is bool) float64 {
	if is {
		return 1
	}
	return 0
}
