package cli

import (
	"context"
	"strings"

	"quire.dev/cli/internal/terminal"
)

// Confirm asks a yes-or-no question on the terminal. Without one it is a UsageError that names --yes.
func Confirm(ctx context.Context, streams Streams, question string) (bool, error) {
	return confirm(ctx, terminal.New(streams.In, streams.Out, streams.Err, streams.Environ), question)
}

func confirm(ctx context.Context, term *terminal.Terminal, question string) (bool, error) {
	if !term.Interactive() {
		return false, Usage("cannot prompt: not a terminal. Use --yes.")
	}
	answer, err := term.Ask(ctx, question+" [y/N] ")
	if err != nil {
		return false, err
	}
	answer = strings.ToLower(answer)
	return answer == "y" || answer == "yes", nil
}
