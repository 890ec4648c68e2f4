package webhooks

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"syscall"
)

var errProhibited = errors.New("not an address of the public internet")

// special are the networks within IPv4 and the global unicast of IPv6 where no webhook is allowed, by IANA's IPv4 and IPv6
// Special-Purpose Address Registries (https://www.iana.org/assignments/iana-ipv4-special-registry and
// iana-ipv6-special-registry, as of 2025-10) and the multicast registries. They include anycast and relay addresses that IANA
// calls globally reachable: no user's server is there, or they lead to an IPv4 address.
func special() []netip.Prefix {
	return []netip.Prefix{
		netip.MustParsePrefix("0.0.0.0/8"),       // this network
		netip.MustParsePrefix("10.0.0.0/8"),      // private
		netip.MustParsePrefix("100.64.0.0/10"),   // shared
		netip.MustParsePrefix("127.0.0.0/8"),     // loopback
		netip.MustParsePrefix("169.254.0.0/16"),  // link-local, with the metadata services of clouds
		netip.MustParsePrefix("172.16.0.0/12"),   // private
		netip.MustParsePrefix("192.0.0.0/24"),    // IETF protocol assignments
		netip.MustParsePrefix("192.0.2.0/24"),    // documentation
		netip.MustParsePrefix("192.31.196.0/24"), // AS112
		netip.MustParsePrefix("192.52.193.0/24"), // AMT
		netip.MustParsePrefix("192.88.99.0/24"),  // 6to4 relays
		netip.MustParsePrefix("192.168.0.0/16"),  // private
		netip.MustParsePrefix("192.175.48.0/24"), // AS112
		netip.MustParsePrefix("198.18.0.0/15"),   // benchmarks
		netip.MustParsePrefix("198.51.100.0/24"), // documentation
		netip.MustParsePrefix("203.0.113.0/24"),  // documentation
		netip.MustParsePrefix("224.0.0.0/4"),     // multicast
		netip.MustParsePrefix("240.0.0.0/4"),     // reserved, and broadcast

		netip.MustParsePrefix("2001::/23"),         // IETF protocol assignments: Teredo, benchmarks, AMT, ORCHID
		netip.MustParsePrefix("2001:db8::/32"),     // documentation
		netip.MustParsePrefix("2002::/16"),         // 6to4
		netip.MustParsePrefix("2620:4f:8000::/48"), // AS112
		netip.MustParsePrefix("3fff::/20"),         // documentation
	}
}

// public reports whether an address belongs to the public internet. For IPv6 that is only global unicast, 2000::/3: it excludes
// loopback, local, multicast, discard-only, SRv6 (5f00::/16) and site-local networks, and the forms that lead to an IPv4
// address (compatible, translated, NAT64). A mapped address counts as its IPv4 address. An address with a zone is in no
// network.
func public(ip netip.Addr) bool {
	ip = ip.Unmap()
	if ip.Is6() && !netip.MustParsePrefix("2000::/3").Contains(ip) {
		return false
	}
	return ip.IsValid() && !slices.ContainsFunc(special(), func(p netip.Prefix) bool { return p.Contains(ip) })
}

// dialPublic is a net.Dialer's Control: when dialing it refuses every resolved address that is not public.
func dialPublic(_, address string, _ syscall.RawConn) error {
	to, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("%w: %w", errProhibited, err)
	}
	if !public(to.Addr()) {
		return errProhibited
	}
	return nil
}
