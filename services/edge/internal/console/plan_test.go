package console

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/gofiber/fiber/v2"

	"quire.dev/pkg/event"
	"quire.dev/pkg/plan"
	"quire.dev/services/edge/internal/pages"
)

// withFees is the published book with fees, and with a further plan.
func withFees() *plan.Book {
	book := plan.Published(10)
	book.Plans[plan.Pro].FeeCents, book.Plans[plan.Max].FeeCents = 1000, 4900
	book.Plans[9] = book.Plans[plan.Pro]
	book.Plans[9].Name, book.Plans[9].FeeCents = "team", 2900
	return book
}

// planOf is the page of an account on a plan, with all forms.
func planOf(tier plan.Tier, change func(*Plan)) *Plan {
	const account = "AAAAAAAAAAA"
	book := withFees()
	p := &Plan{
		Holder: Holder{account, "grace@example.org"}, Answer: &event.PlanAnswer{Tier: uint32(tier), Plan: book.Plans[tier].Name, BalanceMicros: 12_500_000}, Book: book, Online: true,
		Payments: &event.PaymentsAnswer{}, Order: OrderPlan(account, "once"), Credits: BuyCredits(account, "once", book.CreditPrice), Portal: OpenPortal(account, "once"),
		Cancel: CancelPlan(account, "once"),
	}
	if change != nil {
		change(p)
	}
	if p.TopUp == nil {
		p.TopUp = SetTopUp(account, "once", p.Answer.TopUp.GetRule())
	}
	return p
}

func subscribed(change func(*event.SetSubscription)) func(*Plan) {
	return func(p *Plan) {
		s := &event.SetSubscription{Provider: "stripe", Id: "sub_1", Tier: p.Answer.Tier, Active: true, PeriodEndMs: time.Date(2027, 1, 3, 9, 0, 0, 0, time.UTC).UnixMilli()}
		if change != nil {
			change(s)
		}
		p.Answer.Subscriptions = []*event.SetSubscription{s}
	}
}

// textOf is what a page shows, without its menu and its styles.
func textOf(body string) string {
	_, body, _ = strings.Cut(body, "<main")
	body, _, _ = strings.Cut(body, "</main>")
	body = regexp.MustCompile(`<[^>]*>`).ReplaceAllString(body, " ")
	return strings.Join(strings.Fields(strings.NewReplacer("&#39;", "'", "\u00a0", " ").Replace(body)), " ")
}

