// Package stats evaluates repeated measurements.
package stats

import (
	"errors"
	"math"
	"slices"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"
)

// Median returns the median of values, and NaN without values.
func Median(values []float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(values))
	if n := len(sorted); n%2 == 0 {
		return (sorted[n/2-1] + sorted[n/2]) / 2
	}
	return sorted[len(sorted)/2]
}

// Change is how much larger the second measurements of pairs are than the first: 1.1 stands for 10 % more. The true factor
// lies between Low and High with the confidence that was asked for.
type Change struct {
	Factor, Low, High float64
	Pairs             int
}

// Real reports whether the interval leaves out "no change".
func (c Change) Real() bool { return c.Low > 1 || c.High < 1 }

// Paired compares measurements that were taken in pairs, by Student's t-test for paired samples on the logarithms of the
// ratios. The two of a pair are measured one after the other, so what slows the machine down for a while slows down both and
// leaves their ratio. A ratio of speeds is a factor, and its logarithm is closer to a normal distribution than
// a difference is. confidence is a share such as 0.95. There must be at least three pairs of positive numbers.
func Paired(before, after []float64, confidence float64) (Change, error) {
	if len(before) != len(after) || len(before) < 3 {
		return Change{}, errors.New("a comparison needs three pairs of measurements or more")
	}
	logs := make([]float64, len(before))
	for i := range before {
		if !(before[i] > 0) || !(after[i] > 0) || math.IsInf(before[i], 0) || math.IsInf(after[i], 0) {
			return Change{}, errors.New("a measurement is not a positive number")
		}
		logs[i] = math.Log(after[i] / before[i])
	}
	mean, deviation := stat.MeanStdDev(logs, nil)
	n := float64(len(logs))
	t := distuv.StudentsT{Sigma: 1, Nu: n - 1}.Quantile(1 - (1-confidence)/2)
	half := t * deviation / math.Sqrt(n)
	return Change{Factor: math.Exp(mean), Low: math.Exp(mean - half), High: math.Exp(mean + half), Pairs: len(logs)}, nil
}
