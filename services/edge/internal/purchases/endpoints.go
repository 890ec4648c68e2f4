package purchases

import (
	"encoding/binary"
	"errors"
	"net/http"

	"github.com/gofiber/fiber/v2"

	"quire.dev/pkg/event"
	"quire.dev/pkg/num"
	"quire.dev/pkg/payments"
	"quire.dev/pkg/plan"
	"quire.dev/services/edge/internal/accounts"
	"quire.dev/services/edge/internal/endpoint"
	"quire.dev/services/edge/internal/fault"
	"quire.dev/services/edge/internal/httpin/httperr"
	"quire.dev/services/edge/internal/httpin/input"
)

// Rows are the endpoints for plans and payments.
func (p *Purchases) Rows() []endpoint.Row {
	row := endpoint.NewRow
	return []endpoint.Row{
		// method, path, who may call, counted under, body, rules, handler
		row("GET", "/api/users/user/plan", endpoint.KeyOrSession, endpoint.Unmetered, endpoint.NoBody, 0, p.plan),
		row("POST", "/api/users/user/checkout", endpoint.KeyOrSession, endpoint.Unmetered, endpoint.Fields, endpoint.Idempotent|endpoint.Command, p.checkout),
		row("PUT", "/api/users/user/top-up", endpoint.Session, endpoint.Unmetered, endpoint.Fields, endpoint.Idempotent|endpoint.Command, p.setTopUp),
		row("GET", "/api/users/user/payments", endpoint.KeyOrSession, endpoint.Unmetered, endpoint.NoBody, endpoint.OwnQuery, p.list),
		row("POST", "/payments/webhook", endpoint.Anybody, endpoint.Unmetered, endpoint.WebhookJSON, 0, p.webhook),
	}
}

type planView struct {
	endpoint.Success
	Plan         string            `json:"plan"`
	NextPlan     *string           `json:"nextPlan"`   // from the next month on; null: the same
	MonthlyFee   string            `json:"monthlyFee"` // dollars
	Subscription *subscriptionView `json:"subscription"`
	Balance      string            `json:"balance"`
	CreditPrice  string            `json:"creditPrice"` // dollars
	TopUp        *topUpView        `json:"topUp"`       // null: off
	Payments     paymentsView      `json:"payments"`
}

type subscriptionView struct {
	Status     string  `json:"status"`
	PeriodEnds string  `json:"periodEndsAt"` // when the next fee is due, or the plan ends
	NextPlan   *string `json:"nextPlan"`     // from then on; null: the same
	MonthlyFee string  `json:"monthlyFee"`   // dollars, as the subscription began
}

type topUpView struct {
	Below        string  `json:"below"`
	Credits      string  `json:"credits"`
	MonthlyLimit string  `json:"monthlyLimit"`
	ThisMonth    string  `json:"boughtThisMonth"`
	Status       string  `json:"status"`
	Failure      *string `json:"lastFailure"`
}

type paymentsView struct {
	Online  bool    `json:"online"`
	Contact *string `json:"contact"`
}

// plan answers with the account's plan, and what pays for it.
func (p *Purchases) plan(c *endpoint.Call) error {
	if err := p.CheckHolder(c); err != nil {
		return err
	}
	book, err := p.Book()
	if err != nil {
		return err
	}
	now, err := p.PlanOf(c.Who.Account)
	if err != nil {
		return err
	}
	return p.JSON(c.Ctx, fiber.StatusOK, p.viewPlan(now, book))
}

func (p *Purchases) viewPlan(now *event.PlanAnswer, book *plan.Book) planView {
	tier := plan.Tier(now.Tier)
	out := planView{
		Success: endpoint.Succeeded(), Plan: tier.Name(now.Plan), MonthlyFee: plan.Dollars(book.Plans[tier].FeeCents),
		Balance: plan.Credits(now.BalanceMicros), CreditPrice: book.CreditPrice.String(),
		TopUp:    viewTopUp(now.TopUp),
		Payments: paymentsView{p.Online(), endpoint.OptionalText(p.cfg.Contact)},
	}
	if now.NextTier != 0 {
		out.NextPlan = new(plan.Tier(now.NextTier).Name(now.NextPlan))
	}
	if s := Subscription(now); s != nil {
		out.Subscription = &subscriptionView{Status(s), endpoint.FormatTime(s.PeriodEndMs), endpoint.OptionalText(nextPlan(s, book)), plan.Dollars(Fee(s, book))}
	}
	return out
}

// nextPlan is the name of the plan that a subscription goes on with, "" if it stays, or ends.
func nextPlan(s *event.SetSubscription, book *plan.Book) string {
	next := NextPlan(s)
	if next == plan.TierUnspecified {
		return ""
	}
	return next.Name(book.Plans[next].Name)
}

// Fee is a subscription's monthly fee in cents, which it began with. One that was recorded without has the price book's.
func Fee(s *event.SetSubscription, book *plan.Book) uint64 {
	if s.FeeCents == 0 && s.Tier < uint32(plan.MaxTiers) {
		return book.Plans[s.Tier].FeeCents
	}
	return s.FeeCents
}

