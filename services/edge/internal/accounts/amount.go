package accounts

import (
	"unicode/utf8"

	"quire.dev/pkg/plan"
	"quire.dev/services/edge/internal/httpin/httperr"
	"quire.dev/services/edge/internal/httpin/input"
)

const (
	maxGrant    = 1_000_000_000 * plan.Credit // largest grant or withdrawal per call, and largest balance
	ReasonChars = 200
)

// AmountField parses an amount of credits other than zero.
func AmountField(name string, v input.Value) (int64, error) {
	amount, err := CreditsField(name, v)
	if err == nil && amount == 0 {
		err = httperr.InvalidField(name, "must not be zero")
	}
	return amount, err
}

// Now and PeriodEnd are when a plan changes.
const (
	Now       = "now"
	PeriodEnd = "periodEnd"
)

// WhenField parses Now or PeriodEnd.
func WhenField(name string, v input.Value) (string, error) {
	text, err := input.StringField(name, v)
	if err == nil && text != Now && text != PeriodEnd {
		err = httperr.NotAnOption(name, text, Now, PeriodEnd)
	}
	return text, err
}

// PositiveField parses an amount of credits above zero.
func PositiveField(name string, v input.Value) (int64, error) {
	amount, err := AmountField(name, v)
	if err == nil && amount < 0 {
		err = httperr.InvalidField(name, "must be positive")
	}
	return amount, err
}

// NotNegativeField parses an amount of credits that may be zero.
func NotNegativeField(name string, v input.Value) (int64, error) {
	amount, err := CreditsField(name, v)
	if err == nil && amount < 0 {
		err = httperr.InvalidField(name, "must not be negative")
	}
	return amount, err
}

// CreditsField parses an amount of credits, a decimal string or a number, without floating point.
func CreditsField(name string, v input.Value) (int64, error) {
	if v.Kind != input.String && v.Kind != input.Number {
		return 0, httperr.InvalidField(name, "must be a decimal string like \"12.5\"")
	}
	amount, err := plan.ParseCredits(string(v.Text))
	switch {
	case err != nil && utf8.RuneCount(v.Text) > 32, amount > maxGrant, amount < -maxGrant:
		return 0, httperr.InvalidField(name, "must be between -1000000000 and 1000000000")
	case err != nil:
		return 0, httperr.InvalidField(name, "must be a decimal number with at most six places")
	}
	return int64(amount), nil
}
