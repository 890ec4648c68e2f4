package endpoint

import (
	"cmp"
	"net/url"
	"strings"

	"github.com/gofiber/fiber/v2"
)

// With Config.ContentURL, user content is served from a separate host: a browser that interpreted it as more than text would find no
// data and no session there. The paths also work on the public host, for programs.

// ContentURL is the address of content in a page: a path, unless content has another host.
func (s *Base) ContentURL(path string) string { return s.contentSite + path }

// ContentBase is the origin of absolute addresses of content.
func (s *Base) ContentBase() string { return cmp.Or(s.contentSite, s.PublicURL()) }

// OnContentHost reports whether the request was sent to the content host. Only its Host header counts: clients can forge
// X-Forwarded-Host.
func (s *Base) OnContentHost(c *fiber.Ctx) bool {
	return s.contentHost != "" && withoutPort(strings.ToLower(string(c.Context().Host()))) == s.contentHost
}

// hostOf returns the host of a URL without its port, which a proxy may have changed; "" if it has none.
func hostOf(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	return withoutPort(strings.ToLower(u.Host))
}

func withoutPort(host string) string {
	if i := strings.LastIndexByte(host, ':'); i > strings.LastIndexByte(host, ']') {
		return host[:i]
	}
	return host
}
