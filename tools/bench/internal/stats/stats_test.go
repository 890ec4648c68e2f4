package stats

import (
	"math"
	"math/rand/v2"
	"testing"
)

func TestMedian(t *testing.T) {
	for _, test := range []struct {
		values []float64
		want   float64
	}{{[]float64{3}, 3}, {[]float64{9, 1, 5}, 5}, {[]float64{4, 1, 3, 2}, 2.5}} {
		if got := Median(test.values); got != test.want {
			t.Errorf("median of %v is %v, want %v", test.values, got, test.want)
		}
	}
	if got := Median(nil); !math.IsNaN(got) {
		t.Errorf("median of nothing is %v", got)
	}
}

// TestTheIntervalIsStudents: ratios of e^0.1, e^0.2 and e^0.3 have the mean 0.2 and the deviation 0.1. The quantile of t with two
// degrees of freedom at 97.5 % is 4.302653 in every table.
func TestTheIntervalIsStudents(t *testing.T) {
	before := []float64{1, 10, 100}
	after := []float64{math.Exp(0.1), 10 * math.Exp(0.2), 100 * math.Exp(0.3)}
	got, err := Paired(before, after, 0.95)
	if err != nil {
		t.Fatal(err)
	}
	half := 4.302653 * 0.1 / math.Sqrt(3)
	for _, pair := range [][2]float64{{got.Factor, math.Exp(0.2)}, {got.Low, math.Exp(0.2 - half)}, {got.High, math.Exp(0.2 + half)}} {
		if math.Abs(pair[0]-pair[1]) > 1e-5 {
			t.Errorf("%+v: %v, want %v", got, pair[0], pair[1])
		}
	}
	if got.Real() {
		t.Errorf("%+v holds no change", got)
	}
}

// TestDriftOfTheMachineIsNoChange: a machine that halves its speed in the course of the run slows both of each pair.
func TestDriftOfTheMachineIsNoChange(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	pairs := func(factor float64) (before, after []float64) {
		for i := range 15 {
			speed := 10000 / (1 + float64(i)/14)
			before = append(before, speed*(1+0.01*random.NormFloat64()))
			after = append(after, factor*speed*(1+0.01*random.NormFloat64()))
		}
		return before, after
	}
	for factor, real := range map[float64]bool{1: false, 1.03: true, 0.97: true} {
		before, after := pairs(factor)
		got, err := Paired(before, after, 0.95)
		if err != nil || got.Real() != real || math.Abs(got.Factor-factor) > 0.01 {
			t.Errorf("a factor of %v: %+v, %v", factor, got, err)
		}
	}
}

// TestOneInTwentyIsWrong: where nothing changed, an interval of 95 % says "a change" in about 5 % of the runs.
func TestOneInTwentyIsWrong(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	wrong := 0
	const runs = 2000
	for range runs {
		var before, after []float64
		for range 10 {
			before = append(before, math.Exp(0.05*random.NormFloat64()))
			after = append(after, math.Exp(0.05*random.NormFloat64()))
		}
		if got, err := Paired(before, after, 0.95); err != nil {
			t.Fatal(err)
		} else if got.Real() {
			wrong++
		}
	}
	if share := float64(wrong) / runs; share < 0.035 || share > 0.065 {
		t.Errorf("%.3f of the runs", share)
	}
}

func TestWhatCanNotBeComparedIsAnError(t *testing.T) {
	for _, test := range [][2][]float64{
		{{1, 2}, {1, 2}},
		{{1, 2, 3}, {1, 2}},
		{{1, 2, 0}, {1, 2, 3}},
		{{1, 2, 3}, {1, -2, 3}},
		{{1, 2, 3}, {1, math.NaN(), 3}},
		{{1, 2, 3}, {1, math.Inf(1), 3}},
	} {
		if got, err := Paired(test[0], test[1], 0.95); err == nil {
			t.Errorf("%v: %+v", test, got)
		}
	}
}
