// Package accounts is the endpoints of an account: its user and sessions, its API keys, what it has used and paid, and its webhooks.
package accounts

import (
	"context"
	"log/slog"
	"math"

	"quire.dev/pkg/apikey"
	"quire.dev/services/edge/internal/bus"
	"quire.dev/services/edge/internal/endpoint"
	"quire.dev/services/edge/internal/httpin"
	"quire.dev/services/edge/internal/limit"
	"quire.dev/services/edge/internal/password"
)

// Config says how accounts are made.
type Config struct {
	Partitions     int // of every journal
	PasswordHashes int // of each kind that may run at a time
}

// Deps are the parts that the endpoints of accounts work with.
type Deps struct {
	Bus    *bus.Bus
	Secret *apikey.Secret
	Logger *slog.Logger
}

// Accounts answers the calls about accounts, and carries out what the console and admins do with them.
type Accounts struct {
	*endpoint.Base
	bus    *bus.Bus
	secret *apikey.Secret
	log    *slog.Logger
	http   *httpin.Server
	ctx    context.Context // of calls to other parts

	partitions                       int
	signInHashes, registrationHashes *password.Hasher
	listeners                        *limit.Listeners // that wait for events of their account
}

// New prepares the endpoints of accounts.
func New(base *endpoint.Base, cfg Config, deps Deps) *Accounts {
	return &Accounts{
		Base: base, bus: deps.Bus, secret: deps.Secret, log: deps.Logger, http: base.HTTP(), ctx: base.HTTP().Context(),
		partitions: cfg.Partitions, signInHashes: password.New(cfg.PasswordHashes), registrationHashes: password.New(cfg.PasswordHashes),
		listeners: limit.NewListeners(maxListeners, math.MaxInt),
	}
}
