package main

import (
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"quire.dev/tools/bench/internal/account"
	"quire.dev/tools/bench/internal/load"
	"quire.dev/tools/bench/internal/report"
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
		"get-256$|^disk$": {"get-256", "paid-get-256", "disk"}, "^start-[ck]": {"start-clean", "start-kill"}, "rss-idle": {"rss-idle"},
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

func TestTheFigureIsTheMedianOfTheRounds(t *testing.T) {
	chosen, err := choose(catalogue(), "^get-256$|^one-get-p50$")
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{chosen: chosen, report: &report.Report{}}
	b.note("get-256", []float64{0.5, 0.1, 0.3}, "")
	b.note("get-32", []float64{1}, "") // was not chosen
	b.note("get-256", nil, "")         // was not measured
	b.noteFor("one-get-p50", 0.5, []float64{0.4}, "")
	rows := b.report.Rows
	if len(rows) != 2 || rows[0].Figure != 0.3 || rows[0].Target != 0.45 || rows[1].Target != 0.5 || !rows[1].Met() {
		t.Errorf("%+v", rows)
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

func TestTheCostOfFourPartitionsIsAShareOfThatOfOne(t *testing.T) {
	systems := report.Table{
		Columns: []string{"one process", "1 partition", "4 partitions"},
		Lines:   []report.Line{{ID: "cpu-get", Figures: []float64{20, 40, 60}}, {ID: "cpu-create", Figures: []float64{50, 100, 150}}},
	}
	got, err := clusterCosts(systems)
	want := map[string]float64{"cluster-get-1": 40, "cluster-create-1": 100, "cluster-get-4": 1.5, "cluster-create-4": 1.5}
	if err != nil || !maps.Equal(got, want) {
		t.Errorf("%v, %v, want %v", got, err, want)
	}
	for name, incomplete := range map[string]report.Table{
		"no 4 partitions": {Columns: systems.Columns[:2], Lines: systems.Lines},
		"no creations":    {Columns: systems.Columns, Lines: systems.Lines[:1]},
		"nothing":         {},
	} {
		if got, err := clusterCosts(incomplete); err == nil {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestACurveOfLatenciesCountsTheNines(t *testing.T) {
	c := latencyCurve("get", load.Outcome{Distribution: []load.Point{{Share: 0.9, Millis: 1}, {Share: 0.99, Millis: 9}}})
	if len(c.Points) != 2 || math.Abs(c.Points[0].X-1) > 1e-9 || math.Abs(c.Points[1].X-2) > 1e-9 || c.Points[1].Y != 9 {
		t.Errorf("%+v", c)
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
		if wrong := account.WrongKey(key); wrong == key || len(wrong) != len(key) || wrong[:5] != key[:5] {
			t.Errorf("%s for %s", wrong, key)
		}
	}
}
