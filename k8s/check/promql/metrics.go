// Package promql says what is wrong with the expressions of alerts, scalers and dashboards: what Prometheus' own parser
// refuses, and metrics, labels and values that no service shows.
package promql

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Kinds of metrics.
const (
	Counter   = "counter"
	Gauge     = "gauge"
	Histogram = "histogram"
)

// Metric is what is known of one.
type Metric struct {
	Kind   string
	Labels []string
	// Words are the texts of the sources around it: a label has no value that is not among them. Nil: anything.
	Words map[string]bool
}

// Metrics by name.
type Metrics map[string]Metric

// Registered gives the metrics of the services and packages below root, from the calls that make them. A call that
// can't be read is an error, so that none is passed over.
func Registered(root string) (Metrics, error) {
	found := Metrics{}
	words, err := eventWords(filepath.Join(root, "pkg/event"))
	if err != nil {
		return nil, err
	}
	for _, top := range []string{"pkg", "services"} {
		err := filepath.WalkDir(filepath.Join(root, top), func(path string, entry fs.DirEntry, err error) error {
			if err != nil || !entry.IsDir() {
				return err
			}
			// The package that these calls are made of.
			if path == filepath.Join(root, "pkg/telemetry") {
				return filepath.SkipDir
			}
			return found.folder(path, words)
		})
		if err != nil {
			return nil, err
		}
	}
	return found, nil
}

// vocabulary of events: the values of enumerations, and the domains.
var vocabulary = regexp.MustCompile(`(?m)^  ([A-Z][A-Z0-9_]*) = \d+;|^\t\w+ +Domain = "(\w+)"`)

// eventWords gives the vocabulary of events, as labels show it.
func eventWords(dir string) (map[string]bool, error) {
	paths, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		return nil, err
	}
	words := map[string]bool{}
	for _, path := range paths {
		if ext := filepath.Ext(path); ext != ".proto" && ext != ".go" {
			continue
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		for _, match := range vocabulary.FindAllStringSubmatch(string(text), -1) {
			words[strings.ToLower(match[1]+match[2])] = true
		}
	}
	if len(words) == 0 {
		return nil, fmt.Errorf("%s has no events", dir)
	}
	return words, nil
}

// folder reads one package.
func (m Metrics) folder(dir string, common map[string]bool) error {
	paths, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return err
	}
	words, names := map[string]bool{}, []string{}
	files := token.NewFileSet()
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		r := &reader{prefixes: map[string][]string{}, lists: map[string][]string{}, words: words}
		ast.Inspect(file, r.learn)
		ast.Inspect(file, r.read)
		for _, err := range r.faults {
			return fmt.Errorf("%s: %w", path, err)
		}
		for _, made := range r.made {
			if _, twice := m[made.name]; twice {
				return fmt.Errorf("%s: a second metric called %s", path, made.name)
			}
			m[made.name] = Metric{Kind: made.kind, Labels: made.labels}
			names = append(names, made.name)
		}
	}
	for word := range common {
		words[word] = true
	}
	for _, name := range names {
		metric := m[name]
		metric.Words = words
		m[name] = metric
	}
	return nil
}

// reader reads one file.
type reader struct {
	prefixes map[string][]string // of functions that make a telemetry.Desc: what its names begin with
	lists    map[string][]string // variables that hold labels
	words    map[string]bool
	made     []made
	faults   []error
}

type made struct {
	name, kind string
	labels     []string
}

// learn takes in the functions, lists and texts that the calls use.
func (r *reader) learn(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.BasicLit:
		if text, ok := text(n); ok {
			r.words[text] = true
		}
	case *ast.AssignStmt:
		if len(n.Lhs) != 1 || len(n.Rhs) != 1 {
			return true
		}
		name, ok := n.Lhs[0].(*ast.Ident)
		if !ok {
			return true
		}
		switch value := n.Rhs[0].(type) {
		case *ast.FuncLit:
			ast.Inspect(value.Body, func(n ast.Node) bool {
				if service := field(n, "Desc", "Service"); service != nil {
					r.prefixes[name.Name] = services(service)
				}
				return true
			})
		case *ast.CompositeLit:
			if labels, ok := texts(value.Elts); ok {
				r.lists[name.Name] = labels
			}
		}
	}
	return true
}

var constructor = regexp.MustCompile(`^(New)?(Counter|Gauge|Histogram)(Vec)?$`)

