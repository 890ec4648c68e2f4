// Command file runs one instance of the service that owns files.
package main

import (
	"os"

	"quire.dev/pkg/host"
	"quire.dev/services/file"
)

func main() { os.Exit(host.Main(host.File, host.Documents(file.Collections(), file.New))) }
