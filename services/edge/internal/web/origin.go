package web

import (
	"net"
	"net/netip"
	"strings"

	"github.com/gofiber/fiber/v2"

	"quire.dev/pkg/event"
)

// addrOf is the address of a peer, IPv4 in its short form; the zero Addr where it has none.
func addrOf(a net.Addr) netip.Addr {
	if t, ok := a.(*net.TCPAddr); ok {
		return t.AddrPort().Addr().Unmap().WithZone("")
	}
	return netip.Addr{}
}

// sourceOf is what an address is counted as: itself, or the first address of its IPv6 /64
// (contract.md, Tiers and prices).
func sourceOf(a netip.Addr) netip.Addr {
	a = a.Unmap().WithZone("")
	if !a.Is6() {
		return a
	}
	return netip.PrefixFrom(a, 64).Masked().Addr()
}

// networkBytes is what of a source its pseudo-account is made of.
func networkBytes(source netip.Addr) []byte {
	if source.Is6() {
		b := source.As16()
		return b[:8]
	}
	return source.AsSlice()
}

// clientAddr finds the client behind trusted proxies: the rightmost hop of X-Forwarded-For that is
// not one of them. Of a peer that is no trusted proxy, and where any hop up to there is no
// address, it is the peer: what a stranger writes into the header never counts.
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

// parseHop reads one element of X-Forwarded-For; some proxies add a port.
func parseHop(s string) (netip.Addr, bool) {
	s = strings.TrimSpace(s)
	if a, err := netip.ParseAddr(s); err == nil {
		return a.Unmap().WithZone(""), true
	}
	if ap, err := netip.ParseAddrPort(s); err == nil {
		return ap.Addr().Unmap().WithZone(""), true
	}
	if inner, ok := strings.CutPrefix(s, "["); ok {
		if a, err := netip.ParseAddr(strings.TrimSuffix(inner, "]")); err == nil {
			return a.Unmap().WithZone(""), true
		}
	}
	return netip.Addr{}, false
}

func contains(prefixes []netip.Prefix, a netip.Addr) bool {
	for _, p := range prefixes {
		if p.Contains(a) {
			return true
		}
	}
	return false
}

// source is who sent the request, as it is counted: an IPv4 address or an IPv6 /64.
func (s *Server) source(c *fiber.Ctx) netip.Addr {
	peer := connOf(c).peer
	if len(s.cfg.TrustedProxies) == 0 {
		return sourceOf(peer)
	}
	var forwarded []string
	for _, v := range c.Context().Request.Header.PeekAll(fiber.HeaderXForwardedFor) {
		forwarded = append(forwarded, string(v))
	}
	return sourceOf(clientAddr(peer, forwarded, s.cfg.TrustedProxies))
}

// network is the pseudo-account of the request's source.
func (s *Server) network(c *fiber.Ctx) event.AccountID {
	return s.secret.Network(networkBytes(s.source(c)))
}
