// Package handlers is the endpoints of the console: its pages, what their forms do, and the events that pages listen to. Package console
// renders the pages. The forms do what the API does, by its packages.
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

// Config says what the console leads to, and who its admins are.
type Config struct {
	UpgradeURL  string        // where an account gets a plan with more; empty: nowhere
	AdminTokens admins.Tokens // that open a session of an admin
	AdminOnly   bool          // the other pages are elsewhere
}

// Deps are the parts that the console works with.
type Deps struct {
	Bus       *bus.Bus
	Secret    *apikey.Secret
	Pages     *pages.Pages
	Accounts  *accounts.Accounts
	Admin     *admin.Admin
	Developer *developer.API
	Exports   *export.Exports
	Readers   *readers.Readers // that render texts
}

// Handlers answers with the pages of the console.
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
	ctx       context.Context // of calls to other parts

	upgradeURL    string
	adminTokens   admins.Tokens
	adminOnly     bool
	pageListeners *limit.Listeners
}

// New prepares the endpoints of the console.
func New(base *endpoint.Base, cfg Config, deps Deps) *Handlers {
	return &Handlers{
		Base: base, bus: deps.Bus, secret: deps.Secret, pages: deps.Pages, console: console.New(deps.Pages),
		accounts: deps.Accounts, admin: deps.Admin, developer: deps.Developer, exports: deps.Exports, readers: deps.Readers,
		http: base.HTTP(), ctx: base.HTTP().Context(),
		upgradeURL: cfg.UpgradeURL, adminTokens: cfg.AdminTokens, adminOnly: cfg.AdminOnly,
		pageListeners: limit.NewListeners(listenersOfAccount, listenersOfEdge),
	}
}
