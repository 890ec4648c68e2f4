package pages

import (
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// TestBarsOfAChartCanBeSeen holds the colours of a chart to WCAG 2.2, 1.4.11: a contrast of 3 with the page.
func TestBarsOfAChartCanBeSeen(t *testing.T) {
	for name, dark := range map[string]bool{"light": false, "dark": true} {
		colours := make(map[string]string)
		for _, sheet := range []string{"base", "chart"} {
			css, err := files.ReadFile("styles/" + sheet + ".css")
			if err != nil {
				t.Fatal(err)
			}
			readColours(colours, string(css), dark)
		}
		for _, bar := range []string{"s1", "s2", "s3", "s4", "s5", "s6", "others"} {
			if c := contrast(t, colours[bar], colours["paper"]); c < 3 {
				t.Errorf("%s: --%s has a contrast of %.2f", name, bar, c)
			}
		}
	}
}

// TestHighlightedTextCanBeRead holds the colours of highlighted text to WCAG 2.2, 1.4.3: a contrast of 4.5 with whatever is
// behind a line.
func TestHighlightedTextCanBeRead(t *testing.T) {
	for name, dark := range map[string]bool{"light": false, "dark": true} {
		colours := make(map[string]string)
		for _, sheet := range []string{"base", "document"} {
			css, err := files.ReadFile("styles/" + sheet + ".css")
			if err != nil {
				t.Fatal(err)
			}
			readColours(colours, string(css), dark)
		}
		for _, ink := range []string{"ink", "keyword", "string", "number", "comment", "name", "type", "variable", "bad", "good"} {
			for _, back := range []string{"code", "mark", "new", "gone", "new-mark", "gone-mark"} {
				if c := contrast(t, colours[ink], colours[back]); c < 4.5 {
					t.Errorf("%s: --%s on --%s has a contrast of %.2f", name, ink, back, c)
				}
			}
		}
	}
}

// readColours reads the custom properties of a sheet, as they are in a scheme and not in print.
func readColours(to map[string]string, css string, dark bool) {
	own, _, _ := strings.Cut(css, "@media print")
	for _, m := range regexp.MustCompile(`--([a-z0-9-]+): light-dark\((#[0-9a-f]{6}), (#[0-9a-f]{6})\)`).FindAllStringSubmatch(own, -1) {
		to[m[1]] = m[2]
		if dark {
			to[m[1]] = m[3]
		}
	}
}

func contrast(t *testing.T, a, b string) float64 {
	t.Helper()
	x, y := luminance(t, a), luminance(t, b)
	return (max(x, y) + 0.05) / (min(x, y) + 0.05)
}

func luminance(t *testing.T, colour string) float64 {
	t.Helper()
	n, err := strconv.ParseUint(strings.TrimPrefix(colour, "#"), 16, 24)
	if err != nil {
		t.Fatalf("colour %q: %v", colour, err)
	}
	out := 0.0
	for i, weight := range []float64{0.2126, 0.7152, 0.0722} {
		c := float64(n>>(16-8*i)&0xff) / 255
		if c <= 0.04045 {
			c /= 12.92
		} else {
			c = math.Pow((c+0.055)/1.055, 2.4)
		}
		out += weight * c
	}
	return out
}
