package accounts

import (
	"fmt"
	"slices"
	"strconv"

	"quire.dev/pkg/alert"
	"quire.dev/pkg/event"
	"quire.dev/pkg/num"
	"quire.dev/services/edge/internal/httpin/httperr"
	"quire.dev/services/edge/internal/httpin/input"
)

const maxThresholds = 10

// WebhookDraft is a new webhook, or the changes to one. Missing fields are nil.
type WebhookDraft struct {
	url   *string
	rules *event.SetWebhook
}

// ReadWebhook reads a new webhook, or the changes to one.
func ReadWebhook(from input.Source) (d WebhookDraft, err error) {
	d.rules = &event.SetWebhook{}
	err = from(input.Fields{
		"url": func(name string, v input.Value) error {
			text, err := input.StringField(name, v)
			d.url = &text
			return err
		},
		"events": func(name string, v input.Value) error {
			events, err := eventsField(name, v)
			d.rules.Events = &events
			return err
		},
		"thresholds":   input.To(&d.rules.Thresholds, thresholdsField),
		"balanceBelow": input.To(&d.rules.BalanceBelowMicros, balanceBelowField),
	}.Set)
	return d, err
}

// eventsField parses the names of events into a bit set of types.
func eventsField(name string, v input.Value) (bits uint32, err error) {
	if v.Kind != input.Array || len(v.Items) == 0 {
		return 0, httperr.InvalidField(name, "must be a list of at least one event").InForm("Choose at least one event.")
	}
	var names []string
	for _, t := range alert.Types() {
		names = append(names, t.Name)
	}
	for _, item := range v.Items {
		i := slices.Index(names, string(item.Text))
		if item.Kind != input.String || i < 0 {
			return 0, httperr.NotAnOption(name, string(item.Text), names...)
		}
		bits |= alert.Bit(alert.Types()[i].AlertType)
	}
	return bits, nil
}

// thresholdsField parses percentages; null means the default.
func thresholdsField(name string, v input.Value) (*event.Percents, error) {
	out := &event.Percents{}
	if v.Kind == input.Null {
		return out, nil
	}
	wrong := func() *httperr.Error {
		numbers := fmt.Sprintf("1 to %d whole numbers from 1 to 100", maxThresholds)
		return httperr.InvalidField(name, "must be a list of "+numbers).InForm(name + " must be " + numbers + ", separated by commas.")
	}
	if v.Kind != input.Array || len(v.Items) == 0 {
		return nil, wrong()
	}
	for _, item := range v.Items {
		n, err := strconv.ParseUint(string(item.Text), 10, 32)
		if item.Kind != input.Number || err != nil || n < 1 || n > 100 {
			return nil, wrong()
		}
		out.Values = append(out.Values, uint32(n))
	}
	slices.Sort(out.Values)
	if out.Values = slices.Compact(out.Values); len(out.Values) > maxThresholds {
		err := wrong()
		err.Limit = maxThresholds
		return nil, err
	}
	return out, nil
}

// balanceBelowField parses an amount of credits; null means none.
func balanceBelowField(name string, v input.Value) (*uint64, error) {
	if v.Kind == input.Null {
		return new(uint64), nil
	}
	amount, err := AmountField(name, v)
	if err == nil && amount < 0 {
		err = httperr.InvalidField(name, "must be above zero")
	}
	return new(num.Uint64(amount)), err
}

func balanceRequired() error {
	return httperr.InvalidField("balanceBelow", "is required with the event balance.low").InForm("Enter a balance, or clear the event for a low balance.")
}
