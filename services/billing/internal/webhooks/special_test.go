package webhooks

import (
	"net/netip"
	"testing"
)

// TestSpecialNetworksAreRefusedToTheirEnds: the first and last address of each, and not the neighbours on both sides.
func TestSpecialNetworksAreRefusedToTheirEnds(t *testing.T) {
	for _, tc := range []struct{ first, last, before, after string }{ // a neighbour that is special too is left out
		{"0.0.0.0", "0.255.255.255", "", "1.0.0.0"},
		{"10.0.0.0", "10.255.255.255", "9.255.255.255", "11.0.0.0"},
		{"100.64.0.0", "100.127.255.255", "100.63.255.255", "100.128.0.0"},
		{"127.0.0.0", "127.255.255.255", "126.255.255.255", "128.0.0.0"},
		{"169.254.0.0", "169.254.255.255", "169.253.255.255", "169.255.0.0"},
		{"172.16.0.0", "172.31.255.255", "172.15.255.255", "172.32.0.0"},
		{"192.0.0.0", "192.0.0.255", "191.255.255.255", "192.0.1.0"},
		{"192.0.2.0", "192.0.2.255", "192.0.1.255", "192.0.3.0"},
		{"192.31.196.0", "192.31.196.255", "192.31.195.255", "192.31.197.0"},
		{"192.52.193.0", "192.52.193.255", "192.52.192.255", "192.52.194.0"},
		{"192.88.99.0", "192.88.99.255", "192.88.98.255", "192.88.100.0"},
		{"192.168.0.0", "192.168.255.255", "192.167.255.255", "192.169.0.0"},
		{"192.175.48.0", "192.175.48.255", "192.175.47.255", "192.175.49.0"},
		{"198.18.0.0", "198.19.255.255", "198.17.255.255", "198.20.0.0"},
		{"198.51.100.0", "198.51.100.255", "198.51.99.255", "198.51.101.0"},
		{"203.0.113.0", "203.0.113.255", "203.0.112.255", "203.0.114.0"},
		{"224.0.0.0", "255.255.255.255", "223.255.255.255", ""},
		{"::", "1fff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "", "2000::"},
		{"2001::", "2001:1ff:ffff:ffff:ffff:ffff:ffff:ffff", "2000:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "2001:200::"},
		{"2001:db8::", "2001:db8:ffff:ffff:ffff:ffff:ffff:ffff", "2001:db7:ffff:ffff:ffff:ffff:ffff:ffff", "2001:db9::"},
		{"2002::", "2002:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "2001:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "2003::"},
		{"2620:4f:8000::", "2620:4f:8000:ffff:ffff:ffff:ffff:ffff", "2620:4f:7fff:ffff:ffff:ffff:ffff:ffff", "2620:4f:8001::"},
		{"3fff::", "3fff:fff:ffff:ffff:ffff:ffff:ffff:ffff", "3ffe:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "3fff:1000::"},
		{"4000::", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "3fff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", ""},
		{"5f00::", "5f00:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "", ""},
		{"fec0::", "feff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "", ""},
		{"64:ff9b::", "64:ff9b::ffff:ffff", "", ""},
		{"64:ff9b:1::", "64:ff9b:1:ffff:ffff:ffff:ffff:ffff", "", ""},
		{"100::", "100::ffff:ffff:ffff:ffff", "", ""},
		{"::ffff:0:808:808", "::808:808", "", ""},
	} {
		for address, want := range map[string]bool{tc.first: false, tc.last: false, tc.before: true, tc.after: true} {
			if address == "" {
				continue
			}
			dialled := dialPublic("tcp", netip.AddrPortFrom(netip.MustParseAddr(address), 443).String(), nil) == nil
			host := address
			if netip.MustParseAddr(address).Is6() {
				host = "[" + address + "]"
			}
			if saved := checkURL("https://"+host+"/", false) == ""; saved != want || dialled != want {
				t.Errorf("%s: saved %v, dialled %v, want %v", address, saved, dialled, want)
			}
		}
	}
}

func TestMappedAddressesAreTheirIPv4Addresses(t *testing.T) {
	for address, want := range map[string]bool{
		"::ffff:8.8.8.8": true, "::ffff:192.0.2.1": false, "::ffff:10.0.0.1": false, "2000::1%eth0": false,
	} {
		if got := public(netip.MustParseAddr(address)); got != want {
			t.Errorf("%s: %v", address, got)
		}
	}
}
