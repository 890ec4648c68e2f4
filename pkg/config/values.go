package config

import (
	"cmp"
	"fmt"
	"math"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Range bounds a number, both ends included. The zero Range bounds nothing.
type Range[T cmp.Ordered] struct{ Min, Max T }

func (b Range[T]) holds(value T) bool {
	return b == Range[T]{} || b.Min <= value && value <= b.Max
}

func (b Range[T]) describe(what string) string {
	if b == (Range[T]{}) {
		return what
	}
	return fmt.Sprintf("%s from %v to %v", what, b.Min, b.Max)
}

// read parses a setting, and reports a fault where parse refuses it.
func read[T any](r *Reader, name string, fallback T, allowed string, parse func(string) (T, bool)) T {
	value, ok := r.lookup(name)
	if !ok {
		return fallback
	}
	parsed, ok := parse(value)
	if !ok {
		r.fault(name, allowed)
		return fallback
	}
	return parsed
}

// String reads any text.
func (r *Reader) String(name, fallback string) string {
	return read(r, name, fallback, "", func(value string) (string, bool) { return value, true })
}

// Choice reads one of a few words.
func (r *Reader) Choice(name, fallback string, allowed ...string) string {
	return read(r, name, fallback, "one of "+strings.Join(allowed, ", "), func(value string) (string, bool) {
		return value, slices.Contains(allowed, value)
	})
}

// Int reads a whole number.
func (r *Reader) Int(name string, fallback int, bounds Range[int]) int {
	return read(r, name, fallback, bounds.describe("a whole number"), func(value string) (int, bool) {
		number, err := strconv.Atoi(value)
		return number, err == nil && bounds.holds(number)
	})
}

// Bool reads true or false, or 1 or 0.
func (r *Reader) Bool(name string, fallback bool) bool {
	return read(r, name, fallback, "true, false, 1 or 0", func(value string) (bool, bool) {
		switch value {
		case "true", "1":
			return true, true
		case "false", "0":
			return false, true
		}
		return false, false
	})
}

const (
	day     = 24 * time.Hour
	maxDays = int64(math.MaxInt64 / day)
)

// Duration reads a Go duration ("90s", "1h30m") or whole days ("7d").
func (r *Reader) Duration(name string, fallback time.Duration, bounds Range[time.Duration]) time.Duration {
	allowed := bounds.describe(`a duration such as "90s", "1h30m" or "7d"`)
	return read(r, name, fallback, allowed, func(value string) (time.Duration, bool) {
		duration, ok := parseDuration(value)
		return duration, ok && bounds.holds(duration)
	})
}

func parseDuration(value string) (time.Duration, bool) {
	if count, ok := strings.CutSuffix(value, "d"); ok {
		days, err := strconv.ParseInt(count, 10, 64)
		return time.Duration(days) * day, err == nil && -maxDays <= days && days <= maxDays
	}
	duration, err := time.ParseDuration(value)
	return duration, err == nil
}

// Bytes reads a number of bytes, with a binary unit or none: "4MiB", "4MB" and "4M" are 4·2^20.
func (r *Reader) Bytes(name string, fallback int64, bounds Range[int64]) int64 {
	allowed := bounds.describe(`a number of bytes such as "65536", "64KiB", "4MiB" or "1GiB"`)
	return read(r, name, fallback, allowed, func(value string) (int64, bool) {
		size, ok := parseBytes(value)
		return size, ok && bounds.holds(size)
	})
}

func parseBytes(value string) (int64, bool) {
	digits := strings.TrimRight(value, "KMGTiB ")
	shift, ok := map[string]uint{
		"": 0, "B": 0, "K": 10, "KB": 10, "KiB": 10, "M": 20, "MB": 20, "MiB": 20,
		"G": 30, "GB": 30, "GiB": 30, "T": 40, "TB": 40, "TiB": 40,
	}[strings.TrimSpace(value[len(digits):])]
	size, err := strconv.ParseInt(digits, 10, 64)
	if !ok || err != nil || size < 0 || size > math.MaxInt64>>shift {
		return 0, false
	}
	return size << shift, true
}

// Address reads host:port to listen on or to connect to; the host may be empty, the port 0.
func (r *Reader) Address(name, fallback string) string {
	return read(r, name, fallback, `an address such as "127.0.0.1:8080" or ":8080"`, func(value string) (string, bool) {
		host, port, err := net.SplitHostPort(value)
		if err != nil || strings.ContainsAny(host, " /@") {
			return "", false
		}
		_, err = strconv.ParseUint(port, 10, 16)
		return value, err == nil
	})
}

// CIDRs reads networks separated by commas, such as "10.0.0.0/8, fd00::/8"; an address alone is the network of only
// itself.
func (r *Reader) CIDRs(name string) []netip.Prefix {
	allowed := `networks separated by commas, such as "10.0.0.0/8, fd00::/8"`
	return read(r, name, nil, allowed, func(value string) ([]netip.Prefix, bool) {
		var networks []netip.Prefix
		for field := range strings.SplitSeq(value, ",") {
			network, ok := parseNetwork(strings.TrimSpace(field))
			if !ok {
				return nil, false
			}
			networks = append(networks, network)
		}
		return networks, true
	})
}

func parseNetwork(text string) (netip.Prefix, bool) {
	if network, err := netip.ParsePrefix(text); err == nil {
		// A network written with bits of a host in it means something else than it says.
		return network, network == network.Masked()
	}
	address, err := netip.ParseAddr(text)
	if err != nil || address.Zone() != "" {
		return netip.Prefix{}, false
	}
	return netip.PrefixFrom(address, address.BitLen()), true
}

// URL reads a URL with one of the schemes, or several separated by commas as NATS takes them, and returns it as it was
// written. MongoDB's lists of hosts are fine too. The fallback may be empty.
func (r *Reader) URL(name, fallback string, schemes ...string) string {
	allowed := "a URL that begins with " + strings.Join(schemes, ":// or ") + "://"
	return read(r, name, fallback, allowed, func(value string) (string, bool) {
		scheme, rest, _ := strings.Cut(value, "://")
		return value, slices.Contains(schemes, scheme) && isAuthority(rest)
	})
}

// isAuthority looks at what follows "://". url.Parse refuses the lists of hosts that MongoDB and NATS take, so that
// only a single host is left to it.
func isAuthority(rest string) bool {
	authority := rest
	if end := strings.IndexAny(rest, "/?#"); end >= 0 {
		authority = rest[:end]
	}
	host := authority[strings.LastIndex(authority, "@")+1:]
	if host == "" || strings.ContainsAny(rest, " \t\n") {
		return false
	}
	if strings.Contains(host, ",") {
		return true
	}
	u, err := url.Parse("any://" + rest)
	return err == nil && u.Hostname() != ""
}

// Secret reads a secret of at least minBytes bytes; its value appears in no fault. It is empty where it is unset.
func (r *Reader) Secret(name string, minBytes int) Secret {
	value, ok := r.lookup(name)
	if ok && len(value) < minBytes {
		r.faults = append(r.faults, fmt.Errorf("%s (not shown): it must be at least %d bytes long", name, minBytes))
	}
	return Secret(value)
}
