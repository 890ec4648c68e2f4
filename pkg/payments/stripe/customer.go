package stripe

import (
	"context"
	"fmt"

	"github.com/stripe/stripe-go/v82"

	"quire.dev/pkg/payments"
)

// find returns the customer of an account, or nil. Stripe's search is behind by up to a minute, and by up to an hour during
// outages (https://docs.stripe.com/search#data-freshness).
func (p *Provider) find(ctx context.Context, account string) (*stripe.Customer, error) {
	if !plain(account) {
		return nil, fmt.Errorf("%w: the account must be 1 to 64 of A-Z, a-z, 0-9, _ and -", payments.ErrInvalid)
	}
	query := fmt.Sprintf("metadata['%s']:'%s' AND metadata['%s']:'%s'", metaInstallation, p.config.Installation, metaAccount, account)
	var oldest *stripe.Customer
	for c, err := range p.api.V1Customers.Search(ctx, &stripe.CustomerSearchParams{SearchParams: stripe.SearchParams{Query: query, Limit: stripe.Int64(100)}}) {
		if err != nil {
			return nil, explain("find the customer", err)
		}
		// Substring matches and stale results are possible, so it is compared.
		if c.Metadata[metaAccount] != account || c.Metadata[metaInstallation] != p.config.Installation || c.Deleted {
			continue
		}
		if oldest == nil || c.Created < oldest.Created {
			oldest = c
		}
	}
	return oldest, nil
}

// customer returns the ID of an account's customer, creating the customer if necessary. Until the search finds a new customer, Stripe
// returns it for the idempotency key, which it keeps for at least 24 hours. The parameters depend on the account alone, since Stripe
// refuses a key that is reused with other parameters; the email is set by a separate request.
func (p *Provider) customer(ctx context.Context, of payments.Customer) (string, error) {
	c, err := p.find(ctx, of.Account)
	if err != nil {
		return "", err
	}
	if c == nil {
		params := &stripe.CustomerCreateParams{Metadata: map[string]string{metaInstallation: p.config.Installation, metaAccount: of.Account}}
		params.IdempotencyKey = p.idempotencyKey("customer", of.Account, "")
		if c, err = p.api.V1Customers.Create(ctx, params); err != nil {
			return "", explain("create the customer", err)
		}
	}
	if of.Email != "" && c.Email != of.Email {
		_, err := p.api.V1Customers.Update(ctx, c.ID, &stripe.CustomerUpdateParams{Email: stripe.String(of.Email)})
		if err != nil && !refused(err) { // an address that Stripe does not accept gets no receipts
			return "", explain("set the customer's email", err)
		}
	}
	return c.ID, nil
}
