package endpoint

import (
	"cmp"
	"net/url"
	"strings"

	"github.com/gofiber/fiber/v2"
)

// With Config.ContentURL, what others wrote has a host of its own: a browser that did make more of it than text would
// find nothing there to read or to sign. The paths exist on the public host too, for programs.

// ContentURL is the address of content on a page: a path, unless it is on another host.
func (s *Base) ContentURL(path string) string { return s.contentSite + path }

// ContentBase is what the absolute addresses of content begin with.
func (s *Base) ContentBase() string { return cmp.Or(s.contentSite, s.PublicURL()) }

// OnContentHost reports whether the request was sent to the host that has content alone. Its Host header says so:
// X-Forwarded-Host is whatever a client writes.
func (s *Base) OnContentHost(c *fiber.Ctx) bool {
	return s.contentHost != "" && withoutPort(strings.ToLower(string(c.Context().Host()))) == s.contentHost
}

// hostOf is the host of a URL without its port, "" where it has none. A proxy may have changed the port of a request.
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
