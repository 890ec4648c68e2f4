package document

import (
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"quire.dev/pkg/event"
	"quire.dev/pkg/journal"
	"quire.dev/pkg/telemetry"
)

// metrics of one domain: quire_paste_… and so on. Labels are few and fixed.
type metrics struct {
	messages    prometheus.Counter
	outcomes    []prometheus.Counter // by event.OutcomeStatus
	commits     prometheus.Counter
	failures    *prometheus.CounterVec
	fromMemory  prometheus.Counter
	fromView    prometheus.Counter
	unavailable prometheus.Counter
	swept       *prometheus.CounterVec
	damaged     prometheus.Counter
	restarts    prometheus.Counter
	leases      prometheus.Counter
	overlay     prometheus.Gauge
	unprojected prometheus.Gauge
	journals    *journal.Metrics
}

func newMetrics(domain event.Domain, m *telemetry.Metrics) *metrics {
	desc := func(name, help string) telemetry.Desc {
		return telemetry.Desc{Service: string(domain), Name: name, Help: help}
	}
	reads := m.CounterVec(desc("reads_total", "Documents and stored outcomes read, by where they were found."), "from")
	statuses := m.CounterVec(desc("outcomes_total", "Requests decided, by outcome."), "status")
	outcomes := make([]prometheus.Counter, len(event.OutcomeStatus_name))
	for number, name := range event.OutcomeStatus_name {
		outcomes[number] = statuses.WithLabelValues(strings.ToLower(name))
	}
	failures := m.CounterVec(desc("failures_total", "Failed calls to the read model or the blob store."),
		"call", "load", "commit", "read", "list", "erase", "blob", "sweep")
	swept := m.CounterVec(desc("swept_total", "Items removed by the sweepers, or on their request."),
		"what", "expired", "outcomes", "orphans", "trash", "restored", "blobs", "erased")
	return &metrics{
		messages:    m.Counter(desc("messages_folded_total", "Journal messages folded.")),
		outcomes:    outcomes,
		commits:     m.Counter(desc("commits_total", "Commits to the read model.")),
		failures:    failures,
		fromMemory:  reads.WithLabelValues("memory"),
		fromView:    reads.WithLabelValues("view"),
		unavailable: reads.WithLabelValues("unavailable"),
		swept:       swept,
		damaged:     m.Counter(desc("damaged_contents_total", "Contents loaded from the read model that differ from their SHA-256.")),
		restarts:    m.Counter(desc("fold_restarts_total", "Folds restarted from the checkpoint.")),
		leases:      m.Counter(desc("read_leases_total", "Journal messages that confirm or renew read leases.")),
		overlay:     m.Gauge(desc("unprojected_bytes", "Bytes decided but not yet in the read model, of all partitions that this instance projects.")),
		unprojected: m.Gauge(desc("unprojected_messages", "Journal messages decided but not yet in the read model, of all partitions that this instance projects.")),
		journals:    journal.NewMetrics(m),
	}
}

func (m *metrics) countOutcome(status event.OutcomeStatus) { m.outcomes[status].Inc() }
