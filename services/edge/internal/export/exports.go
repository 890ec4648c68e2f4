// Package export has the endpoints for exports, and the job that makes them: archives of everything that an account owns.
package export

import (
	"context"
	"log/slog"

	"quire.dev/pkg/blob"
	"quire.dev/services/edge/internal/accounts"
	"quire.dev/services/edge/internal/bus"
	"quire.dev/services/edge/internal/contents"
	"quire.dev/services/edge/internal/developer"
	"quire.dev/services/edge/internal/endpoint"
)

// Deps are the dependencies of exports.
type Deps struct {
	Bus       *bus.Bus
	Blobs     blob.Store // stores the archives
	Contents  *contents.Store
	Logger    *slog.Logger
	Accounts  *accounts.Accounts
	Developer *developer.API // formats documents
}

// Exports implements the endpoints for exports.
type Exports struct {
	*endpoint.Base
	bus       *bus.Bus
	blobs     blob.Store
	contents  *contents.Store
	log       *slog.Logger
	accounts  *accounts.Accounts
	developer *developer.API
	ctx       context.Context // for calls to other components
}

// New returns the endpoints for exports. MakeExports makes the archives.
func New(base *endpoint.Base, deps Deps) *Exports {
	return &Exports{
		Base: base, bus: deps.Bus, blobs: deps.Blobs, contents: deps.Contents, log: deps.Logger,
		accounts: deps.Accounts, developer: deps.Developer, ctx: base.HTTP().Context(),
	}
}
