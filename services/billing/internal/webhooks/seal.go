package webhooks

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
)

// errSealed means that none of the keys decrypts a secret.
var errSealed = errors.New("the webhook's secret was encrypted with another QUIRE_SECRET")

// errNoSecret means that no key is configured.
var errNoSecret = errors.New("webhooks need QUIRE_SECRET")

// sealer encrypts the secrets of webhooks, so that a copy of the read model can't sign. Its keys derive from QUIRE_SECRET and
// the other accepted secrets.
type sealer struct{ keys []sealKey } // the first encrypts

type sealKey struct {
	id   [keyIDBytes]byte
	aead cipher.AEAD
}

const (
	keyIDBytes  = 4
	secretBytes = 32 // of a webhook: Standard Webhooks asks for 24 to 64
)

func newSealer(masters [][]byte) (*sealer, error) {
	s := &sealer{}
	for _, master := range masters {
		derived, err := hkdf.Key(sha256.New, master, nil, "quire: secrets of webhooks", keyIDBytes+32)
		if err != nil {
			return nil, fmt.Errorf("derive the key of webhooks: %w", err)
		}
		block, err := aes.NewCipher(derived[keyIDBytes:])
		if err != nil {
			return nil, err
		}
		aead, err := cipher.NewGCM(block)
		if err != nil {
			return nil, err
		}
		s.keys = append(s.keys, sealKey{id: [keyIDBytes]byte(derived[:keyIDBytes]), aead: aead})
	}
	return s, nil
}

// seal encrypts a secret bound to a place: it can't be opened for another.
func (s *sealer) seal(secret []byte, of string) ([]byte, error) {
	if len(s.keys) == 0 {
		return nil, errNoSecret
	}
	key := s.keys[0]
	nonce := make([]byte, key.aead.NonceSize())
	rand.Read(nonce)
	return key.aead.Seal(append(key.id[:], nonce...), nonce, secret, []byte(of)), nil
}

func (s *sealer) open(sealed []byte, of string) ([]byte, error) {
	for _, key := range s.keys {
		head := keyIDBytes + key.aead.NonceSize()
		if len(sealed) < head || [keyIDBytes]byte(sealed[:keyIDBytes]) != key.id {
			continue
		}
		if secret, err := key.aead.Open(nil, sealed[keyIDBytes:head], sealed[head:], []byte(of)); err == nil {
			return secret, nil
		}
	}
	return nil, errSealed
}

// present reports whether a secret is encrypted with the current key.
func (s *sealer) present(sealed []byte) bool {
	return len(s.keys) == 0 || len(sealed) >= keyIDBytes && [keyIDBytes]byte(sealed[:keyIDBytes]) == s.keys[0].id
}
