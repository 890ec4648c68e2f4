package event

import (
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"
)

// MaxEmailBytes is the longest email address of an account: RFC 5321, 4.5.3.1.3, without the angle brackets.
const MaxEmailBytes = 254

// EmailID is what an address is compared and found by: its case does not count, nor how its characters are composed (NFC).
func EmailID(email string) string {
	return norm.NFC.String(strings.ToLower(strings.TrimSpace(email)))
}

// maxLocalBytes is the longest part before the @: RFC 5321, 4.5.3.1.1.
const maxLocalBytes = 64

// ValidEmail checks the form of an address of at most MaxEmailBytes. What a reader can't see is refused, so that no two addresses
// look alike for that.
func ValidEmail(email string) bool {
	local, domain, found := strings.Cut(email, "@")
	if !found || len(local) > maxLocalBytes || strings.ContainsRune(domain, '@') {
		return false
	}
	if strings.ContainsAny(email, `"(),:;<>[\]`) || strings.ContainsFunc(email, unseen) {
		return false
	}
	for _, atom := range strings.Split(local, ".") {
		if atom == "" {
			return false
		}
	}
	for _, label := range strings.Split(domain, ".") {
		if label == "" || len(label) > 63 || label[0] == '-' || label[len(label)-1] == '-' {
			return false
		}
	}
	return true
}

// unseen reports whether a character is white space, a control or format character, or shown as nothing.
func unseen(r rune) bool {
	return unicode.In(r, unicode.White_Space, unicode.Zs, unicode.Zl, unicode.Zp, unicode.Cc, unicode.Cf, unicode.Co, unicode.Cs,
		unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector, unicode.Noncharacter_Code_Point)
}
