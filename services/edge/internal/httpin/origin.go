package httpin

import (
	"net"
	"net/netip"
	"net/url"
	"strings"

	"github.com/gofiber/fiber/v2"
)

// addrOf is the address of a peer, IPv4 in its short form; the zero Addr where it has none.
func addrOf(a net.Addr) netip.Addr {
	if t, ok := a.(*net.TCPAddr); ok {
		return plainAddr(t.AddrPort().Addr())
	}
	return netip.Addr{}
}

func plainAddr(a netip.Addr) netip.Addr { return a.Unmap().WithZone("") }

// sourceOf is the address that requests of a are counted under: itself, or the first address of its IPv6 /64. One client commonly has a
// whole /64.
func sourceOf(a netip.Addr) netip.Addr {
	a = plainAddr(a)
	if !a.Is6() {
		return a
	}
	return networkOf(a, sourceBits).Addr()
}

// Site is what one client may have many sources of: the IPv6 /48 of a source (RFC 6177), or an IPv4 address alone.
func Site(source netip.Addr) netip.Prefix {
	if source.Is6() {
		return networkOf(source, siteBits)
	}
	return networkOf(source, source.BitLen())
}

// Neighbourhood is the network of a source whose addresses are commonly given out by one operator: an IPv4 /24 or an IPv6
// /48.
func Neighbourhood(source netip.Addr) netip.Prefix {
	if source.Is6() {
		return networkOf(source, siteBits)
	}
	return networkOf(source, neighbourBits)
}

const (
	sourceBits    = 64 // of IPv6
	siteBits      = 48 // of IPv6
	neighbourBits = 24 // of IPv4
)

// networkOf is the network of a; the zero Prefix for the zero Addr.
func networkOf(a netip.Addr, bits int) netip.Prefix {
	p, _ := plainAddr(a).Prefix(bits)
	return p
}

// Source is the source of the request: an IPv4 address, or the first address of an IPv6 /64. Behind trusted proxies it
// is that of their client.
func (s *Server) Source(c *fiber.Ctx) netip.Addr {
	conn := connOf(c)
	if len(s.cfg.TrustedProxies) == 0 {
		return conn.source
	}
	var forwarded []string
	for _, v := range c.Context().Request.Header.PeekAll(fiber.HeaderXForwardedFor) {
		forwarded = append(forwarded, string(v))
	}
	return sourceOf(clientAddr(conn.peer, forwarded, s.cfg.TrustedProxies))
}

// clientAddr is the client behind trusted proxies: the rightmost hop of X-Forwarded-For that is not one of them. It is
// the peer where the peer is no trusted proxy, since anybody can write the header, and where one of the hops up to
// there is no address.
func clientAddr(peer netip.Addr, forwarded []string, trusted []netip.Prefix) netip.Addr {
	if len(trusted) == 0 || !contains(trusted, peer) {
		return peer
	}
	found := peer
	for i := len(forwarded) - 1; i >= 0; i-- {
		hops := strings.Split(forwarded[i], ",")
		for j := len(hops) - 1; j >= 0; j-- {
			hop, ok := parseHop(hops[j])
			if !ok {
				return peer
			}
			found = hop
			if !contains(trusted, hop) {
				return hop
			}
		}
	}
	return found
}

// parseHop reads one element of X-Forwarded-For. Some proxies add a port.
func parseHop(s string) (netip.Addr, bool) {
	s = strings.TrimSpace(s)
	if a, err := netip.ParseAddr(s); err == nil {
		return plainAddr(a), true
	}
	if ap, err := netip.ParseAddrPort(s); err == nil {
		return plainAddr(ap.Addr()), true
	}
	if inner, ok := strings.CutPrefix(s, "["); ok {
		if a, err := netip.ParseAddr(strings.TrimSuffix(inner, "]")); err == nil {
			return plainAddr(a), true
		}
	}
	return netip.Addr{}, false
}

// BehindTLS tells whether a trusted proxy says that the client's side of the connection is encrypted.
func (s *Server) BehindTLS(c *fiber.Ctx) bool {
	return contains(s.cfg.TrustedProxies, connOf(c).peer) && strings.EqualFold(c.Get(fiber.HeaderXForwardedProto), "https")
}

// SameOrigin tells whether a request comes from a page of this site, or from no page at all. Browsers send
// Sec-Fetch-Site, older ones Origin. A request with neither header comes from no browser. An Origin is of this site if
// it is publicURL's or names the host that the request was sent to.
func SameOrigin(c *fiber.Ctx, publicURL string) bool {
	return sameOrigin(c.Get("Sec-Fetch-Site"), c.Get(fiber.HeaderOrigin), string(c.Context().Host()), publicURL)
}

func sameOrigin(site, origin, host, publicURL string) bool {
	switch {
	case site != "":
		return site == "same-origin" || site == "none"
	case origin == "":
		return true
	}
	from, err := url.Parse(origin)
	if err != nil || from.Host == "" || from.Scheme != "http" && from.Scheme != "https" {
		return false
	}
	if strings.EqualFold(from.Host, host) {
		return true
	}
	public, err := url.Parse(publicURL)
	return err == nil && strings.EqualFold(from.Host, public.Host) && strings.EqualFold(from.Scheme, public.Scheme)
}
