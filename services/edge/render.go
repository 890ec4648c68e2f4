package edge

import (
	"fmt"
	"io"
	"os"

	"quire.dev/services/edge/internal/render"
)

// RenderArgument makes an edge's program a rendering process, which calls Render.
const RenderArgument = "render"

// RenderCommand returns the command line of a rendering process: this program with RenderArgument.
func RenderCommand() ([]string, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program, which renders texts: %w", err)
	}
	return []string{program, RenderArgument}, nil
}

// Render renders the texts that an edge sends, until from ends. It limits the memory of the whole process, so call it in a dedicated
// process. See Deps.RenderCommand.
func Render(from io.Reader, to io.Writer) error { return render.Serve(from, to) }
