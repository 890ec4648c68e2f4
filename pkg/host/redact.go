package host

import (
	"net/url"
	"strings"

	"quire.dev/pkg/config"
)

// Shown is a setting as people may see it.
type Shown struct {
	Name  string `json:"name"`
	Value string `json:"value"` // without secrets; the default of quire if not Set
	Set   bool   `json:"set"`   // by the environment
}

// Show returns all settings of an environment in the form of os.Environ, valid or not.
func Show(environ []string) []Shown {
	values := config.Variables(environ)
	var all []Shown
	for _, row := range new(Settings).table() {
		s := Shown{Name: row.name, Value: row.defaultOf(Quire)}
		if text := strings.TrimSpace(values[row.name]); text != "" {
			s.Value, s.Set = row.value.Show(text), true
		}
		all = append(all, s)
	}
	return all
}

// minPart is the length of a secret within a setting with several. Shorter parts, such as "Bearer", are words.
const minPart = 8

// SecretValues returns the secrets in an environment, given in the form of os.Environ: secret settings, passwords in URLs, and the values
// of other variables whose names suggest a secret.
func SecretValues(environ []string) (secrets []string) {
	secret := map[string]bool{}
	for _, row := range new(Settings).table() {
		secret[row.name] = row.value.IsSecret()
	}
	for name, value := range config.Variables(environ) {
		secrets = append(secrets, config.Credentials(value)...)
		if !secret[name] && !config.IsSecretName(name) {
			continue
		}
		secrets = append(secrets, value)
		for part := range strings.SplitSeq(value, ",") {
			secrets = appendPart(secrets, strings.TrimSpace(part))
		}
		// Lists have the forms secret,secret and name:secret,name:secret and name=secret,name=secret.
		for part := range strings.FieldsFuncSeq(value, func(c rune) bool { return c == ',' || c == ' ' }) {
			if at := strings.IndexAny(part, ":="); at >= 0 {
				part = part[at+1:]
			}
			if decoded, err := url.QueryUnescape(part); err == nil {
				for word := range strings.FieldsSeq(decoded) {
					secrets = appendPart(secrets, word)
				}
			}
			secrets = appendPart(secrets, part)
		}
	}
	return secrets
}

func appendPart(secrets []string, part string) []string {
	if len(part) < minPart {
		return secrets
	}
	return append(secrets, part)
}
