package plan

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"quire.dev/pkg/num"
)

// Micros is an amount of credits in millionths.
type Micros int64

// Credit is one credit.
const Credit Micros = 1_000_000

// MaxBalance is the largest balance of an account in micro-credits, and so the largest price.
const MaxBalance = 1_000_000_000 * 1_000_000

// ErrCreditSyntax is the error for text that is not an amount.
var ErrCreditSyntax = errors.New("not an amount of credits: a decimal number with at most six places")

// String returns the amount with six places: "0.000500".
func (m Micros) String() string {
	var buf [24]byte // the longest text has 21 bytes
	out, v := buf[:0], num.Abs(m)
	if m < 0 {
		out = append(out, '-')
	}
	out = strconv.AppendUint(out, v/uint64(Credit), 10)
	// A digit 1 before the six places keeps their leading zeros. The point replaces it.
	point := len(out)
	out = strconv.AppendUint(out, uint64(Credit)+v%uint64(Credit), 10)
	out[point] = '.'
	return string(out)
}

// Credits formats micro-credits with six places, as Micros does.
func Credits[N num.Integer](micros N) string { return Micros(num.Int64(micros)).String() }

// Short formats an amount of credits for people, without trailing zeros.
func Short[N num.Integer](micros N) string {
	return strings.TrimSuffix(strings.TrimRight(Credits(micros), "0"), ".")
}

// Dollars formats an amount of cents, such as 9.00.
func Dollars(cents uint64) string { return fmt.Sprintf("%d.%02d", cents/100, cents%100) }

// ParseCredits reads a decimal number of at most six places, with an optional sign. It never rounds.
func ParseCredits(s string) (Micros, error) {
	rest, negative := s, false
	switch {
	case strings.HasPrefix(s, "-"):
		rest, negative = s[1:], true
	case strings.HasPrefix(s, "+"):
		rest = s[1:]
	}
	whole, fraction, dotted := strings.Cut(rest, ".")
	if whole == "" || len(whole) > 13 || len(fraction) > 6 || dotted && fraction == "" {
		return 0, fmt.Errorf("%q: %w", s, ErrCreditSyntax)
	}
	var v uint64
	for _, c := range whole + fraction + strings.Repeat("0", 6-len(fraction)) {
		if c < '0' || c > '9' {
			return 0, fmt.Errorf("%q: %w", s, ErrCreditSyntax)
		}
		v = v*10 + uint64(c-'0')
	}
	if v > math.MaxInt64 {
		return 0, fmt.Errorf("%q: %w", s, ErrCreditSyntax)
	}
	if negative {
		return -Micros(v), nil
	}
	return Micros(v), nil
}

// MustParseCredits is ParseCredits for amounts in source code. It panics on a bad one.
func MustParseCredits(s string) Micros {
	m, err := ParseCredits(s)
	if err != nil {
		panic(err)
	}
	return m
}
