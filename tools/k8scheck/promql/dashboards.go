package promql

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Dashboard holds the fields of a Grafana dashboard that are checked.
type Dashboard struct {
	UID           string   `json:"uid"`
	Title         string   `json:"title"`
	SchemaVersion int      `json:"schemaVersion"`
	Tags          []string `json:"tags"`
	Panels        []Panel  `json:"panels"`
	Templating    struct {
		List []struct {
			Name  string `json:"name"`
			Type  string `json:"type"`
			Query any    `json:"query"`
		} `json:"list"`
	} `json:"templating"`
}

// Panel is a panel of a dashboard. A panel of type row has no targets.
type Panel struct {
	ID          int         `json:"id"`
	Type        string      `json:"type"`
	Title       string      `json:"title"`
	Description string      `json:"description"`
	Datasource  *Datasource `json:"datasource"`
	GridPos     struct{ H, W, X, Y int }
	FieldConfig struct {
		Defaults struct{ Unit string }
	} `json:"fieldConfig"`
	Targets []struct {
		RefID        string      `json:"refId"`
		Expr         string      `json:"expr"`
		LegendFormat string      `json:"legendFormat"`
		Datasource   *Datasource `json:"datasource"`
	} `json:"targets"`
}

// Datasource is the source of a panel's or a query's data.
type Datasource struct{ Type, UID string }

const (
	minSchema  = 39 // of Grafana 11
	gridWidth  = 24
	datasource = "${datasource}"
)

var (
	variable   = regexp.MustCompile(`\$\{?(\w+)(?::\w+)?\}?`)
	legend     = regexp.MustCompile(`\{\{\s*(\w+)\s*\}\}`)
	labelQuery = regexp.MustCompile(`^label_values\((.*), *(\w+)\)$`)
)

// builtIn are Grafana's own variables, each with a value that parses.
func builtIn() map[string]string {
	return map[string]string{"__rate_interval": "5m", "__interval": "1m", "__range": "1h"}
}

// CheckDashboard returns the dashboard in text, its faults, and the metrics that it names.
func (c *Checker) CheckDashboard(text []byte) (d Dashboard, faults, named []string) {
	if err := json.Unmarshal(text, &d); err != nil {
		return d, []string{err.Error()}, nil
	}
	at := ""
	fault := func(format string, args ...any) { faults = append(faults, at+fmt.Sprintf(format, args...)) }
	if d.UID == "" || d.Title == "" || d.SchemaVersion < minSchema || !slices.Contains(d.Tags, "quire") {
		fault("lacks a uid, a title, the tag quire or schema version %d", minSchema)
	}
	known := map[string]bool{}
	for _, v := range d.Templating.List {
		known[v.Name] = true
	}
	if !known["datasource"] {
		fault("has no variable datasource")
	}
	check := func(expression string) []string {
		plain, unknown := c.substitute(expression, known)
		for _, name := range unknown {
			fault("there is no variable $%s", name)
		}
		found, results, names := c.Check(plain)
		for _, f := range found {
			fault("%s: %s", expression, f)
		}
		named = append(named, names...)
		return results
	}
	for _, v := range d.Templating.List {
		if v.Type != "query" {
			continue
		}
		at = "variable " + v.Name + ": "
		parts := labelQuery.FindStringSubmatch(fmt.Sprint(v.Query))
		if parts == nil {
			fault("its query is not label_values(metric, label)")
		} else if results := check(parts[1]); !slices.Contains(results, parts[2]) {
			fault("there is no label %q", parts[2])
		}
	}
	ids := map[int]bool{}
	for i, p := range d.Panels {
		at = fmt.Sprintf("panel %q: ", p.Title)
		for _, f := range p.faults(d.Panels[:i]) {
			fault("%s", f)
		}
		if ids[p.ID] {
			fault("another panel has the id %d too", p.ID)
		}
		ids[p.ID] = true
		for _, t := range p.Targets {
			results := check(t.Expr)
			for _, label := range legend.FindAllStringSubmatch(t.LegendFormat, -1) {
				if !slices.Contains(results, label[1]) {
					fault("%s: the legend's label %q is not in the result", t.Expr, label[1])
				}
			}
			if t.Datasource == nil || t.Datasource.UID != datasource {
				fault("query %s has another datasource", t.RefID)
			}
		}
	}
	return d, faults, named
}

// substitute replaces Grafana's own variables, so that the expression parses. The dashboard's variables stay, since they
// stand in strings. unknown are all others.
func (c *Checker) substitute(expression string, known map[string]bool) (plain string, unknown []string) {
	plain = variable.ReplaceAllStringFunc(expression, func(found string) string {
		name := variable.FindStringSubmatch(found)[1]
		if value, ok := builtIn()[name]; ok {
			return value
		}
		if !known[name] {
			unknown = append(unknown, name)
		}
		return found
	})
	return plain, unknown
}

// faults returns the faults of the panel's form. before are the panels before it, which it must not overlap.
func (p Panel) faults(before []Panel) []string {
	var faults []string
	g := p.GridPos
	if g.W < 1 || g.H < 1 || g.X < 0 || g.Y < 0 || g.X+g.W > gridWidth {
		faults = append(faults, fmt.Sprintf("%+v is outside the grid", g))
	}
	for _, other := range before {
		if o := other.GridPos; g.X < o.X+o.W && o.X < g.X+g.W && g.Y < o.Y+o.H && o.Y < g.Y+g.H {
			faults = append(faults, fmt.Sprintf("overlaps the panel %q", other.Title))
		}
	}
	if p.Type == "row" {
		return faults
	}
	if len(p.Targets) == 0 || p.Title == "" || p.Description == "" || p.FieldConfig.Defaults.Unit == "" {
		faults = append(faults, "lacks a query, a title, a description or a unit")
	}
	if p.Datasource == nil || p.Datasource.UID != datasource {
		faults = append(faults, "has another datasource")
	}
	seen := map[string]bool{}
	for _, t := range p.Targets {
		if t.RefID == "" || seen[t.RefID] || strings.TrimSpace(t.Expr) == "" {
			faults = append(faults, fmt.Sprintf("query %q is empty, or another query has its refId", t.RefID))
		}
		seen[t.RefID] = true
	}
	return faults
}
