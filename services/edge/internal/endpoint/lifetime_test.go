package endpoint

import (
	"testing"
	"time"

	"quire.dev/services/edge/internal/httpin/input"
)

func TestLifetimes(t *testing.T) {
	number := func(s string) input.Value { return input.Value{Kind: input.Number, Text: []byte(s)} }
	text := func(s string) input.Value { return input.Value{Kind: input.String, Text: []byte(s)} }
	query := func(s string) input.Value { return input.Value{Kind: input.Query, Text: []byte(s)} }
	for _, tc := range []struct {
		v       input.Value
		longest time.Duration
		want    time.Duration // -1: refused
	}{
		{number("60"), MaxLifetime, time.Minute},
		{number("59"), MaxLifetime, -1},
		{number("0"), MaxLifetime, -1},
		{number("-60"), MaxLifetime, -1},
		{number("315360000"), MaxLifetime, MaxLifetime},
		{number("315360001"), MaxLifetime, -1},
		{number("60.0"), MaxLifetime, -1},
		{number("6e1"), MaxLifetime, -1},
		{number("99999999999999999999"), MaxLifetime, -1},
		{text("1m"), MaxLifetime, time.Minute},
		{text("10m"), MaxLifetime, 10 * time.Minute},
		{text("1h"), MaxLifetime, time.Hour},
		{text("7d"), MaxLifetime, 7 * Day},
		{text("2w"), MaxLifetime, 14 * Day},
		{text("1y"), MaxLifetime, 365 * Day},
		{text("10y"), MaxLifetime, MaxLifetime},
		{text("11y"), MaxLifetime, -1},
		{text("3650d"), MaxLifetime, MaxLifetime},
		{text("3651d"), MaxLifetime, -1},
		{text("9223372036854775807w"), MaxLifetime, -1},
		{text("0m"), MaxLifetime, -1},
		{text("-1h"), MaxLifetime, -1},
		{text("+1h"), MaxLifetime, -1},
		{text("1.5h"), MaxLifetime, -1},
		{text("h"), MaxLifetime, -1},
		{text(""), MaxLifetime, -1},
		{text("1s"), MaxLifetime, -1},
		{text("3600"), MaxLifetime, -1},
		{text("1H"), MaxLifetime, -1},
		{text(" 1h"), MaxLifetime, -1},
		{text("never"), MaxLifetime, 0},
		{input.Value{Kind: input.Bool, Text: []byte("true")}, MaxLifetime, -1},
		{query("3600"), MaxLifetime, time.Hour},
		{query("1h"), MaxLifetime, time.Hour},
		{query("x"), MaxLifetime, -1},
		{text("30d"), KeylessLifetime, 30 * Day},
		{number("2592001"), KeylessLifetime, -1},
		{text("never"), KeylessLifetime, -1},
	} {
		got, err := LifetimeField("expiresIn", tc.v, tc.longest)
		if err != nil {
			got = -1
		}
		if got != tc.want {
			t.Errorf("%q within %v: %v %v, want %v", tc.v.Text, tc.longest, got, err, tc.want)
		}
	}
}
