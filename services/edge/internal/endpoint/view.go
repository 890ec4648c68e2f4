package endpoint

import (
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

// OptionalTime formats a time; nil if it is unknown.
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

// Success is embedded in every success of the account and admin endpoints, none of which is metered.
type Success struct {
	Success   bool  `json:"success"`
	Remaining int64 `json:"remaining"`
}

// Succeeded is how a success begins.
func Succeeded() Success { return Success{Success: true, Remaining: plan.Unlimited} }
