// Command lite runs one instance of the service that owns quick pastes.
package main

import (
	"os"

	"quire.dev/pkg/document"
	"quire.dev/pkg/document/fold"
	"quire.dev/pkg/host"
)

func main() { os.Exit(host.Main(host.Lite, document.Wire(fold.QuickPastes()))) }
