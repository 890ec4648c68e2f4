package terminal

import (
	"fmt"
	"strings"
	"unicode"

	"github.com/rivo/uniseg"
)

// Visible shows the characters of a text that would command the terminal, or can't be seen and change how others look: a
// stranger's text may hold them. Tabs and line ends stay where lines is true.
func Visible(text string, lines bool) string {
	commands := func(r rune) bool {
		if lines && (r == '\n' || r == '\t') {
			return false
		}
		return unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r)
	}
	if !strings.ContainsFunc(text, commands) {
		return text
	}
	var b strings.Builder
	for _, r := range text {
		switch {
		case !commands(r):
			b.WriteRune(r)
		case r < ' ':
			b.WriteString("^" + string(r+'@'))
		default:
			fmt.Fprintf(&b, "<U+%04X>", r)
		}
	}
	return b.String()
}

// Columns is the number of columns that a text without control characters takes.
func Columns(text string) int { return uniseg.StringWidth(text) }

// Cut shortens a text to a number of columns, and marks where something is missing.
func Cut(text string, columns int) string {
	if Columns(text) <= columns {
		return text
	}
	if columns < 1 {
		return ""
	}
	var b strings.Builder
	left := columns - 1 // one for the mark
	for clusters := uniseg.NewGraphemes(text); clusters.Next() && clusters.Width() <= left; {
		b.WriteString(clusters.Str())
		left -= clusters.Width()
	}
	return b.String() + "…"
}

// pad fills a text up to a number of columns.
func pad(text string, columns int, right bool) string {
	fill := strings.Repeat(" ", max(0, columns-Columns(text)))
	if right {
		return fill + text
	}
	return text + fill
}

// Size is a number of bytes for people: KB is 2^10, MB 2^20 and GB 2^30, as in the limits of the service.
func Size(bytes int64) string {
	const unit = 1024
	if bytes < unit {
		return fmt.Sprintf("%d B", bytes)
	}
	value, names := float64(bytes), "KMGTPE"
	for {
		value /= unit
		if value < 999.5 || len(names) == 1 {
			break
		}
		names = names[1:]
	}
	if value < 9.95 {
		return fmt.Sprintf("%.1f %cB", value, names[0])
	}
	return fmt.Sprintf("%.0f %cB", value, names[0])
}
