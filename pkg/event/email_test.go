package event

import (
	"strings"
	"testing"
)

func TestAddressesAreEmailAddresses(t *testing.T) {
	for _, email := range []string{
		"a@b", "ada.lovelace+tag@example.org", "ÄDA@bücher.example", "o'brien@example.org", "日本@例え.jp", "a@127.0.0.1", "Ann.O'Neil+quire@mail.example.co.uk",
		strings.Repeat("x", 64) + "@example.org", "a@" + strings.Repeat("b", 63) + ".c", "जॉन@example.org", "e\u0301@example.org",
	} {
		if !ValidEmail(email) {
			t.Errorf("%q is refused", email)
		}
	}
	for _, email := range []string{
		"", "@", "a", "a@", "@b", "a@b@c", "a..b@c", ".a@b", "a.@b", "a@b..c", "a@.b", "a@b.", "a@-b", "a@b-", "a b@c", "a@b c", "a,b@c", "<a@b>", "a@b,c@d", "a@[::1]", "a:b@c", "\"a\"@b",
		strings.Repeat("x", 65) + "@example.org", "a@" + strings.Repeat("b", 64) + ".c",
	} {
		if ValidEmail(email) {
			t.Errorf("%q is taken", email)
		}
	}
	// No two addresses look alike for what nobody sees.
	for _, r := range "\x00\t\n\r\x7f\u0085\u00a0\u00ad\u034f\u061c\u115f\u1680\u180e\u2000\u200b\u200c\u200d\u200e\u200f\u2028\u2029\u202a\u202e\u202f\u2060\u2063\u2066\u2069\u3000\u3164\ufe00\ufe0f\ufeff\uffa0\ufff9\ufffe\ue000\U000e0041\U000e0100" {
		for _, email := range []string{"ada" + string(r) + "@example.org", "ada@exam" + string(r) + "ple.org", string(r) + "ada@example.org"} {
			if ValidEmail(email) {
				t.Errorf("%q is taken", email)
			}
		}
	}
}

func TestAnAddressHasOneID(t *testing.T) {
	for email, want := range map[string]string{
		"Ada@Example.ORG": "ada@example.org", " ada@example.org ": "ada@example.org", "É@example.org": "é@example.org",
		"E\u0301@example.org": "é@example.org", "e\u0301@example.org": "é@example.org", "\u212b@example.org": "å@example.org",
	} {
		if got := EmailID(email); got != want {
			t.Errorf("%q is %q, want %q", email, got, want)
		}
	}
}
