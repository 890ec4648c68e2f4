// Package promql finds faults in the expressions of alerts, scalers and dashboards: those that Prometheus' own parser
// finds, and metrics, labels and values that no service exports.
package promql

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Kinds of metrics.
const (
	Counter   = "counter"
	Gauge     = "gauge"
	Histogram = "histogram"
)

// Metric is the kind of a metric and the labels of its series.
type Metric struct {
	Kind   string
	Labels []string
	// Values of a label. A label without an entry can have any value.
	Values map[string][]string
}

// Metrics by name.
type Metrics map[string]Metric

var (
	metricRow   = regexp.MustCompile("^\\| `(\\w+)` \\| (counter|gauge|histogram) \\| (.*) \\| .+ \\|$")
	metricLabel = regexp.MustCompile("^`(\\w+)`(: `\\w+`(?:, `\\w+`)*)?$")
	quoted      = regexp.MustCompile("`(\\w+)`")
)

// Listed returns the metrics of docs/metrics.md, the page that a scenario test writes from a running Quire. A row that
// can't be read is an error: if it were skipped, nothing would check that a dashboard shows its metric.
func Listed(page string) (Metrics, error) {
	found := Metrics{}
	for line := range strings.Lines(page) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "| `") {
			continue
		}
		row := metricRow.FindStringSubmatch(line)
		if row == nil {
			return nil, fmt.Errorf("a row can't be read: %s", line)
		}
		if _, twice := found[row[1]]; twice {
			return nil, fmt.Errorf("%s is listed twice", row[1])
		}
		metric := Metric{Kind: row[2], Values: map[string][]string{}}
		for text := range strings.SplitSeq(row[3], "; ") {
			if text == "" {
				continue
			}
			label := metricLabel.FindStringSubmatch(text)
			if label == nil {
				return nil, fmt.Errorf("a label can't be read: %s", text)
			}
			metric.Labels = append(metric.Labels, label[1])
			for _, value := range quoted.FindAllStringSubmatch(label[2], -1) {
				metric.Values[label[1]] = append(metric.Values[label[1]], value[1])
			}
		}
		found[row[1]] = metric
	}
	if len(found) == 0 {
		return nil, errors.New("the page lists no metrics")
	}
	return found, nil
}

// series returns the metric to which the series called name belong, and their labels.
func (m Metrics) series(name string) (metric Metric, labels []string, ok bool) {
	if metric, ok = m[name]; ok {
		if metric.Kind == Histogram {
			return Metric{}, nil, false // only its parts, below, have series
		}
		return metric, metric.Labels, true
	}
	for _, part := range []string{"_bucket", "_sum", "_count"} {
		base, cut := strings.CutSuffix(name, part)
		if metric, ok = m[base]; !cut || !ok || metric.Kind != Histogram {
			continue
		}
		labels = slices.Clone(metric.Labels)
		if part == "_bucket" {
			labels = append(labels, "le")
		}
		metric.Kind = Counter // each part is a counter
		return metric, labels, true
	}
	return Metric{}, nil, false
}
