package handlers

import (
	"crypto/rand"
	"strconv"

	"github.com/gofiber/fiber/v2"

	"quire.dev/pkg/event"
	"quire.dev/pkg/plan"
	"quire.dev/services/edge/internal/accounts"
	"quire.dev/services/edge/internal/console"
	"quire.dev/services/edge/internal/endpoint"
	"quire.dev/services/edge/internal/fault"
	"quire.dev/services/edge/internal/purchases"
)

// upgradePath is where an account gets a plan with a higher limit of key; 0: of any.
func (s *Handlers) upgradePath(key plan.QuotaKey) string {
	switch {
	case s.upgradeURL != "":
		return s.upgradeURL
	case key == plan.KeyUnspecified:
		return console.PlanPath
	}
	return endpoint.UpgradePath(key.String())
}

// showPlan shows the account's plan and payments.
func (s *Handlers) showPlan(c *endpoint.Call) error {
	return s.showPlanWith(c, fiber.StatusOK, &console.Plan{Done: doneQuery(c), Paid: c.Query("paid") != ""})
}

// showPlanWith shows the plan with a refused form; nil forms are new ones.
func (s *Handlers) showPlanWith(c *endpoint.Call, status int, shown *console.Plan) (err error) {
	account := c.Who.Account
	if shown.Holder, err = s.holder(c); err != nil {
		return err
	}
	if shown.Answer, err = s.purchases.PlanOf(account); err != nil {
		return err
	}
	if shown.Book, err = s.purchases.Book(); err != nil {
		return err
	}
	shown.Online, shown.Contact = s.purchases.Online(), s.purchases.Contact()
	shown.Before, _ = strconv.ParseUint(c.Query("before"), 10, 64) // the newest payments otherwise
	if shown.Payments, err = s.purchases.PaymentsOf(account, shown.Before, console.ShownPayments); err != nil {
		return err
	}
	if key := quotaKeyOf(c.Query("quotaKey")); key != plan.KeyUnspecified {
		if shown.Usage, err = s.UsageOf(c, account, &event.UsageQuery{}); err != nil {
			return err
		}
		shown.Reached = key
	}
	for _, f := range []struct {
		form **console.Form
		make func(account, once string) *console.Form
	}{
		{&shown.Order, console.OrderPlan},
		{&shown.Credits, func(account, once string) *console.Form {
			return console.BuyCredits(account, once, shown.Book.CreditPrice)
		}},
		{&shown.Portal, console.OpenPortal},
		{&shown.Cancel, console.CancelPlan},
		{&shown.TopUp, func(account, once string) *console.Form {
			return console.SetTopUp(account, once, shown.Answer.TopUp.GetRule())
		}},
	} {
		if *f.form == nil {
			*f.form = f.make(shown.Holder.Account, rand.Text())
		}
	}
	return s.console.Plan(c.Ctx, status, shown)
}

// quotaKeyOf is a quota key in a page's address; KeyUnspecified for an unknown one.
func quotaKeyOf(name string) plan.QuotaKey {
	for _, key := range plan.QuotaKeys() {
		if key.String() == name {
			return key
		}
	}
	return plan.KeyUnspecified
}

