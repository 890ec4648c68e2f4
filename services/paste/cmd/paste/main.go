// Command paste runs one instance of the service that owns pastes.
package main

import (
	"os"

	"quire.dev/pkg/document"
	"quire.dev/pkg/document/fold"
	"quire.dev/pkg/host"
)

func main() { os.Exit(host.Main(host.Paste, document.Wire(fold.Pastes()))) }