// read takes in one call that makes a metric.
func (r *reader) read(n ast.Node) bool {
	call, ok := n.(*ast.CallExpr)
	if !ok || len(call.Args) == 0 {
		return true
	}
	selector, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return true
	}
	parts := constructor.FindStringSubmatch(selector.Sel.Name)
	if parts == nil {
		return true
	}
	from, isIdent := selector.X.(*ast.Ident)
	direct := isIdent && from.Name == "prometheus"
	if direct != (parts[1] == "New") {
		return true // of another package
	}
	names := r.names(call.Args[0])
	labels, ok := r.labels(call.Args[1:], parts[2] == "Histogram" && !direct, parts[3] == "Vec")
	if len(names) == 0 || !ok {
		r.faults = append(r.faults, fmt.Errorf("a call of %s can't be read: write its names as texts", selector.Sel.Name))
		return true
	}
	for _, name := range names {
		r.made = append(r.made, made{name, strings.ToLower(parts[2]), labels})
	}
	return true
}

// names that the description of a metric stands for.
func (r *reader) names(n ast.Expr) []string {
	if call, ok := n.(*ast.CallExpr); ok { // desc("name", "help")
		function, ok := call.Fun.(*ast.Ident)
		if !ok || len(call.Args) == 0 {
			return nil
		}
		return join(r.prefixes[function.Name], call.Args[0])
	}
	if name := field(n, "Desc", "Name"); name != nil {
		return join(services(field(n, "Desc", "Service")), name)
	}
	for _, options := range []string{"CounterOpts", "GaugeOpts", "HistogramOpts"} {
		if name := field(n, options, "Name"); name != nil {
			if whole, ok := text(name); ok {
				return []string{whole}
			}
		}
	}
	return nil
}

func join(prefixes []string, last ast.Expr) []string {
	name, ok := text(last)
	if !ok {
		return nil
	}
	var names []string
	for _, prefix := range prefixes {
		names = append(names, "quire_"+prefix+"_"+name)
	}
	return names
}

// labels of a vector are the last arguments, as a list or one by one; of a histogram after the buckets.
func (r *reader) labels(args []ast.Expr, buckets, vector bool) ([]string, bool) {
	if !vector {
		return nil, true
	}
	if buckets && len(args) > 0 {
		args = args[1:]
	}
	if len(args) == 0 {
		return nil, false
	}
	switch list := args[0].(type) {
	case *ast.Ident:
		labels := r.lists[list.Name]
		return labels, labels != nil
	case *ast.CompositeLit:
		return texts(list.Elts)
	}
	return texts(args)
}

// services that a value stands for: a text, or the domain of the documents.
func services(n ast.Expr) []string {
	if name, ok := text(n); ok {
		return []string{name}
	}
	if call, ok := n.(*ast.CallExpr); ok && len(call.Args) == 1 {
		if domain, ok := call.Args[0].(*ast.Ident); ok && domain.Name == "domain" {
			return []string{"paste", "lite", "file"}
		}
	}
	return nil
}

// field gives the value of a field of a literal of the type, nil where there is none.
func field(n ast.Node, typed, name string) ast.Expr {
	literal, ok := n.(*ast.CompositeLit)
	if !ok {
		return nil
	}
	selector, ok := literal.Type.(*ast.SelectorExpr)
	if !ok || selector.Sel.Name != typed {
		return nil
	}
	for _, element := range literal.Elts {
		if pair, ok := element.(*ast.KeyValueExpr); ok {
			if key, ok := pair.Key.(*ast.Ident); ok && key.Name == name {
				return pair.Value
			}
		}
	}
	return nil
}

func text(n ast.Expr) (string, bool) {
	literal, ok := n.(*ast.BasicLit)
	if !ok || literal.Kind != token.STRING {
		return "", false
	}
	value, err := strconv.Unquote(literal.Value)
	return value, err == nil
}

func texts(list []ast.Expr) ([]string, bool) {
	var found []string
	for _, n := range list {
		value, ok := text(n)
		if !ok {
			return nil, false
		}
		found = append(found, value)
	}
	return found, len(found) > 0
}

// series gives the metric behind a name that an expression asks for, and the labels of its series.
func (m Metrics) series(name string) (metric Metric, labels []string, ok bool) {
	if metric, ok = m[name]; ok {
		if metric.Kind == Histogram {
			return Metric{}, nil, false // only its parts have series
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
		metric.Kind = Counter // each part counts
		return metric, labels, true
	}
	return Metric{}, nil, false
}
