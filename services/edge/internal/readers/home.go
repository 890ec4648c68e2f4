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
	allowance := "  How many pastes you may make without an API key is not known at the moment.\n"
	switch {
	case a == nil:
	case a.Limit == 0:
		allowance = "  Pastes are made with an API key only.\n"
	default:
		allowance = fmt.Sprintf("  Without an API key: %d in any %s, each kept for 30 days at most.\n  You have %d left.",
			a.Limit, pages.Duration(time.Duration(a.WindowMs)*time.Millisecond), a.Remaining)
		if a.ResetSeconds > 0 {
			allowance += fmt.Sprintf(" There is one more in %s.", pages.Duration(time.Duration(a.ResetSeconds)*time.Second))
		}
		allowance += "\n"
	}
	return "Quire keeps text and gives you the address of a page that shows it.\n\n" +
		"  ls | curl -F 'f=<-' " + address + "\n" +
		"  curl -F f=@notes.txt " + address + "\n" +
		"  curl -T main.go " + address + "\n" +
		"  curl --data-binary @notes.txt " + address + "\n\n" +
		"The answer is the address; /raw behind it is the text alone. A file's name gives\n" +
		"its title and language. Other fields of a paste are in the query:\n\n" +
		"  ls | curl -F 'f=<-' '" + address + "?expiresIn=1h&burnAfterRead=true'\n\n" +
		"Limits:\n" +
		"  256 KiB of UTF-8 text in each paste.\n" +
		allowance +
		"  With one (curl -H 'x-api-key: <key>') it is what your plan has.\n\n" +
		"curl -i shows X-Manage-Token: it changes or deletes a paste made without a key.\n" +
		"Reference: " + address + "/docs\n" +
		"Accounts and API keys: " + address + "/console\n"
}
