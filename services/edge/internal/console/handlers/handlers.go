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
	"quire.dev/services/edge/internal/purchases"
	"quire.dev/services/edge/internal/readers"
)

// desk is what the pages of accounts and of admins share: forms that are taken, and requests that are folded again.
type desk struct {
	*endpoint.Base
	console  *console.Console
	accounts *accounts.Accounts
	ctx      context.Context // of calls to other parts
}

// Deps are the parts that the pages of an account work with.
type Deps struct {
	Bus        *bus.Bus
	Console    *console.Console
	Accounts   *accounts.Accounts
	Developer  *developer.API
	Purchases  *purchases.Purchases
	Exports    *export.Exports
	Readers    *readers.Readers // that render texts
	UpgradeURL string           // where an account gets a plan with more; empty: the page of its plan
	Operator   console.Operator // sender of statements
}

// Handlers answers with the pages of an account.
type Handlers struct {
	desk
	bus        *bus.Bus
	developer  *developer.API
	purchases  *purchases.Purchases
	exports    *export.Exports
	readers    *readers.Readers
	http       *httpin.Server
	upgradeURL string
	operator   console.Operator

	pageListeners *limit.Listeners
}

// New returns the endpoints of the console.
func New(base *endpoint.Base, deps Deps) *Handlers {
	return &Handlers{
		desk: desk{Base: base, console: deps.Console, accounts: deps.Accounts, ctx: base.HTTP().Context()},
		bus:  deps.Bus, developer: deps.Developer, purchases: deps.Purchases, exports: deps.Exports, readers: deps.Readers, http: base.HTTP(), upgradeURL: deps.UpgradeURL, operator: deps.Operator,
		pageListeners: limit.NewListeners(listenersOfAccount, listenersOfEdge),
	}
}

// AdminDeps are the parts that the pages for admins work with.
type AdminDeps struct {
	Bus      *bus.Bus
	Secret   *apikey.Secret // that signs their sessions
	Console  *console.Console
	Pages    *pages.Pages
	Accounts *accounts.Accounts
	Admin    *admin.Admin
	Tokens   admins.Tokens // that open a session
	Alone    bool          // the other pages are elsewhere
}

// Admins answers with the pages for admins.
type Admins struct {
	desk
	bus    *bus.Bus
	secret *apikey.Secret
	pages  *pages.Pages
	admin  *admin.Admin
	tokens admins.Tokens
	alone  bool
}

// NewAdmins prepares the pages for admins.
func NewAdmins(base *endpoint.Base, deps AdminDeps) *Admins {
	return &Admins{
		desk: desk{Base: base, console: deps.Console, accounts: deps.Accounts, ctx: base.HTTP().Context()},
		bus:  deps.Bus, secret: deps.Secret, pages: deps.Pages, admin: deps.Admin, tokens: deps.Tokens, alone: deps.Alone,
	}
}
