package promql

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
)

// Checker checks expressions against the metrics that exist.
type Checker struct {
	known  Metrics
	parser parser.Parser
}

// NewChecker returns a Checker for expressions that may name the metrics of all sets. A name in two sets is an error.
func NewChecker(sets ...Metrics) (*Checker, error) {
	known := Metrics{}
	for _, set := range sets {
		for name, metric := range set {
			if _, twice := known[name]; twice {
				return nil, fmt.Errorf("two metrics are called %s", name)
			}
			known[name] = metric
		}
	}
	return &Checker{known: known, parser: parser.NewParser(parser.Options{})}, nil
}

// Check returns the faults of an expression, the labels of its result, and the metrics that it names.
func (c *Checker) Check(expression string) (faults []string, results, named []string) {
	expr, err := c.parser.ParseExpr(expression)
	if err != nil {
		return []string{err.Error()}, nil, nil
	}
	w := &walk{known: c.known}
	results = w.labels(expr)
	return w.faults, results, w.named
}

type walk struct {
	known  Metrics
	faults []string
	named  []string
}

func (w *walk) fault(format string, args ...any) {
	w.faults = append(w.faults, fmt.Sprintf(format, args...))
}

// labels returns the labels of an expression's result, and records its faults.
func (w *walk) labels(expr parser.Expr) []string {
	switch e := expr.(type) {
	case *parser.VectorSelector:
		return w.selector(e)
	case *parser.MatrixSelector:
		return w.labels(e.VectorSelector)
	case *parser.SubqueryExpr:
		return w.labels(e.Expr)
	case *parser.ParenExpr:
		return w.labels(e.Expr)
	case *parser.UnaryExpr:
		return w.labels(e.Expr)
	case *parser.AggregateExpr:
		return w.aggregate(e)
	case *parser.BinaryExpr:
		return w.binary(e)
	case *parser.Call:
		return w.call(e)
	}
	return nil // a number or a string
}

func (w *walk) selector(e *parser.VectorSelector) []string {
	metric, own, ok := w.known.series(e.Name)
	if !ok {
		w.fault("no service exports the metric %q", e.Name)
		return nil
	}
	w.named = append(w.named, e.Name)
	own = append(slices.Clone(own), targetLabels()...)
	for _, matcher := range e.LabelMatchers {
		if matcher.Name == model.MetricNameLabel {
			continue
		}
		if !slices.Contains(own, matcher.Name) {
			w.fault("%s has no label %q", e.Name, matcher.Name)
		}
		known := metric.Values[matcher.Name]
		if len(known) == 0 || strings.Contains(matcher.Value, "$") {
			continue
		}
		for _, value := range values(matcher) {
			if !slices.Contains(known, value) {
				w.fault("%s never has %s=%q", e.Name, matcher.Name, value)
			}
		}
	}
	return own
}

var number = regexp.MustCompile(`^\d+$`)

// values returns the values in a matcher, without numbers and patterns.
func values(m *labels.Matcher) []string {
	if m.Type == labels.MatchEqual || m.Type == labels.MatchNotEqual {
		if number.MatchString(m.Value) {
			return nil
		}
		return []string{m.Value}
	}
	var found []string
	for value := range strings.SplitSeq(m.Value, "|") {
		if regexp.QuoteMeta(value) == value && !number.MatchString(value) {
			found = append(found, value)
		}
	}
	return found
}

func (w *walk) aggregate(e *parser.AggregateExpr) []string {
	inner := w.labels(e.Expr)
	if e.Param != nil {
		w.labels(e.Param)
	}
	w.have("grouping", e.Grouping, inner)
	switch {
	case e.Op == parser.TOPK || e.Op == parser.BOTTOMK:
		return inner
	case e.Without:
		return slices.DeleteFunc(slices.Clone(inner), func(l string) bool { return slices.Contains(e.Grouping, l) })
	}
	return e.Grouping
}

// have records a fault for each used label that does not exist.
func (w *walk) have(use string, used, there []string) {
	for _, label := range used {
		if !slices.Contains(there, label) {
			w.fault("%s by the label %q, which does not exist", use, label)
		}
	}
}

func (w *walk) binary(e *parser.BinaryExpr) []string {
	left, right := w.labels(e.LHS), w.labels(e.RHS)
	if m := e.VectorMatching; m != nil {
		w.have("matching", m.MatchingLabels, left)
		w.have("matching", m.MatchingLabels, right)
		w.have("matching", m.Include, slices.Concat(left, right))
	}
	if e.LHS.Type() == parser.ValueTypeScalar {
		return right
	}
	if e.Op == parser.LOR {
		return slices.Concat(left, right)
	}
	return left
}

func (w *walk) call(e *parser.Call) []string {
	var all []string
	for _, argument := range e.Args {
		all = append(all, w.labels(argument)...)
	}
	switch e.Func.Name {
	case "rate", "irate", "increase":
		w.kind(e, Counter)
	case "deriv", "predict_linear", "delta", "idelta":
		w.kind(e, Gauge)
	case "histogram_quantile":
		if !slices.Contains(all, "le") {
			w.fault("a quantile needs the label le")
		}
		return slices.DeleteFunc(all, func(l string) bool { return l == "le" })
	case "scalar", "vector", "time":
		return nil
	}
	return all
}

// kind records a fault if a metric in the call is of another kind.
func (w *walk) kind(e *parser.Call, want string) {
	parser.Inspect(e, func(node parser.Node, _ []parser.Node) error {
		if selector, ok := node.(*parser.VectorSelector); ok {
			if metric, _, known := w.known.series(selector.Name); known && metric.Kind != want {
				w.fault("%s of %s, which is a %s", e.Func.Name, selector.Name, metric.Kind)
			}
		}
		return nil
	})
}
