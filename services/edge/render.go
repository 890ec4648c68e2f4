package edge

import (
	"fmt"
	"io"
	"os"

	"quire.dev/services/edge/internal/render"
)

// RenderArgument is the argument with which a program of an edge is the process that Render is for.
const RenderArgument = "render"

// RenderCommand is this program with RenderArgument.
func RenderCommand() ([]string, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program, which renders texts: %w", err)
	}
	return []string{program, RenderArgument}, nil
}

// Render renders the texts that an edge sends, until it sends no more. It bounds the memory of its process: it is to be
// called in one that does nothing else. See Deps.RenderCommand.
func Render(from io.Reader, to io.Writer) error { return render.Serve(from, to) }
