// Command file runs one instance of the service that owns files.
package main

import (
	"os"

	"quire.dev/pkg/document"
	"quire.dev/pkg/document/process"
	"quire.dev/pkg/lifecycle"
	"quire.dev/services/file"
)

func main() {
	program := process.Program{
		Name:        "file",
		Collections: file.Collections(),
		New: func(settings process.Settings, deps document.Deps) (process.Service, error) {
			return file.New(file.Config{
				PartitionCount: settings.PartitionCount, Assigned: settings.Assigned, Served: settings.Served,
				Offset: settings.Offset, Bounds: settings.Bounds,
			}, deps)
		},
	}
	os.Exit(lifecycle.Main(program.Run))
}
