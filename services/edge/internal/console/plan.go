package console

import (
	"cmp"
	"html/template"
	"net/mail"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/gofiber/fiber/v2"

	"quire.dev/pkg/event"
	"quire.dev/pkg/payments"
	"quire.dev/pkg/plan"
	"quire.dev/services/edge/internal/pages"
	"quire.dev/services/edge/internal/purchases"
)

// ShownPayments is the number of payments on the plan's page.
const ShownPayments = 20

// Plan is the page of the account's plan and payments.
type Plan struct {
	Holder   Holder
	Answer   *event.PlanAnswer
	Usage    *event.UsageAnswer // nil unless Reached is set
	Book     *plan.Book         // in force
	Online   bool               // payments are taken online: the page has the forms
	Contact  string             // where account holders ask; empty if not known
	Paid     bool               // a page of the provider has led here after a payment
	Reached  plan.QuotaKey      // whose limit was reached; 0: none
	Payments *event.PaymentsAnswer
	Before   uint64 // number of the payment before which the page of payments ends; 0: the newest page

	Order, Credits, Portal, Cancel, TopUp *Form
	Done                                  string
}

// Plan shows the plan's page. status is fiber.StatusOK, or the error status of a refused form.
func (c *Console) Plan(ctx *fiber.Ctx, status int, p *Plan) error {
	return c.render(ctx, page{template: "plan", title: "Plan", section: BillingPath, done: p.Done, status: status, data: p, styles: []string{"plan"}})
}

// Leave leads to a page of the payment provider. A redirect would not: the policy of our pages lets forms lead to this site
// alone, redirects included, and the provider's pages may be on any host.
func (c *Console) Leave(ctx *fiber.Ctx, to string) error {
	ctx.Set("Refresh", "0; url="+to)
	return c.render(ctx, page{template: "leave", title: "To the payment provider", section: BillingPath, data: template.URL(to)}) //nolint:gosec // as the provider gave it
}

// The forms of the plan's page.

// OrderPlan is the form to pay for a plan.
func OrderPlan(account, once string) *Form {
	return &Form{ID: "order", Action: CheckoutPath, Account: account, Once: once, Values: map[string]string{}, fields: []Field{
		{Name: "plan", Label: "Plan", Subject: "The plan"},
		{Name: NowField, Label: "Switch to a cheaper plan now"},
	}}
}

// BuyCredits is the form to buy credits.
func BuyCredits(account, once string, price plan.Micros) *Form {
	return &Form{ID: "buy", Action: CheckoutPath, Account: account, Once: once, Values: map[string]string{}, fields: []Field{
		{Name: "credits", Label: "Credits", Type: "text", Most: 20, Required: true, Hint: "For example 500. A credit costs $" + plainDollars(price) + ".", Subject: "The amount"},
	}}
}

// Checkout is the form that was sent to CheckoutPath: either of the two.
func Checkout(account string) *Form {
	return &Form{ID: "order", Action: CheckoutPath, Account: account, Values: map[string]string{}, fields: []Field{
		{Name: "plan", Subject: "The plan"}, {Name: NowField}, {Name: "credits", Subject: "The amount"},
	}}
}

// OpenPortal is the form that leads to the provider's page of payment methods and invoices.
func OpenPortal(account, once string) *Form {
	return &Form{ID: "portal", Action: PortalPath, Account: account, Once: once, Values: map[string]string{}}
}

// CancelPlan is the form that cancels the subscription.
func CancelPlan(account, once string) *Form {
	return &Form{ID: "cancel", Action: CancelPath, Account: account, Once: once, Values: map[string]string{}}
}

// SetTopUp is the form of automatic top-ups. rule is the one in force; nil for none.
func SetTopUp(account, once string, rule *event.SetTopUp) *Form {
	f := &Form{ID: "top-up", Action: TopUpPath, Account: account, Once: once, Values: map[string]string{}, fields: []Field{
		{Name: "below", Label: "When the balance falls below", Type: "text", Most: 20, Required: true, Hint: "In credits, for example 50.", Subject: "The balance"},
		{Name: "credits", Label: "Buy", Type: "text", Most: 20, Required: true, Hint: "Credits each time, for example 500.", Subject: "The amount"},
		{Name: "monthlyLimit", Label: "At most per month", Type: "text", Most: 20, Required: true, Hint: "In credits, for example 2000.", Subject: "The monthly limit"},
		{Name: OffField},
	}}
	if rule.GetCreditsMicros() > 0 {
		f.Values["below"], f.Values["credits"], f.Values["monthlyLimit"] = plan.Short(rule.BelowMicros), plan.Short(rule.CreditsMicros), plan.Short(rule.MonthMicros)
	}
	return f
}

