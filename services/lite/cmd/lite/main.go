// Command lite runs one instance of the service that owns quick pastes.
package main

import (
	"os"

	"quire.dev/pkg/host"
	"quire.dev/services/lite"
)

func main() { os.Exit(host.Main(host.Lite, host.Documents(lite.Collections(), lite.New))) }
