package developer

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"quire.dev/services/edge/internal/fault"
	"quire.dev/services/edge/internal/httpin"
	"quire.dev/services/edge/internal/httpin/input"
)

func TestFieldsAreHeldToTheirLimits(t *testing.T) {
	now := time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC)
	tags := func(n int) string {
		var list []string
		for i := range n {
			list = append(list, fmt.Sprintf("%q", fmt.Sprint("t", i)))
		}
		return "[" + strings.Join(list, ",") + "]"
	}
	for _, tc := range []struct {
		field, json string
		ok          bool
	}{
		{"title", `"` + strings.Repeat("é", 200) + `"`, true},
		{"title", `"` + strings.Repeat("é", 201) + `"`, false},
		{"title", `"a\u0000"`, false},
		{"title", `null`, true},
		{"title", `1`, false},
		{"title", `""`, true},
		{"language", `"c++"`, true},
		{"language", `"F#.net_x-1"`, true},
		{"language", `"a b"`, false},
		{"language", `""`, false},
		{"language", `"` + strings.Repeat("a", 50) + `"`, true},
		{"language", `"` + strings.Repeat("a", 51) + `"`, false},
		{"visibility", `"private"`, true},
		{"visibility", `"secret"`, false},
		{"visibility", `null`, true},
		{"password", `"` + strings.Repeat("é", 128) + `"`, true},
		{"password", `"` + strings.Repeat("é", 129) + `"`, false},
		{"password", `""`, false},
		{"tags", tags(10), true},
		{"tags", tags(11), false},
		{"tags", `["` + strings.Repeat("é", 32) + `"]`, true},
		{"tags", `["` + strings.Repeat("é", 33) + `"]`, false},
		{"tags", `[""]`, false},
		{"tags", `[1]`, false},
		{"tags", `"a"`, false},
		{"tags", `[]`, true},
		{"burnAfterRead", `true`, true},
		{"burnAfterRead", `"true"`, false},
		{"burnAfterRead", `1`, false},
		{"burnAfterRead", `null`, true},
		{"expiresAt", `"2026-11-21T00:01:00Z"`, true},
		{"expiresAt", `"2026-11-21T00:00:59Z"`, false},
		{"expiresAt", `"2026-11-21T02:00:00+01:00"`, true},
		{"expiresAt", `"2036-11-18T00:00:00Z"`, true},
		{"expiresAt", `"2036-11-18T00:00:01Z"`, false},
		{"expiresAt", `"tomorrow"`, false},
		{"expiresAt", `1`, false},
		{"content", `null`, false},
		{"content", `""`, false},
		{"content", `1`, false},
		{"content", `"\u0000"`, true},
		{"content", `"` + strings.Repeat("é", 32) + `"`, true},
		{"content", `"` + strings.Repeat("é", 32) + `a"`, false},
	} {
		d, rules := &draft{}, &draftRules{now: now, content: httpin.Limit{Bytes: 64, Name: "64 bytes"}, update: true}
		err := input.ParseObject([]byte(`{"`+tc.field+`":`+tc.json+`}`), func(name string, v input.Value) error { return d.set(rules, name, v) })
		if (err == nil) != tc.ok {
			t.Errorf("%s %.60s: %v", tc.field, tc.json, err)
		}
		if kind := fault.KindOf(err); err != nil && kind != fault.InvalidField && kind != fault.TooLarge {
			t.Errorf("%s %.60s is %s", tc.field, tc.json, kind)
		}
	}
}

// TestContentWaitsWithoutAMuchLongerBody: pending content is accounted for by its own size.
func TestContentWaitsWithoutAMuchLongerBody(t *testing.T) {
	rules := &draftRules{content: httpin.Limit{Bytes: 1 << 10}}
	for body, copied := range map[string]bool{
		`{"content":"` + strings.Repeat("x", 100) + `"}`:                       false,
		`{"content":"` + strings.Repeat(`\u0078`, 100) + `"}`:                  true,
		`{"content":"x"` + strings.Repeat(" ", 100) + `}`:                      true,
		`{"content":"` + strings.Repeat("x", 100) + `","title":"a title too"}`: false,
	} {
		d := &draft{}
		if err := d.parse(rules, []byte(body)); err != nil {
			t.Fatal(err)
		}
		own := d.ownText()
		if !bytes.Equal(own, d.text) || (&own[0] != &d.text[0]) != copied {
			t.Errorf("%.30s is %q, want it copied: %v", body, own, copied)
		}
	}
}
