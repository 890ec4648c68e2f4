package accounts

import (
	"fmt"
	"slices"
	"strconv"

	"quire.dev/pkg/alert"
	"quire.dev/pkg/event"
	"quire.dev/services/edge/internal/httpin"
)

const maxThresholds = 10

// webhookDraft is the body of a creation or a change. What is nil was not sent.
type webhookDraft struct {
	url   *string
	rules *event.SetWebhook
}

func readWebhook(body []byte) (d webhookDraft, err error) {
	d.rules = &event.SetWebhook{}
	err = httpin.ParseObject(body, httpin.Fields{
		"url": func(name string, v httpin.Value) error {
			text, err := httpin.StringField(name, v)
			d.url = &text
			return err
		},
		"events": func(name string, v httpin.Value) error {
			events, err := eventsField(name, v)
			d.rules.Events = &events
			return err
		},
		"thresholds":   httpin.To(&d.rules.Thresholds, thresholdsField),
		"balanceBelow": httpin.To(&d.rules.BalanceBelowMicros, balanceBelowField),
	}.Set)
	return d, err
}

// eventsField reads the names of events as the bits of their types.
func eventsField(name string, v httpin.Value) (bits uint32, err error) {
	if v.Kind != httpin.Array || len(v.Items) == 0 {
		return 0, httpin.InvalidField(name, "must be a list of one event or more")
	}
	var names []string
	for _, t := range alert.Types() {
		names = append(names, alert.TypeName(t))
	}
	for _, item := range v.Items {
		i := slices.Index(names, string(item.Text))
		if item.Kind != httpin.String || i < 0 {
			return 0, httpin.NotAnOption(name, string(item.Text), names...)
		}
		bits |= alert.Bit(alert.Types()[i])
	}
	return bits, nil
}

// thresholdsField reads percents. Null stands for the default.
func thresholdsField(name string, v httpin.Value) (*event.Percents, error) {
	out := &event.Percents{}
	if v.Kind == httpin.Null {
		return out, nil
	}
	why := fmt.Sprintf("must be a list of 1 to %d whole numbers from 1 to 100", maxThresholds)
	if v.Kind != httpin.Array || len(v.Items) == 0 {
		return nil, httpin.InvalidField(name, why)
	}
	for _, item := range v.Items {
		n, err := strconv.ParseUint(string(item.Text), 10, 32)
		if item.Kind != httpin.Number || err != nil || n < 1 || n > 100 {
			return nil, httpin.InvalidField(name, why)
		}
		out.Values = append(out.Values, uint32(n))
	}
	slices.Sort(out.Values)
	if out.Values = slices.Compact(out.Values); len(out.Values) > maxThresholds {
		return nil, httpin.OverLimit(name, maxThresholds, why)
	}
	return out, nil
}

// balanceBelowField reads an amount of credits. Null stands for none.
func balanceBelowField(name string, v httpin.Value) (*uint64, error) {
	if v.Kind == httpin.Null {
		return new(uint64), nil
	}
	amount, err := AmountField(name, v)
	if err == nil && amount < 0 {
		err = httpin.InvalidField(name, "must be above zero")
	}
	return new(uint64(amount)), err
}

func balanceRequired() error {
	return httpin.InvalidField("balanceBelow", "is required with the event balance.low")
}
