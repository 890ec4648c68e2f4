package httpin

import (
	"net"
	"net/netip"
	"net/url"
	"strings"

	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp"
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
	if !contains(s.cfg.TrustedProxies, conn.peer) {
		if !s.ignored.Load() && len(c.Context().Request.Header.Peek(fiber.HeaderXForwardedFor)) > 0 {
			s.tellIgnored(conn.peer)
		}
		return conn.source
	}
	return sourceOf(clientAddr(conn.peer, forwardedFor(&c.Context().Request.Header), s.cfg.TrustedProxies))
}

func forwardedFor(h *fasthttp.RequestHeader) []string {
	var forwarded []string
	for _, v := range h.PeekAll(fiber.HeaderXForwardedFor) {
		forwarded = append(forwarded, string(v))
	}
	return forwarded
}

// tellProxied logs the first request that a trusted proxy has forwarded: whose address is taken for the client's. Where that is a
// trusted proxy's too, all the clients behind it count as one source, or choose their address.
func (s *Server) tellProxied(peer netip.Addr, h *fasthttp.RequestHeader) {
	if !contains(s.cfg.TrustedProxies, peer) {
		return
	}
	forwarded := forwardedFor(h)
	if len(forwarded) == 0 || !s.proxied.CompareAndSwap(false, true) {
		return
	}
	client := clientAddr(peer, forwarded, s.cfg.TrustedProxies)
	if contains(s.cfg.TrustedProxies, client) {
		s.cfg.Logger.Warn("the client's address behind a trusted proxy is that of a trusted proxy: the trusted networks are too wide, or the header is wrong",
			"peer", peer, "client", client)
		return
	}
	s.cfg.Logger.Info("a trusted proxy tells the client's address", "peer", peer, "client", client)
}

// tellIgnored logs the first X-Forwarded-For that does not count.
func (s *Server) tellIgnored(peer netip.Addr) {
	if s.ignored.CompareAndSwap(false, true) {
		s.cfg.Logger.Info("X-Forwarded-For is ignored: its sender is no trusted proxy", "peer", peer)
	}
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
