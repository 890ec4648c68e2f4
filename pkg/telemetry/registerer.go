package telemetry

import "github.com/prometheus/client_golang/prometheus"

// Registerer is for packages that register metrics of their own; nil of a nil *Metrics.
func (m *Metrics) Registerer() prometheus.Registerer {
	if m == nil {
		return nil
	}
	return m.registry
}
