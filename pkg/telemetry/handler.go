package telemetry

import (
	"encoding/json"
	"net/http"
	"net/http/pprof"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// readyRetrySeconds is the Retry-After of a failed readiness check.
const readyRetrySeconds = "1"

// answer has the shape of all responses (docs/api.md, Shape of every response).
type answer struct {
	Success   bool      `json:"success"`
	Remaining *int      `json:"remaining,omitempty"`
	Reason    string    `json:"reason,omitempty"`
	Code      string    `json:"code,omitempty"`
	Failing   []Failing `json:"failing,omitempty"`
}

// Handler serves the paths for operators: /livez is 200 while the process responds, /readyz is 503 with the failing checks
// until all are ready, /metrics is in Prometheus' format, or in OpenMetrics with exemplars for clients that ask for it.
func Handler(metrics *Metrics, health *Health) http.Handler {
	registry := prometheus.NewRegistry()
	if metrics != nil {
		registry = metrics.registry
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/livez", func(w http.ResponseWriter, _ *http.Request) { writeSuccess(w) })
	mux.HandleFunc("/readyz", func(w http.ResponseWriter, _ *http.Request) { writeReadiness(w, health.Failing()) })
	mux.Handle("/metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{Registry: registry, EnableOpenMetrics: true}))
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		write(w, http.StatusNotFound, answer{Reason: "Nothing exists at this path", Code: "not_found"})
	})
	return onlyReads(mux)
}

// HandlerWithProfiles is Handler plus the profiles of net/http/pprof under /debug/pprof/. They reveal how the process works and
// cost CPU time, so they belong on a listener that only operators reach. A profile may take longer than the server's timeouts,
// which restart for it.
func HandlerWithProfiles(metrics *Metrics, health *Health) http.Handler {
	profiles := http.NewServeMux()
	profiles.HandleFunc("/debug/pprof/", pprof.Index)
	profiles.HandleFunc("/debug/pprof/profile", pprof.Profile)
	profiles.HandleFunc("/debug/pprof/trace", pprof.Trace)
	profiles.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	profiles.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
	mux := http.NewServeMux()
	mux.Handle("/", Handler(metrics, health))
	mux.Handle("/debug/pprof/", onlyReads(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// The request has been read. A read timeout now would end its context, and with it the profile. pprof itself moves the
		// deadline of the response.
		_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
		profiles.ServeHTTP(w, r)
	})))
	return mux
}

func onlyReads(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			write(w, http.StatusMethodNotAllowed, answer{Reason: "Only GET and HEAD are allowed here", Code: "method_not_allowed"})
			return
		}
		next.ServeHTTP(w, r)
	})
}

func writeReadiness(w http.ResponseWriter, failing []Failing) {
	if len(failing) == 0 {
		writeSuccess(w)
		return
	}
	names := make([]string, len(failing))
	for i, check := range failing {
		names[i] = check.Name
	}
	w.Header().Set("Retry-After", readyRetrySeconds)
	write(w, http.StatusServiceUnavailable, answer{
		Reason:  "Not ready: " + strings.Join(names, ", "),
		Code:    "unavailable",
		Failing: failing,
	})
}

func writeSuccess(w http.ResponseWriter) {
	unlimited := -1
	write(w, http.StatusOK, answer{Success: true, Remaining: &unlimited})
}

func write(w http.ResponseWriter, status int, body answer) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	// The client may be gone.
	_ = json.NewEncoder(w).Encode(body)
}
