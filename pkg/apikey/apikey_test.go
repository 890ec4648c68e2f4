package apikey_test

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"quire.dev/pkg/apikey"
	"quire.dev/pkg/event"
)

func secret(t *testing.T, master string) *apikey.Secret {
	t.Helper()
	s, err := apikey.NewSecret([]byte(master))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestKeyRoundTrip(t *testing.T) {
	s, other := secret(t, "0123456789abcdef"), secret(t, "0123456789abcdeg")
	rapid.Check(t, func(t *rapid.T) {
		k := apikey.Key{
			Account: event.AccountID(rapid.Uint64Min(1).Draw(t, "account")),
			Version: rapid.Uint32Min(1).Draw(t, "version"),
			Nonce:   rapid.Uint64().Draw(t, "nonce"),
		}
		text := s.Format(k)
		if got, err := s.Parse(text); err != nil || got != k {
			t.Fatalf("%+v is %q, read as %+v, %v", k, text, got, err)
		}
		if _, err := other.Parse(text); err == nil {
			t.Fatal("another secret takes the key")
		}
		at := rapid.IntRange(0, len(text)-1).Draw(t, "changed character")
		changed := []byte(text)
		changed[at] = 'A' + (changed[at]+1)%26
		if string(changed) != text {
			if _, err := s.Parse(string(changed)); err == nil {
				t.Fatalf("%q with another character at %d is taken", text, at)
			}
		}
	})
}

func TestKeysOfTheWrongFormAreRefused(t *testing.T) {
	s := secret(t, "0123456789abcdef")
	good := s.Format(apikey.Key{Account: 5, Version: 1, Nonce: 7})
	for _, bad := range []string{"", "qk_", good[1:], good + "0", strings.Repeat("z", len(good)), "qk_" + strings.Repeat("z", len(good)-3)} {
		if _, err := s.Parse(bad); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
	if apikey.Prefix(good) != good[:9] {
		t.Errorf("prefix %q of %q", apikey.Prefix(good), good)
	}
}

func TestShortSecretsAreRefused(t *testing.T) {
	if _, err := apikey.NewSecret([]byte("0123456789abcde")); err == nil {
		t.Error("15 bytes were taken")
	}
}

func TestLinksAndSessions(t *testing.T) {
	s := secret(t, "0123456789abcdef")
	signature := s.SignLink("/f/abc", 100)
	if !s.CheckLink("/f/abc", 100, signature) {
		t.Error("its own signature is refused")
	}
	if s.CheckLink("/f/abd", 100, signature) || s.CheckLink("/f/abc", 101, signature) || s.CheckLink("/f/abc", 100, signature+"x") {
		t.Error("a signature holds for another link")
	}
	id, err := s.ParseSession(s.SignSession([]byte("session")))
	if err != nil || string(id) != "session" {
		t.Errorf("session %q, %v", id, err)
	}
	if _, err := s.ParseSession("c2Vzc2lvbg.AAAA"); err == nil {
		t.Error("an unsigned session is taken")
	}
}

func TestNetworksAreKeyed(t *testing.T) {
	a, b := secret(t, "0123456789abcdef"), secret(t, "0123456789abcdeg")
	if a.Network([]byte{127, 0, 0, 1}) == b.Network([]byte{127, 0, 0, 1}) {
		t.Error("the hash of a network does not depend on the secret")
	}
	again := secret(t, "0123456789abcdef")
	if a.NewNonce([]byte("x")) != again.NewNonce([]byte("x")) || a.NewAccountID([]byte("x")) != again.NewAccountID([]byte("x")) {
		t.Error("a repeated command gets another nonce or account")
	}
}
