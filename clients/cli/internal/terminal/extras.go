package terminal

import (
	"fmt"
	"os"
	"strings"

	"github.com/aymanbagabas/go-osc52/v2"
	"rsc.io/qr"
)

// Copy puts a text on the clipboard of the person at the terminal, also through ssh, tmux and screen, by the escape
// sequence OSC 52. A terminal that does not know it ignores it, so that nobody learns whether it worked.
func (t *Terminal) Copy(text string) error {
	to := t.Err
	if !IsTerminal(to) {
		tty, err := os.OpenFile("/dev/tty", os.O_WRONLY, 0)
		if err != nil {
			return fmt.Errorf("copy to the clipboard: there is no terminal: %w", err)
		}
		defer tty.Close()
		to = tty
	}
	sequence := osc52.New(text)
	switch {
	case t.Env("TMUX") != "":
		sequence = sequence.Tmux()
	case strings.HasPrefix(t.Env("TERM"), "screen"):
		sequence = sequence.Screen()
	}
	if _, err := sequence.WriteTo(to); err != nil {
		return fmt.Errorf("copy to the clipboard: %w", err)
	}
	return nil
}

// QR is a text as a QR code of half blocks, which cameras read on dark and on light terminals.
func QR(text string) (string, error) {
	code, err := qr.Encode(text, qr.L)
	if err != nil {
		return "", fmt.Errorf("make a QR code: %w", err)
	}
	const border = 2
	// A code is dark on light. Terminals are mostly light on dark, so that light is what is drawn.
	light := func(x, y int) bool { return !code.Black(x, y) }
	var b strings.Builder
	for y := -border; y < code.Size+border; y += 2 {
		for x := -border; x < code.Size+border; x++ {
			switch upper, lower := light(x, y), light(x, y+1); {
			case upper && lower:
				b.WriteRune('█')
			case upper:
				b.WriteRune('▀')
			case lower:
				b.WriteRune('▄')
			default:
				b.WriteByte(' ')
			}
		}
		b.WriteByte('\n')
	}
	return b.String(), nil
}
