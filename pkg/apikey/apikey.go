// Package apikey makes and checks API keys, management tokens, session tokens and signed links.
//
// An API key carries its account, its version and a MAC, so that an edge recognises a made-up key without a look-up.
// Only billing knows whether the version is the current one. All secrets derive from one master secret, and this package
// stores nothing.
package apikey

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"strings"
	"sync"

	"quire.dev/pkg/event"
)

// ErrInvalid is the error for a key or token that was not made with this secret.
var ErrInvalid = errors.New("invalid key")

// MinSecretBytes is the length of the shortest master secret that NewSecret takes.
const MinSecretBytes = 16

// Secret signs and checks keys, tokens and links. Safe for concurrent use.
type Secret struct {
	key, manage, network, link, nonce, session, account *signer
}

// NewSecret derives the sub-keys of a master secret of at least MinSecretBytes bytes.
func NewSecret(master []byte) (*Secret, error) {
	if len(master) < MinSecretBytes {
		return nil, fmt.Errorf("secret of %d bytes: at least %d are needed", len(master), MinSecretBytes)
	}
	root := newSigner(master)
	derive := func(use string) *signer { return newSigner(root.mac([]byte("quire " + use))) }
	return &Secret{
		key: derive("api key"), manage: derive("manage token"), network: derive("network"), link: derive("signed link"),
		nonce: derive("key nonce"), session: derive("session"), account: derive("account"),
	}, nil
}

// Key is the content of an API key.
type Key struct {
	Account event.AccountID
	Version uint32
	Nonce   uint64
}

const (
	prefix        = "qk_"
	numberDigits  = 11 // of a 64-bit number in base62
	versionDigits = 6  // of a 32-bit number
	macDigits     = 22 // of two 64-bit numbers
	keyLength     = len(prefix) + 2*numberDigits + versionDigits + macDigits
	// PrefixLength is the length of the part of a key that is shown again later.
	PrefixLength = len(prefix) + 6
)

// NewNonce is the nonce of the key that the command with this id makes. The same id gives the same nonce, so that a
// repeated command shows the same key.
func (s *Secret) NewNonce(command []byte) uint64 {
	return binary.BigEndian.Uint64(s.nonce.mac(command))
}

// NewAccountID is the id of the account that the command with this idempotency id creates: the same id for the same
// command.
func (s *Secret) NewAccountID(idempotency []byte) event.AccountID {
	return event.AccountID(binary.BigEndian.Uint64(s.account.mac(idempotency)) | 1)
}

// Fingerprint is the only part of the key that is stored. It does not depend on the version, which billing decides.
func (k Key) Fingerprint() uint64 {
	var b [16]byte
	binary.BigEndian.PutUint64(b[:8], k.Nonce)
	binary.BigEndian.PutUint64(b[8:], uint64(k.Account))
	sum := sha256.Sum256(b[:])
	return binary.BigEndian.Uint64(sum[:])
}

// Format is the key's text: 53 characters of [A-Za-z0-9_].
func (s *Secret) Format(k Key) string {
	out := make([]byte, 0, keyLength)
	out = append(out, prefix...)
	out = event.AppendBase62(out, k.Nonce, numberDigits)
	out = event.AppendBase62(out, uint64(k.Account), numberDigits)
	out = event.AppendBase62(out, uint64(k.Version), versionDigits)
	sum := s.keyMAC(k)
	out = event.AppendBase62(out, binary.BigEndian.Uint64(sum[:8]), numberDigits)
	out = event.AppendBase62(out, binary.BigEndian.Uint64(sum[8:16]), numberDigits)
	return string(out)
}

// Prefix is the part of a key's text by which its owner recognises it.
func Prefix(key string) string { return key[:min(len(key), PrefixLength)] }

