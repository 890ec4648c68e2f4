package promql

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	dto "github.com/prometheus/client_model/go"
)

// targetLabels are the labels that Prometheus adds to every metric of a service when its operator has set it up.
func targetLabels() []string {
	return []string{"job", "instance", "namespace", "pod", "container", "service", "endpoint"}
}

// Kubernetes returns the metrics of other programs that expressions may use: of Prometheus itself, kube-state-metrics (see
// docs/metrics there) and the kubelet (its /metrics and /metrics/cadvisor).
func Kubernetes() Metrics {
	pod := []string{"namespace", "pod", "container"}
	claim := []string{"namespace", "persistentvolumeclaim"}
	scaler := []string{"namespace", "horizontalpodautoscaler"}
	return Metrics{
		"up":                    {Kind: Gauge},
		"kube_pod_status_ready": {Kind: Gauge, Labels: []string{"namespace", "pod", "condition"}},
		"kube_pod_container_status_restarts_total": {Kind: Counter, Labels: pod},
		"kube_pod_container_resource_limits":       {Kind: Gauge, Labels: append([]string{"resource", "unit", "node"}, pod...)},
		"kube_pod_container_resource_requests":     {Kind: Gauge, Labels: append([]string{"resource", "unit", "node"}, pod...)},
		"kube_statefulset_status_replicas_ready":   {Kind: Gauge, Labels: []string{"namespace", "statefulset"}},

		"kube_cronjob_created":                     {Kind: Gauge, Labels: []string{"namespace", "cronjob"}},
		"kube_cronjob_status_last_successful_time": {Kind: Gauge, Labels: []string{"namespace", "cronjob"}},

		"kube_horizontalpodautoscaler_status_current_replicas": {Kind: Gauge, Labels: scaler},
		"kube_horizontalpodautoscaler_spec_max_replicas":       {Kind: Gauge, Labels: scaler},

		"kubelet_volume_stats_available_bytes": {Kind: Gauge, Labels: claim},
		"kubelet_volume_stats_capacity_bytes":  {Kind: Gauge, Labels: claim},

		"container_cpu_usage_seconds_total":      {Kind: Counter, Labels: pod},
		"container_memory_working_set_bytes":     {Kind: Gauge, Labels: pod},
		"container_network_receive_bytes_total":  {Kind: Counter, Labels: []string{"namespace", "pod", "interface"}},
		"container_network_transmit_bytes_total": {Kind: Counter, Labels: []string{"namespace", "pod", "interface"}},
		"container_fs_writes_bytes_total":        {Kind: Counter, Labels: append([]string{"device"}, pod...)},
	}
}

// Runtime returns the metrics of the Go runtime and the process, which pkg/telemetry exports for every process.
func Runtime() (Metrics, error) {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	families, err := registry.Gather()
	if err != nil {
		return nil, err
	}
	found := Metrics{}
	for _, family := range families {
		metric := Metric{Kind: Gauge}
		switch family.GetType() {
		case dto.MetricType_COUNTER:
			metric.Kind = Counter
		case dto.MetricType_HISTOGRAM:
			metric.Kind = Histogram
		case dto.MetricType_SUMMARY:
			metric.Labels = []string{"quantile"}
		}
		for _, label := range family.GetMetric()[0].GetLabel() {
			metric.Labels = append(metric.Labels, label.GetName())
		}
		found[family.GetName()] = metric
	}
	return found, nil
}
