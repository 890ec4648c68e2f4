package pages

import (
	"regexp"
	"strconv"
	"strings"
	"testing"

	"rsc.io/qr"
)

// TestAQRCodeIsThatOfItsLink draws the path again, and compares each module.
func TestAQRCodeIsThatOfItsLink(t *testing.T) {
	for _, link := range []string{"https://quire.example/p/AAAAAAAAAAAA", hostile, strings.Repeat("x", 2331)} {
		want, err := qr.Encode(link, qr.M)
		if err != nil {
			t.Fatal(err)
		}
		svg := string(qrCode(link))
		dark := map[[2]int]bool{}
		for _, m := range regexp.MustCompile(`M(\d+) (\d+)h(\d+)v1h-(\d+)z`).FindAllStringSubmatch(svg, -1) {
			x, _ := strconv.Atoi(m[1])
			y, _ := strconv.Atoi(m[2])
			n, _ := strconv.Atoi(m[3])
			for i := range n {
				dark[[2]int{x + i, y}] = true
			}
		}
		for y := -qrQuiet; y < want.Size+qrQuiet; y++ {
			for x := -qrQuiet; x < want.Size+qrQuiet; x++ {
				if dark[[2]int{x + qrQuiet, y + qrQuiet}] != want.Black(x, y) {
					t.Fatalf("%.50s: module %d, %d", link, x, y)
				}
			}
		}
		if strings.Contains(svg, "script") || !strings.Contains(svg, `viewBox="0 0 `+strconv.Itoa(want.Size+2*qrQuiet)+" ") {
			t.Errorf("%.200s", svg)
		}
	}
	if got := qrCode(strings.Repeat("x", 2332)); got != "" {
		t.Errorf("a link that is too long: %.100s", got)
	}
}
