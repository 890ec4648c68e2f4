package accounts

import (
	"github.com/gofiber/fiber/v2"

	"quire.dev/pkg/event"
	"quire.dev/pkg/plan"
	"quire.dev/services/edge/internal/endpoint"
	"quire.dev/services/edge/internal/httpin/httperr"
	"quire.dev/services/edge/internal/httpin/input"
)

type spendingCapView struct {
	endpoint.Success
	SpendingCap *capView `json:"spendingCap"`
	CapCleared  bool     `json:"capCleared,omitempty"` // the request removed the cap
}

// setSpendingCap sets or removes the account's spending cap.
func (s *Accounts) setSpendingCap(c *endpoint.Call) error {
	limit, err := ReadSpendingCap(input.JSON(c.Fields))
	if err != nil {
		return err
	}
	set, err := s.CappedSpending(c, limit)
	if err != nil {
		return err
	}
	return s.JSON(c.Ctx, fiber.StatusOK, spendingCapView{Success: endpoint.Succeeded(), SpendingCap: viewCap(set), CapCleared: NoCap(limit)})
}

// NoCap reports whether a cap to set removes it.
func NoCap(c *event.SpendingCap) bool { return c.GetPeriod() == event.CapPeriod_CAP_NONE }

// CappedSpending sets the account's spending cap, or removes it with the zero cap.
func (s *Accounts) CappedSpending(c *endpoint.Call, set *event.SpendingCap) (*event.CapStatus, error) {
	o, err := s.OwnCommand(c, &event.Command{Action: &event.Command_SetSpendingCap{SetSpendingCap: &event.SetSpendingCap{Cap: set}}})
	if err != nil {
		return nil, err
	}
	return o.Cap, nil
}

// ReadSpendingCap reads {amount, period}; an amount of null is the zero cap.
func ReadSpendingCap(from input.Source) (*event.SpendingCap, error) { return readCap(from, "") }

// readCap is ReadSpendingCap for a cap within another object; within is the prefix of its fields' names in errors.
func readCap(from input.Source, within string) (*event.SpendingCap, error) {
	in := &capInput{}
	if err := from(in.fields(within).Set); err != nil {
		return nil, err
	}
	return in.read(within)
}

// capInput is {amount, period} as sent.
type capInput struct {
	amount     *uint64 // nil: null
	sentAmount bool
	period     event.CapPeriod
}

func (in *capInput) fields(within string) input.Fields {
	return input.Fields{
		"amount": func(_ string, v input.Value) (err error) {
			in.sentAmount = true
			if v.Kind != input.Null {
				in.amount, err = capAmountField(within+"amount", v)
			}
			return err
		},
		"period": func(_ string, v input.Value) error {
			text, err := input.StringField(within+"period", v)
			if err != nil {
				return err
			}
			periods := []event.CapPeriod{event.CapPeriod_CAP_DAY, event.CapPeriod_CAP_MONTH, event.CapPeriod_CAP_TOTAL}
			in.period, err = option(within+"period", text, periods, endpoint.CapPeriodName)
			return err
		},
	}
}

// read returns the cap; none without an amount.
func (in *capInput) read(within string) (*event.SpendingCap, error) {
	switch {
	case !in.sentAmount:
		return nil, httperr.InvalidField(within+"amount", "is required: credits like \"5.000000\", or null for no cap")
	case in.amount == nil:
		return &event.SpendingCap{}, nil
	case in.period == event.CapPeriod_CAP_NONE:
		return nil, httperr.InvalidField(within+"period", "is required: day, month or total")
	}
	return &event.SpendingCap{Period: in.period, AmountMicros: *in.amount}, nil
}

// capAmountField parses an amount of credits, at least 0.
func capAmountField(name string, v input.Value) (*uint64, error) {
	if v.Kind != input.String && v.Kind != input.Number {
		return nil, httperr.InvalidField(name, "must be a decimal string like \"5.000000\", or null")
	}
	amount, err := plan.ParseCredits(string(v.Text))
	if err != nil || amount < 0 || amount > maxGrant {
		return nil, httperr.InvalidField(name, "must be from 0 to 1000000000, with at most six decimal places")
	}
	return new(uint64(amount)), nil
}
