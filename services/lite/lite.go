// Package lite is the service that owns quick pastes: package document's engine with their policy.
package lite

import (
	"quire.dev/pkg/document"
	"quire.dev/pkg/document/fold"
	"quire.dev/pkg/event"
	"quire.dev/pkg/views"
)

// Collections returns the read model's collections of quick pastes.
func Collections() []views.Collection { return document.Collections(event.Lite) }

// New checks the configuration and sets its Policy. It contacts nothing before Run. Views of deps must have been opened with
// Collections.
func New(cfg document.Config, deps document.Deps) (*document.Engine, error) {
	cfg.Policy = fold.QuickPastes()
	return document.New(cfg, deps)
}
