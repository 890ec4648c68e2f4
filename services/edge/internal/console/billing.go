package console

import (
	"time"

	"github.com/gofiber/fiber/v2"

	"quire.dev/pkg/event"
	"quire.dev/pkg/plan"
)

const (
	// MostGrants is the number of grants on the billing page.
	MostGrants = 30
	// LatestEntries is the number of ledger entries on the billing page.
	LatestEntries = 10

	shownMonths = 12 // of statements, which link to earlier months
)

// Billing is the billing page: credits, statements, spending caps and alerts.
type Billing struct {
	Holder   Holder
	Usage    *event.UsageAnswer // with its keys and grants
	Keys     []Key
	Latest   []Entry // of the ledger
	Webhooks int
}

// Billing shows the billing page.
func (c *Console) Billing(ctx *fiber.Ctx, b *Billing) error {
	return c.render(ctx, page{template: "billing", title: "Billing", section: BillingPath, data: b})
}

// Free reports whether requests of the plan stop at the limit, since it sells none for credits.
func (b *Billing) Free() bool { return plan.Tier(b.Usage.Tier) == plan.Free }

// Month is the current month.
func (b *Billing) Month() string { return utc(b.Usage.PeriodStartMs).Format("January 2006") }

// Grants have credits left, in the order in which they are spent.
func (b *Billing) Grants() (out []Grant) {
	for _, g := range b.Usage.Grants {
		out = append(out, Grant{g})
	}
	return out
}

// MoreGrants is the number of grants that Grants leaves out; empty for none.
func (b *Billing) MoreGrants() string {
	if rest := int(b.Usage.GrantCount) - len(b.Usage.Grants); rest > 0 {
		return number(rest)
	}
	return ""
}

// Grant is an amount of credits granted to the account.
type Grant struct{ *event.HeldGrant }

// Bar shows the part of the grant that is left.
func (g Grant) Bar() *bar {
	return &bar{Within: part(min(g.LeftMicros, g.AmountMicros), g.AmountMicros, barWidth)}
}

// Months are the latest months with a statement, newest first.
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

// Month is a month in the form of its statement's path, and in words.
type Month struct{ Period, Name string }

// Cap is the account's spending cap; nil if not set.
func (b *Billing) Cap() *Cap { return capOf(b.Usage.Cap) }

// Capped are the active keys with a spending cap.
func (b *Billing) Capped() (out []Key) {
	for _, k := range b.Keys {
		if k.Live() && k.Cap != nil {
			out = append(out, k)
		}
	}
	return out
}

// isDay reports whether text has the format of an HTML date field.
func isDay(text string) bool {
	_, err := time.Parse(time.DateOnly, text)
	return err == nil
}
