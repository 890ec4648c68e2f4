package endpoint

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"quire.dev/pkg/telemetry"
)

// metrics counts answers. Its counters are looked up once instead of on every request.
type metrics struct {
	answers [6]prometheus.Counter // by the status's first digit
	seconds prometheus.Histogram

	oldKey, oldSession prometheus.Counter // signed with a secret of QUIRE_SECRET_PREVIOUS
}

func newMetrics(to *telemetry.Metrics) *metrics {
	answers := to.CounterVec(telemetry.Desc{
		Service: "edge", Name: "answers_total", Help: "HTTP answers, by the class of their status.",
	}, "class")
	old := to.CounterVec(telemetry.Desc{
		Service: "edge", Name: "previous_secret_total", Help: "API keys and sessions that came signed with a secret of QUIRE_SECRET_PREVIOUS.",
	}, "what")
	m := &metrics{oldKey: old.WithLabelValues("key"), oldSession: old.WithLabelValues("session"), seconds: to.Histogram(telemetry.Desc{
		Service: "edge", Name: "request_seconds", Help: "Time from a request's header to its answer.",
	}, telemetry.Durations())}
	for i, class := range [...]string{"other", "1xx", "2xx", "3xx", "4xx", "5xx"} {
		m.answers[i] = answers.WithLabelValues(class)
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
