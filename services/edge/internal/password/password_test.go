package password

import (
	"strings"
	"testing"
)

// TestEachHasherHasTurnsOfItsOwn: who keeps one kind of passwords busy keeps nobody waiting for another.
func TestEachHasherHasTurnsOfItsOwn(t *testing.T) {
	busy, other := New(1), New(1)
	if !busy.turns.TryAcquire(1) {
		t.Fatal("it is busy already")
	}
	if busy.turns.TryAcquire(1) {
		t.Error("it has more than one turn")
	}
	if _, err := other.Hash(t.Context(), "password"); err != nil {
		t.Errorf("another one waits for it: %v", err)
	}
}

func TestPasswordHashes(t *testing.T) {
	h := New(1)
	hash, err := h.Hash(t.Context(), "pässword")
	if err != nil || !strings.HasPrefix(string(hash), "$argon2id$v=19$m=19456,t=2,p=1$") {
		t.Fatalf("%s %v", hash, err)
	}
	for password, want := range map[string]bool{"pässword": true, "passwort": false, "": false} {
		if got, err := h.Check(t.Context(), hash, password); got != want || err != nil {
			t.Errorf("%q: %v %v", password, got, err)
		}
	}
	for _, bad := range []string{"", "x", "$argon2id$v=19$m=9999999,t=2,p=1$AAAA$AAAA", "$argon2i$v=19$m=19456,t=2,p=1$AAAA$AAAA", "$argon2id$v=19$m=19456,t=2,p=1$AAAA$"} {
		if ok, err := h.Check(t.Context(), []byte(bad), "p"); ok || err == nil {
			t.Errorf("%q was taken for a hash", bad)
		}
	}
}
