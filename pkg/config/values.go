package config

import (
	"cmp"
	"fmt"
	"log/slog"
	"math"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Value is a variable of the program and the texts that may set it.
type Value struct {
	Into    any    // pointer to the variable
	Allowed string // completes "it must be": "a whole number from 1 to 256"

	set    func(text string) bool // false, without a change, for an invalid text
	secret bool                   // faults hide the text
}

// IsSecret reports whether all of the value is secret, not only the credentials in a URL.
func (v Value) IsSecret() bool { return v.secret }

// Show returns a text for the value as people may see it.
func (v Value) Show(text string) string {
	if v.secret && text != "" {
		return Hidden
	}
	return withoutUser(text)
}

// withoutUser hides the credentials of a text that may be a URL, even one without its scheme, which Redact misses.
func withoutUser(text string) string {
	if strings.Contains(text, "://") {
		return Redact(text)
	}
	return hideUser(text)
}

func value[T any](into *T, allowed string, parse func(string) (T, bool)) Value {
	return Value{Into: into, Allowed: allowed, set: func(text string) bool {
		parsed, ok := parse(text)
		if ok {
			*into = parsed
		}
		return ok
	}}
}

// bounded is a value from least to most, inclusive.
func bounded[T cmp.Ordered](into *T, kind, least, most string, parse func(string) (T, bool)) Value {
	from, ok := parse(least)
	to, ok2 := parse(most)
	if !ok || !ok2 {
		panic(fmt.Sprintf("bounds %q and %q of %s", least, most, kind)) // a bug
	}
	return value(into, fmt.Sprintf("%s from %s to %s", kind, least, most), func(text string) (T, bool) {
		parsed, ok := parse(text)
		return parsed, ok && from <= parsed && parsed <= to
	})
}

// Text accepts any text.
func Text(into *string) Value {
	return value(into, "any text", func(text string) (string, bool) { return text, true })
}

// Checked accepts a text that check returns no error for.
func Checked(into *string, allowed string, check func(text string) error) Value {
	return value(into, allowed, func(text string) (string, bool) { return text, check(text) == nil })
}

// Choice accepts one of a few words.
func Choice(into *string, words ...string) Value {
	return value(into, "one of "+strings.Join(words, ", "), func(text string) (string, bool) {
		return text, slices.Contains(words, text)
	})
}

// Level accepts a minimum log level.
func Level(into *slog.Level) Value {
	levels := map[string]slog.Level{"debug": slog.LevelDebug, "info": slog.LevelInfo, "warn": slog.LevelWarn, "error": slog.LevelError}
	return value(into, "one of debug, info, warn, error", func(text string) (slog.Level, bool) {
		level, ok := levels[text]
		return level, ok
	})
}

// Int accepts a whole number from least to most.
func Int(into *int, least, most int) Value {
	return bounded(into, "a whole number", strconv.Itoa(least), strconv.Itoa(most), func(text string) (int, bool) {
		number, err := strconv.Atoi(text)
		return number, err == nil
	})
}

// Fraction accepts a number from 0 to 1.
func Fraction(into *float64) Value {
	return bounded(into, "a number", "0", "1", func(text string) (float64, bool) {
		number, err := strconv.ParseFloat(text, 64)
		return number, err == nil
	})
}

// Ints accepts a list of whole numbers from 0 to most and of ranges of them, such as "0-7,12". The slice has each number once,
// in ascending order.
func Ints(into *[]int, most int) Value {
	allowed := fmt.Sprintf(`whole numbers from 0 to %d, such as "0-7,12"`, most)
	return value(into, allowed, func(text string) ([]int, bool) {
		var numbers []int
		for field := range strings.SplitSeq(text, ",") {
			first, last, isRange := strings.Cut(strings.TrimSpace(field), "-")
			if !isRange {
				last = first
			}
			from, err := strconv.Atoi(first)
			to, err2 := strconv.Atoi(last)
			if err != nil || err2 != nil || from < 0 || to < from || to > most {
				return nil, false
			}
			for n := from; n <= to; n++ {
				numbers = append(numbers, n)
			}
		}
		slices.Sort(numbers)
		return slices.Compact(numbers), true
	})
}

// Bool accepts true or false, 1 or 0.
func Bool(into *bool) Value {
	return value(into, "true, false, 1 or 0", func(text string) (bool, bool) {
		switch text {
		case "true", "1":
			return true, true
		case "false", "0":
			return false, true
		}
		return false, false
	})
}

// Duration accepts a Go duration ("90s", "1h30m") or whole days ("7d"). Its bounds have the same format.
func Duration(into *time.Duration, least, most string) Value {
	return bounded(into, `a duration such as "90s", "1h30m" or "7d"`, least, most, parseDuration)
}

const (
	day     = 24 * time.Hour
	maxDays = int64(math.MaxInt64 / day)
)

func parseDuration(text string) (time.Duration, bool) {
	if count, ok := strings.CutSuffix(text, "d"); ok {
		days, err := strconv.ParseInt(count, 10, 64)
		return time.Duration(days) * day, err == nil && -maxDays <= days && days <= maxDays
	}
	duration, err := time.ParseDuration(text)
	return duration, err == nil
}

// Bytes accepts a number of bytes, with a binary unit or none: "4MiB", "4MB" and "4M" are 4·2^20. Its bounds have the same
// format.
func Bytes(into *int64, least, most string) Value {
	return bounded(into, `a number of bytes such as "65536", "64KiB", "4MiB" or "1GiB"`, least, most, parseBytes)
}

func parseBytes(text string) (int64, bool) {
	digits := strings.TrimRight(text, "KMGTiB ")
	shift, ok := map[string]uint{
		"": 0, "B": 0, "K": 10, "KB": 10, "KiB": 10, "M": 20, "MB": 20, "MiB": 20,
		"G": 30, "GB": 30, "GiB": 30, "T": 40, "TB": 40, "TiB": 40,
	}[strings.TrimSpace(text[len(digits):])]
	size, err := strconv.ParseInt(digits, 10, 64)
	if !ok || err != nil || size < 0 || size > math.MaxInt64>>shift {
		return 0, false
	}
	return size << shift, true
}

// Address accepts host:port to listen on or to connect to; the host may be empty, the port 0.
func Address(into *string) Value {
	return value(into, `an address such as "127.0.0.1:8080" or ":8080"`, func(text string) (string, bool) {
		host, port, err := net.SplitHostPort(text)
		if err != nil || strings.ContainsAny(host, " /@") {
			return "", false
		}
		_, err = strconv.ParseUint(port, 10, 16)
		return text, err == nil
	})
}

// Networks accepts a list such as "10.0.0.0/8, fd00::/8"; a bare address is a network of one.
func Networks(into *[]netip.Prefix) Value {
	allowed := `networks separated by commas, such as "10.0.0.0/8, fd00::/8"`
	return value(into, allowed, func(text string) ([]netip.Prefix, bool) {
		var networks []netip.Prefix
		for field := range strings.SplitSeq(text, ",") {
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
		// "10.0.0.1/8" is a mistake in the address or the prefix length.
		return network, network == network.Masked()
	}
	address, err := netip.ParseAddr(text)
	if err != nil || address.Zone() != "" {
		return netip.Prefix{}, false
	}
	return netip.PrefixFrom(address, address.BitLen()), true
}

// URL accepts a URL with one of the schemes, or several separated by commas for NATS, and keeps its text. MongoDB's host lists
// are allowed too.
func URL(into *string, schemes ...string) Value {
	allowed := "a URL that begins with " + strings.Join(schemes, ":// or ") + "://"
	return value(into, allowed, func(text string) (string, bool) {
		scheme, rest, _ := strings.Cut(text, "://")
		return text, slices.Contains(schemes, scheme) && isAuthority(rest)
	})
}

// isAuthority checks the part after "://". url.Parse refuses the host lists of MongoDB and NATS, so only a single host is left
// to it.
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

// CheckedSecret accepts a secret that passes check. allowed completes "it must be".
func CheckedSecret(into *Secret, allowed string, check func(text string) error) Value {
	v := value(into, allowed, func(text string) (Secret, bool) { return Secret(text), check(text) == nil })
	v.secret = true
	return v
}

// SecretText accepts a secret of at least minBytes bytes; faults hide it.
func SecretText(into *Secret, minBytes int) Value {
	v := value(into, fmt.Sprintf("at least %d bytes long", minBytes), func(text string) (Secret, bool) {
		return Secret(text), len(text) >= minBytes
	})
	v.secret = true
	return v
}

// SecretTexts accepts a list of secrets, separated by commas, each of at least minBytes bytes; faults hide them.
func SecretTexts(into *Secrets, minBytes int) Value {
	v := value(into, fmt.Sprintf("secrets of at least %d bytes each, separated by commas", minBytes), func(text string) (Secrets, bool) {
		var out Secrets
		for part := range strings.SplitSeq(text, ",") {
			part = strings.TrimSpace(part)
			if len(part) < minBytes {
				return nil, false
			}
			out = append(out, Secret(part))
		}
		return out, true
	})
	v.secret = true
	return v
}
