// Package promql_test checks the expressions of alerts, scalers and dashboards with Prometheus' own parser and against
// the metrics of the services.
package promql_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"quire.dev/tools/k8scheck/promql"
)

const root = "../../.."

// expression is that of an alert, a recorded metric or a scaler. The summary of an alert may name labels of the result.
type expression struct{ expr, summary string }

func expressions(t *testing.T) map[string]expression {
	t.Helper()
	found := map[string]expression{}
	var rule struct {
		Spec struct {
			Groups []struct {
				Rules []struct {
					Alert, Record, Expr string
					Annotations         struct{ Summary string }
				}
			}
		}
	}
	if err := yaml.Unmarshal(read(t, "k8s/components/monitoring/alerts.yaml"), &rule); err != nil {
		t.Fatal(err)
	}
	for _, group := range rule.Spec.Groups {
		for _, r := range group.Rules {
			name := r.Alert + r.Record
			if found[name].expr != "" {
				t.Errorf("two rules are called %s", name)
			}
			found[name] = expression{r.Expr, r.Annotations.Summary}
		}
	}
	for text := range strings.SplitSeq(string(read(t, "k8s/components/keda/scaledobjects.yaml")), "---\n") {
		var object struct {
			Metadata struct{ Name string }
			Spec     struct {
				Triggers []struct{ Metadata struct{ Query string } }
			}
		}
		if err := yaml.Unmarshal([]byte(text), &object); err != nil {
			t.Fatal(err)
		}
		for _, trigger := range object.Spec.Triggers {
			if trigger.Metadata.Query != "" {
				found["scaler of "+object.Metadata.Name] = expression{expr: trigger.Metadata.Query}
			}
		}
	}
	if len(found) < 25 {
		t.Fatalf("only %d expressions are found", len(found))
	}
	return found
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, path))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func dashboards(t *testing.T) map[string][]byte {
	t.Helper()
	paths, err := filepath.Glob(root + "/deploy/grafana/*.json")
	if err != nil || len(paths) < 5 {
		t.Fatalf("dashboards: %v, %v", paths, err)
	}
	found := map[string][]byte{}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		found[strings.TrimSuffix(filepath.Base(path), ".json")] = text
	}
	return found
}

// checker returns a Checker for the metrics of docs/metrics.md, the runtime and Kubernetes. own are those of
// docs/metrics.md alone.
func checker(t *testing.T) (c *promql.Checker, own promql.Metrics) {
	t.Helper()
	own, err := promql.Listed(string(read(t, "docs/metrics.md")))
	if err != nil {
		t.Fatal(err)
	}
	runtime, err := promql.Runtime()
	if err != nil {
		t.Fatal(err)
	}
	recorded := promql.Metrics{}
	for name := range expressions(t) {
		if strings.HasPrefix(name, "quire:") {
			recorded[name] = promql.Metric{Kind: promql.Gauge}
		}
	}
	if c, err = promql.NewChecker(own, runtime, recorded, promql.Kubernetes()); err != nil {
		t.Fatal(err)
	}
	return c, own
}

func TestListedMetricsAreFound(t *testing.T) {
	_, own := checker(t)
	for name, want := range map[string]promql.Metric{
		"quire_edge_request_seconds":          {Kind: promql.Histogram, Labels: []string{"class", "group"}},
		"quire_edge_answers_total":            {Kind: promql.Counter, Labels: []string{"class"}},
		"quire_bus_answer_seconds":            {Kind: promql.Histogram, Labels: []string{"kind"}},
		"quire_billing_state":                 {Kind: promql.Gauge, Labels: []string{"of", "partition"}},
		"quire_billing_snapshot_hold_seconds": {Kind: promql.Histogram},
		"quire_paste_failures_total":          {Kind: promql.Counter, Labels: []string{"call"}},
		"quire_lite_unprojected_bytes":        {Kind: promql.Gauge},
		"quire_file_commits_total":            {Kind: promql.Counter},
	} {
		if got := own[name]; got.Kind != want.Kind || !slices.Equal(got.Labels, want.Labels) {
			t.Errorf("%s is a %s by %v, want %+v", name, got.Kind, got.Labels, want)
		}
	}
}

var summaryLabel = regexp.MustCompile(`\$labels\.(\w+)`)

func TestAlertsAndScalersAreSound(t *testing.T) {
	c, _ := checker(t)
	for name, e := range expressions(t) {
		t.Run(name, func(t *testing.T) {
			faults, results, named := c.Check(e.expr)
			for _, fault := range faults {
				t.Errorf("%s: %s", e.expr, fault)
			}
			if len(named) == 0 {
				t.Errorf("%s names no metric", e.expr)
			}
			for _, label := range summaryLabel.FindAllStringSubmatch(e.summary, -1) {
				if !slices.Contains(results, label[1]) {
					t.Errorf("%s: the summary's label %q is not in the result", e.expr, label[1])
				}
			}
		})
	}
}

