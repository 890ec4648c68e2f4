package endpoint

import (
	"context"

	"github.com/gofiber/fiber/v2"

	"quire.dev/pkg/event"
	"quire.dev/pkg/plan"
	"quire.dev/services/edge/internal/pages"
)

// knownUser is the key of the user whose session a request has, or opens: rememberUser.
type knownUser struct{}

// rememberUser keeps the user for the header of the page that answers the request; nil: nobody is signed in.
func rememberUser(c *fiber.Ctx, user *event.User) { c.Context().SetUserValue(knownUser{}, user) }

// Visitor is the user whose session the request has, or opens; nil without one. A page is shown in any case, so that it is nil
// too if billing does not know the session in time, and without plan and balance if it does not know these.
func (s *Base) Visitor(c *fiber.Ctx) *pages.Visitor {
	user, known := c.Context().UserValue(knownUser{}).(*event.User)
	ctx, cancel := context.WithTimeout(s.ctx, QuotaNowWait)
	defer cancel()
	if !known {
		user, _ = s.sessionUser(ctx, c)
	}
	if user == nil {
		return nil
	}
	out := &pages.Visitor{Email: user.Email}
	account := event.AccountID(user.Account)
	a, err := s.bus.Query(ctx, account, &event.Query{Query: &event.Query_Usage{Usage: &event.UsageQuery{}}})
	if u := a.GetUsage(); err == nil && u != nil {
		out.Plan, out.Balance = plan.Tier(u.Tier).Title(u.Plan), pages.Credits(u.BalanceMicros)
	}
	return out
}