func TestThePlanIsSaidInWords(t *testing.T) {
	c := New(pages.New())
	usage := func(used, limit, remaining int64) *event.UsageAnswer {
		return &event.UsageAnswer{Usage: []*event.KeyUsage{{QuotaKey: uint32(plan.PastesCreate), Used: uint64(used), Limit: limit, Remaining: remaining}}}
	}
	for name, test := range map[string]struct {
		page        *Plan
		says, hides []string
	}{
		"free": {
			planOf(plan.Free, nil),
			[]string{"Current plan Free No monthly fee.", "12.50 credits", "Upgrade to Pro", "Upgrade to Team", "Upgrade to Max", "A credit costs $1.00.", "Automatic top-up", "Off.", "No payments yet.", "Free current Pro Team Max", "$29.00", "500 then 0.002"},
			[]string{"Admin", "Switch to", "Cancel", "unused part", "ask whoever", "Thank you"},
		},
		"a subscription": {
			planOf(plan.Pro, subscribed(nil)),
			[]string{"Pro $10.00 per month Renews on 3 January 2027.", "Upgrade to Team", "Upgrade to Max", "Cancel the Pro plan", "stays active until 3 January 2027", "unused part"},
			[]string{"Upgrade to Pro", "Switch to Pro", "past due", "cheaper plan"},
		},
		"one that changes with its period": {
			planOf(plan.Max, subscribed(func(s *event.SetSubscription) { s.NextTier = uint32(plan.Pro) })),
			[]string{
				"Max $49.00 per month Changes to the Pro plan on 3 January 2027.", "Keep Max", "Switch to Team", "Switch to a cheaper plan now",
				"A cheaper plan begins when the period you have paid for ends, on 3 January 2027, and nothing", "Cancel the Max plan",
			},
			[]string{"Renews", "Switch to Pro", "You pay on"},
		},
		"one that changes with its period, to the only other plan": {
			planOf(plan.Pro, func(p *Plan) {
				p.Book.Plans[9].FeeCents, p.Book.Plans[plan.Max].FeeCents = 0, 0
				subscribed(func(s *event.SetSubscription) { s.NextTier = uint32(plan.Max) })(p)
			}),
			[]string{"Changes to the Max plan on 3 January 2027.", "Keep Pro"},
			[]string{"You pay on", "cheaper plan"},
		},
		"one that is past due, and changes": {
			planOf(plan.Max, subscribed(func(s *event.SetSubscription) { s.PastDue, s.NextTier = true, uint32(plan.Pro) })),
			[]string{"Payment past due. Pro plan from 3 January 2027.", "Keep Max", "Switch to Team", "You pay on"},
			[]string{"cheaper plan", "unused part"},
		},
		"one that began with another fee": {
			planOf(plan.Pro, subscribed(func(s *event.SetSubscription) { s.FeeCents = 5900 })),
			[]string{"Pro $59.00 per month Renews", "Switch to Team", "Switch to Max", "A cheaper plan begins"},
			[]string{"Upgrade", "You pay on"},
		},
		"a plan of the operator's beside a subscription": {
			planOf(plan.Max, func(p *Plan) {
				subscribed(nil)(p)
				p.Answer.Subscriptions[0].Tier = uint32(plan.Pro)
			}),
			[]string{"Max $49.00 per month", "Upgrade to Team", "Upgrade to Max", "unused part"},
			[]string{"Switch to", "cheaper plan"},
		},
		"one that was canceled, of a plan that is not on sale any more": {
			planOf(9, func(p *Plan) {
				subscribed(func(s *event.SetSubscription) { s.Cancels, s.FeeCents = true, 2900 })(p)
				p.Book.Plans[9].FeeCents = 0
			}),
			[]string{"Keep Team", "Switch to Pro", "Upgrade to Max"},
			[]string{"Cancel the"},
		},
		"one that is past due": {
			planOf(plan.Max, subscribed(func(s *event.SetSubscription) { s.PastDue = true })),
			[]string{"Past due: the last payment failed. Update your payment method", "Payment past due.", "Switch to Pro", "Switch to Team", "Cancel the Max plan"},
			[]string{"Renews", "Upgrade to"},
		},
		"one that was canceled": {
			planOf(9, subscribed(func(s *event.SetSubscription) { s.Cancels = true })),
			[]string{"Team $29.00 per month Canceled. Ends on 3 January 2027.", "Switch to Pro", "Upgrade to Max"},
			[]string{"Renews", "Cancel the"},
		},
		"another plan from next month": {
			planOf(plan.Pro, func(p *Plan) { p.Answer.NextTier = uint32(plan.Free) }), []string{"Free plan from next month."}, []string{"Cancel the"},
		},
		"a debt": {
			planOf(plan.Pro, func(p *Plan) { p.Answer.BalanceMicros = -3_000_000 }), []string{"Balance 3 credits owed"}, nil,
		},
		"a limit": {
			planOf(plan.Pro, func(p *Plan) { p.Reached, p.Usage = plan.PastesCreate, usage(500, 500, 0) }),
			[]string{"You have used all 500 “Create a paste” requests of the Pro plan this month.", "pastes.create your limit"},
			nil,
		},
		"a request that the plan has not": {
			planOf(plan.Free, func(p *Plan) { p.Reached, p.Usage = plan.PastesCreate, usage(0, 0, 0) }),
			[]string{"The Free plan doesn’t include “Create a paste” requests."},
			nil,
		},
		"a limit that is not reached any more": {
			planOf(plan.Pro, func(p *Plan) { p.Reached, p.Usage = plan.PastesCreate, usage(1, 500, 499) }),
			[]string{"You have 499 “Create a paste” requests left this month on the Pro plan."},
			nil,
		},
		"top-ups": {
			planOf(plan.Pro, func(p *Plan) {
				p.Answer.TopUp = &event.TopUpState{Rule: &event.SetTopUp{BelowMicros: 50_000_000, CreditsMicros: 500_000_000, MonthMicros: 2_000_000_000}, SpentMicros: 500_000_000}
			}),
			[]string{"On. 500 credits bought this month.", "Turn off"},
			[]string{"Last failure"},
		},
		"top-ups that failed": {
			planOf(plan.Pro, func(p *Plan) {
				p.Answer.TopUp = &event.TopUpState{Rule: &event.SetTopUp{BelowMicros: 1, CreditsMicros: 1, MonthMicros: 1}, Off: true, Reason: "insufficient_funds"}
			}),
			[]string{"Off after failed payments. Save to turn it on again.", "Last failure: The card has insufficient funds."},
			nil,
		},
		"back from the provider": {
			planOf(plan.Free, func(p *Plan) { p.Paid = true }),
			[]string{"Your purchase appears here as soon as the payment provider confirms the payment, usually within seconds."},
			[]string{"received", "Paid"},
		},
		"not online": {
			planOf(plan.Pro, func(p *Plan) { p.Online, p.Book = false, plan.Published(10) }),
			[]string{"To change your plan or buy credits, ask whoever runs this service.", "Compare plans"},
			[]string{"Upgrade to", "Buy credits", "Turn", "invoices", "Monthly fee"},
		},
		"refused while not online": {
			planOf(plan.Pro, func(p *Plan) {
				p.Online = false
				p.Credits.Refuse("", Problem{Message: "This service takes no payments online."})
			}),
			[]string{"This service takes no payments online."},
			[]string{"Upgrade to"},
		},
		"payments": {
			planOf(plan.Pro, func(p *Plan) {
				p.Payments = &event.PaymentsAnswer{More: true, Payments: []*event.PaymentState{
					{Number: 9, CreditsMicros: 1_500_500_000, AmountCents: 178_560, TaxCents: 28_510, ReversedMicros: 500_000_000, TopUp: 1},
					{Number: 8, Plan: "pro", AmountCents: 1000},
					{Number: 7, CreditsMicros: 1_000_000},
				}}
			}),
			[]string{"1,500.5 credits, automatic top-up 500 credits reversed $1785.60 Receipt", "Pro plan $10.00 Receipt", "1 credits – Receipt", "Older"},
			[]string{"Newest"},
		},
	} {
		body, _ := shown(t, func(ctx *fiber.Ctx) error { return c.Plan(ctx, fiber.StatusOK, test.page) })
		text := textOf(body)
		for _, says := range test.says {
			if !strings.Contains(text, says) {
				t.Errorf("%s: without %q: %s", name, says, text)
			}
		}
		for _, hides := range test.hides {
			if strings.Contains(text, hides) {
				t.Errorf("%s: with %q: %s", name, hides, text)
			}
		}
		if forms := strings.Contains(body, `action="`+PlanPath); forms != test.page.Online {
			t.Errorf("%s: it has forms: %v", name, forms)
		}
	}
}

