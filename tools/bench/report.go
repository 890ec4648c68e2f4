package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"

	"quire.dev/tools/bench/internal/load"
	"quire.dev/tools/bench/internal/machine"
)

// report is what a run leaves.
type report struct {
	Machine       machine.Description `json:"machine"`
	Void          []string            `json:"void,omitempty"` // why no figure counts
	Rows          []result            `json:"rows"`
	BarePerSecond map[string]float64  `json:"barePerSecond"` // requests a second of the bare handler, by row
	Curves        []curve             `json:"curves,omitempty"`
	Flames        []flame             `json:"-"`
}

// curve is a line of a plot.
type curve struct {
	Name   string  `json:"name"` // of the file
	Title  string  `json:"title"`
	X      string  `json:"x"` // unit, or what the axis stands for
	Y      string  `json:"y"`
	Points []point `json:"points"`
}

type point struct {
	X float64 `json:"x"`
	Y float64 `json:"y"`
}

// latencyCurve has the nines of the share of requests on its axis, 2 for 99 %.
func latencyCurve(kind string, o load.Outcome) curve {
	c := curve{Name: "open-" + kind, Title: kind + " at half the most, open loop", X: "nines of the requests", Y: "ms"}
	for _, p := range o.Distribution {
		c.Points = append(c.Points, point{-math.Log10(1 - p.Share), p.Millis})
	}
	return c
}

func (r *report) missed() (n int) {
	for _, row := range r.Rows {
		if !row.met() {
			n++
		}
	}
	return n
}

func (r *report) markdown() string {
	var out strings.Builder
	d := r.Machine
	fmt.Fprintf(&out, "# Measured on %s\n\n", d.Began.Format("2 January 2006"))
	for _, fault := range r.Void {
		fmt.Fprintf(&out, "**This run is void:** %s.\n\n", fault)
	}
	if d.Load > machine.Busy {
		fmt.Fprintf(&out, "**Other programs were at work** (%.1f processors in use before the run): the figures mean little.\n\n", d.Load)
	}
	fmt.Fprintf(&out, "%s, %d cores, %.0f GB of memory, Linux %s, %s, commit %s. A write of 4 KiB and its fdatasync took %.2f ms.\n\n",
		d.CPU, d.Cores, float64(d.MemoryBytes)/(1<<30), d.Kernel, d.Go, d.Commit, d.SyncSeconds*1000)
	fmt.Fprintf(&out, "%d of %d targets are met. A figure is the median of its rounds.\n\n", len(r.Rows)-r.missed(), len(r.Rows))
	out.WriteString("| Row | | Figure | Target | | Rounds | |\n|---|---|--:|--:|---|---|---|\n")
	for _, row := range r.Rows {
		sign := "≥"
		if row.AtMost {
			sign = "≤"
		}
		rounds := make([]string, len(row.Rounds))
		for i, f := range row.Rounds {
			rounds[i] = number(f)
		}
		fmt.Fprintf(&out, "| %s | %s | %s %s | %s %s | %s | %s | %s |\n", row.ID, row.Title, number(row.Figure), row.Unit, sign,
			number(row.Target), row.verdict(), strings.Join(rounds, ", "), row.Note)
	}
	return out.String()
}

// write writes the report as report.md and report.json, and its plots, into the folder. Plots of an earlier run are removed.
func (r *report) write(folder string) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	old, err := filepath.Glob(filepath.Join(folder, "*.svg"))
	if err != nil {
		return err
	}
	for _, path := range old {
		if err := os.Remove(path); err != nil {
			return err
		}
	}
	data, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	text := r.markdown()
	plots := map[string]string{}
	if len(r.Rows) > 0 {
		plots["targets"] = targetsPlot(r.Rows)
	}
	for _, c := range r.Curves {
		if len(c.Points) > 1 {
			plots[c.Name] = curvePlot(c)
			text += fmt.Sprintf("\n![%s](%s.svg)\n", c.Title, c.Name)
		}
	}
	for _, f := range r.Flames {
		plots[f.name] = f.svg
		text += fmt.Sprintf("\n![%s](%s.svg)\n", f.title, f.name)
	}
	if len(r.Rows) > 0 {
		text += "\n![each figure as a share of its target](targets.svg)\n"
	}
	var errs []error
	if len(r.Flames) > 0 {
		errs = append(errs, writeProfile(filepath.Join(folder, "quire.pgo"), r.Flames))
	}
	for name, plot := range plots {
		errs = append(errs, os.WriteFile(filepath.Join(folder, name+".svg"), []byte(plot), 0o644))
	}
	return errors.Join(append(errs,
		os.WriteFile(filepath.Join(folder, "report.md"), []byte(text), 0o644),
		os.WriteFile(filepath.Join(folder, "report.json"), append(data, '\n'), 0o644))...)
}
