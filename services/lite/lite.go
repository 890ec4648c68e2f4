// Package lite is the service that owns quick pastes: package document with their policy.
package lite

import (
	"quire.dev/pkg/document"
	"quire.dev/pkg/document/fold"
	"quire.dev/pkg/event"
	"quire.dev/pkg/views"
)

// Config is what one instance folds. Its Policy is New's to set.
type Config = document.Config

// Deps is what the service works with; it stays the caller's. Views has to be opened with Collections.
type Deps = document.Deps

// Service folds and serves quick pastes.
type Service = document.Engine

// Collections are those of the read model that hold quick pastes.
func Collections() []views.Collection { return document.Collections(event.Lite) }

// New checks the configuration. Nothing is contacted before Run.
func New(cfg Config, deps Deps) (*Service, error) {
	cfg.Policy = fold.QuickPastes()
	return document.New(cfg, deps)
}
