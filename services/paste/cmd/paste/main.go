// Command paste runs one instance of the service that owns pastes.
package main

import (
	"os"

	"quire.dev/pkg/host"
	"quire.dev/services/paste"
)

func main() { os.Exit(host.Main(host.Paste, host.Documents(paste.Collections(), paste.New))) }
