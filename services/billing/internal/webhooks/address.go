package webhooks

import (
	"net/netip"
	"net/url"
	"strconv"
	"strings"
)

const maxURLBytes = 2048

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
	if allowPrivate {
		return ""
	}
	host := strings.TrimSuffix(strings.ToLower(u.Hostname()), ".")
	if ip, err := netip.ParseAddr(host); err == nil {
		if !public(ip) {
			return "be an address that the public internet can reach"
		}
	} else if numeric(host) || !strings.Contains(host, ".") || strings.HasSuffix(host, ".localhost") || strings.HasSuffix(host, ".local") || strings.HasSuffix(host, ".internal") {
		return "have a public host name"
	}
	return ""
}

// numeric reports whether a host ends in a number, as addresses in notations like 0x7f.1 and 127.1 do, which some resolvers
// accept. No public domain name does.
func numeric(host string) bool {
	last := host[strings.LastIndexByte(host, '.')+1:]
	_, err := strconv.ParseUint(last, 0, 64)
	return err == nil || strings.Trim(last, "0123456789") == ""
}
