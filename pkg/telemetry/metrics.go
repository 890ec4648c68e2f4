package telemetry

import (
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

// Namespace begins the name of every metric.
const Namespace = "quire"

// Metrics creates and holds the metrics of one process. Requesting a metric twice returns the same one, so that several
// instances of a service in one process share it. Requesting another kind, help or label under the same name panics. On a nil
// *Metrics everything works and nothing is shown. Safe for concurrent use.
//
// docs/metrics.md lists all metrics. A scenario test writes it and verifies the product against it.
type Metrics struct {
	registry *prometheus.Registry
}

// NewMetrics returns metrics that include the Go runtime, the process, its clock and the build.
func NewMetrics() *Metrics {
	registry := prometheus.NewRegistry()
	registry.MustRegister(
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		collectors.NewBuildInfoCollector(),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Namespace: Namespace, Name: "clock_seconds", Help: "Unix time of the host at the scrape.",
		}, func() float64 { return float64(time.Now().UnixMicro()) / 1e6 }),
	)
	return &Metrics{registry: registry}
}

// Desc names a metric: {"billing", "admissions_total", "…"} is quire_billing_admissions_total. Names end in the unit, counters
// in _total.
type Desc struct {
	Service string // part of the process that the metric belongs to
	Name    string
	Help    string
}

// Counter returns a number that only grows.
func (m *Metrics) Counter(d Desc) prometheus.Counter {
	return register[prometheus.Counter](m, prometheus.NewCounter(prometheus.CounterOpts(d.opts())))
}

// CounterVec returns a counter for each value of a label. All values appear from the start, so that Prometheus sees the first
// increment as one, and docs/metrics.md lists them.
func (m *Metrics) CounterVec(d Desc, label string, values ...string) *prometheus.CounterVec {
	vec := register(m, prometheus.NewCounterVec(prometheus.CounterOpts(d.opts()), []string{label}))
	for _, value := range values {
		vec.WithLabelValues(value)
	}
	return vec
}

// Gauge returns a number that goes up and down.
func (m *Metrics) Gauge(d Desc) prometheus.Gauge {
	return register[prometheus.Gauge](m, prometheus.NewGauge(prometheus.GaugeOpts(d.opts())))
}

// GaugeVec returns a gauge for each combination of values of the labels, which must be few.
func (m *Metrics) GaugeVec(d Desc, labels ...string) *prometheus.GaugeVec {
	return register(m, prometheus.NewGaugeVec(prometheus.GaugeOpts(d.opts()), labels))
}

// Histogram returns a distribution over the buckets, such as Durations().
func (m *Metrics) Histogram(d Desc, buckets []float64) prometheus.Histogram {
	return register[prometheus.Histogram](m, prometheus.NewHistogram(d.histogram(buckets)))
}

// HistogramVec returns a histogram for each value of a label. All values appear from the start, as in CounterVec.
func (m *Metrics) HistogramVec(d Desc, buckets []float64, label string, values ...string) *prometheus.HistogramVec {
	vec := register(m, prometheus.NewHistogramVec(d.histogram(buckets), []string{label}))
	for _, value := range values {
		vec.WithLabelValues(value)
	}
	return vec
}

// HistogramsOf returns a histogram for each combination of values of the labels. The caller makes all of them appear from the start,
// as in CounterVec.
func (m *Metrics) HistogramsOf(d Desc, buckets []float64, labels ...string) *prometheus.HistogramVec {
	return register(m, prometheus.NewHistogramVec(d.histogram(buckets), labels))
}

func (d Desc) opts() prometheus.Opts {
	return prometheus.Opts{Namespace: Namespace, Subsystem: d.Service, Name: d.Name, Help: d.Help}
}

func (d Desc) histogram(buckets []float64) prometheus.HistogramOpts {
	return prometheus.HistogramOpts{Namespace: Namespace, Subsystem: d.Service, Name: d.Name, Help: d.Help, Buckets: buckets}
}

func register[C prometheus.Collector](m *Metrics, c C) C {
	if m == nil {
		return c
	}
	err := m.registry.Register(c)
	var taken prometheus.AlreadyRegisteredError
	if errors.As(err, &taken) {
		if existing, ok := taken.ExistingCollector.(C); ok {
			return existing
		}
	}
	if err != nil {
		panic(err) // a bug: two metrics with one name
	}
	return c
}

// Durations are buckets for the seconds taken by a request or one of its steps: 100 µs to 26 s, each double the previous one.
func Durations() []float64 { return prometheus.ExponentialBuckets(0.0001, 2, 19) }

// Counts are buckets for the items of a batch or a queue: 1 to 8192, each double the previous one.
func Counts() []float64 { return prometheus.ExponentialBuckets(1, 2, 14) }
