package console

import (
	"time"

	"github.com/gofiber/fiber/v2"

	"quire.dev/pkg/event"
	"quire.dev/pkg/plan"
)

const (
	// MostGrants are those that the page of the credits shows.
	MostGrants = 30
	// LatestEntries are those of the ledger that the page of the credits shows.
	LatestEntries = 10

	shownMonths = 12 // of statements; earlier ones are reached from there
)

// Billing is what an account has and pays: its credits, statements, spending caps and alerts.
type Billing struct {
	Holder   Holder
	Usage    *event.UsageAnswer // with its keys and grants
	Keys     []Key
	Latest   []Entry // of the ledger
	Webhooks int
}

// Billing shows what an account has and pays.
func (c *Console) Billing(ctx *fiber.Ctx, b *Billing) error {
	return c.render(ctx, page{template: "billing", title: "Billing", section: BillingPath, holder: b.Holder, data: b})
}

// Free tells whether the plan has no further requests for credits.
func (b *Billing) Free() bool { return plan.Tier(b.Usage.Tier) == plan.Free }

// Month is the month that is counted.
func (b *Billing) Month() string { return utc(b.Usage.PeriodStartMs).Format("January 2006") }

// Grants are those with credits left, the next one to be spent first.
func (b *Billing) Grants() (out []Grant) {
	for _, g := range b.Usage.Grants {
		out = append(out, Grant{g})
	}
	return out
}

// MoreGrants is how many there are beside those.
func (b *Billing) MoreGrants() string {
	if rest := int(b.Usage.GrantCount) - len(b.Usage.Grants); rest > 0 {
		return number(rest)
	}
	return ""
}

// Grant is an amount of credits that the account was given.
type Grant struct{ *event.HeldGrant }

// Bar is the part that is left.
func (g Grant) Bar() *bar {
	return &bar{Within: part(min(g.LeftMicros, g.AmountMicros), g.AmountMicros, barWidth)}
}

// Months are those that have a statement, the present one first.
func (b *Billing) Months() (out []Month) {
	at := utc(b.Usage.PeriodStartMs)
	for len(out) < shownMonths {
		out = append(out, Month{at.Format("2006-01"), at.Format("January 2006")})
		if at.UnixMilli() <= b.Usage.CreatedMs {
			break
		}
		at = at.AddDate(0, -1, 0)
	}
	return out
}

// Month is a month as the path of its statement has it, and in words.
type Month struct{ Period, Name string }

// Cap is the spending cap of the account; nil where there is none.
func (b *Billing) Cap() *Cap { return capOf(b.Usage.Cap) }

// Capped are the keys that work and have a spending cap of their own.
func (b *Billing) Capped() (out []Key) {
	for _, k := range b.Keys {
		if k.Live() && k.Cap != nil {
			out = append(out, k)
		}
	}
	return out
}

// isDay tells whether a text is a day as a field for days has it.
func isDay(text string) bool {
	_, err := time.Parse(time.DateOnly, text)
	return err == nil
}
