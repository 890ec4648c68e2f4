package main

import (
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"quire.dev/tools/bench/internal/load"
	"quire.dev/tools/bench/internal/machine"
)

func TestEveryRowHasATargetAndAGroupThatMeasuresIt(t *testing.T) {
	var names []string
	for _, g := range (&bench{}).groups() {
		names = append(names, g.name)
	}
	seen := map[string]bool{}
	for _, r := range catalogue() {
		if r.id == "" || r.title == "" || seen[r.id] || !slices.Contains(names, r.group) {
			t.Errorf("%+v", r)
		}
		if r.target <= 0 && !strings.HasPrefix(r.id, "one-") && !strings.HasSuffix(r.id, "-silent") {
			t.Errorf("%s has no target", r.id)
		}
		seen[r.id] = true
	}
	if len(seen) < 40 {
		t.Errorf("%d rows", len(seen))
	}
}

func TestRowsAreChosenByAnExpression(t *testing.T) {
	for pattern, want := range map[string][]string{
		"get-256$|^disk$": {"get-256", "paid-get-256", "disk"}, "^start": {"start-clean", "start-kill"}, "rss-idle": {"rss-idle"},
	} {
		chosen, err := choose(catalogue(), pattern)
		if err != nil || len(chosen) != len(want) {
			t.Errorf("%s: %v, %v", pattern, chosen, err)
		}
		for _, id := range want {
			if chosen[id].id != id {
				t.Errorf("%s leaves out %s", pattern, id)
			}
		}
	}
	if all, err := choose(catalogue(), ""); err != nil || len(all) != len(catalogue()) {
		t.Errorf("%d rows of %d, %v", len(all), len(catalogue()), err)
	}
	for _, pattern := range []string{"nothing-like-it", "("} {
		if chosen, err := choose(catalogue(), pattern); err == nil {
			t.Errorf("%s: %v", pattern, chosen)
		}
	}
}

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
		r := result{Figure: test.figure, Target: test.target, AtMost: test.most}
		if r.met() != test.met || r.verdict() != test.verdict || math.Abs(r.nearness()-test.near) > 1e-9 {
			t.Errorf("%v for %v: %v, %q, %v", test.figure, test.target, r.met(), r.verdict(), r.nearness())
		}
	}
}

func TestTheFigureIsTheMedianOfTheRounds(t *testing.T) {
	chosen, err := choose(catalogue(), "^get-256$|^one-get-p50$")
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{chosen: chosen}
	b.note("get-256", []float64{0.5, 0.1, 0.3}, "")
	b.note("get-32", []float64{1}, "") // was not chosen
	b.note("get-256", nil, "")         // was not measured
	b.noteFor("one-get-p50", 0.5, []float64{0.4}, "")
	if len(b.found) != 2 || b.found[0].Figure != 0.3 || b.found[0].Target != 0.45 || b.found[1].Target != 0.5 || !b.found[1].met() {
		t.Errorf("%+v", b.found)
	}
}

func TestALaterRateIsAShareOfTheFirst(t *testing.T) {
	rates := []float64{1, 100, 110, 90, 0, 80, 70, 90}
	if share, ok := later(rates, 5); !ok || math.Abs(share-0.8) > 1e-9 {
		t.Errorf("%v, %v", share, ok)
	}
	for _, test := range []struct {
		rates  []float64
		second int
	}{{rates, 6}, {rates[:3], 1}, {nil, 1}, {make([]float64, 20), 10}} {
		if share, ok := later(test.rates, test.second); ok {
			t.Errorf("%v at %d: %v", test.rates, test.second, share)
		}
	}
}

