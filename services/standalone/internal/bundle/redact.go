package bundle

import (
	"encoding/json"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"quire.dev/pkg/config"
)

// minSecret is the length of the shortest known value that is replaced: a shorter one would replace parts of words.
const minSecret = 4

// redactor hides secrets and addresses in texts: known values, and what looks like one.
type redactor struct{ known *strings.Replacer }

func newRedactor(secrets []string) redactor {
	var forms []string
	for _, secret := range secrets {
		decoded, err := url.PathUnescape(secret)
		if err != nil {
			decoded = secret
		}
		for _, s := range []string{secret, decoded} {
			if len(s) >= minSecret {
				forms = append(forms, s, url.QueryEscape(s), url.PathEscape(s), inJSON(s), inGo(s))
			}
		}
	}
	// The replacer prefers the first of several at the same place.
	slices.SortFunc(forms, func(a, b string) int { return len(b) - len(a) })
	pairs := make([]string, 0, 2*len(forms))
	for _, form := range forms {
		pairs = append(pairs, form, config.Hidden)
	}
	return redactor{strings.NewReplacer(pairs...)}
}

func inJSON(s string) string {
	text, _ := json.Marshal(s) // a string is always encoded
	return string(text[1 : len(text)-1])
}

// inGo is s as in a line of slog's JSON or text, which leave "<", ">" and "&" as they are.
func inGo(s string) string {
	text := strconv.Quote(s)
	return text[1 : len(text)-1]
}

var (
	tokens = regexp.MustCompile(`\b(?:q[ka]_|whsec_)[\w+/=-]+`)
	// userinfo of a URL. In compact JSON no space ends the URL, so config.Redact would hide the rest of the line.
	userinfo = regexp.MustCompile(`://[^\s"'<>/?#]*@`)
	bearer   = regexp.MustCompile(`(?i)\b(bearer|basic)(\s+|%20|\+)[^\s"'\\,]+`)
	named    = regexp.MustCompile(`([\w-]+)("?\s*[:=]\s*"?)([^\s"'\\&,;]+)`)
	// The last label has letters only, so that "nats.go@v1.48.0" in a stack trace does not match.
	emails = regexp.MustCompile(`[\p{L}\p{N}._%+'-]+(?:@|%40)[\p{L}\p{N}.-]+\.\p{L}{2,}\b`)
)

// text returns a text without what must be hidden. No pattern spans lines, and most lines lack a character that one needs, which is
// found faster.
func (r redactor) text(s string) string {
	var out strings.Builder
	for line := range strings.Lines(r.known.Replace(s)) {
		out.WriteString(patterns(line))
	}
	return out.String()
}

func patterns(line string) string {
	if strings.Contains(line, "_") {
		line = tokens.ReplaceAllString(line, config.Hidden)
	}
	if strings.ContainsAny(line, " \t%+") {
		line = bearer.ReplaceAllString(line, "$1$2"+config.Hidden)
	}
	if strings.ContainsAny(line, ":=") {
		line = userinfo.ReplaceAllString(line, "://"+config.Hidden+"@")
		line = named.ReplaceAllStringFunc(line, func(found string) string {
			parts := named.FindStringSubmatch(found)
			if !config.IsSecretName(parts[1]) {
				return found
			}
			return parts[1] + parts[2] + config.Hidden
		})
	}
	if strings.ContainsAny(line, "@%") {
		line = emails.ReplaceAllString(line, config.Hidden)
	}
	return line
}
