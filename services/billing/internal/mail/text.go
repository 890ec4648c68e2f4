package mail

import (
	"fmt"
	"net/url"
	"strings"
	"time"

	"quire.dev/pkg/event"
	"quire.dev/pkg/payments"
	"quire.dev/pkg/plan"
)

// text returns the subject and the body of an e-mail about an alert.
func (m *Mailer) text(a *event.Alert) (subject, body string) {
	if a.Type == event.AlertType_ALERT_TOP_UP_OFF {
		return m.topUpOff(a)
	}
	return m.receipt(a.GetPayment())
}

func (m *Mailer) receipt(p *event.PaymentState) (subject, body string) {
	bought := "the plan " + plan.TierUnspecified.Title(p.GetPlan())
	if p.GetCreditsMicros() > 0 {
		bought = plan.Short(p.CreditsMicros) + " credits"
	}
	if p.GetCreditsMicros() == uint64(plan.Credit) {
		bought = "1 credit"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "We have received your payment.\r\n\r\n")
	row := func(name, value string) { fmt.Fprintf(&b, "%-9s%s\r\n", name, value) }
	row("Payment", fmt.Sprint(p.GetNumber()))
	row("Date", time.UnixMilli(p.GetTimeMs()).UTC().Format("2 January 2006, 15:04")+" UTC")
	row("For", bought)
	if p.GetTaxCents() > 0 {
		row("Tax", "$"+plan.Dollars(p.TaxCents))
	}
	if p.GetAmountCents() > 0 {
		row("Total", "$"+plan.Dollars(p.AmountCents))
	}
	fmt.Fprintf(&b, "\r\nReceipt to print:\r\n%s/console/payments/%d\r\n\r\nYour plan and all payments:\r\n%s/console/plan\r\n", m.cfg.Public, p.GetNumber(), m.cfg.Public)
	return fmt.Sprintf("Receipt %d from %s: %s", p.GetNumber(), m.sender(), bought), b.String()
}

func (m *Mailer) topUpOff(a *event.Alert) (subject, body string) {
	reason := ""
	if a.Reason != "" {
		reason = " " + payments.FailureText(a.Reason)
	}
	return "Automatic top-ups are off at " + m.sender(), strings.Join([]string{
		"Two automatic purchases of credits in a row could not be charged, so no further ones are made." + reason,
		"",
		"Without credits, requests over the quotas of your plan are refused. To turn top-ups on again, check your payment method and set",
		"them again on your plan page:",
		m.cfg.Public + "/console/plan",
		"",
	}, "\r\n")
}

// sender is the name of the service in subjects.
func (m *Mailer) sender() string {
	if m.from.Name != "" {
		return m.from.Name
	}
	if u, err := url.Parse(m.cfg.Public); err == nil {
		return u.Hostname()
	}
	return m.from.Address
}
