// Package admin is the API of admins: accounts and what they may use, the log of what admins did, and audits.
package admin

import (
	"context"

	"quire.dev/pkg/apikey"
	"quire.dev/services/edge/internal/accounts"
	"quire.dev/services/edge/internal/bus"
	"quire.dev/services/edge/internal/endpoint"
)

// Deps are the parts that the endpoints of admins work with.
type Deps struct {
	Bus      *bus.Bus
	Secret   *apikey.Secret
	Accounts *accounts.Accounts
}

// Admin answers the calls of admins, and carries out what they do in the console.
type Admin struct {
	*endpoint.Base
	bus      *bus.Bus
	secret   *apikey.Secret
	accounts *accounts.Accounts
	ctx      context.Context // of calls to other parts
}

// New prepares the endpoints of admins.
func New(base *endpoint.Base, deps Deps) *Admin {
	return &Admin{Base: base, bus: deps.Bus, secret: deps.Secret, accounts: deps.Accounts, ctx: base.HTTP().Context()}
}
