// Command lite runs one instance of the service that owns quick pastes.
package main

import (
	"os"

	"quire.dev/pkg/document"
	"quire.dev/pkg/document/process"
	"quire.dev/pkg/lifecycle"
	"quire.dev/services/lite"
)

func main() {
	program := process.Program{
		Name:        "lite",
		Collections: lite.Collections(),
		New: func(settings process.Settings, deps document.Deps) (process.Service, error) {
			return lite.New(lite.Config{
				PartitionCount: settings.PartitionCount, Assigned: settings.Assigned, Served: settings.Served,
				Offset: settings.Offset, Bounds: settings.Bounds,
			}, deps)
		},
	}
	os.Exit(lifecycle.Main(program.Run))
}
