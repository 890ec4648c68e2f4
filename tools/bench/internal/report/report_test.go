package report

import (
	"encoding/xml"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"quire.dev/tools/bench/internal/machine"
)

func TestAFigureMeetsItsTargetOrMissesIt(t *testing.T) {
	for _, test := range []struct {
		figure, target float64
		most           bool
		met            bool
		verdict        string
		near           float64
	}{
		{0.45, 0.45, false, true, "met, to spare 0 %", 1},
		{0.54, 0.45, false, true, "met, to spare 20 %", 1.2},
		{0.36, 0.45, false, false, "missed by 20 %", 0.8},
		{64, 64, true, true, "met, to spare 0 %", 1},
		{32, 64, true, true, "met, to spare 50 %", 2},
		{80, 64, true, false, "missed by 25 %", 0.8},
		{0, 0, true, true, "met", 1},
		{3, 0, true, false, "missed by 3.00", 0},
	} {
		r := Row{Figure: test.figure, Target: test.target, AtMost: test.most}
		if r.Met() != test.met || r.verdict() != test.verdict || math.Abs(r.nearness()-test.near) > 1e-9 {
			t.Errorf("%v for %v: %v, %q, %v", test.figure, test.target, r.Met(), r.verdict(), r.nearness())
		}
	}
}

func TestAReportSaysWhatAReaderMustKnow(t *testing.T) {
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "old.svg"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	r := Report{
		Machine: machine.Description{CPU: "A <CPU>", Cores: 2, Kernel: "6.1", Go: "go1", Commit: "abc", SyncSeconds: 0.0001, Load: 3},
		Void:    []string{"5 counted, want 6"},
		Rows: []Row{
			{ID: "get-256", Title: "a < b & c", Unit: "of bare", Figure: 0.5, Rounds: []float64{0.4, 0.5, 0.6}, Target: 0.45, Note: "bare 9/s"},
			{ID: "disk", Title: "disk", Unit: "bytes", Figure: 2720, Rounds: []float64{2720}, Target: 1700, AtMost: true},
		},
		Curves: []Curve{
			{Name: "open-get", Title: "get", Points: []Point{{0.3, 1}, {2, 9}}},
			{Name: "empty"},
		},
		Systems: Table{Columns: []string{"1 partition", "4 partitions"}, Lines: []Line{{"cpu", "CPU", []float64{40, 60}}}},
		Notes:   []string{"97 % of 2 cores busy"},
	}
	if err := r.Publish(folder); err == nil || !strings.Contains(err.Error(), "5 counted, want 6") {
		t.Errorf("a void run: %v", err)
	}
	text, err := os.ReadFile(filepath.Join(folder, "report.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"This run is void:** 5 counted, want 6", "Other programs were at work", "A <CPU>, 2 cores", "fdatasync took 0.10 ms", "1 of 2 targets",
		"≥ 0.450 | met, to spare 11 % | 0.400, 0.500, 0.600 | bare 9/s |", "≤ 1700 | missed by 60 %", "open-get.svg", "targets.svg",
		"| CPU | 40.0 | 60.0 |", "- 97 % of 2 cores busy.",
	} {
		if !strings.Contains(strings.Join(strings.Fields(string(text)), " "), want) {
			t.Errorf("the report lacks %q:\n%s", want, text)
		}
	}
	if read, err := Read(folder); err != nil || len(read.Rows) != 2 || read.Systems.Figure("cpu", "4 partitions") != 60 {
		t.Errorf("%+v, %v", read, err)
	}
	plots, err := filepath.Glob(filepath.Join(folder, "*.svg"))
	if err != nil || len(plots) != 2 {
		t.Fatalf("%v, %v", plots, err)
	}
	for _, path := range plots {
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		decoder, elements := xml.NewDecoder(f), 0
		for {
			token, err := decoder.Token()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatalf("%s: %v", path, err)
			}
			if _, ok := token.(xml.StartElement); ok {
				elements++
			}
		}
		f.Close()
		if elements < 8 {
			t.Errorf("%s has %d elements", path, elements)
		}
	}
}

func TestATableHasColumnsOfEvenWidthAndNoLineWithoutFigures(t *testing.T) {
	systems := Table{Columns: []string{"one process", "4 partitions"}}
	systems.Add(Line{Title: "µs", Figures: []float64{0, 12345}})
	systems.Add(Line{Title: "none has it", Figures: []float64{0, 0.001}})
	want := `
|     | one process | 4 partitions |
| --- | ----------: | -----------: |
| µs  |             |        12345 |
`
	if got := systems.markdown(); got != want[1:] {
		t.Errorf("%s, want %s", got, want)
	}
	for name, got := range map[string]float64{
		"no line": systems.Figure("cpu", "4 partitions"), "no column": systems.Figure("", "2 partitions"),
	} {
		if got != 0 {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// TestAPlotOfConstantsIsDrawn: an axis without extent must not divide by zero.
func TestAPlotOfConstantsIsDrawn(t *testing.T) {
	plot := Curve{Title: "nothing", Points: []Point{{0, 0}, {0, 0}}}.plot()
	if strings.Contains(plot, "NaN") || strings.Contains(plot, "Inf") {
		t.Error(plot)
	}
}
