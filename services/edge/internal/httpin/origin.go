package httpin

import (
	"net"
	"net/netip"
	"net/url"
	"strings"

	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp"
)

// addrOf returns a peer's address, IPv4 in its short form; the zero Addr if it has none.
func addrOf(a net.Addr) netip.Addr {
	if t, ok := a.(*net.TCPAddr); ok {
		return plainAddr(t.AddrPort().Addr())
	}
	return netip.Addr{}
}

func plainAddr(a netip.Addr) netip.Addr { return a.Unmap().WithZone("") }

// sourceOf maps an address to its source, under which its requests are counted: the address itself, or the first address of
// its IPv6 /64, which one client commonly controls as a whole.
func sourceOf(a netip.Addr) netip.Addr {
	a = plainAddr(a)
	if !a.Is6() {
		return a
	}
	return networkOf(a, sourceBits).Addr()
}

// Site is the network within which one client may have many sources: the IPv6 /48 of a source (RFC 6177), or a single IPv4
// address.
func Site(source netip.Addr) netip.Prefix {
	if source.Is6() {
		return networkOf(source, siteBits)
	}
	return networkOf(source, source.BitLen())
}

// Neighbourhood is the network around a source that one operator commonly assigns: an IPv4 /24 or an IPv6 /48.
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

// Source returns the source of the request: an IPv4 address, or the first address of an IPv6 /64. Behind trusted proxies, it
// is their client's.
func (s *Server) Source(c *fiber.Ctx) netip.Addr {
	conn := connOf(c)
	if !contains(s.cfg.TrustedProxies, conn.peer) {
		if !s.ignored.Load() && len(c.Context().Request.Header.Peek(fiber.HeaderXForwardedFor)) > 0 {
			s.tellIgnored(conn.peer)
		}
		return conn.source
	}
	return sourceOf(s.Address(c))
}

// Address returns the address of the client, behind trusted proxies too.
func (s *Server) Address(c *fiber.Ctx) netip.Addr {
	conn := connOf(c)
	if !contains(s.cfg.TrustedProxies, conn.peer) {
		return conn.peer
	}
	if !conn.current.client.IsValid() {
		conn.current.client = clientAddr(conn.peer, forwardedFor(&c.Context().Request.Header), s.cfg.TrustedProxies)
	}
	return conn.current.client
}

func forwardedFor(h *fasthttp.RequestHeader) []string {
	var forwarded []string
	for _, v := range h.PeekAll(fiber.HeaderXForwardedFor) {
		forwarded = append(forwarded, string(v))
	}
	return forwarded
}

// tellProxied logs the address that the first proxied request was attributed to. It warns if that is a trusted proxy's too:
// all clients behind it would count as one source, or could choose their address.
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
		s.cfg.Logger.Warn("the client's address behind a trusted proxy is a trusted proxy's: the trusted networks are too wide, or the header is wrong",
			"peer", peer, "client", client)
		return
	}
	s.cfg.Logger.Info("a trusted proxy tells the client's address", "peer", peer, "client", client)
}

// tellIgnored logs the first ignored X-Forwarded-For.
func (s *Server) tellIgnored(peer netip.Addr) {
	if s.ignored.CompareAndSwap(false, true) {
		s.cfg.Logger.Info("X-Forwarded-For is ignored: its sender is no trusted proxy", "peer", peer)
	}
}

// clientAddr returns the client behind trusted proxies: the rightmost hop of X-Forwarded-For that is not a trusted proxy. It
// returns the peer if that is no trusted proxy, since anybody can write the header, and if one of the hops up to the client's
// is not an address.
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

// parseHop parses an element of X-Forwarded-For. Some proxies add a port.
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

// BehindTLS reports whether a trusted proxy says that the client connected by TLS.
func (s *Server) BehindTLS(c *fiber.Ctx) bool {
	return contains(s.cfg.TrustedProxies, connOf(c).peer) && strings.EqualFold(c.Get(fiber.HeaderXForwardedProto), "https")
}

// SameOrigin reports whether a request comes from a page of this site, or from no page at all. Browsers send Sec-Fetch-Site,
// older ones Origin; a request with neither comes from no browser. An Origin is of this site if it is publicURL's or names
// the host that the request was sent to.
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
