// Package report writes what a measurement found: report.md for people, report.json for programs, and plots. It knows
// figures and the machine that they belong to, and nothing of what was measured.
package report

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"quire.dev/tools/bench/internal/machine"
)

// Report is the result of a run.
type Report struct {
	Machine       machine.Description `json:"machine"`
	Void          []string            `json:"void,omitempty"` // why no figure counts
	Rows          []Row               `json:"rows,omitempty"`
	Systems       Table               `json:"systems,omitzero"`
	Notes         []string            `json:"notes,omitempty"`         // for readers of the table
	BarePerSecond map[string]float64  `json:"barePerSecond,omitempty"` // requests a second of the bare handler, by row
	Curves        []Curve             `json:"curves,omitempty"`
}

const (
	textFile = "report.md"
	dataFile = "report.json"
)

// Begin describes the machine, the disk of folder and the commit of the project in root, before anything is measured.
func Begin(ctx context.Context, root, folder string) (*Report, error) {
	about, err := machine.Describe(ctx, root, folder)
	if err != nil {
		return nil, err
	}
	if about.Busy() {
		fmt.Printf("other programs are at work (%.1f processors in use): the figures mean little\n", about.Load)
	}
	return &Report{Machine: about, BarePerSecond: map[string]float64{}}, nil
}

// Read reads the report that Publish wrote into the folder.
func Read(folder string) (*Report, error) {
	data, err := os.ReadFile(filepath.Join(folder, dataFile))
	if err != nil {
		return nil, err
	}
	r := &Report{}
	if err := json.Unmarshal(data, r); err != nil {
		return nil, fmt.Errorf("report in %s: %w", folder, err)
	}
	return r, nil
}

// Missed counts the rows whose target is missed.
func (r *Report) Missed() (n int) {
	for _, row := range r.Rows {
		if !row.Met() {
			n++
		}
	}
	return n
}

func (r *Report) markdown() string {
	var out strings.Builder
	d := r.Machine
	fmt.Fprintf(&out, "# Measured on %s\n\n", d.Began.Format("2 January 2006"))
	for _, fault := range r.Void {
		fmt.Fprintf(&out, "**This run is void:** %s.\n\n", fault)
	}
	if d.Busy() {
		fmt.Fprintf(&out, "**Other programs were at work** (%.1f processors in use before the run): the figures mean little.\n\n", d.Load)
	}
	fmt.Fprintf(&out, "%s, %d cores, %.0f GB of memory, Linux %s, %s, commit %s. A write of 4 KiB and its fdatasync took %.2f ms.\n\n",
		d.CPU, d.Cores, float64(d.MemoryBytes)/(1<<30), d.Kernel, d.Go, d.Commit, d.SyncSeconds*1000)
	if len(r.Rows) > 0 {
		fmt.Fprintf(&out, "%d of %d targets are met. A figure is the median of its rounds.\n\n", len(r.Rows)-r.Missed(), len(r.Rows))
		out.WriteString(targets(r.Rows))
	}
	if len(r.Systems.Lines) > 0 {
		out.WriteString(r.Systems.markdown())
	}
	if len(r.Notes) > 0 {
		out.WriteByte('\n')
	}
	for _, note := range r.Notes {
		fmt.Fprintf(&out, "- %s.\n", note)
	}
	return out.String()
}

// Publish prints the report, and writes it with its plots into the folder. Plots of an earlier run are removed. It is an
// error if the run is void.
func (r *Report) Publish(folder string) error {
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
	fmt.Printf("\n%s\n", text)
	var errs []error
	for _, p := range r.plots() {
		text += fmt.Sprintf("\n![%s](%s.svg)\n", p.title, p.name)
		errs = append(errs, os.WriteFile(filepath.Join(folder, p.name+".svg"), []byte(p.svg), 0o644))
	}
	errs = append(errs,
		os.WriteFile(filepath.Join(folder, textFile), []byte(text), 0o644),
		os.WriteFile(filepath.Join(folder, dataFile), append(data, '\n'), 0o644))
	if len(r.Void) > 0 {
		errs = append(errs, fmt.Errorf("the run is void:\n%s", strings.Join(r.Void, "\n")))
	}
	return errors.Join(errs...)
}

func (r *Report) plots() (all []plot) {
	for _, c := range r.Curves {
		if len(c.Points) > 1 {
			all = append(all, plot{c.Name, c.Title, c.plot()})
		}
	}
	if len(r.Rows) > 0 {
		all = append(all, plot{"targets", "each figure as a share of its target", targetsPlot(r.Rows)})
	}
	return all
}