func TestDashboardsAreSound(t *testing.T) {
	c, own := checker(t)
	shown, uids := map[string]bool{}, map[string]string{}
	for name, text := range dashboards(t) {
		d, faults, named := c.CheckDashboard(text)
		for _, fault := range faults {
			t.Errorf("%s: %s", name, fault)
		}
		if d.UID != name || uids[d.UID] != "" {
			t.Errorf("%s has the uid %q, which must be its own name; others with it: %q", name, d.UID, uids[d.UID])
		}
		uids[d.UID] = name
		for _, metric := range named {
			shown[metric] = true
		}
	}
	for name, metric := range own {
		parts := metric.Kind == promql.Histogram && (shown[name+"_bucket"] || shown[name+"_sum"])
		if !shown[name] && !parts {
			t.Errorf("no dashboard shows %s", name)
		}
	}
}

// TestPlantedFaultsAreFound: a check that never finds a fault would pass on sound dashboards too.
func TestPlantedFaultsAreFound(t *testing.T) {
	c, _ := checker(t)
	texts := dashboards(t)
	for _, plant := range []struct{ name, dashboard, old, replacement, found string }{
		{"broken expression", "quire-edge", "sum by (class) (rate(", "sum by (class) ((rate(", "unclosed left parenthesis"},
		{"misspelled metric", "quire-edge", "quire_edge_answers_total", "quire_edge_answer_total", "no service exports"},
		{"metric of another service", "quire-documents", "quire_paste_outcomes_total", "quire_billing_outcomes_total", "no service exports"},
		{"histogram without its parts", "quire-edge", "quire_bus_answer_seconds_bucket", "quire_bus_answer_seconds", "no service exports"},
		{"misspelled label", "quire-edge", `class=\"5xx\"`, `status=\"5xx\"`, `no label "status"`},
		{"unknown value of a label", "quire-billing", `of=\"open_holds\"`, `of=\"holds\"`, `never has of="holds"`},
		{"unknown decision", "quire-edge", `decision!=\"admitted\"`, `decision!=\"allowed\"`, `never has decision="allowed"`},
		{"grouping by an unknown label", "quire-documents", "sum by (call)", "sum by (kind)", `grouping by the label "kind"`},
		{"label removed by the grouping", "quire-edge", `{{class}}`, `{{pod}}`, `legend's label "pod"`},
		{"quantile without le", "quire-edge", "sum by (le, kind) (rate(quire_bus_answer_seconds_bucket", "sum by (kind) (rate(quire_bus_answer_seconds_bucket", "needs the label le"},
		{"rate of a gauge", "quire-billing", "deriv(quire_billing_state", "rate(quire_billing_state", "which is a gauge"},
		{"slope of a counter", "quire-edge", "(rate(quire_bus_batches_total", "(deriv(quire_bus_batches_total", "which is a counter"},
		{"matching by an unknown label", "quire-billing", "and changes(", "and on (tenant) changes(", `matching by the label "tenant"`},
		{"unknown variable", "quire-journals", `namespace=~\"$namespace\"`, `namespace=~\"$cluster\"`, "no variable $cluster"},
		{"variable of an unknown label", "quire-capacity", "lite|file|archive\\\"}, namespace)", "lite|file|archive\\\"}, cluster)", `no label "cluster"`},
		{"fixed datasource", "quire-capacity", "${datasource}", "P1809F7CD0C75ACF3", "another datasource"},
		{"old schema", "quire-edge", `"schemaVersion": 41`, `"schemaVersion": 16`, "schema version"},
		{"overlapping panels", "quire-edge", `"y": 4`, `"y": 3`, "overlaps the panel"},
		{"panel without a unit", "quire-edge", `"unit": "reqps"`, `"unit": ""`, "or a unit"},
		{"invalid JSON", "quire-edge", `"uid": "quire-edge",`, `"uid": "quire-edge"`, "invalid character"},
	} {
		t.Run(plant.name, func(t *testing.T) {
			text := string(texts[plant.dashboard])
			if !strings.Contains(text, plant.old) {
				t.Fatalf("%s no longer says %s", plant.dashboard, plant.old)
			}
			_, faults, _ := c.CheckDashboard([]byte(strings.ReplaceAll(text, plant.old, plant.replacement)))
			if !strings.Contains(strings.Join(faults, "\n"), plant.found) {
				t.Errorf("not found; found instead: %v", faults)
			}
		})
	}
}

// TestUnreadableMetricsAreErrors: if a row were skipped, nothing would check that a dashboard shows its metric.
func TestUnreadableMetricsAreErrors(t *testing.T) {
	const ok = "| `quire_a_total` | counter | `kind`: `usage`, `paste`; `partition` | Help. |\n"
	for name, c := range map[string]struct {
		page string
		read bool
	}{
		"as it should be":     {ok, true},
		"no code":             {strings.Replace(ok, "`quire_a_total`", "quire_a_total", 1), false},
		"no kind":             {strings.Replace(ok, "counter", "", 1), false},
		"another kind":        {strings.Replace(ok, "counter", "summary", 1), false},
		"no meaning":          {strings.Replace(ok, "Help.", "", 1), false},
		"label without code":  {strings.Replace(ok, "`partition`", "partition", 1), false},
		"values without code": {strings.Replace(ok, "`usage`, `paste`", "usage, paste", 1), false},
		"twice":               {ok + ok, false},
		"none":                {"# Metrics\n", false},
	} {
		t.Run(name, func(t *testing.T) {
			found, err := promql.Listed(c.page)
			if (err == nil) != c.read || c.read && len(found) != 1 {
				t.Errorf("%v, %v", found, err)
			}
		})
	}
}