// NextPlan is the plan that a subscription goes on with after its period, TierUnspecified if it stays, or ends.
func NextPlan(s *event.SetSubscription) plan.Tier {
	if next := plan.Tier(s.NextTier); next.Valid() && !s.Cancels {
		return next
	}
	return plan.TierUnspecified
}

// Status is a subscription's status in a word.
func Status(s *event.SetSubscription) string {
	switch {
	case s.Cancels:
		return "canceled"
	case s.PastDue:
		return "past_due"
	}
	return "active"
}

func viewTopUp(t *event.TopUpState) *topUpView {
	rule := t.GetRule()
	if rule.GetCreditsMicros() == 0 {
		return nil
	}
	return &topUpView{
		Below: plan.Credits(rule.BelowMicros), Credits: plan.Credits(rule.CreditsMicros), MonthlyLimit: plan.Credits(rule.MonthMicros),
		ThisMonth: plan.Credits(t.SpentMicros), Status: TopUpStatus(t), Failure: endpoint.OptionalText(t.Reason),
	}
}

// TopUpStatus is the status of top-ups that are set, in a word.
func TopUpStatus(t *event.TopUpState) string {
	switch {
	case t.Off:
		return "failed"
	case t.DueMs != 0:
		return "charging"
	}
	return "active"
}

type checkoutView struct {
	endpoint.Success
	URL       string  `json:"url"`
	Effective *string `json:"effectiveAt"` // of a plan that begins without a payment
}

// checkout opens a page of the payment provider, or changes what the paid period of a plan ends with.
func (p *Purchases) checkout(c *endpoint.Call) error {
	if err := p.CheckKey(c, plan.ScopeCheckout); err != nil {
		return err
	}
	o, err := ReadOrder(input.JSON(c.Fields))
	if err != nil {
		return err
	}
	opened, err := p.Checkout(c, o)
	if err != nil {
		return err
	}
	if opened.Replayed {
		c.Set(endpoint.HeaderReplayed, "true")
	}
	return p.JSON(c.Ctx, fiber.StatusOK, checkoutView{endpoint.Succeeded(), opened.URL, endpoint.OptionalTime(opened.EffectiveMs)})
}

// ReadOrder reads {plan, when} or {credits}.
func ReadOrder(from input.Source) (o Order, err error) {
	var credits int64
	err = from(input.Fields{
		"plan":    input.To(&o.Plan, input.Line(32)),
		"when":    input.To(&o.When, accounts.WhenField),
		"credits": input.To(&credits, accounts.PositiveField),
	}.Set)
	o.Credits = plan.Micros(credits)
	switch {
	case err != nil:
		return o, err
	case o.Plan == "" && credits == 0:
		return o, httperr.InvalidField("credits", "is required, or plan")
	case o.Plan != "" && credits != 0:
		return o, httperr.InvalidField("credits", "must be left out with plan")
	case o.Plan == "" && o.When != "":
		return o, httperr.InvalidField("when", "must be left out with credits")
	}
	return o, nil
}

type topUpAnswer struct {
	endpoint.Success
	TopUp *topUpView `json:"topUp"`
}

func (p *Purchases) setTopUp(c *endpoint.Call) error {
	set, err := ReadTopUp(input.JSON(c.Fields))
	if err != nil {
		return err
	}
	if err := p.SetTopUp(c, set); err != nil {
		return err
	}
	now, err := p.PlanOf(c.Who.Account)
	if err != nil {
		return err
	}
	return p.JSON(c.Ctx, fiber.StatusOK, topUpAnswer{endpoint.Succeeded(), viewTopUp(now.TopUp)})
}

// ReadTopUp reads {below, credits, monthlyLimit}, of which credits "0" alone turns top-ups off.
func ReadTopUp(from input.Source) (*event.SetTopUp, error) {
	below, credits, month := int64(-1), int64(-1), int64(-1)
	err := from(input.Fields{
		"below":        input.To(&below, accounts.NotNegativeField),
		"credits":      input.To(&credits, accounts.NotNegativeField),
		"monthlyLimit": input.To(&month, accounts.NotNegativeField),
	}.Set)
	switch {
	case err != nil:
		return nil, err
	case credits < 0:
		return nil, httperr.InvalidField("credits", `is required: how many to buy each time, "0" for none`)
	case credits == 0 && (below > 0 || month > 0):
		return nil, httperr.InvalidField("credits", `must be above zero, or the only field: "0" turns top-ups off`).InForm("Enter how many credits to buy each time.")
	case credits == 0:
		return &event.SetTopUp{}, nil
	case below <= 0:
		return nil, httperr.InvalidField("below", "is required, above zero: the balance below which credits are bought").InForm("Enter a balance above zero.")
	case credits < int64(plan.Credit):
		return nil, httperr.InvalidField("credits", `must be at least "1"`).InForm("Buy at least one credit each time.")
	case month < credits:
		return nil, httperr.InvalidField("monthlyLimit", "is required, at least credits: the most that is bought in a month").InForm("Enter at least the amount that is bought each time.")
	}
	return &event.SetTopUp{BelowMicros: uint64(below), CreditsMicros: uint64(credits), MonthMicros: num.Uint64(month)}, nil
}

