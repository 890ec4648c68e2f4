package main

import (
	"strings"
	"testing"
	"time"

	"quire.dev/tools/bench/internal/stats"
)

func TestADifferenceIsSaidOnlyWhereTheIntervalLeavesOutNone(t *testing.T) {
	for want, c := range map[string]stats.Change{
		"get-1          +5.0 %  (+1.0 to +9.0 %)  faster":                               {Factor: 1.05, Low: 1.01, High: 1.09},
		"get-1          -5.0 %  (-9.0 to -1.0 %)  slower":                               {Factor: 0.95, Low: 0.91, High: 0.99},
		"get-1          +5.0 %  (-1.0 to +9.0 %)  no difference that this run can tell": {Factor: 1.05, Low: 0.99, High: 1.09},
	} {
		if got := verdict("get-1", "faster", "slower", c); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestEachSideIsFirstInHalfOfThePairs(t *testing.T) {
	first := [2]int{}
	for pair := range 10 {
		o := order(pair)
		if o[0] == o[1] {
			t.Fatalf("pair %d is %v", pair, o)
		}
		first[o[0]]++
	}
	if first != [2]int{5, 5} {
		t.Errorf("%v", first)
	}
}

func TestAComparisonIsChecked(t *testing.T) {
	right := comparison{base: "HEAD~1", pairs: 3, duration: time.Second, confidence: 0.95, rows: "-256$"}
	list, err := right.validate()
	if err != nil || len(list) != 2 || !strings.HasPrefix(list[0].name, "get") || list[1].connections != 256 {
		t.Errorf("%+v, %v", list, err)
	}
	for name, change := range map[string]func(*comparison){
		"no commit": func(c *comparison) { c.base = "" }, "two comparisons": func(c *comparison) { c.without = "all" }, "two pairs": func(c *comparison) { c.pairs = 2 },
		"a short turn": func(c *comparison) { c.duration = time.Millisecond }, "certainty": func(c *comparison) { c.confidence = 1 },
		"no rows": func(c *comparison) { c.rows = "delete" }, "no expression": func(c *comparison) { c.rows = "(" },
	} {
		wrong := right
		change(&wrong)
		if list, err := wrong.validate(); err == nil {
			t.Errorf("%s: %v", name, list)
		}
	}
}

func TestRefusalsAreWhatTheRowsSay(t *testing.T) {
	for _, w := range works() {
		if want := w.name == "exhausted" || w.name == "bad-key"; w.refused() != want {
			t.Errorf("%s: refused %v", w.name, w.refused())
		}
	}
}
