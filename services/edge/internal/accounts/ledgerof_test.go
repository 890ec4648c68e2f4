package accounts

import (
	"errors"
	"testing"

	"quire.dev/pkg/event"
	"quire.dev/services/edge/internal/fault"
)

// TestALedgerThatCantBeReadIsAnError: entries that billing can't make again are never an empty page.
func TestALedgerThatCantBeReadIsAnError(t *testing.T) {
	page := &event.QueryAnswer{Status: event.QueryStatus_QUERY_OK, Answer: &event.QueryAnswer_Ledger{Ledger: &event.LedgerAnswer{}}}
	for _, c := range []struct {
		answer *event.QueryAnswer
		want   fault.Kind
	}{
		{page, ""},
		{&event.QueryAnswer{Status: event.QueryStatus_QUERY_UNREADABLE}, fault.Internal},
		{&event.QueryAnswer{Status: event.QueryStatus_QUERY_OK}, fault.Unavailable},
		{&event.QueryAnswer{}, fault.Unavailable},
	} {
		got, err := LedgerOf(c.answer)
		var refused *fault.Error
		if errors.As(err, &refused); (c.want == "") != (err == nil && got != nil) || c.want != "" && refused.Kind != c.want {
			t.Errorf("%v: %v, %v", c.answer.Status, got, err)
		}
	}
}