// SetTopUp sets the rule of the caller's account for top-ups. It needs a saved payment method only once it is applied.
func (p *Purchases) SetTopUp(c *endpoint.Call, set *event.SetTopUp) error {
	if set.CreditsMicros > 0 {
		if !p.Online() {
			return p.notConfigured()
		}
		book, err := p.Book()
		if err != nil {
			return err
		}
		if _, err := sold(book, plan.Micros(num.Int64(set.CreditsMicros))); err != nil {
			return err
		}
	}
	_, err := p.accounts.OwnCommand(c, &event.Command{Action: &event.Command_SetTopUp{SetTopUp: set}})
	return err
}

type listView struct {
	endpoint.Success
	Payments   []paymentView `json:"payments"`
	NextCursor *string       `json:"nextCursor"`
	HasMore    bool          `json:"hasMore"`
}

type paymentView struct {
	ID       string  `json:"id"`
	Number   uint64  `json:"number"` // of the account's payments, from 1
	Time     string  `json:"time"`
	Provider string  `json:"provider"`
	Credits  string  `json:"credits"`
	Reversed string  `json:"creditsReversed"`
	Plan     *string `json:"plan"`      // whose fee was paid; null: credits
	Amount   *string `json:"amountUsd"` // with tax; null: not known
	Tax      *string `json:"taxUsd"`
	Refunded *string `json:"refundedUsd"`
	TopUp    bool    `json:"topUp"`
}

// list answers with a page of the account's payments, newest first.
func (p *Purchases) list(c *endpoint.Call) error {
	limit := uint32(endpoint.DefaultPage)
	var before uint64
	if err := input.QueryFields(c.Ctx, input.Fields{
		"limit": input.To(&limit, endpoint.PageLimit),
		"cursor": func(name string, v input.Value) error {
			cursor, err := endpoint.OpaqueCursor(name, v)
			if err != nil || len(cursor) != 8 {
				return endpoint.InvalidCursor()
			}
			before = binary.BigEndian.Uint64(cursor)
			return nil
		},
	}.Set); err != nil {
		return err
	}
	if err := p.CheckHolder(c); err != nil {
		return err
	}
	page, err := p.PaymentsOf(c.Who.Account, before, int(limit))
	if err != nil {
		return err
	}
	out := listView{Success: endpoint.Succeeded(), Payments: []paymentView{}}
	for _, s := range page.Payments {
		out.Payments = append(out.Payments, viewPayment(s))
	}
	if n := len(page.Payments); page.More && n > 0 {
		out.NextCursor, out.HasMore = endpoint.NextCursor(binary.BigEndian.AppendUint64(nil, page.Payments[n-1].Number))
	}
	return p.JSON(c.Ctx, fiber.StatusOK, out)
}

func viewPayment(s *event.PaymentState) paymentView {
	out := paymentView{
		ID: s.Id, Number: s.Number, Time: endpoint.FormatTime(s.TimeMs), Provider: s.Provider, Credits: plan.Credits(s.CreditsMicros),
		Reversed: plan.Credits(s.ReversedMicros), Plan: endpoint.OptionalText(s.Plan), TopUp: s.TopUp != 0,
	}
	if s.AmountCents > 0 {
		out.Amount, out.Tax, out.Refunded = new(plan.Dollars(s.AmountCents)), new(plan.Dollars(s.TaxCents)), new(plan.Dollars(s.ReversedCents))
	}
	return out
}

// webhook takes a webhook of the payment provider, and looks at what may have changed. The provider sends it again after a failure.
func (p *Purchases) webhook(c *endpoint.Call) error {
	if !p.Online() {
		return endpoint.NotFound()
	}
	provider, err := p.provider(p.ctx)
	if err != nil {
		return p.failed(err)
	}
	header := http.Header{}
	c.Context().Request.Header.VisitAll(func(name, value []byte) { header.Add(string(name), string(value)) })
	ref, err := provider.Receive(header, c.Fields)
	if errors.Is(err, payments.ErrSignature) {
		p.metrics.forged.Inc()
		return p.SourceFailed(c.Ctx, fault.New(fault.Malformed, "The webhook has no valid signature, or is older than five minutes.").Because(err))
	}
	if err != nil {
		return fault.New(fault.Malformed, "The webhook is not one of the payment provider's.").Because(err)
	}
	p.metrics.webhooks.Inc()
	if err := p.Sync(p.ctx, ref); err != nil {
		return p.failed(err)
	}
	return p.JSON(c.Ctx, fiber.StatusOK, endpoint.Succeeded())
}
