package endpoint

import (
	"fmt"

	"quire.dev/pkg/event"
	"quire.dev/pkg/plan"
)

// Optional is the text, empty for nil.
func Optional(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// OptionalTime is nil for a time that is not known.
func OptionalTime(ms int64) *string {
	if ms == 0 {
		return nil
	}
	return new(FormatTime(ms))
}

// RequestIDText is the id as the API writes it, nil where it is none.
func RequestIDText(b []byte) *string {
	id, err := event.RequestIDFrom(b)
	if err != nil {
		return nil
	}
	return new(id.String())
}

// OptionalText is the text, nil where it is empty.
func OptionalText(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// Success is how every success of the account and admin endpoints begins: none of them is metered.
type Success struct {
	Success   bool  `json:"success"`
	Remaining int64 `json:"remaining"`
}

// Succeeded is how a success begins.
func Succeeded() Success { return Success{Success: true, Remaining: plan.Unlimited} }

// Credits is an amount as the API writes it.
func Credits(micros uint64) string { return plan.Micros(micros).String() }

// Dollars is an amount of cents as the API writes it.
func Dollars(cents uint64) string { return fmt.Sprintf("%d.%02d", cents/100, cents%100) }
