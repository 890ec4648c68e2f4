package promql_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// TestAlertsFire has promtool evaluate the tests of testdata: each alert fires by itself, and is silent below its threshold.
func TestAlertsFire(t *testing.T) {
	var object struct{ Spec json.RawMessage }
	if err := yaml.Unmarshal(read(t, "k8s/components/monitoring/alerts.yaml"), &object); err != nil {
		t.Fatal(err)
	}
	rules, err := yaml.JSONToYAML(object.Spec)
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "rules.yaml"), rules, 0o600); err != nil {
		t.Fatal(err)
	}
	paths, err := filepath.Glob("testdata/*_test.yaml")
	if err != nil || len(paths) != 2 {
		t.Fatalf("tests: %v, %v", paths, err)
	}
	var tests string
	// -tags leaves the clients of all clouds out, which are gigabytes of objects. "go tool" takes no tags.
	run := []string{"run", "-tags=remove_all_sd", "github.com/prometheus/prometheus/cmd/promtool", "test", "rules"}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		copied := filepath.Join(folder, filepath.Base(path))
		if err := os.WriteFile(copied, text, 0o600); err != nil {
			t.Fatal(err)
		}
		tests += string(text)
		run = append(run, copied)
	}
	if out, err := exec.Command("go", run...).CombinedOutput(); err != nil {
		t.Errorf("promtool: %v\n%s", err, out)
	}
	for name := range expressions(t) {
		if strings.HasPrefix(name, "Quire") && strings.Count(tests, name+" ") < 2 {
			t.Errorf("no test has %s fire and be silent", name)
		}
	}
}

var (
	selector  = regexp.MustCompile(`\b(?:quire|kube|kubelet|container)_\w+|\bup\b`)
	inQuire   = regexp.MustCompile(`^\{namespace="quire"[,}]`)
	ofJobs    = regexp.MustCompile(`^\{namespace="quire", job=~?"`)
	ownMetric = regexp.MustCompile(`^quire_`)
)

// TestAlertsAreOfThisInstallation: a Prometheus may watch several, and other programs with a job called "file".
func TestAlertsAreOfThisInstallation(t *testing.T) {
	for name, e := range expressions(t) {
		if !strings.HasPrefix(name, "Quire") && !strings.HasPrefix(name, "quire:") {
			continue // the scalers are in TestAlertsAndScalersAreSound
		}
		for _, at := range selector.FindAllStringIndex(e.expr, -1) {
			metric, rest := e.expr[at[0]:at[1]], e.expr[at[1]:]
			if !inQuire.MatchString(rest) {
				t.Errorf("%s: %s of any namespace", name, metric)
			}
			if ownMetric.MatchString(metric) && !ofJobs.MatchString(rest) {
				t.Errorf("%s: %s of any job", name, metric)
			}
		}
	}
}
