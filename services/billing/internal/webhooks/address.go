package webhooks

import (
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

const maxURLBytes = 2048

// listenHint ends the refusal of an address of a machine or a private network.
const listenHint = "; to receive events on your own machine, run quire listen --forward-to <url>"

// checkURL returns what is wrong with a webhook's URL, as the end of "url must …"; "" if it is valid. Names are resolved and
// checked when dialing, since they may change.
func checkURL(text string, allowPrivate bool) string {
	if len(text) > maxURLBytes {
		return "have at most " + strconv.Itoa(maxURLBytes) + " bytes"
	}
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Host == "" || u.Opaque != "" || strings.ContainsFunc(text+u.Host, func(r rune) bool { return r <= ' ' || r >= 0x7f }): // a host may be percent-encoded
		return "be an address like https://example.com/webhooks"
	case !allowPrivate && (u.Scheme == "https" || u.Scheme == "http") && notPublic(u) != "":
		return notPublic(u) + listenHint
	case u.Scheme != "https" && (u.Scheme != "http" || !allowPrivate):
		return "begin with https://"
	case u.User != nil:
		return "have no user and password"
	case u.Fragment != "" || strings.Contains(text, "#"):
		return "have no fragment"
	}
	if port := u.Port(); port != "" {
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return "have a port from 1 to 65535"
		}
	} else if strings.HasSuffix(u.Host, ":") {
		return "have a port behind the colon"
	}
	return ""
}

// notPublic returns why the public internet can't reach a URL's host, as the end of "url must …"; "" if it may.
func notPublic(u *url.URL) string {
	host := strings.TrimSuffix(strings.ToLower(u.Hostname()), ".")
	if ip, err := netip.ParseAddr(host); err == nil {
		if !public(ip) {
			return "be an address that the public internet can reach"
		}
	} else if !publicName(host) {
		return "have a public host name"
	}
	return ""
}

// publicName reports whether a lower-case host without a trailing dot can be a name in the public DNS: labels of 1 to 63
// bytes, and not one of the names that lead to the machine or its network.
func publicName(host string) bool {
	labels := strings.Split(host, ".")
	if slices.ContainsFunc(labels, func(l string) bool { return l == "" || len(l) > 63 }) || len(labels) < 2 {
		return false
	}
	last := labels[len(labels)-1]
	return !numeric(last) && last != "localhost" && last != "local" && last != "internal"
}

// numeric reports whether a last label makes its host an IPv4 address to some resolvers, as in 0x7f.1 and 127.1.
func numeric(label string) bool {
	hex, isHex := strings.CutPrefix(label, "0x")
	return strings.Trim(label, "0123456789") == "" || isHex && strings.Trim(hex, "0123456789abcdef") == ""
}