// Parse reads a key's text and checks its MAC.
func (s *Secret) Parse(text string) (Key, error) {
	if len(text) != keyLength || !strings.HasPrefix(text, prefix) {
		return Key{}, ErrInvalid
	}
	rest, valid := text[len(prefix):], true
	next := func(digits int) uint64 {
		v, ok := event.ParseBase62(rest[:digits], digits)
		rest, valid = rest[digits:], valid && ok
		return v
	}
	k := Key{Nonce: next(numberDigits), Account: event.AccountID(next(numberDigits))}
	version := next(versionDigits)
	var given [16]byte
	binary.BigEndian.PutUint64(given[:8], next(numberDigits))
	binary.BigEndian.PutUint64(given[8:], next(numberDigits))
	if !valid || k.Account == 0 || version == 0 || version > 1<<32-1 {
		return Key{}, ErrInvalid
	}
	k.Version = uint32(version)
	if subtle.ConstantTimeCompare(given[:], s.keyMAC(k)[:16]) != 1 {
		return Key{}, ErrInvalid
	}
	return k, nil
}

func (s *Secret) keyMAC(k Key) []byte {
	var b [20]byte
	binary.BigEndian.PutUint64(b[:8], k.Nonce)
	binary.BigEndian.PutUint64(b[8:16], uint64(k.Account))
	binary.BigEndian.PutUint32(b[16:], k.Version)
	return s.key.mac(b[:])
}

// ManageToken is the management token of a keyless document; the document keeps only its HashToken.
func (s *Secret) ManageToken(item string) string {
	return "mt_" + base64.RawURLEncoding.EncodeToString(s.manage.mac([]byte(item))[:20])
}

// HashToken is the form in which a management or session token is stored.
func HashToken(token string) []byte {
	sum := sha256.Sum256([]byte(token))
	return sum[:]
}

// Network is the pseudo-account of a source, which is the 4 bytes of an IPv4 address or the first 8 of an IPv6 one. It
// is a keyed hash, so that no journal holds an address.
func (s *Secret) Network(network []byte) event.AccountID {
	return event.AccountID(binary.BigEndian.Uint64(s.network.mac(network)) | 1)
}

// SignLink signs a path and the Unix second until which the link is good.
func (s *Secret) SignLink(path string, expiresUnix int64) string {
	return base64.RawURLEncoding.EncodeToString(s.linkMAC(path, expiresUnix)[:16])
}

// CheckLink tells whether SignLink made the signature. The caller compares the time.
func (s *Secret) CheckLink(path string, expiresUnix int64, signature string) bool {
	given, err := base64.RawURLEncoding.DecodeString(signature)
	return err == nil && hmac.Equal(given, s.linkMAC(path, expiresUnix)[:16])
}

func (s *Secret) linkMAC(path string, expiresUnix int64) []byte {
	return s.link.mac(binary.BigEndian.AppendUint64([]byte(path+"\x00"), uint64(expiresUnix)))
}

// SignSession turns a random session id into the cookie's value.
func (s *Secret) SignSession(id []byte) string {
	encode := base64.RawURLEncoding.EncodeToString
	return encode(id) + "." + encode(s.session.mac(id)[:16])
}

// ParseSession checks a cookie's value and returns the session id.
func (s *Secret) ParseSession(cookie string) ([]byte, error) {
	idText, macText, ok := strings.Cut(cookie, ".")
	id, err1 := base64.RawURLEncoding.DecodeString(idText)
	given, err2 := base64.RawURLEncoding.DecodeString(macText)
	if !ok || err1 != nil || err2 != nil || !hmac.Equal(given, s.session.mac(id)[:16]) {
		return nil, ErrInvalid
	}
	return id, nil
}

// signer is an HMAC-SHA256 key. It keeps keyed hashes for reuse, because keying one costs as much as using it and every
// request has a key to check. Safe for concurrent use.
type signer struct {
	hashes sync.Pool
}

func newSigner(key []byte) *signer {
	return &signer{hashes: sync.Pool{New: func() any { return hmac.New(sha256.New, key) }}}
}

func (s *signer) mac(data []byte) []byte {
	h := s.hashes.Get().(hash.Hash)
	h.Reset()
	h.Write(data)
	sum := h.Sum(nil)
	s.hashes.Put(h)
	return sum
}