// TestWhomToAskIsALinkWhereItIsAnAddress: and only to mail or the web.
func TestWhomToAskIsALinkWhereItIsAnAddress(t *testing.T) {
	c := New(pages.New())
	for contact, want := range map[string]string{
		"billing@example.com":           `contact <a href="mailto:billing@example.com">billing@example.com</a>.`,
		"https://example.com/plans?a=b": `contact <a href="https://example.com/plans?a=b">https://example.com/plans?a=b</a>.`,
		"room 7 <b>":                    "contact room 7 &lt;b&gt;.",
		"javascript:alert(1)":           "contact javascript:alert(1).",
	} {
		body, _ := shown(t, func(ctx *fiber.Ctx) error {
			return c.Plan(ctx, fiber.StatusOK, planOf(plan.Free, func(p *Plan) { p.Online, p.Contact = false, contact }))
		})
		if !strings.Contains(body, want) {
			t.Errorf("%s: without %s", contact, want)
		}
	}
}

// TestAPurchaseIsRefusedBesideItsField, with the input kept.
func TestAPurchaseIsRefusedBesideItsField(t *testing.T) {
	c := New(pages.New())
	form := Checkout("AAAAAAAAAAA")
	form.Values["credits"] = "0.1"
	form.Refuse("credits", Problem{Message: "credits must cost from $1 to $10000."})
	body, _ := shown(t, func(ctx *fiber.Ctx) error {
		return c.Plan(ctx, fiber.StatusBadRequest, planOf(plan.Free, func(p *Plan) { p.Credits = form.As(BuyCredits("", "", p.Book.CreditPrice)) }))
	})
	for _, want := range []string{`value="0.1"`, `id="buy-credits-error">The amount must cost from $1 to $10000.`, `aria-invalid="true" autofocus`} {
		if !strings.Contains(body, want) {
			t.Errorf("without %s", want)
		}
	}
}

