package pages

import (
	"fmt"
	"html/template"
	"strings"

	"rsc.io/qr"
)

// qrQuiet is the light margin of a QR code in modules, as its standard demands.
const qrQuiet = 4

// qrCode is the QR code of a link as a picture; empty for a text that is too long for one.
func qrCode(link string) template.HTML {
	code, err := qr.Encode(link, qr.M)
	if err != nil {
		return ""
	}
	var path strings.Builder
	for y := range code.Size {
		for x := 0; x < code.Size; x++ {
			from := x
			for x < code.Size && code.Black(x, y) {
				x++
			}
			if x > from {
				fmt.Fprintf(&path, "M%d %dh%dv1h-%dz", from+qrQuiet, y+qrQuiet, x-from, x-from)
			}
		}
	}
	size := code.Size + 2*qrQuiet
	return template.HTML(fmt.Sprintf( //nolint:gosec // of numbers
		`<svg viewBox="0 0 %d %d" role="img" aria-label="QR code of the link"><rect width="%d" height="%d" fill="#fff"/><path d="%s"/></svg>`,
		size, size, size, size, path.String()))
}
