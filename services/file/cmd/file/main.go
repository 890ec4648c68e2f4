// Command file runs one instance of the service that owns files.
package main

import (
	"os"

	"quire.dev/pkg/document"
	"quire.dev/pkg/document/fold"
	"quire.dev/pkg/host"
)

func main() { os.Exit(host.Main(host.File, document.Wire(fold.Files()))) }
