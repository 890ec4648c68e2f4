package endpoint

import (
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"quire.dev/pkg/telemetry"
)

// group is the part of the routes that the time of a request is counted for.
type group uint8

const (
	otherRoutes group = iota // probes, assets, /docs, admins, and requests that no route matched
	pasteRoutes
	quickRoutes
	fileRoutes
	accountRoutes
	pageRoutes
	groups
)

func (g group) String() string {
	return [groups]string{"other", "pastes", "quick_pastes", "files", "accounts", "pages"}[g]
}

// groupOf returns the group of a route: by its quota key, or else by its path.
func groupOf(r *Row) group {
	key := r.Key.String()
	switch {
	case strings.HasPrefix(key, "pastes."), strings.HasPrefix(r.Path, "/api/dev/pastes/"):
		return pasteRoutes
	case strings.HasPrefix(key, "pasteLite."), strings.HasPrefix(r.Path, "/api/dev/paste-lite/"):
		return quickRoutes
	case strings.HasPrefix(key, "files."), strings.HasPrefix(r.Path, "/api/dev/files/"):
		return fileRoutes
	case strings.HasPrefix(r.Path, "/api/users/"):
		return accountRoutes
	case r.Rules.Has(HTML) && !r.ForAdmins():
		return pageRoutes
	}
	return otherRoutes
}

// metrics counts answers. Its counters are looked up once instead of on every request.
type metrics struct {
	answers [6]prometheus.Counter                  // by the status's first digit
	seconds [groups][6]prometheus.ExemplarObserver // likewise; nil for 0 and 1

	oldKey, oldSession prometheus.Counter // signed with a secret of QUIRE_SECRET_PREVIOUS
}

func newMetrics(to *telemetry.Metrics) *metrics {
	answers := to.CounterVec(telemetry.Desc{
		Service: "edge", Name: "answers_total", Help: "HTTP responses, by status class.",
	}, "class")
	old := to.CounterVec(telemetry.Desc{
		Service: "edge", Name: "previous_secret_total", Help: "API keys and sessions received that are signed with a secret in QUIRE_SECRET_PREVIOUS.",
	}, "what")
	seconds := to.HistogramsOf(telemetry.Desc{
		Service: "edge", Name: "request_seconds",
		Help: "Time from a request's header to its response, by route group and status class. Exemplars are traces.",
	}, telemetry.Durations(), "group", "class")
	m := &metrics{oldKey: old.WithLabelValues("key"), oldSession: old.WithLabelValues("session")}
	for i, class := range [...]string{"other", "1xx", "2xx", "3xx", "4xx", "5xx"} {
		m.answers[i] = answers.WithLabelValues(class)
		for g := range groups {
			if i >= 2 {
				m.seconds[g][i] = seconds.WithLabelValues(g.String(), class).(prometheus.ExemplarObserver) // as all histograms
			}
		}
	}
	return m
}

// observe counts an answer. trace is the id of its trace, empty unless it has one.
func (m *metrics) observe(g group, status int, took time.Duration, trace string) {
	class := status / 100
	if class >= len(m.answers) {
		class = 0
	}
	m.answers[class].Inc()
	if seconds := m.seconds[g][class]; seconds != nil {
		var exemplar prometheus.Labels // nil: none
		if trace != "" {
			exemplar = prometheus.Labels{"trace_id": trace}
		}
		seconds.ObserveWithExemplar(took.Seconds(), exemplar)
	}
}