// NowField is the name of the box that has a cheaper plan begin at once.
const NowField = "now"

// OffField is the name of the button that turns top-ups off.
const OffField = "off"

// plainDollars formats an amount with at least two decimal places.
func plainDollars(m plan.Micros) string {
	whole, rest, _ := strings.Cut(m.String(), ".")
	return whole + "." + rest[:2] + strings.TrimRight(rest[2:], "0")
}

// Tier is the account's plan.
func (p *Plan) Tier() plan.Tier { return plan.Tier(p.Answer.Tier) }

// Name is the display name of the account's plan.
func (p *Plan) Name() string { return p.Tier().Title(p.Answer.Plan) }

// Fee is the monthly fee of the account's plan; empty without one. A subscription keeps the one that it began with.
func (p *Plan) Fee() string {
	if s := purchases.Subscription(p.Answer); s != nil && plan.Tier(s.Tier) == p.Tier() {
		return feeText(purchases.Fee(s, p.Book))
	}
	return feeText(p.Book.Plans[p.Tier()].FeeCents)
}

// Next is the display name of the plan from the next month on; empty if it stays the same.
func (p *Plan) Next() string {
	if p.Answer.NextTier == 0 || p.Answer.NextTier == p.Answer.Tier {
		return ""
	}
	return plan.Tier(p.Answer.NextTier).Title(p.Answer.NextPlan)
}

// Owed is the amount below zero of the balance, in micro-credits.
func (p *Plan) Owed() uint64 { return uint64(max(0, -p.Answer.BalanceMicros)) }

// Subscription is the subscription that the plan is paid with; nil without one.
func (p *Plan) Subscription() *Subscription {
	s := purchases.Subscription(p.Answer)
	if s == nil {
		return nil
	}
	out := &Subscription{Status: purchases.Status(s), Ends: utc(s.PeriodEndMs).Format(dateFormat + "\u00a02006")}
	if next := purchases.NextPlan(s); next != plan.TierUnspecified {
		out.Next = next.Title(p.Book.Plans[next].Name)
	}
	return out
}

// Subscription is what a plan is paid with.
type Subscription struct {
	Status string // as in the API
	Ends   string // the day on which the next fee is due, or it ends
	Next   string // display name of the plan from then on; empty if it stays, or ends
}

// Renews reports whether the plan is paid and goes on.
func (s *Subscription) Renews() bool { return s.Status == "active" }

// PastDue reports whether the last fee was not paid.
func (s *Subscription) PastDue() bool { return s.Status == "past_due" }

// Canceled reports whether the plan ends with the paid period.
func (s *Subscription) Canceled() bool { return s.Status == "canceled" }

// onSale are the plans of a book, by their fees. The one for admins is not on sale.
func onSale(book *plan.Book) []plan.Tier {
	tiers := slices.DeleteFunc(book.Tiers(), func(t plan.Tier) bool { return t == plan.Admin })
	slices.SortStableFunc(tiers, func(a, b plan.Tier) int { return cmp.Compare(book.Plans[a].FeeCents, book.Plans[b].FeeCents) })
	return tiers
}

// comparedPlan is a column of the comparison.
type comparedPlan struct {
	Name    string
	Current bool
}

// comparedRow is a row of the comparison, with a cell for each plan.
type comparedRow struct {
	Key, About string // Key is empty if it is not about a quota key
	Reached    bool
	Cells      []comparedCell
}

// comparedCell is what a plan includes, and the price of more; empty if more is not sold.
type comparedCell struct {
	Text, More string
	Current    bool
}

// Plans are the columns of the comparison.
func (p *Plan) Plans() (out []comparedPlan) {
	for _, t := range onSale(p.Book) {
		out = append(out, comparedPlan{t.Title(p.Book.Plans[t].Name), t == p.Tier()})
	}
	return out
}

