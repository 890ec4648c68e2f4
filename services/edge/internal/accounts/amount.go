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

// AmountField parses an amount of credits, a decimal string or a number, without floating point.
func AmountField(name string, v input.Value) (int64, error) {
	if v.Kind != input.String && v.Kind != input.Number {
		return 0, httperr.InvalidField(name, "must be a decimal string like \"12.5\"")
	}
	amount, err := plan.ParseCredits(string(v.Text))
	switch {
	case err != nil && utf8.RuneCount(v.Text) > 32, amount > maxGrant, amount < -maxGrant:
		return 0, httperr.InvalidField(name, "must be between -1000000000 and 1000000000")
	case err != nil:
		return 0, httperr.InvalidField(name, "must be a decimal number with at most six places")
	case amount == 0:
		return 0, httperr.InvalidField(name, "must not be zero")
	}
	return int64(amount), nil
}
