// Package promql_test holds the expressions of alerts and scalers to Prometheus' own parser.
package promql_test

import (
	"os"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/promql/parser"
	"sigs.k8s.io/yaml"
)

func expressions(t *testing.T) map[string]string {
	t.Helper()
	found := map[string]string{}
	var rule struct {
		Spec struct {
			Groups []struct {
				Rules []struct{ Alert, Expr string }
			}
		}
	}
	if err := yaml.Unmarshal(read(t, "monitoring/alerts.yaml"), &rule); err != nil {
		t.Fatal(err)
	}
	for _, group := range rule.Spec.Groups {
		for _, r := range group.Rules {
			if found[r.Alert] != "" {
				t.Errorf("two alerts are called %s", r.Alert)
			}
			found[r.Alert] = r.Expr
		}
	}
	for text := range strings.SplitSeq(string(read(t, "keda/scaledobjects.yaml")), "---\n") {
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
				found["scaler of "+object.Metadata.Name] = trigger.Metadata.Query
			}
		}
	}
	return found
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	text, err := os.ReadFile("../../components/" + path)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestExpressionsParse(t *testing.T) {
	found := expressions(t)
	if len(found) < 25 {
		t.Errorf("only %d expressions are found", len(found))
	}
	p := parser.NewParser(parser.Options{})
	for name, expression := range found {
		t.Run(name, func(t *testing.T) {
			if _, err := p.ParseExpr(expression); err != nil {
				t.Errorf("%s: %v", expression, err)
			}
			if _, err := p.ParseExpr(strings.Replace(expression, "(", "((", 1)); err == nil && strings.Contains(expression, "(") {
				t.Error("a broken expression passes")
			}
		})
	}
}
