package scenario

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"maps"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"quire.dev/pkg/event"
	"quire.dev/pkg/eventually"
)

var update = flag.Bool("update", false, "write docs/metrics.md from the metrics of the running quire")

const (
	metricsFile = "../../../docs/metrics.md"
	metricsHead = `# Metrics

The metrics that Quire's processes expose at ` + "`/metrics`" + `, in addition to the standard metrics of the Go runtime (` + "`go_…`" + `) and the process (` + "`process_…`" + `).
[runbook.md](runbook.md) has the alerts on them. ` + "`make generate`" + ` writes this page from a running Quire.

| Metric | Kind | Labels | Meaning |
|---|---|---|---|
`
)

// TestEveryMetricIsListed holds docs/metrics.md to a running quire. tools/k8scheck/promql holds all dashboards, alerts and
// scalers to that page.
func TestEveryMetricIsListed(t *testing.T) {
	i := common(t)
	var shown map[string]*metric
	eventually.NoError(t, "all services show their partitions", func() error {
		shown = i.metrics(t)
		if shown["quire_billing_state"] == nil {
			return errors.New("no quire_billing_state")
		}
		for _, name := range []string{"quire_journal_replica_lag", "quire_journal_has_leader"} {
			for _, domain := range event.Domains() {
				if m := shown[name]; m == nil || !m.values["stream"][domain.Stream(0)] {
					return fmt.Errorf("no %s of %s", name, domain.Stream(0))
				}
			}
		}
		return nil
	})
	page := metricsHead
	for _, name := range slices.Sorted(maps.Keys(shown)) {
		page += shown[name].row(name)
	}
	if *update {
		if err := os.WriteFile(metricsFile, []byte(page), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	listed, err := os.ReadFile(metricsFile)
	if err != nil {
		t.Fatal(err)
	}
	if string(listed) != page {
		t.Errorf("docs/metrics.md is not what is shown; if that is meant, run \"make generate\":\n%s", page)
	}
}

// metric is a metric as all processes together show it.
type metric struct {
	kind, help string
	values     map[string]map[string]bool // by label
}

// metrics are all whose names begin with quire_, of all processes.
func (i *instance) metrics(t testing.TB) map[string]*metric {
	t.Helper()
	found := map[string]*metric{}
	for _, base := range i.operators() {
		status, text := plain(t, base+"/metrics")
		if status != http.StatusOK {
			t.Fatalf("%s/metrics: %d", base, status)
		}
		parser := expfmt.NewTextParser(model.UTF8Validation)
		families, err := parser.TextToMetricFamilies(strings.NewReader(text))
		if err != nil {
			t.Fatalf("%s/metrics: %v", base, err)
		}
		for name, family := range families {
			if !strings.HasPrefix(name, "quire_") {
				continue
			}
			if found[name] == nil {
				found[name] = &metric{
					kind: strings.ToLower(family.GetType().String()), help: family.GetHelp(), values: map[string]map[string]bool{},
				}
			}
			for _, series := range family.GetMetric() {
				for _, label := range series.GetLabel() {
					if found[name].values[label.GetName()] == nil {
						found[name].values[label.GetName()] = map[string]bool{}
					}
					found[name].values[label.GetName()][label.GetValue()] = true
				}
			}
		}
	}
	return found
}

// row is the metric's row of the table. It lists a label's values unless they are numbers, such as a partition's, hashes, or names
// of streams, servers and witnesses.
func (m *metric) row(name string) string {
	var labels []string
	for _, label := range slices.Sorted(maps.Keys(m.values)) {
		var values []string
		for _, value := range slices.Sorted(maps.Keys(m.values[label])) {
			_, err := strconv.Atoi(value)
			hash, notHex := hex.DecodeString(value)
			if err != nil && (notHex != nil || len(hash) != sha256.Size) && !slices.Contains([]string{"stream", "server", "witness"}, label) {
				values = append(values, "`"+value+"`")
			}
		}
		text := "`" + label + "`"
		if len(values) > 0 {
			text += ": " + strings.Join(values, ", ")
		}
		labels = append(labels, text)
	}
	return fmt.Sprintf("| `%s` | %s | %s | %s |\n", name, m.kind, strings.Join(labels, "; "), m.help)
}
