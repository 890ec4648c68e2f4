package web

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics counts answers. Its counters are looked up once, not on every request.
type metrics struct {
	answers [6]prometheus.Counter // by the status's first digit
	seconds prometheus.Histogram
}

func newMetrics(r prometheus.Registerer) *metrics {
	answers := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "quire_edge_answers_total", Help: "HTTP answers, by the class of their status.",
	}, []string{"class"})
	m := &metrics{seconds: prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "quire_edge_request_seconds", Help: "Time from a request's header to its answer.",
		Buckets: []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30},
	})}
	for i, class := range [...]string{"other", "1xx", "2xx", "3xx", "4xx", "5xx"} {
		m.answers[i] = answers.WithLabelValues(class)
	}
	if r != nil {
		r.MustRegister(answers, m.seconds)
	}
	return m
}

func (m *metrics) observe(status int, took time.Duration) {
	class := status / 100
	if class >= len(m.answers) {
		class = 0
	}
	m.answers[class].Inc()
	m.seconds.Observe(took.Seconds())
}
