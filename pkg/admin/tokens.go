package admin

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// MinTokenBytes is the shortest admin token.
const MinTokenBytes = 16

// DefaultName names a single token given without a name.
const DefaultName = "admin"

// Token is an admin token. The log of admin actions shows its name.
type Token struct {
	Name, Secret string
}

// Tokens are the tokens accepted by the admin API. Programs that need one use the first.
type Tokens []Token

var (
	tokenName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,31}$`)

	errTokens = errors.New("must be a token, or a list like ann:<token>,bob:<token>")
)

// ParseTokens reads "<token>", or "<name>:<token>,<name>:<token>". Names and tokens must differ. No error shows a token.
func ParseTokens(text string) (Tokens, error) {
	if text == "" {
		return nil, nil
	}
	if !strings.ContainsAny(text, ":,") {
		return checkTokens(Tokens{{Name: DefaultName, Secret: text}})
	}
	var tokens Tokens
	for entry := range strings.SplitSeq(text, ",") {
		name, secret, named := strings.Cut(strings.TrimSpace(entry), ":")
		if !named || !tokenName.MatchString(name) {
			return nil, errTokens
		}
		tokens = append(tokens, Token{Name: name, Secret: secret})
	}
	return checkTokens(tokens)
}

func checkTokens(tokens Tokens) (Tokens, error) {
	names, secrets := map[string]bool{}, map[string]bool{}
	for _, t := range tokens {
		switch {
		case len(t.Secret) < MinTokenBytes:
			return nil, fmt.Errorf("the token of %s must have at least %d bytes", t.Name, MinTokenBytes)
		case strings.ContainsAny(t.Secret, ": \t\r\n"):
			return nil, fmt.Errorf("the token of %s must not contain a colon or space", t.Name)
		case names[t.Name]:
			return nil, fmt.Errorf("two tokens are named %s", t.Name)
		case secrets[t.Secret]:
			return nil, fmt.Errorf("the token of %s is used twice", t.Name)
		}
		names[t.Name], secrets[t.Secret] = true, true
	}
	return tokens, nil
}

// First returns the secret of the first token, or "" without tokens.
func (t Tokens) First() string {
	if len(t) == 0 {
		return ""
	}
	return t[0].Secret
}

// Find returns the name of a token, or "" if it is unknown. It compares hashes with every token, so that its timing reveals
// nothing of a token, its length or its position.
func (t Tokens) Find(secret string) (name string) {
	sent := sha256.Sum256([]byte(secret))
	for _, token := range t {
		want := sha256.Sum256([]byte(token.Secret))
		if subtle.ConstantTimeCompare(sent[:], want[:]) == 1 {
			name = token.Name
		}
	}
	return name
}
