// Package admin is the API for admins: accounts and their limits, the log of admins' actions, and audits.
package admin

import (
	"context"

	"quire.dev/pkg/apikey"
	"quire.dev/services/edge/internal/accounts"
	"quire.dev/services/edge/internal/bus"
	"quire.dev/services/edge/internal/endpoint"
)

// Deps are the dependencies of Admin.
type Deps struct {
	Bus      *bus.Bus
	Secret   *apikey.Secret
	Accounts *accounts.Accounts
}

// Admin implements the API for admins, and the operations behind it for the console.
type Admin struct {
	*endpoint.Base
	bus      *bus.Bus
	secret   *apikey.Secret
	accounts *accounts.Accounts
	ctx      context.Context // for calls to other components
}

// New returns the endpoints for admins.
func New(base *endpoint.Base, deps Deps) *Admin {
	return &Admin{Base: base, bus: deps.Bus, secret: deps.Secret, accounts: deps.Accounts, ctx: base.HTTP().Context()}
}
