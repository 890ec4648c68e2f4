package admin

import (
	"strings"
	"testing"
	"time"

	"quire.dev/services/edge/internal/fault"
	"quire.dev/services/edge/internal/httpin/input"
)

func TestGrants(t *testing.T) {
	now := time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC)
	for _, tc := range []struct {
		body string
		kind fault.Kind // "": taken
	}{
		{`{"amount":"1","reason":"r"}`, ""},
		{`{"amount":1.5,"reason":"r","expiresAt":null}`, ""},
		{`{"amount":"1","reason":"r","expiresAt":"2026-11-21T00:00:00.001Z"}`, ""},
		{`{"amount":"1","reason":"` + strings.Repeat("ю", 200) + `"}`, ""},
		{`{"amount":"1","reason":"` + strings.Repeat("ю", 201) + `"}`, fault.InvalidField},
		{`{"amount":"1","reason":" "}`, fault.InvalidField},
		{`{"amount":"1"}`, fault.InvalidField},
		{`{"reason":"r"}`, fault.InvalidField},
		{`{"amount":null,"reason":"r"}`, fault.InvalidField},
		{`{"amount":"1","reason":"a\nb"}`, fault.InvalidField},
		{`{"amount":"1","reason":"r","expiresAt":"2026-11-21T00:00:00Z"}`, fault.InvalidField},
		{`{"amount":"1","reason":"r","expiresAt":1795219200}`, fault.InvalidField},
		{`{"amount":"-1","reason":"r","expiresAt":"2027-01-01T00:00:00Z"}`, fault.InvalidField},
		{`{"amount":"1","reason":"r","expires":"never"}`, fault.UnknownField},
		{`{"amount":"1","amount":"2","reason":"r"}`, fault.Malformed},
		{`[]`, fault.Malformed},
	} {
		_, err := ReadGrant(input.JSON([]byte(tc.body)), now)
		if err == nil && tc.kind != "" || err != nil && fault.KindOf(err) != tc.kind {
			t.Errorf("%s: %v, want %q", tc.body, err, tc.kind)
		}
	}
}
