package render_test

import (
	"encoding/gob"
	"fmt"
	"io"
	"os"
	"testing"
	"time"

	"quire.dev/services/edge/internal/render"
)

// TestMain has this program be a process of a Renderer, as the commands edge and quire are, or one that fails.
func TestMain(m *testing.M) {
	switch append(os.Args, "")[1] {
	case "render":
		if err := render.Serve(os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	case "hang":
		_ = gob.NewEncoder(os.Stdout).Encode(struct{ Last bool }{}) // its time has begun
		_, _ = io.Copy(io.Discard, os.Stdin)
		<-time.After(time.Minute)
	case "end":
	default:
		os.Exit(m.Run())
	}
}