func TestAMetricIsReadFromItsPage(t *testing.T) {
	page := []byte("# HELP a b\na_total 1.5e+06\nquire_answers_total{class=\"2xx\"} 7\nquire_answers_total{class=\"4xx\"} 8\nbad x\n")
	for name, want := range map[string]float64{"a_total": 1.5e6, `quire_answers_total{class="2xx"}`: 7} {
		if got, err := parseMetric(page, name); err != nil || got != want {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
	for _, name := range []string{"a", "none", "bad"} {
		if got, err := parseMetric(page, name); err == nil {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestTheCostOfAClusterLeavesOutTheStandIn(t *testing.T) {
	system := func(partitions string, starts string, get, create string) string {
		return `{"partitions":` + partitions + starts + `,"reads":{"cpuMicrosEach":` + get + `},"creates":{"cpuMicrosEach":` + create + `}}`
	}
	one := system("1", "", `{"quire":20}`, `{"quire":50}`)
	first := system("1", `,"starts":{}`, `{"edge":30,"nats":10,"mongo":7,"wrk":9}`, `{"edge":60,"mongo":100,"lite":40}`)
	second := system("4", `,"starts":{}`, `{"edge":50,"nats":10}`, `{"edge":150,"wrk":1}`)
	got, err := clusterCosts([]byte(`{"systems":[` + one + "," + first + "," + second + `]}`))
	if err != nil || got["cluster-get-1"] != 40 || got["cluster-create-1"] != 100 || got["cluster-get-4"] != 1.5 || got["cluster-create-4"] != 1.5 {
		t.Errorf("%v, %v", got, err)
	}
	for _, report := range []string{`{"systems":[` + one + "," + first + `]}`, `{}`, `x`} {
		if got, err := clusterCosts([]byte(report)); err == nil {
			t.Errorf("%s: %v", report, got)
		}
	}
}

func TestAThirdOfTheCoresIsOneAtLeast(t *testing.T) {
	for cores, want := range map[int]int{1: 1, 2: 1, 3: 1, 6: 2, 16: 5} {
		if got := clientCores(cores); got != want {
			t.Errorf("%d of %d cores", got, cores)
		}
	}
}

func TestAWrongKeyHasTheFormOfARightOne(t *testing.T) {
	for _, key := range []string{"qk_xyz", "qk_xya"} {
		if wrong := wrongKey(key); wrong == key || len(wrong) != len(key) || wrong[:5] != key[:5] {
			t.Errorf("%s for %s", wrong, key)
		}
	}
}

func TestAReportSaysWhatAReaderMustKnow(t *testing.T) {
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "old.svg"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	r := report{
		Machine: machine.Description{CPU: "A <CPU>", Cores: 2, Kernel: "6.1", Go: "go1", Commit: "abc", SyncSeconds: 0.0001, Load: 3},
		Void:    []string{"5 counted, want 6"},
		Rows: []result{
			{ID: "get-256", Title: "a < b & c", Unit: "of bare", Figure: 0.5, Rounds: []float64{0.4, 0.5, 0.6}, Target: 0.45, Note: "bare 9/s"},
			{ID: "disk", Title: "disk", Unit: "bytes", Figure: 2720, Rounds: []float64{2720}, Target: 1700, AtMost: true},
		},
		Curves: []curve{
			latencyCurve("get", load.Outcome{Distribution: []load.Point{{Share: 0.5, Millis: 1}, {Share: 0.99, Millis: 9}}}),
			{Name: "empty"},
		},
	}
	if err := r.write(folder); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(folder, "report.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"This run is void:** 5 counted, want 6", "Other programs were at work", "A <CPU>, 2 cores", "fdatasync took 0.10 ms", "1 of 2 targets",
		"≥ 0.450 | met, to spare 11 % | 0.400, 0.500, 0.600 | bare 9/s |", "≤ 1700 | missed by 60 %", "open-get.svg", "targets.svg",
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("the report lacks %q:\n%s", want, text)
		}
	}
	var read report
	if data, err := os.ReadFile(filepath.Join(folder, "report.json")); err != nil || json.Unmarshal(data, &read) != nil || len(read.Rows) != 2 {
		t.Errorf("%v, %+v", err, read)
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

// TestAPlotOfConstantsIsDrawn: an axis without extent must not divide by zero.
func TestAPlotOfConstantsIsDrawn(t *testing.T) {
	plot := curvePlot(curve{Title: "nothing", Points: []point{{0, 0}, {0, 0}}})
	if strings.Contains(plot, "NaN") || strings.Contains(plot, "Inf") {
		t.Error(plot)
	}
}
