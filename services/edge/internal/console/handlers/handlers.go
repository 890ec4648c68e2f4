// Package handlers has the endpoints of the console: its pages, their forms, and the events that pages listen to. Package
// console renders the pages. The forms use the same operations as the API.
package handlers

import (
	"context"

	admins "quire.dev/pkg/admin"
	"quire.dev/pkg/apikey"
	"quire.dev/services/edge/internal/accounts"
	"quire.dev/services/edge/internal/admin"
	"quire.dev/services/edge/internal/bus"
	"quire.dev/services/edge/internal/console"
	"quire.dev/services/edge/internal/developer"
	"quire.dev/services/edge/internal/endpoint"
	"quire.dev/services/edge/internal/export"
	"quire.dev/services/edge/internal/httpin"
	"quire.dev/services/edge/internal/limit"
	"quire.dev/services/edge/internal/pages"
	"quire.dev/services/edge/internal/readers"
)

// Config has the console's links and its admins.
type Config struct {
	UpgradeURL  string        // where accounts get a larger plan; empty: nowhere
	AdminTokens admins.Tokens // open an admin's session
	AdminOnly   bool          // another listener serves the other pages
}

// Deps are the dependencies of the console.
type Deps struct {
	Bus       *bus.Bus
	Secret    *apikey.Secret
	Pages     *pages.Pages
	Accounts  *accounts.Accounts
	Admin     *admin.Admin
	Developer *developer.API
	Exports   *export.Exports
	Readers   *readers.Readers // render texts
}

// Handlers serves the pages of the console.
type Handlers struct {
	*endpoint.Base
	bus       *bus.Bus
	secret    *apikey.Secret
	pages     *pages.Pages
	console   *console.Console
	accounts  *accounts.Accounts
	admin     *admin.Admin
	developer *developer.API
	exports   *export.Exports
	readers   *readers.Readers
	http      *httpin.Server
	ctx       context.Context // for calls to other components

	upgradeURL    string
	adminTokens   admins.Tokens
	adminOnly     bool
	pageListeners *limit.Listeners
}

// New returns the endpoints of the console.
func New(base *endpoint.Base, cfg Config, deps Deps) *Handlers {
	return &Handlers{
		Base: base, bus: deps.Bus, secret: deps.Secret, pages: deps.Pages, console: console.New(deps.Pages),
		accounts: deps.Accounts, admin: deps.Admin, developer: deps.Developer, exports: deps.Exports, readers: deps.Readers,
		http: base.HTTP(), ctx: base.HTTP().Context(),
		upgradeURL: cfg.UpgradeURL, adminTokens: cfg.AdminTokens, adminOnly: cfg.AdminOnly,
		pageListeners: limit.NewListeners(listenersOfAccount, listenersOfEdge),
	}
}
