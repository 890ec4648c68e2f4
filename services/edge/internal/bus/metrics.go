package bus

import (
	"github.com/prometheus/client_golang/prometheus"

	"quire.dev/pkg/event"
	"quire.dev/pkg/journal"
	"quire.dev/pkg/telemetry"
)

// Kinds of billing's lanes in metrics and logs. A lane of documents has the name of its domain.
const (
	usageKind   = "usage"
	accountKind = "account"
)

// metrics are counted per kind of lane, not per partition.
type metrics struct {
	batches   *prometheus.CounterVec
	items     *prometheus.HistogramVec
	latency   *prometheus.HistogramVec
	resends   *prometheus.CounterVec
	orphans   prometheus.Counter
	refusals  prometheus.Counter
	malformed prometheus.Counter
	closed    map[event.Domain]prometheus.Gauge
	journals  *journal.Metrics

	unreported prometheus.Counter
}

func newMetrics(m *telemetry.Metrics) *metrics {
	desc := func(name, help string) telemetry.Desc {
		return telemetry.Desc{Service: "bus", Name: name, Help: help}
	}
	kinds := []string{usageKind, accountKind}
	for _, d := range event.Documents() {
		kinds = append(kinds, string(d))
	}
	closed := map[event.Domain]prometheus.Gauge{}
	journals := m.GaugeVec(desc("journals_closed", "Journals that take no writes: requests that need them are refused."), "journal")
	for _, d := range event.Domains() {
		closed[d] = journals.WithLabelValues(string(d))
	}
	return &metrics{
		batches: m.CounterVec(desc("batches_total", "Batches stored in a journal."), "kind", kinds...),
		items:   m.HistogramVec(desc("batch_items", "Items of a batch."), telemetry.Counts(), "kind", kinds...),
		latency: m.HistogramVec(desc("answer_seconds", "Time from sending a batch to its verdicts or outcomes."),
			telemetry.Durations(), "kind", kinds...),
		resends:   m.CounterVec(desc("resends_total", "Batches published again because no answer arrived."), "kind", kinds...),
		orphans:   m.Counter(desc("orphans_total", "Admissions refunded because no caller was waiting for the verdict any more.")),
		refusals:  m.Counter(desc("refusals_from_memory_total", "Refusals served from the edge's cache, without asking billing.")),
		malformed: m.Counter(desc("malformed_answers_total", "Answers that could not be read.")),
		closed:    closed,
		journals:  journal.NewMetrics(m),

		unreported: m.Counter(desc("requests_unreported_total", "Finished requests whose HTTP details the request log lacks, because the queue was full or the connection could not take them.")),
	}
}
