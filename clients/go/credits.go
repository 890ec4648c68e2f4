package client

import (
	"fmt"
	"strconv"
	"strings"
)

// Credits is an amount of credits, in micro-credits: 1,000,000 are one credit.
type Credits int64

// micros per credit, which has this many decimal places.
const (
	micros = 1_000_000
	places = 6
)

// ParseCredits parses a decimal such as "0.000500", with at most six places.
func ParseCredits(s string) (Credits, error) {
	digits, negative := strings.CutPrefix(s, "-")
	whole, fraction, dotted := strings.Cut(digits, ".")
	if whole == "" || dotted && fraction == "" || len(fraction) > places || strings.ContainsAny(digits, "+-") {
		return 0, fmt.Errorf("%q is not an amount of credits", s)
	}
	n, err := strconv.ParseInt(whole+fraction+strings.Repeat("0", places-len(fraction)), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%q is not an amount of credits", s)
	}
	if negative {
		n = -n
	}
	return Credits(n), nil
}

// String formats the amount as the service does, with six places.
func (c Credits) String() string {
	sign, whole, rest := "", c/micros, c%micros
	if c < 0 {
		sign, whole, rest = "-", -whole, -rest
	}
	return fmt.Sprintf("%s%d.%06d", sign, whole, rest)
}

// MarshalText is String.
func (c Credits) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// UnmarshalText is ParseCredits.
func (c *Credits) UnmarshalText(text []byte) error {
	n, err := ParseCredits(string(text))
	if err == nil {
		*c = n
	}
	return err
}
