package partition

import (
	"encoding/hex"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"quire.dev/pkg/event"
	"quire.dev/pkg/journal"
	"quire.dev/pkg/telemetry"
	"quire.dev/services/billing/internal/account"
)

// Metrics are shared by the partitions of a process.
type Metrics struct {
	messages, skipped, unsent, snapshots, reportsDropped, wrongSeals prometheus.Counter

	held                      prometheus.Histogram
	admissions                [account.Decisions]prometheus.Counter
	refused                   map[account.RefusalReason]prometheus.Counter
	state, chain, quarantined *prometheus.GaugeVec
	missing                   *prometheus.GaugeVec
	journals                  *journal.Metrics
}

// NewMetrics registers the metrics; m may be nil.
func NewMetrics(m *telemetry.Metrics) *Metrics {
	desc := func(name, help string) telemetry.Desc {
		return telemetry.Desc{Service: "billing", Name: name, Help: help}
	}
	metrics := &Metrics{
		messages:  m.Counter(desc("messages_total", "Journal messages folded.")),
		skipped:   m.Counter(desc("messages_skipped_total", "Journal messages that could not be decoded.")),
		unsent:    m.Counter(desc("answers_unsent_total", "Responses dropped because the connection could not take them.")),
		snapshots: m.Counter(desc("snapshots_total", "Snapshots written.")),
		reportsDropped: m.Counter(desc("request_reports_dropped_total",
			"Request reports dropped because the read model's queue was full. The request log lacks their HTTP details.")),
		wrongSeals: m.Counter(desc("seals_wrong_total", "Seals with a root that differs from this instance's.")),
		held: m.Histogram(desc("snapshot_hold_seconds", "Time the fold was paused for a snapshot."),
			[]float64{0.001, 0.01, 0.1, 0.5, 1, 5}),
		state: m.GaugeVec(desc("state", "Sizes of the folded state, by partition and what is counted."), "partition", "of"),
		chain: m.GaugeVec(desc("chain_head", "Sequence of the last message in the chain, at the last snapshot, by partition and the chain's hash."),
			"partition", "chain"),
		quarantined: m.GaugeVec(desc("quarantined_accounts", "Accounts in quarantine because one of their counters was impossible."), "partition"),
		missing: m.GaugeVec(desc("missing", "What the journal knows of and the read model lacks, though it exists nowhere else, by partition. At least so many."),
			"partition", "of"),
		journals: journal.NewMetrics(m),
	}
	admissions := m.CounterVec(desc("admissions_total", "Admissions folded, by decision."), "decision")
	for d := range metrics.admissions {
		metrics.admissions[d] = admissions.WithLabelValues(strings.ToLower(event.Decision(d).String()))
	}
	refused := m.CounterVec(desc("settlements_refused_total", "Settlements from document services that billing refused, by reason."), "reason")
	metrics.refused = map[account.RefusalReason]prometheus.Counter{}
	for _, reason := range account.RefusalReasons() {
		metrics.refused[reason] = refused.WithLabelValues(string(reason))
	}
	return metrics
}

// observe updates the metrics from the state and the decisions. One goroutine may call it.
func (p *Partition) observe() {
	p.mu.Lock()
	sizes := map[string]float64{
		"sequence": float64(p.fold.Sequence()), "accounts": float64(p.fold.Accounts()), "open_holds": float64(p.fold.OpenHolds()),
		"entries": float64(p.fold.Entries()),
	}
	decided, quarantined := p.fold.Decided(), p.fold.Quarantined()
	p.mu.Unlock()
	for d, n := range decided {
		if more := n - p.observed[d]; more > 0 {
			p.deps.Metrics.admissions[d].Add(float64(more))
		}
	}
	p.observed = decided
	sizes["projection_pending"] = float64(p.projection.Pending())
	p.deps.Metrics.quarantined.WithLabelValues(strconv.Itoa(p.cfg.Partition)).Set(float64(quarantined))
	for of, size := range sizes {
		p.deps.Metrics.state.WithLabelValues(strconv.Itoa(p.cfg.Partition), of).Set(size)
	}
}

// showHead replaces a partition's head. The old one is deleted, since the hash is a label.
func (m *Metrics) showHead(partition int, head account.Head) {
	m.chain.DeletePartialMatch(partitionLabel(partition))
	m.chain.WithLabelValues(strconv.Itoa(partition), hex.EncodeToString(head.Chain[:])).Set(float64(head.Sequence))
}

func partitionLabel(partition int) prometheus.Labels {
	return prometheus.Labels{"partition": strconv.Itoa(partition)}
}

// forget removes the metrics of a partition that is no longer folded here. They would look like a stalled fold.
func (m *Metrics) forget(partition int) {
	m.state.DeletePartialMatch(partitionLabel(partition))
	m.chain.DeletePartialMatch(partitionLabel(partition))
	m.quarantined.DeletePartialMatch(partitionLabel(partition))
	m.missing.DeletePartialMatch(partitionLabel(partition))
}

func timeOf(id event.RequestID) time.Time { return time.UnixMilli(id.UnixMilli()) }
