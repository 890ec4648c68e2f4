package admin

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/gofiber/fiber/v2"

	"quire.dev/pkg/event"
	"quire.dev/pkg/plan"
	"quire.dev/services/edge/internal/endpoint"
)

const (
	revenueMonths = 12  // the present one included
	maxFailures   = 100 // of a partition
)

type revenueView struct {
	endpoint.Success
	Revenue
}

// Revenue is what was paid, what accounts can still spend, and what could not be charged.
type Revenue struct {
	Months         []MonthRevenue `json:"months"` // newest first
	Outstanding    CreditSum      `json:"outstanding"`
	Owed           CreditSum      `json:"owed"`
	Subscriptions  Subscriptions  `json:"subscriptions"`
	FailingTopUps  uint64         `json:"failingTopUps"`
	FailedPayments []FailedCharge `json:"failedPayments"`
}

// MonthRevenue is what was paid in a month.
type MonthRevenue struct {
	Period   string `json:"period"`
	Payments uint64 `json:"payments"`
	Amount   string `json:"amountUsd"`
	Tax      string `json:"taxUsd"`
	Refunded string `json:"refundedUsd"`
	Credits  string `json:"credits"`
}

// CreditSum is an amount of credits of some accounts together.
type CreditSum struct {
	Credits  string `json:"credits"`
	Accounts uint64 `json:"accounts"`
}

// Subscriptions counts plans that are paid monthly.
type Subscriptions struct {
	Active  uint64 `json:"active"`
	PastDue uint64 `json:"pastDue"`
}

// FailedCharge is a plan's fee or a top-up that could not be charged.
type FailedCharge struct {
	Account  string  `json:"account"`
	Plan     *string `json:"plan"`   // whose fee it is; null: it is a top-up
	Reason   *string `json:"reason"` // of a top-up
	TopUpOff bool    `json:"topUpOff"`
}

// revenue answers with what was paid in the last twelve months.
func (s *Admin) revenue(c *endpoint.Call) error {
	sums, err := s.Revenue()
	if err != nil {
		return err
	}
	return s.JSON(c.Ctx, fiber.StatusOK, revenueView{endpoint.Succeeded(), *sums})
}

// Revenue adds up what all partitions of billing know.
func (s *Admin) Revenue() (*Revenue, error) {
	now := s.Now().UTC()
	since := time.Date(now.Year(), now.Month()-revenueMonths+1, 1, 0, 0, 0, 0, time.UTC)
	parts, err := s.bus.Revenue(s.ctx, since, maxFailures)
	if err != nil {
		return nil, err
	}
	out := &Revenue{Months: []MonthRevenue{}, FailedPayments: []FailedCharge{}}
	var outstanding, owed uint64
	months := map[string]*event.MonthRevenue{}
	for _, p := range parts {
		outstanding += p.OutstandingMicros
		owed += p.OwedMicros
		out.Outstanding.Accounts += p.OutstandingAccounts
		out.Owed.Accounts += p.OwingAccounts
		out.Subscriptions.Active += p.Subscriptions
		out.Subscriptions.PastDue += p.PastDue
		out.FailingTopUps += p.FailingTopUps
		for _, m := range p.Months {
			add(months, m)
		}
		for _, f := range p.Failures {
			out.FailedPayments = append(out.FailedPayments, failedCharge(f))
		}
	}
	out.Outstanding.Credits, out.Owed.Credits = plan.Credits(outstanding), plan.Credits(owed)
	for _, period := range slices.Backward(slices.Sorted(maps.Keys(months))) {
		m := months[period]
		out.Months = append(out.Months, MonthRevenue{
			Period: period, Payments: m.Payments, Amount: plan.Dollars(m.AmountCents), Tax: plan.Dollars(m.TaxCents),
			Refunded: plan.Dollars(m.ReversedCents), Credits: plan.Credits(m.CreditsMicros),
		})
	}
	slices.SortFunc(out.FailedPayments, func(a, b FailedCharge) int {
		return cmp.Or(cmp.Compare(a.Account, b.Account), cmp.Compare(endpoint.Optional(a.Plan), endpoint.Optional(b.Plan)))
	})
	out.FailedPayments = out.FailedPayments[:min(len(out.FailedPayments), maxFailures)]
	return out, nil
}

func add(months map[string]*event.MonthRevenue, m *event.MonthRevenue) {
	sum := months[m.Period]
	if sum == nil {
		sum = &event.MonthRevenue{}
		months[m.Period] = sum
	}
	sum.Payments += m.Payments
	sum.AmountCents += m.AmountCents
	sum.TaxCents += m.TaxCents
	sum.ReversedCents += m.ReversedCents
	sum.CreditsMicros += m.CreditsMicros
}

func failedCharge(f *event.FailedCharge) FailedCharge {
	out := FailedCharge{Account: event.AccountID(f.Account).String(), Reason: endpoint.OptionalText(f.Reason), TopUpOff: f.Off}
	if f.Tier != 0 {
		out.Plan = new(plan.Tier(f.Tier).Name(f.Plan))
	}
	return out
}