// checkoutFromPage opens the provider's page for a plan or credits, as checkout does. The same form with another amount, as after
// going back from that page, opens another one.
func (s *Handlers) checkoutFromPage(c *endpoint.Call) error {
	form := console.Checkout(c.Who.Account.String())
	return s.submit(c, form, submission{
		do: func() error {
			name := "credits"
			if form.Values["plan"] != "" {
				name = "plan"
			}
			order, err := purchases.ReadOrder(fieldsOf(form, name))
			if err != nil {
				return err
			}
			if form.Values[console.NowField] != "" {
				order.When = accounts.Now
			}
			if form.Once != "" {
				c.Idem = onceID(c.Who.Account, c.Method(), c.Path(), form.Once+" "+strconv.FormatUint(c.Hash, 16))
			}
			opened, err := s.purchases.Checkout(c, order)
			switch {
			case err != nil:
				return err
			case opened.Paying:
				return s.console.Leave(c.Ctx, opened.URL)
			case opened.EffectiveMs != 0:
				return redirect(c.Ctx, console.Done(console.PlanPath, "plan-later"))
			}
			return redirect(c.Ctx, console.Done(console.PlanPath, "plan-kept"))
		},
		show: func(status int) error {
			shown := &console.Plan{}
			if form.Values["plan"] != "" {
				shown.Order = form.As(console.OrderPlan(form.Account, form.Once))
			} else {
				shown.Credits = form.As(console.BuyCredits(form.Account, form.Once, s.creditPrice()))
			}
			return s.showPlanWith(c, status, shown)
		},
	})
}

// creditPrice is the price of a credit in dollars; 0 if it is not known.
func (s *Handlers) creditPrice() plan.Micros {
	book, err := s.purchases.Book()
	if err != nil {
		return 0
	}
	return book.CreditPrice
}

// openPortalFromPage opens the provider's page for payment methods and invoices.
func (s *Handlers) openPortalFromPage(c *endpoint.Call) error {
	form := console.OpenPortal(c.Who.Account.String(), "")
	return s.submit(c, form, submission{
		do: func() error {
			page, err := s.purchases.Portal(c.Who.Account)
			if err != nil {
				return err
			}
			return s.console.Leave(c.Ctx, page)
		},
		show: func(status int) error { return s.showPlanWith(c, status, &console.Plan{Portal: form}) },
	})
}

// cancelPlanFromPage cancels the subscription at the end of the paid period.
func (s *Handlers) cancelPlanFromPage(c *endpoint.Call) error {
	form := console.CancelPlan(c.Who.Account.String(), "")
	return s.submit(c, form, submission{
		do: func() error {
			return redirectAfter(s.purchases.Cancel(c.Who.Account), c, console.Done(console.PlanPath, "canceled"))
		},
		show: func(status int) error { return s.showPlanWith(c, status, &console.Plan{Cancel: form}) },
	})
}

// setTopUpFromPage sets automatic top-ups, or turns them off, as setTopUp does.
func (s *Handlers) setTopUpFromPage(c *endpoint.Call) error {
	form := console.SetTopUp(c.Who.Account.String(), "", nil)
	return s.submit(c, form, submission{
		do: func() error {
			set, done := &event.SetTopUp{}, "top-up-off"
			if form.Values[console.OffField] == "" {
				var err error
				if set, err = purchases.ReadTopUp(fieldsOf(form, "below", "credits", "monthlyLimit")); err != nil {
					return err
				}
				if set.CreditsMicros > 0 {
					done = "top-up"
				}
			}
			return redirectAfter(s.purchases.SetTopUp(c, set), c, console.Done(console.PlanPath, done))
		},
		show: func(status int) error { return s.showPlanWith(c, status, &console.Plan{TopUp: form}) },
	})
}

// showReceipt shows the printable receipt of a payment.
func (s *Handlers) showReceipt(c *endpoint.Call) error {
	number, err := strconv.ParseUint(c.Param("number"), 10, 63)
	if err != nil || number == 0 || strconv.FormatUint(number, 10) != c.Param("number") {
		return endpoint.NotFound()
	}
	holder, err := s.holder(c)
	if err != nil {
		return err
	}
	page, err := s.purchases.PaymentsOf(c.Who.Account, number+1, 1)
	if err != nil {
		return err
	}
	if len(page.Payments) == 0 || page.Payments[0].Number != number {
		return fault.New(fault.NotFound, "No such payment.")
	}
	return s.console.Receipt(c.Ctx, &console.Receipt{Holder: holder, Payment: console.Payment{PaymentState: page.Payments[0]}, Operator: s.operator})
}
