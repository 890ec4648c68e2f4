// Command paste runs one instance of the service that owns pastes.
package main

import (
	"os"

	"quire.dev/pkg/document"
	"quire.dev/pkg/document/process"
	"quire.dev/pkg/lifecycle"
	"quire.dev/services/paste"
)

func main() {
	program := process.Program{
		Name:        "paste",
		Collections: paste.Collections(),
		New: func(settings process.Settings, deps document.Deps) (process.Service, error) {
			return paste.New(paste.Config{
				PartitionCount: settings.PartitionCount, Assigned: settings.Assigned, Served: settings.Served,
				Offset: settings.Offset, Bounds: settings.Bounds,
			}, deps)
		},
	}
	os.Exit(lifecycle.Main(program.Run))
}
