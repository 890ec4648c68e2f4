package purchases

import (
	"github.com/prometheus/client_golang/prometheus"

	"quire.dev/pkg/telemetry"
)

type metrics struct {
	mismatches, failures, declined, webhooks, forged prometheus.Counter
	compared                                         prometheus.Gauge
}

func newMetrics(to *telemetry.Metrics) metrics {
	counter := func(name, help string) prometheus.Counter {
		return to.Counter(telemetry.Desc{Service: "edge", Name: name, Help: help})
	}
	return metrics{
		mismatches: counter("payment_mismatches_total", "Times that a payment or a subscription did not match its order. It is not credited before an operator has looked at it."),
		failures:   counter("payment_failures_total", "Comparisons with the payment provider, and charges of top-ups, that failed and are repeated."),
		declined:   counter("top_ups_declined_total", "Top-ups that the payment provider or a bank declined."),
		webhooks:   counter("payment_webhooks_total", "Webhooks of the payment provider with a valid signature."),
		forged:     counter("payment_webhooks_refused_total", "Webhooks of the payment provider without a valid signature."),
		compared:   to.Gauge(telemetry.Desc{Service: "edge", Name: "payments_compared_seconds", Help: "Unix time of the last complete comparison with the payment provider by this instance. 0: none yet."}),
	}
}
