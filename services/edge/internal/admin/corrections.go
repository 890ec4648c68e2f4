package admin

import (
	"cmp"
	"strings"
	"time"

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
	"quire.dev/services/edge/internal/prices"
)

const paymentChars = 100

// correction answers with the balance after a command.
func (s *Admin) correction(c *endpoint.Call, account event.AccountID, command *event.Command) error {
	command.Account, command.IdempotencyId, command.BodyHash = uint64(account), c.Idem, c.Hash
	o, err := s.accounts.Command(c, command)
	if err != nil {
		return err
	}
	return s.JSON(c.Ctx, fiber.StatusOK, grantedView{Success: endpoint.Succeeded(), Balance: plan.Credits(o.BalanceMicros)})
}

// refundInput is what a refund corrects: one request, or a month's requests of a quota key.
type refundInput struct {
	*event.Refund
	takeBack bool
}

// refund refunds a request or a part of a month's line, or takes such a refund back.
func (s *Admin) refund(c *endpoint.Call) error {
	in, err := readRefund(input.JSON(c.Fields))
	if err != nil {
		return err
	}
	account, err := PathAccount(c)
	if err != nil {
		return err
	}
	if len(in.RequestId) > 0 {
		if err := s.priceRefund(account, in); err != nil {
			return err
		}
	}
	return s.correction(c, account, &event.Command{Action: &event.Command_Refund{Refund: in.Refund}})
}

// readRefund reads {requestId, takeBack?, reason} or {period, quotaKey, amount, reason}.
func readRefund(from input.Source) (refundInput, error) {
	in := refundInput{Refund: &event.Refund{}}
	r := in.Refund
	err := from(input.Fields{
		"requestId": input.To(&r.RequestId, accounts.RequestIDField),
		"takeBack":  input.To(&in.takeBack, input.BoolField),
		"period":    input.To(&r.Month, monthField),
		"quotaKey":  input.To(&r.QuotaKey, accounts.QuotaKeyField),
		"amount":    input.To(&r.AmountMicros, accounts.AmountField),
		"reason":    input.To(&r.Reason, input.Line(accounts.ReasonChars)),
	}.Set)
	one := len(r.RequestId) > 0
	switch {
	case err != nil:
		return in, err
	case one && (r.Month != 0 || r.QuotaKey != 0 || r.AmountMicros != 0):
		return in, httperr.InvalidField("requestId", "refunds the whole price of one request: leave period, quotaKey and amount out")
	case !one && in.takeBack:
		return in, httperr.InvalidField("takeBack", "is only for requestId: a negative amount takes other refunds back")
	case !one && r.Month == 0:
		return in, httperr.InvalidField("period", "is required without requestId")
	case !one && r.QuotaKey == 0:
		return in, httperr.InvalidField("quotaKey", "is required without requestId")
	case !one && r.AmountMicros == 0:
		return in, httperr.InvalidField("amount", "is required without requestId")
	case strings.TrimSpace(r.Reason) == "":
		return in, httperr.InvalidField("reason", "is required: 1 to 200 characters")
	}
	return in, nil
}

// monthField parses a month like 2026-11, as its number.
func monthField(name string, v input.Value) (uint32, error) {
	text, err := input.StringField(name, v)
	if err != nil {
		return 0, err
	}
	start, err := accounts.ParsePeriod(text)
	return event.MonthNumber(start), err
}

// priceRefund finds in the ledger what a request has cost, when, and what of it was refunded.
func (s *Admin) priceRefund(account event.AccountID, in refundInput) error {
	paid, err := s.accounts.PaidFor(account, in.RequestId)
	if err != nil {
		return err
	}
	if paid.Micros <= 0 {
		return endpoint.FailedAt("requestId", fault.NotRefundable, "This account has paid no credits for such a request.")
	}
	in.Month, in.QuotaKey, in.AmountMicros = event.MonthNumber(time.UnixMilli(paid.At).UTC()), paid.QuotaKey, paid.Micros
	if in.takeBack { // of a repeat, nothing is left to take back, and billing has its outcome
		in.AmountMicros = -cmp.Or(paid.Refunded, paid.Micros)
	}
	return nil
}

// recordPayment adds the credits of an invoice that was paid outside of Quire.
func (s *Admin) recordPayment(c *endpoint.Call) error {
	p := &event.Payment{Provider: payments.ManualName}
	var credits int64
	err := input.ParseObject(c.Fields, input.Fields{
		"payment": input.To(&p.Id, input.Line(paymentChars)),
		"credits": input.To(&credits, accounts.PositiveField),
		"reason":  input.To(&p.Reason, input.Line(accounts.ReasonChars)),

		"amountUsd": input.To(&p.AmountCents, prices.CentsField),
		"taxUsd":    input.To(&p.TaxCents, prices.CentsField),
	}.Set)
	switch {
	case err != nil:
		return err
	case p.TaxCents > p.AmountCents:
		return httperr.InvalidField("taxUsd", "must not exceed amountUsd, which includes it")
	case strings.TrimSpace(p.Id) == "":
		return httperr.InvalidField("payment", "is required: the number of the invoice, 1 to 100 characters")
	case credits == 0:
		return httperr.InvalidField("credits", "is required")
	}
	p.CreditsMicros = num.Uint64(credits)
	account, err := PathAccount(c)
	if err != nil {
		return err
	}
	return s.correction(c, account, &event.Command{Action: &event.Command_Payment{Payment: p}})
}

// reversePayment takes back credits of a payment that was refunded or charged back.
func (s *Admin) reversePayment(c *endpoint.Call) error {
	r := &event.Reverse{Provider: payments.ManualName, AsOfMs: s.Now().UnixMilli()}
	credits := int64(-1)
	err := input.ParseObject(c.Fields, input.Fields{
		"payment":    input.To(&r.Id, input.Line(paymentChars)),
		"credits":    input.To(&credits, accounts.NotNegativeField),
		"chargeback": input.To(&r.Chargeback, input.BoolField),
		"reason":     input.To(&r.Reason, input.Line(accounts.ReasonChars)),
	}.Set)
	switch {
	case err != nil:
		return err
	case strings.TrimSpace(r.Id) == "":
		return httperr.InvalidField("payment", "is required: the number of the invoice, 1 to 100 characters")
	case credits < 0:
		return httperr.InvalidField("credits", "is required: how many of the payment's credits are reversed in all")
	case strings.TrimSpace(r.Reason) == "":
		return httperr.InvalidField("reason", "is required: 1 to 200 characters")
	}
	r.ReversedMicros = uint64(credits)
	account, err := PathAccount(c)
	if err != nil {
		return err
	}
	return s.correction(c, account, &event.Command{Action: &event.Command_Reverse{Reverse: r}})
}
