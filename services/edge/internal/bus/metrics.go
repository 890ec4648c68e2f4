package bus

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics are counted per kind of journal, not per partition.
type metrics struct {
	batches   *prometheus.CounterVec
	items     *prometheus.HistogramVec
	latency   *prometheus.HistogramVec
	resends   *prometheus.CounterVec
	orphans   prometheus.Counter
	refusals  prometheus.Counter
	malformed prometheus.Counter
}

func newMetrics(to prometheus.Registerer) (*metrics, error) {
	kind := []string{"kind"}
	m := &metrics{
		batches: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "quire_bus_batches_total", Help: "Batches stored in a journal.",
		}, kind),
		items: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "quire_bus_batch_items", Help: "Items of a batch.", Buckets: prometheus.ExponentialBuckets(1, 2, 13),
		}, kind),
		latency: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "quire_bus_answer_seconds", Help: "From a batch's leaving to its verdicts or outcomes.",
			Buckets: prometheus.ExponentialBuckets(0.00025, 2, 16),
		}, kind),
		resends: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "quire_bus_resends_total", Help: "Batches published again for want of an answer.",
		}, kind),
		orphans: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "quire_bus_orphans_total", Help: "Admissions given back since nobody waited for the verdict any more.",
		}),
		refusals: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "quire_bus_refusals_from_memory_total", Help: "Refusals answered without asking billing.",
		}),
		malformed: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "quire_bus_malformed_answers_total", Help: "Answers that could not be read.",
		}),
	}
	if to == nil {
		return m, nil
	}
	var errs []error
	for _, c := range []prometheus.Collector{m.batches, m.items, m.latency, m.resends, m.orphans, m.refusals, m.malformed} {
		errs = append(errs, to.Register(c))
	}
	return m, errors.Join(errs...)
}
