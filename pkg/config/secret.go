package config

import (
	"fmt"
	"log/slog"
	"strings"
	"unicode"
)

// Hidden replaces a secret in output.
const Hidden = "***"

// Secret is a text hidden from formatting, logging and encoding. Only Reveal returns it.
type Secret string

// Reveal returns the secret itself.
func (s Secret) Reveal() string { return string(s) }

// String implements fmt.Stringer.
func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return Hidden
}

// Format implements fmt.Formatter, so that no verb shows the secret.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(s.String())) }

// LogValue implements slog.LogValuer.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// MarshalText implements encoding.TextMarshaler, for JSON among others.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// Redact hides the credentials of all URLs in a text: everything between "://" and the last "@" before the next space, since a
// password may hold an unescaped "/" or "@", and the values of query parameters with a secret's name.
func Redact(text string) string { return redact(text, func(string) {}) }

// Credentials returns what Redact hides in a text, without short names of users.
func Credentials(text string) (hidden []string) {
	redact(text, func(credential string) {
		if credential != "" {
			hidden = append(hidden, credential)
		}
	})
	return hidden
}

func redact(text string, found func(credential string)) string {
	parts := strings.Split(text, "://")
	for i, part := range parts[1:] {
		end := strings.IndexFunc(part, unicode.IsSpace)
		if end < 0 {
			end = len(part)
		}
		parts[i+1] = redactQuery(redactUser(part[:end], found), found) + part[end:]
	}
	return strings.Join(parts, "://")
}

func hideUser(text string) string { return redactUser(text, func(string) {}) }

// minKeyID is the length of the shortest user name that counts as a credential, which is the length of an S3 access key. Names such as
// "quire" are everywhere.
const minKeyID = 16

func redactUser(text string, found func(credential string)) string {
	at := strings.LastIndex(text, "@")
	if at < 0 {
		return text
	}
	user, password, ok := strings.Cut(text[:at], ":")
	if !ok {
		password = user // NATS has tokens in its place
	}
	found(password)
	if ok && len(user) >= minKeyID {
		found(user)
	}
	return Hidden + text[at:]
}

func redactQuery(part string, found func(credential string)) string {
	path, query, ok := strings.Cut(part, "?")
	if !ok {
		return part
	}
	fields := strings.Split(query, "&")
	for i, field := range fields {
		if name, value, ok := strings.Cut(field, "="); ok && IsSecretName(name) {
			found(value)
			fields[i] = name + "=" + Hidden
		}
	}
	return path + "?" + strings.Join(fields, "&")
}

// IsSecretName reports whether a field, header, parameter or setting of this name holds a secret: "password", "adminToken",
// "x-api-key", "QUIRE_SECRET", but not "quotaKey" or "keyPrefix".
func IsSecretName(name string) bool {
	words := splitWords(name)
	for i, word := range words {
		switch word {
		case "token", "secret", "password", "sslpassword", "passwd", "passphrase", "authorization", "cookie", "credential", "credentials",
			"apikey", "signature":
			return true
		case "key":
			if len(words) == 1 || i > 0 && isKeyKind(words[i-1]) && i == len(words)-1 {
				return true
			}
		}
	}
	return false
}

func isKeyKind(word string) bool {
	switch word {
	case "api", "access", "private", "signing", "dev", "encryption":
		return true
	}
	return false
}

// splitWords splits a name into lower-case words: before capitals that follow lower-case letters, and at characters other than
// letters and digits.
func splitWords(name string) []string {
	var spaced strings.Builder
	var before rune
	for _, c := range name {
		if unicode.IsUpper(c) && unicode.IsLower(before) {
			spaced.WriteByte(' ')
		}
		spaced.WriteRune(c)
		before = c
	}
	return strings.FieldsFunc(strings.ToLower(spaced.String()), func(c rune) bool {
		return !unicode.IsLetter(c) && !unicode.IsDigit(c)
	})
}

// Secrets is a list of secrets.
type Secrets []Secret

// Bytes returns the secrets themselves.
func (s Secrets) Bytes() [][]byte {
	var out [][]byte
	for _, secret := range s {
		out = append(out, []byte(secret.Reveal()))
	}
	return out
}
