// Package paste is the service that owns pastes: the engine of package document with their policy.
package paste

import (
	"quire.dev/pkg/document"
	"quire.dev/pkg/document/fold"
	"quire.dev/pkg/event"
	"quire.dev/pkg/views"
)

// Collections are those of the read model that hold pastes.
func Collections() []views.Collection { return document.Collections(event.Paste) }

// New checks the configuration, whose Policy it sets. It contacts nothing: Run does. Views of deps must have been
// opened with Collections.
func New(cfg document.Config, deps document.Deps) (*document.Engine, error) {
	cfg.Policy = fold.Pastes()
	return document.New(cfg, deps)
}
