package report

import (
	"encoding/xml"
	"fmt"
	"math"
	"strings"
)

// plot is an image, by the name of its file.
type plot struct{ name, title, svg string }

// Curve is a line of a plot.
type Curve struct {
	Name   string  `json:"name"` // of the file
	Title  string  `json:"title"`
	X      string  `json:"x"` // unit, or what the axis stands for
	Y      string  `json:"y"`
	Points []Point `json:"points"`
}

// Point is a point of a curve.
type Point struct {
	X float64 `json:"x"`
	Y float64 `json:"y"`
}

// The plots are SVG files of lines, bars and text, which doesn't take a plotting module.
const (
	plotWidth  = 860.0
	plotHeight = 360.0
	plotMargin = 64.0
)

// escape escapes text for an SVG image.
func escape(text string) string {
	var out strings.Builder
	_ = xml.EscapeText(&out, []byte(text)) // a Builder never fails
	return out.String()
}

// svg is an image with a white background.
func svg(width, height float64, title, content string) string {
	return fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %.0f" width="%.0f" height="%.0f" font-family="sans-serif" font-size="12">
<title>%s</title>
<rect width="100%%" height="100%%" fill="white"/>
%s</svg>
`, width, height, width, height, escape(title), content)
}

// label is a line of text in an image, whose anchor is start, middle or end.
func label(x, y float64, anchor, content string) string {
	return fmt.Sprintf(`<text x="%.1f" y="%.1f" text-anchor="%s" fill="#222">%s</text>`+"\n", x, y, anchor, escape(content))
}

// plot draws the curve over axes that begin at 0.
func (c Curve) plot() string {
	var mostX, mostY float64
	for _, p := range c.Points {
		mostX, mostY = max(mostX, p.X), max(mostY, p.Y)
	}
	mostX, mostY = max(mostX, math.SmallestNonzeroFloat32), max(mostY, math.SmallestNonzeroFloat32)
	x := func(v float64) float64 { return plotMargin + v/mostX*(plotWidth-2*plotMargin) }
	y := func(v float64) float64 { return plotHeight - plotMargin - v/mostY*(plotHeight-2*plotMargin) }
	var out strings.Builder
	out.WriteString(label(plotWidth/2, plotMargin/2, "middle", c.Title))
	const ticks = 5
	for i := range ticks + 1 {
		share := float64(i) / ticks
		fmt.Fprintf(&out, `<line x1="%.1f" x2="%.1f" y1="%.1f" y2="%.1f" stroke="#ddd"/>`+"\n", x(0), x(mostX), y(share*mostY), y(share*mostY))
		out.WriteString(label(plotMargin-6, y(share*mostY)+4, "end", number(share*mostY)))
		out.WriteString(label(x(share*mostX), plotHeight-plotMargin+18, "middle", number(share*mostX)))
	}
	out.WriteString(label(plotWidth/2, plotHeight-plotMargin/3, "middle", c.X))
	out.WriteString(label(plotMargin, plotMargin-10, "end", c.Y))
	out.WriteString(`<polyline fill="none" stroke="#1f5f9f" stroke-width="2" points="`)
	for i, p := range c.Points {
		if i > 0 {
			out.WriteByte(' ')
		}
		fmt.Fprintf(&out, "%.1f,%.1f", x(p.X), y(p.Y))
	}
	out.WriteString(`"/>` + "\n")
	return svg(plotWidth, plotHeight, c.Title, out.String())
}

// targetsPlot draws each figure relative to its target: a bar that reaches the line at 1 just meets it, a longer one is
// better.
func targetsPlot(rows []Row) string {
	const (
		line, left, unit, longest = 20.0, 430.0, 200.0, 2.0
	)
	var out strings.Builder
	height := line*float64(len(rows)) + 2*line
	for i, r := range rows {
		top := line * float64(i+1)
		color := "#b5432e"
		if r.Met() {
			color = "#2e7d4f"
		}
		out.WriteString(label(left-8, top+13, "end", r.Title))
		fmt.Fprintf(&out, `<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" fill="%s"/>`+"\n", left, top+3, unit*min(r.nearness(), longest), line-6, color)
		out.WriteString(label(left+unit*longest+8, top+13, "start", number(r.Figure)+" "+r.Unit))
	}
	fmt.Fprintf(&out, `<line x1="%.1f" x2="%.1f" y1="%.1f" y2="%.1f" stroke="#222" stroke-dasharray="4 3"/>`+"\n", left+unit, left+unit, line/2, height-line/2)
	return svg(left+unit*longest+140, height, "Each figure as a share of its target: 1 at the dashed line, more is better", out.String())
}
