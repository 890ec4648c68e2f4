// Package file is the service that owns files: package document's engine with their policy.
package file

import (
	"quire.dev/pkg/document"
	"quire.dev/pkg/document/fold"
	"quire.dev/pkg/event"
	"quire.dev/pkg/views"
)

// Collections returns the read model's collections of files.
func Collections() []views.Collection { return document.Collections(event.File) }

// New checks the configuration and sets its Policy. It contacts nothing before Run. Views of deps must have been opened with
// Collections.
func New(cfg document.Config, deps document.Deps) (*document.Engine, error) {
	cfg.Policy = fold.Files()
	return document.New(cfg, deps)
}
