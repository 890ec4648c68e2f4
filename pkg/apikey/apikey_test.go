package apikey_test

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"quire.dev/pkg/apikey"
	"quire.dev/pkg/event"
)

func secret(t *testing.T, master string, accepted ...string) *apikey.Secret {
	t.Helper()
	var others [][]byte
	for _, other := range accepted {
		others = append(others, []byte(other))
	}
	s, err := apikey.NewSecret([]byte(master), others...)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestKeyRoundTrip(t *testing.T) {
	s, other := secret(t, "0123456789abcdef"), secret(t, "0123456789abcdeg")
	rapid.Check(t, func(t *rapid.T) {
		k := s.NewKey(event.AccountID(rapid.Uint64Min(1).Draw(t, "account")), rapid.SliceOf(rapid.Byte()).Draw(t, "command"))
		k.Version, k.Number = rapid.Uint32Min(1).Draw(t, "version"), rapid.Uint32().Draw(t, "number")
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
	id, _, err := s.ParseSession(s.SignSession([]byte("session")))
	if err != nil || string(id) != "session" {
		t.Errorf("session %q, %v", id, err)
	}
	if _, _, err := s.ParseSession("c2Vzc2lvbg.AAAA"); err == nil {
		t.Error("an unsigned session is taken")
	}
}

func TestNetworksAreKeyed(t *testing.T) {
	a, b := secret(t, "0123456789abcdef"), secret(t, "0123456789abcdeg")
	if a.Network([]byte{127, 0, 0, 1}) == b.Network([]byte{127, 0, 0, 1}) {
		t.Error("the hash of a network does not depend on the secret")
	}
	again := secret(t, "0123456789abcdef")
	if a.NewKey(5, []byte("x")) != again.NewKey(5, []byte("x")) || a.NewAccountID([]byte("x")) != again.NewAccountID([]byte("x")) {
		t.Error("a repeated command gets another nonce or account")
	}
}

// TestWhatWasSignedStaysValid: keys, links, tokens and sessions outlive the program that signed them.
func TestWhatWasSignedStaysValid(t *testing.T) {
	const (
		key     = "qk_00000000007000000000050000000000039p2Kyw4BrRjtXd5J8jf6yRsqT"
		link    = "lltuTeaMX46wS0GZsEr1Zg"
		token   = "mt_yyOsOrYcFCupW44myUNqRr3WU5I"
		session = "c2Vzc2lvbg.1KeETLXgdSzK3SaNXgZqYA"
	)
	for _, s := range []*apikey.Secret{
		secret(t, "0123456789abcdef"), secret(t, "another secret of mine", "0123456789abcdef"),
	} {
		k, err := s.Parse(key)
		if err != nil || k.Account != 5 || k.Version != 3 || k.Nonce != 7 || k.Number != 0 {
			t.Errorf("%+v, %v", k, err)
		}
		if again, err := s.Parse(s.Format(k)); err != nil || again != k {
			t.Errorf("formatted again %+v, %v", again, err)
		}
		if !s.CheckLink("/f/abc", 100, link) || !s.CheckManageToken("item", token) {
			t.Error("a link or a management token is refused")
		}
		if id, _, err := s.ParseSession(session); err != nil || string(id) != "session" {
			t.Errorf("session %q, %v", id, err)
		}
	}
	s := secret(t, "0123456789abcdef")
	if s.Network([]byte{127, 0, 0, 1}) != 12738662828497575189 || s.NewKey(5, []byte("x")).Nonce != 15101595237394422932 ||
		s.NewAccountID([]byte("x")) != 3772931711363447953 {
		t.Error("sources, and what is made again under an Idempotency-Key, have changed")
	}
	changed := []byte(key)
	changed[20]++
	if _, err := s.Parse(string(changed)); err == nil {
		t.Error("a changed key is taken")
	}
}

// TestASecretIsReplacedInSteps: between two steps servers of both run side by side. What one signs the other accepts.
func TestASecretIsReplacedInSteps(t *testing.T) {
	const before, after = "the secret of before", "the secret of after"
	steps := []*apikey.Secret{
		secret(t, before), secret(t, before, after), secret(t, after, before), secret(t, after),
	}
	accepts := func(reader, signer *apikey.Secret) bool {
		k := signer.NewKey(5, []byte("command"))
		k.Version = 1
		read, err := reader.Parse(signer.Format(k))
		valid := err == nil && read == k
		_, _, err = reader.ParseSession(signer.SignSession([]byte("session")))
		for _, other := range []bool{
			err == nil, reader.CheckLink("/f/abc", 100, signer.SignLink("/f/abc", 100)), reader.CheckManageToken("item", signer.ManageToken("item")),
		} {
			if other != valid {
				t.Error("keys, sessions, links and tokens are not accepted alike")
			}
		}
		return valid
	}
	for i, reader := range steps {
		for j, signer := range steps {
			both := i == 1 || i == 2
			if got, want := accepts(reader, signer), both || (i == 0) == (j < 2); got != want {
				t.Errorf("a server at step %d accepts what one at step %d signed: %v", i, j, got)
			}
		}
	}
	// A key created under the previous secret is found again.
	old, now := steps[0], steps[2]
	if keys := now.NewKeys(5, []byte("command")); keys[0] != now.NewKey(5, []byte("command")) || keys[1] != old.NewKey(5, []byte("command")) ||
		now.Format(keys[1]) != old.Format(keys[1]) {
		t.Errorf("keys %+v", keys)
	}
	token := old.ManageToken("item")
	if now.StoredManageToken("item", apikey.HashToken(token)) != token || now.StoredManageToken("item", nil) != now.ManageToken("item") {
		t.Error("the token that a document keeps is not found")
	}
	if others := now.OtherNetworks([]byte{127, 0, 0, 1}); len(others) != 1 || others[0] != old.Network([]byte{127, 0, 0, 1}) {
		t.Errorf("networks %v", others)
	}
	if id := now.NewKey(5, nil).Secret; !now.Signs(id) || now.Signs(old.NewKey(5, nil).Secret) || !now.Several() || old.Several() {
		t.Error("it does not know which secret signs")
	}
}
