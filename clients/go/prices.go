package client

import (
	"context"
	"net/http"
	"net/url"
	"time"
)

// PriceBook has the plans and prices from a time on.
type PriceBook struct {
	ID          string    `json:"id"`
	EffectiveAt time.Time `json:"effectiveAt"` // when it came or comes into force
	CreditPrice string    `json:"creditPrice"` // US dollars for a credit, such as "1.00"
	Anonymous   struct {
		Limit         int64 `json:"limit"` // quick pastes of one source without an API key
		WindowSeconds int64 `json:"windowSeconds"`
	} `json:"anonymous"`
	Plans []PricedPlan `json:"plans"`
}

// PricedPlan is a plan of a price book.
type PricedPlan struct {
	Name       string        `json:"name"`       // as in AccountInfo.Tier
	MonthlyFee string        `json:"monthlyFee"` // US dollars, such as "29.00"
	Quotas     []PricedQuota `json:"quotas"`
	Storage    struct {
		IncludedBytes   int64  `json:"includedBytes"`
		PricePerGBMonth string `json:"pricePerGBMonth"` // US dollars, such as "0.03"
	} `json:"storage"`
}

// PricedQuota is a quota key on a plan.
type PricedQuota struct {
	QuotaKey string   `json:"quotaKey"`
	Limit    *int64   `json:"limit"` // calls a month; nil: unlimited
	Price    *Credits `json:"price"` // of a call over quota; nil: none are sold
}

// Prices are the price book in force and the upcoming ones, in the order of their times.
type Prices struct {
	Meta
	Current  PriceBook   `json:"current"`
	Upcoming []PriceBook `json:"upcoming"`
}

// Prices returns the plans and prices. It needs no API key.
func (a *Account) Prices(ctx context.Context, options ...CallOption) (*Prices, error) {
	return fetch[Prices](ctx, a.c, newRequest(http.MethodGet, "/api/prices", options))
}

// FoundPriceBook is one price book.
type FoundPriceBook struct {
	Meta
	Book PriceBook `json:"book"`
}

// PriceBook returns a price book, which may be past, in force or upcoming. It needs no API key.
func (a *Account) PriceBook(ctx context.Context, id string, options ...CallOption) (*FoundPriceBook, error) {
	return fetch[FoundPriceBook](ctx, a.c, newRequest(http.MethodGet, "/api/prices/"+url.PathEscape(id), options))
}
