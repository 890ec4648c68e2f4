package readers

import (
	"strings"
	"testing"

	"quire.dev/pkg/event"
)

func TestTheUsageTextFitsATerminal(t *testing.T) {
	const day = 24 * 60 * 60
	for _, test := range []struct {
		allowance *event.AllowanceAnswer
		says      string
	}{
		{nil, "is currently unavailable"},
		{&event.AllowanceAnswer{WindowMs: day * 1000}, "requires an API key"},
		{&event.AllowanceAnswer{WindowMs: day * 1000, Limit: 10, Remaining: 10}, "10 per 24 hours, each kept for up to 30 days.\n  You have 10 left.\n"},
		{&event.AllowanceAnswer{WindowMs: day * 1000, Limit: 10, ResetSeconds: 61}, "You have 0 left. Next one in 2 minutes.\n"},
		{&event.AllowanceAnswer{WindowMs: day * 1000, Limit: 10, Remaining: 3, ResetSeconds: 23*3600 + 1}, "You have 3 left. Next one in 23 hours 1 minute.\n"},
		{&event.AllowanceAnswer{WindowMs: 60 * 60 * 1000, Limit: 10, ResetSeconds: 3600}, "10 per 1 hour, each kept for up to 30 days.\n  You have 0 left. Next one in 1 hour.\n"},
	} {
		text := usageText("https://quire.example", test.allowance)
		if !strings.Contains(text, test.says) {
			t.Errorf("%q is not in\n%s", test.says, text)
		}
		lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
		if len(lines) > 24 {
			t.Errorf("%d lines", len(lines))
		}
		for _, line := range lines {
			if len(line) > 80 {
				t.Errorf("%d characters: %s", len(line), line)
			}
		}
	}
}