// Rows are the rows of the comparison: the fee, each quota key, and storage.
func (p *Plan) Rows() (out []comparedRow) {
	row := func(key plan.QuotaKey, name, about string, cell func(*plan.Plan) comparedCell) {
		r := comparedRow{Key: name, About: about, Reached: key != 0 && key == p.Reached}
		for _, t := range onSale(p.Book) {
			c := cell(&p.Book.Plans[t])
			c.Current = t == p.Tier()
			r.Cells = append(r.Cells, c)
		}
		out = append(out, r)
	}
	if slices.ContainsFunc(p.Book.Plans[:], func(of plan.Plan) bool { return of.FeeCents > 0 }) {
		row(0, "", "Monthly fee", func(of *plan.Plan) comparedCell {
			return comparedCell{Text: cmp.Or(feeText(of.FeeCents), "none")}
		})
	}
	for _, key := range plan.QuotaKeys() {
		row(key, key.String(), pages.AboutKey(key), func(of *plan.Plan) comparedCell {
			term := of.Terms[key]
			if !term.Overage {
				return comparedCell{Text: offered(term.Limit)}
			}
			return comparedCell{Text: limit(term.Limit), More: plan.Short(term.Price)}
		})
	}
	row(0, "", "Storage", func(of *plan.Plan) comparedCell {
		return comparedCell{Text: strconv.FormatFloat(float64(of.FreeStorageBytes)/plan.GB, 'f', -1, 64) + " GB", More: usd(of.StorageCentsPerGBMonth)}
	})
	return out
}

// feeText is a monthly fee; empty for none.
func feeText(cents uint64) string {
	if cents == 0 {
		return ""
	}
	return usd(cents)
}

// LimitReached says which limit has led the account holder here; empty if none has.
func (p *Plan) LimitReached() string {
	if p.Reached == 0 {
		return ""
	}
	i := slices.IndexFunc(p.Usage.GetUsage(), func(u *event.KeyUsage) bool { return plan.QuotaKey(u.QuotaKey) == p.Reached })
	what := " “" + pages.AboutKey(p.Reached) + "” requests"
	switch {
	case i < 0:
		return ""
	case p.Usage.Usage[i].Limit == 0:
		return "The " + p.Name() + " plan doesn’t include" + what + "."
	case p.Usage.Usage[i].Remaining == 0:
		return "You have used all " + limit(p.Usage.Usage[i].Limit) + what + " of the " + p.Name() + " plan this month."
	}
	return "You have " + limit(p.Usage.Usage[i].Remaining) + what + " left this month on the " + p.Name() + " plan."
}

// planOffer is a plan that can be ordered.
type planOffer struct {
	Value  string // name in the API
	Action string // of the button
	Quiet  bool   // it costs less
	Later  bool   // it begins when the paid period ends, unless asked otherwise
	Keep   bool   // it is the present one: nothing is to be paid
}

// Offers are the other plans with a fee, and the one that is paid if it is to end or change.
func (p *Plan) Offers() (out []planOffer) {
	now, fee := p.Tier(), p.Book.Plans[p.Tier()].FeeCents
	paid := purchases.Subscription(p.Answer)
	if paid != nil {
		now, fee = plan.Tier(paid.Tier), purchases.Fee(paid, p.Book)
	}
	for _, t := range onSale(p.Book) {
		of := &p.Book.Plans[t]
		name := t.Title(of.Name)
		switch {
		case t == now:
			if paid != nil && (paid.Cancels || paid.NextTier != 0) {
				out = append(out, planOffer{Value: of.Name, Action: "Keep " + name, Keep: true})
			}
		case !purchases.Sold(p.Book, t), paid != nil && purchases.NextPlan(paid) == t:
		case of.FeeCents > fee:
			out = append(out, planOffer{Value: of.Name, Action: "Upgrade to " + name})
		default:
			out = append(out, planOffer{Value: of.Name, Action: "Switch to " + name, Quiet: true, Later: paid != nil && purchases.Later(of.FeeCents, fee, paid.PastDue)})
		}
	}
	return out
}

// PaysNow reports whether one of the offers leads to the provider's page.
func (p *Plan) PaysNow() bool {
	return slices.ContainsFunc(p.Offers(), func(o planOffer) bool { return !o.Keep && !o.Later })
}

// PaysLater reports whether one of the offers waits for the end of the paid period.
func (p *Plan) PaysLater() bool {
	return slices.ContainsFunc(p.Offers(), func(o planOffer) bool { return o.Later })
}

// Cancelable reports whether there is a subscription that goes on.
func (p *Plan) Cancelable() bool {
	s := p.Subscription()
	return s != nil && !s.Canceled()
}

// contact is where account holders ask. Link is empty if the text is no address.
type contact struct {
	Text string
	Link template.URL
}

