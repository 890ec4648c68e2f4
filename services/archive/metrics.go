package archive

import (
	"github.com/prometheus/client_golang/prometheus"

	"quire.dev/pkg/telemetry"
	"quire.dev/pkg/witness"
)

type metrics struct {
	size, checkpoint prometheus.Gauge
	failures         prometheus.Counter
	segments         prometheus.Counter
	unarchived       prometheus.Counter
	deleted          prometheus.Counter
	overdue          prometheus.Gauge
	unwitnessed      *prometheus.CounterVec
}

func newMetrics(m *telemetry.Metrics, witnesses []*witness.Client) *metrics {
	all := &metrics{
		size: m.Gauge(telemetry.Desc{Service: "archive", Name: "log_size", Help: "Entries in the log of the billing journals."}),
		checkpoint: m.Gauge(telemetry.Desc{
			Service: "archive", Name: "checkpoint_timestamp_seconds",
			Help: "Unix time of the last round after which the log's checkpoint had everything of the billing journals.",
		}),
		failures:   m.Counter(telemetry.Desc{Service: "archive", Name: "failures_total", Help: "Rounds that did not end in a checkpoint."}),
		segments:   m.Counter(telemetry.Desc{Service: "archive", Name: "segment_bytes_total", Help: "Bytes of segments written to the blob store."}),
		unarchived: m.Counter(telemetry.Desc{Service: "archive", Name: "segment_failures_total", Help: "Rounds in which a journal could not be copied into segments."}),
		deleted:    m.Counter(telemetry.Desc{Service: "archive", Name: "generations_deleted_total", Help: "Closed generations of billing journals that were deleted from the NATS servers."}),
		overdue: m.Gauge(telemetry.Desc{
			Service: "archive", Name: "generation_overdue_seconds",
			Help: "How long a closed generation has been past QUIRE_JOURNAL_RETENTION without being deleted, at most; 0: none is.",
		}),
		unwitnessed: m.CounterVec(telemetry.Desc{Service: "archive", Name: "unwitnessed_total", Help: "Checkpoints that a witness has not signed."},
			"witness"),
	}
	for _, w := range witnesses {
		all.unwitnessed.WithLabelValues(w.Name()) // from 0, so that the first one is an increase
	}
	return all
}
