// Package accounts has the endpoints for accounts: users and sessions, API keys, usage and bills, and webhooks.
package accounts

import (
	"context"
	"log/slog"
	"math"

	"quire.dev/pkg/apikey"
	"quire.dev/pkg/event"
	"quire.dev/services/edge/internal/bus"
	"quire.dev/services/edge/internal/endpoint"
	"quire.dev/services/edge/internal/httpin"
	"quire.dev/services/edge/internal/limit"
	"quire.dev/services/edge/internal/password"
)

// Config configures the creation of accounts.
type Config struct {
	Partitions     int // of every journal
	PasswordHashes int // concurrent hashes of each kind
}

// Deps are the dependencies of Accounts.
type Deps struct {
	Bus    *bus.Bus
	Secret *apikey.Secret
	Logger *slog.Logger
}

// Accounts implements the endpoints for accounts, and the operations behind them for the console and admins.
type Accounts struct {
	*endpoint.Base
	bus    *bus.Bus
	secret *apikey.Secret
	log    *slog.Logger
	http   *httpin.Server
	ctx    context.Context // for calls to other components

	partitions                       int
	signInHashes, registrationHashes *password.Hasher
	listeners                        *limit.Listeners // waiting for events of their account

	beforeDeletion func(event.AccountID) error
}

// New returns the endpoints for accounts.
func New(base *endpoint.Base, cfg Config, deps Deps) *Accounts {
	return &Accounts{
		Base: base, bus: deps.Bus, secret: deps.Secret, log: deps.Logger, http: base.HTTP(), ctx: base.HTTP().Context(),
		partitions: cfg.Partitions, signInHashes: password.New(cfg.PasswordHashes), registrationHashes: password.New(cfg.PasswordHashes),
		listeners: limit.NewListeners(maxListeners, math.MaxInt),
	}
}

// BeforeDeletion has do called before the deletion of an account is scheduled. If it fails, nothing is. Call it before the first request.
func (s *Accounts) BeforeDeletion(do func(event.AccountID) error) { s.beforeDeletion = do }