// Ask is where account holders ask; nil if that is not known.
func (p *Plan) Ask() *contact {
	if p.Contact == "" {
		return nil
	}
	out := &contact{Text: p.Contact}
	if to, err := mail.ParseAddress(p.Contact); err == nil && to.Address == p.Contact {
		out.Link = template.URL("mailto:" + url.PathEscape(p.Contact)) //nolint:gosec // an address
	} else if to, err := url.Parse(p.Contact); err == nil && (to.Scheme == "https" || to.Scheme == "http") && to.Host != "" {
		out.Link = template.URL(to.String()) //nolint:gosec // of HTTP
	}
	return out
}

// Refused is the error of a form that the page doesn't have while payments are not taken online; nil without one.
func (p *Plan) Refused() *Problem {
	if p.Online {
		return nil
	}
	for _, f := range []*Form{p.Order, p.Credits, p.Portal, p.Cancel, p.TopUp} {
		if f != nil && f.Wrong() {
			for _, problem := range f.Errors {
				return &problem
			}
		}
	}
	return nil
}

// topUp is the state of automatic top-ups.
type topUp struct {
	Status  string // as in the API
	Bought  uint64 // micro-credits in this month
	Failure string // the last one, as a sentence; empty without one
}

// Rule is the state of automatic top-ups; nil if they are off by choice.
func (p *Plan) Rule() *topUp {
	t := p.Answer.TopUp
	if t.GetRule().GetCreditsMicros() == 0 {
		return nil
	}
	return &topUp{purchases.TopUpStatus(t), t.SpentMicros, payments.FailureText(t.Reason)}
}

// List are the payments of the page.
func (p *Plan) List() (out []Payment) {
	for _, s := range p.Payments.GetPayments() {
		out = append(out, Payment{s})
	}
	return out
}

// OlderPath is the address of the next page of payments; empty on the last page.
func (p *Plan) OlderPath() string {
	list := p.Payments.GetPayments()
	if !p.Payments.GetMore() || len(list) == 0 {
		return ""
	}
	return PlanPath + "?before=" + strconv.FormatUint(list[len(list)-1].Number, 10) + "#payments"
}

// Payment is a payment of an account.
type Payment struct{ *event.PaymentState }

// What names what was bought.
func (p Payment) What() string {
	if name := p.PaymentState.Plan; name != "" {
		return strings.ToUpper(name[:1]) + name[1:] + " plan"
	}
	return amountOf(p.CreditsMicros) + " credits"
}

// Automatic reports whether it is a top-up.
func (p Payment) Automatic() bool { return p.TopUp != 0 }

// Amount is the amount with tax; empty if it is not known.
func (p Payment) Amount() string { return feeText(p.AmountCents) }

// Net is the amount before tax.
func (p Payment) Net() string { return usd(p.AmountCents - min(p.TaxCents, p.AmountCents)) }

// Tax is the tax on it.
func (p Payment) Tax() string { return usd(p.TaxCents) }

// Reversed is the number of credits that were taken back; empty for none.
func (p Payment) Reversed() string {
	if p.ReversedMicros == 0 {
		return ""
	}
	return amountOf(p.ReversedMicros)
}

// Refunded is the part of the amount that was given back; empty for none.
func (p Payment) Refunded() string { return feeText(p.ReversedCents) }

// Path is the path of its receipt.
func (p Payment) Path() string { return PaymentsPath + "/" + strconv.FormatUint(p.Number, 10) }

// Provider is the display name of the payment provider.
func (p Payment) Provider() string {
	switch name := p.PaymentState.Provider; name {
	case "", payments.ManualName:
		return "none: recorded by the operator"
	default:
		return strings.ToUpper(name[:1]) + name[1:]
	}
}

// amountOf formats credits with commas between thousands, and without trailing zeros.
func amountOf(micros uint64) string {
	return strings.TrimSuffix(strings.TrimRight(credits(micros), "0"), ".")
}

// Receipt is the receipt of a payment.
type Receipt struct {
	Holder   Holder
	Payment  Payment
	Operator Operator
}

// Receipt shows a receipt.
func (c *Console) Receipt(ctx *fiber.Ctx, r *Receipt) error {
	return c.render(ctx, page{template: "receipt", title: "Receipt " + r.Number(), section: BillingPath, data: r, script: "print.js"})
}

// Number is the receipt's number, which no other receipt of this installation has.
func (r *Receipt) Number() string {
	return "R-" + r.Holder.Account + "-" + strconv.FormatUint(r.Payment.Number, 10)
}

// Date is the day of the payment.
func (r *Receipt) Date() string { return utc(r.Payment.TimeMs).Format(dateFormat + "\u00a02006") }