func TestAReceiptHasWhatWasPaid(t *testing.T) {
	c := New(pages.New())
	paid := &event.PaymentState{
		Provider: "stripe", Id: "pi_1", Number: 7, TimeMs: time.Date(2026, 11, 30, 23, 0, 0, 0, time.UTC).UnixMilli(), CreditsMicros: 500_000_000, AmountCents: 59_500, TaxCents: 9_500,
		ReversedMicros: 1_000_000,
	}
	receipt := func(p *event.PaymentState) string {
		body, _ := shown(t, func(ctx *fiber.Ctx) error {
			return c.Receipt(ctx, &Receipt{Holder{"AAAAAAAAAAA", "grace@example.org"}, Payment{p}, Operator{"Quire Ltd", "1 Street | City"}})
		})
		return textOf(body)
	}
	if got, want := receipt(paid), "From Quire Ltd 1 Street City To grace@example.org Account AAAAAAAAAAA Number R-AAAAAAAAAAA-7 Date 30 November 2026, UTC 500 credits "+
		"Amount before tax $500.00 Tax $95.00 Total in US dollars $595.00 Credits reversed after a refund or a dispute: 1. Payment provider Stripe Payment pi_1"; !strings.Contains(got, want) {
		t.Errorf("%s, want %s", got, want)
	}
	paid.AmountCents, paid.TaxCents, paid.Provider = 0, 0, "" // as an admin records it
	if got := receipt(paid); !strings.Contains(got, "No amount is recorded.") || !strings.Contains(got, "Payment provider none: recorded by the operator") || strings.Contains(got, "$") {
		t.Error(got)
	}
}

// TestTheWayToTheProviderNeedsNoScript: a form may lead to this site alone.
func TestTheWayToTheProviderNeedsNoScript(t *testing.T) {
	const to = "https://pay.example.com/c/1?a=b&c=d#e"
	body, header := shown(t, func(ctx *fiber.Ctx) error { return New(pages.New()).Leave(ctx, to) })
	if header.Get("Refresh") != "0; url="+to || !strings.Contains(body, `href="https://pay.example.com/c/1?a=b&amp;c=d#e"`) {
		t.Errorf("%s\n%s", header.Get("Refresh"), body)
	}
	if policy := header.Get("Content-Security-Policy"); !strings.Contains(policy, "form-action 'self';") {
		t.Error(policy)
	}
}
