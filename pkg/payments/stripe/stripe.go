// Package stripe implements payments.Provider with Stripe: Checkout for payments and subscriptions, its customer portal,
// webhooks, and off-session charges of saved payment methods.
//
// The package stores nothing. Metadata of Stripe's objects says which account paid for what, and finds an account's customer. It
// includes the installation, so several installations can share a Stripe account.
package stripe

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/stripe/stripe-go/v82"

	"quire.dev/pkg/config"
	"quire.dev/pkg/payments"
)

// Config is what a Provider needs. Zero values of the optional fields mean their defaults.
//
// A restricted key needs to write Customers, Checkout Sessions, Customer portal, PaymentIntents, Products and Subscriptions, and to read
// Charges and Refunds, Disputes, Events, Invoices and PaymentMethods.
type Config struct {
	Key           config.Secret // the secret or restricted API key
	WebhookSecret config.Secret // the signing secret of the webhook endpoint
	Installation  string        // tells installations apart that share a Stripe account: 1 to 64 of [A-Za-z0-9_-]
	AutomaticTax  bool          // Checkout adds tax by Stripe Tax on top of prices; Charge adds none
	Invoices      bool          // Checkout also creates an invoice for credits, which Stripe charges for; plans always have one
	URL           string        // base URL of the API; "" is Stripe's
	Timeout       time.Duration // of one HTTP request; 0 is 10 s. A call with its retries takes at most four times as long
	MaxRetries    int           // of one request whose connection failed, with exponential backoff; 0 is 2, -1 is none
}

// Validate reports everything that is wrong, without showing secrets.
func (c Config) Validate() error {
	var errs []error
	if c.Key == "" {
		errs = append(errs, errors.New("Key: missing"))
	}
	if !strings.HasPrefix(c.WebhookSecret.Reveal(), "whsec_") {
		errs = append(errs, errors.New("WebhookSecret: must be a signing secret, which begins with whsec_"))
	}
	if !plain(c.Installation) {
		errs = append(errs, errors.New("Installation: must be 1 to 64 of A-Z, a-z, 0-9, _ and -"))
	}
	if c.Timeout < 0 || c.MaxRetries < -1 || c.MaxRetries > 5 {
		errs = append(errs, errors.New("Timeout must not be negative, and MaxRetries from -1 to 5"))
	}
	return errors.Join(errs...)
}

// Provider is Stripe as a payments.Provider. It is safe for concurrent use and holds no state but idle connections.
type Provider struct {
	config Config
	api    *stripe.Client
}

var _ payments.Provider = (*Provider)(nil)

// New returns a provider that uses config. It makes no request.
func New(config Config) (*Provider, error) {
	if err := config.Validate(); err != nil {
		return nil, fmt.Errorf("stripe: %w", err)
	}
	if config.Timeout == 0 {
		config.Timeout = 10 * time.Second
	}
	if config.MaxRetries == 0 {
		config.MaxRetries = 2
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost = 16 // a reconciliation reads many payments at once
	options := &stripe.BackendConfig{
		EnableTelemetry:   stripe.Bool(false),
		HTTPClient:        &http.Client{Timeout: config.Timeout, CheckRedirect: keepRedirect, Transport: transport},
		LeveledLogger:     &stripe.LeveledLogger{Level: stripe.LevelNull}, // errors are returned, and its log lines hold too much
		MaxNetworkRetries: stripe.Int64(int64(max(0, config.MaxRetries))),
	}
	if config.URL != "" {
		options.URL = stripe.String(config.URL)
	}
	backend := stripe.GetBackendWithConfig(stripe.APIBackend, options)
	api := stripe.NewClient(config.Key.Reveal(), stripe.WithBackends(&stripe.Backends{API: backend, Connect: backend, Uploads: backend, MeterEvents: backend}))
	return &Provider{config: config, api: api}, nil
}

// keepRedirect keeps the client from following a redirect, which would send the API key to another place.
func keepRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// Name implements payments.Provider.
func (p *Provider) Name() string { return "stripe" }

// bounded limits a method to a few requests' time. stripe-go retries what failed on the way, and lock timeouts, but no 5xx. It
// waits up to 5 s in between without regard to the context, so a method may return that much later.
func (p *Provider) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, 4*p.config.Timeout)
}

// idempotencyKey scopes a key to the installation, an operation and an account: a Stripe account has one space of keys, and
// refuses a key that comes back with other parameters. It takes up to 255 bytes.
func (p *Provider) idempotencyKey(operation, account, key string) *string {
	return stripe.String("quire-" + p.config.Installation + "-" + operation + "-" + account + "-" + key)
}

// plain reports whether a text can be put into a search query and an idempotency key without quoting.
func plain(text string) bool {
	letters := "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-"
	return text != "" && len(text) <= 64 && strings.Trim(text, letters) == ""
}
