package report

import (
	"fmt"
	"math"
	"strings"
)

// Row is a figure with its target.
type Row struct {
	ID     string    `json:"id"`
	Title  string    `json:"title"`
	Unit   string    `json:"unit"`
	Figure float64   `json:"figure"` // median of the rounds
	Rounds []float64 `json:"rounds"`
	Target float64   `json:"target"`
	AtMost bool      `json:"atMost"` // the target is a maximum; otherwise it is a minimum
	Note   string    `json:"note,omitempty"`
}

// String is the row on one line.
func (r Row) String() string {
	return fmt.Sprintf("%-20s %s %s (%s)", r.ID, number(r.Figure), r.Unit, r.verdict())
}

// Met reports whether the figure reaches its target.
func (r Row) Met() bool {
	if r.AtMost {
		return r.Figure <= r.Target
	}
	return r.Figure >= r.Target
}

// verdict says by how much the figure is better or worse than its target, as a share of the target.
func (r Row) verdict() string {
	if r.Target == 0 {
		if r.Met() {
			return "met"
		}
		return fmt.Sprintf("missed by %s", number(r.Figure))
	}
	apart := math.Abs(r.Figure/r.Target-1) * 100
	word := "missed by"
	if r.Met() {
		word = "met, to spare"
	}
	return fmt.Sprintf("%s %.0f %%", word, apart)
}

// nearness is 1 where the figure is its target, and more where it is better.
func (r Row) nearness() float64 {
	better, worse := r.Figure, r.Target
	if r.AtMost {
		better, worse = worse, better
	}
	if worse == 0 {
		if better == 0 {
			return 1
		}
		return math.MaxFloat32
	}
	return better / worse
}

// targets is the table of rows.
func targets(rows []Row) string {
	lines := make([][]string, len(rows))
	for i, row := range rows {
		sign := "≥"
		if row.AtMost {
			sign = "≤"
		}
		rounds := make([]string, len(row.Rounds))
		for j, f := range row.Rounds {
			rounds[j] = number(f)
		}
		lines[i] = []string{
			row.ID, row.Title, number(row.Figure) + " " + row.Unit, sign + " " + number(row.Target), row.verdict(),
			strings.Join(rounds, ", "), row.Note,
		}
	}
	return table([]string{"Row", "", "Figure", "Target", "", "Rounds", ""}, "ll>>lll", lines)
}

// number formats a figure with three digits or more.
func number(f float64) string {
	switch a := math.Abs(f); {
	case a >= 100 || a == 0:
		return fmt.Sprintf("%.0f", f)
	case a >= 10:
		return fmt.Sprintf("%.1f", f)
	case a >= 1:
		return fmt.Sprintf("%.2f", f)
	}
	return fmt.Sprintf("%.3f", f)
}
