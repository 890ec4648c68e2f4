package document

import (
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"quire.dev/pkg/event"
)

// metrics of one domain. Labels are few and fixed.
type metrics struct {
	messages  prometheus.Counter
	outcomes  *prometheus.CounterVec // by status
	commits   prometheus.Counter
	failures  *prometheus.CounterVec // by what failed: load, commit, blob, settle
	reads     *prometheus.CounterVec // by where they were answered from: memory, view, busy
	swept     *prometheus.CounterVec // by what: expired, outcomes, orphans, blobs
	restarts  prometheus.Counter
	overlay   prometheus.Gauge
	unsettled prometheus.Gauge
}

func newMetrics(domain event.Domain, registerer prometheus.Registerer) (*metrics, error) {
	labels := prometheus.Labels{"domain": string(domain)}
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Namespace: "quire", Subsystem: "document", Name: name, Help: help, ConstLabels: labels})
	}
	vec := func(name, help, label string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "quire", Subsystem: "document", Name: name, Help: help, ConstLabels: labels}, []string{label})
	}
	gauge := func(name, help string) prometheus.Gauge {
		return prometheus.NewGauge(prometheus.GaugeOpts{Namespace: "quire", Subsystem: "document", Name: name, Help: help, ConstLabels: labels})
	}
	m := &metrics{
		messages:  counter("messages_folded_total", "Journal messages folded."),
		outcomes:  vec("outcomes_total", "Requests decided.", "status"),
		commits:   counter("commits_total", "Commits to the read model."),
		failures:  vec("failures_total", "Calls that failed and were tried again.", "call"),
		reads:     vec("reads_total", "Documents read.", "from"),
		swept:     vec("swept_total", "What the sweepers removed, or asked to be removed.", "what"),
		restarts:  counter("restarts_total", "Folds begun again from the checkpoint."),
		overlay:   gauge("overlay_bytes", "Decided and not yet projected."),
		unsettled: gauge("unprojected_messages", "Journal messages decided and not yet projected."),
	}
	if registerer == nil {
		return m, nil
	}
	var faults []error
	for _, c := range []prometheus.Collector{m.messages, m.outcomes, m.commits, m.failures, m.reads, m.swept, m.restarts, m.overlay, m.unsettled} {
		faults = append(faults, registerer.Register(c))
	}
	if err := errors.Join(faults...); err != nil {
		return nil, fmt.Errorf("register metrics of %s: %w", domain, err)
	}
	return m, nil
}
