package readers

import (
	"fmt"
	"time"

	"github.com/gofiber/fiber/v2"

	"quire.dev/pkg/event"
	"quire.dev/services/edge/internal/developer"
	"quire.dev/services/edge/internal/endpoint"
	"quire.dev/services/edge/internal/pages"
)

// Usage answers with usage instructions for a terminal.
func (s *Readers) Usage(c *endpoint.Call) error {
	return developer.SendLines(c.Ctx, fiber.StatusOK, usageText(s.URL(""), s.Allowance(c)))
}

// usageText has at most 24 lines, to fit a terminal.
func usageText(address string, a *event.AllowanceAnswer) string {
	allowance := "  The limit without an API key is currently unavailable.\n"
	switch {
	case a == nil:
	case a.Limit == 0:
		allowance = "  Creating a paste requires an API key.\n"
	default:
		allowance = fmt.Sprintf("  Without an API key: %d per %s, each kept for up to 30 days.\n  You have %d left.",
			a.Limit, pages.Duration(time.Duration(a.WindowMs)*time.Millisecond), a.Remaining)
		if a.ResetSeconds > 0 {
			allowance += fmt.Sprintf(" Next one in %s.", pages.Duration(time.Duration(a.ResetSeconds)*time.Second))
		}
		allowance += "\n"
	}
	return "Send text, get a link.\n\n" +
		"  ls | curl -F 'f=<-' " + address + "\n" +
		"  curl -F f=@notes.txt " + address + "\n" +
		"  curl -T main.go " + address + "\n" +
		"  curl --data-binary @notes.txt " + address + "\n\n" +
		"The response is the link; append /raw for plain text. A file's name sets the\n" +
		"title and language. Set other fields in the query:\n\n" +
		"  ls | curl -F 'f=<-' '" + address + "?expiresIn=1h&burnAfterRead=true'\n\n" +
		"Limits:\n" +
		"  256 KB of UTF-8 text per paste.\n" +
		allowance +
		"  With an API key (curl -H 'x-api-key: <key>'): your plan's limits.\n\n" +
		"curl -i shows the X-Manage-Token header. Send it to edit or delete a paste\n" +
		"created without a key.\n" +
		"Reference: " + address + "/docs\n" +
		"Accounts and API keys: " + address + "/console\n"
}
