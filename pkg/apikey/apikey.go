// Package apikey makes and checks API keys, management tokens, session tokens and signed links.
//
// An API key carries its account, its version and a MAC, so that an edge recognizes a forged key without a lookup. Only billing
// knows whether the version is the current one. All secrets derive from one master secret, and this package stores nothing.
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
	"math"
	"slices"
	"strings"
	"sync"

	"quire.dev/pkg/event"
	"quire.dev/pkg/num"
)

// ErrInvalid means that a key or token was not made with this secret.
var ErrInvalid = errors.New("invalid key")

// MinSecretBytes is the length of the shortest master secret that NewSecret takes.
const MinSecretBytes = 16

// Secret signs keys, tokens and links with one master secret, and accepts what it or another accepted one has signed. Safe for
// concurrent use.
type Secret struct {
	signing  *subkeys
	accepted []*subkeys // the signing one first
}

// subkeys derive from one master secret.
type subkeys struct {
	id                                                  SecretID
	key, manage, network, link, nonce, session, account *signer
}

// SecretID identifies a master secret inside API keys. It derives from the secret without revealing anything of it. Two secrets
// may collide.
type SecretID uint16

// NewSecret derives the subkeys of master secrets, each of at least MinSecretBytes bytes. The first one signs, all are
// accepted. During a rotation, servers with the old and the new secret accept each other's signatures.
func NewSecret(master []byte, accepted ...[]byte) (*Secret, error) {
	s := &Secret{}
	for _, m := range append([][]byte{master}, accepted...) {
		if len(m) < MinSecretBytes {
			return nil, fmt.Errorf("secret of %d bytes, need at least %d", len(m), MinSecretBytes)
		}
		s.accepted = append(s.accepted, deriveSubkeys(m))
	}
	s.signing = s.accepted[0]
	return s, nil
}

func deriveSubkeys(master []byte) *subkeys {
	root := newSigner(master)
	derive := func(use string) *signer { return newSigner(root.mac([]byte("quire " + use))) }
	return &subkeys{
		id:  SecretID(binary.BigEndian.Uint16(root.mac([]byte("quire secret id")))),
		key: derive("api key"), manage: derive("manage token"), network: derive("network"), link: derive("signed link"),
		nonce: derive("key nonce"), session: derive("session"), account: derive("account"),
	}
}

// Several reports whether more than one secret is accepted.
func (s *Secret) Several() bool { return len(s.accepted) > 1 }

// Signs reports whether the secret with this id is the signing one.
func (s *Secret) Signs(id SecretID) bool { return s.signing.id == id }

// with returns the accepted secret with the id, or else the signing one.
func (s *Secret) with(id SecretID) *subkeys {
	for _, k := range s.accepted {
		if k.id == id {
			return k
		}
	}
	return s.signing
}

// Key is the content of an API key.
type Key struct {
	Account event.AccountID
	Number  uint32 // number of the key within its account; 0 is the default key
	Version uint32
	Nonce   uint64
	Secret  SecretID // signs the key
}

const (
	prefix       = "qk_"
	longDigits   = 11 // of a 64-bit number in base62
	shortDigits  = 6  // of a 32-bit number
	secretDigits = 3  // of a 16-bit number
	macBytes     = 16
	keyLength    = len(prefix) + 2*longDigits + 2*shortDigits + secretDigits + 2*longDigits
	// PrefixLength is the length of the part of a key that is shown after its creation.
	PrefixLength = len(prefix) + 6
)

// NewKey returns the key created by the command with this id. It is a function of the id, so that a repeated command shows the
// same key. Billing assigns its version.
func (s *Secret) NewKey(account event.AccountID, command []byte) Key {
	return s.signing.newKey(account, command)
}

// NewKeys returns the keys that the command with this id may have created: one for each accepted secret, NewKey's first.
func (s *Secret) NewKeys(account event.AccountID, command []byte) []Key {
	var keys []Key
	for _, k := range s.accepted {
		keys = append(keys, k.newKey(account, command))
	}
	return keys
}

func (k *subkeys) newKey(account event.AccountID, command []byte) Key {
	return Key{Account: account, Nonce: binary.BigEndian.Uint64(k.nonce.mac(command)), Secret: k.id}
}

// NewAccountID returns the id of the account created by the command with this idempotency id, a function of that id.
func (s *Secret) NewAccountID(idempotency []byte) event.AccountID {
	return event.AccountID(binary.BigEndian.Uint64(s.signing.account.mac(idempotency)) | 1)
}

// Fingerprint is the only part of the key that is stored. It does not depend on the version, which billing assigns.
func (k Key) Fingerprint() uint64 {
	var b [16]byte
	binary.BigEndian.PutUint64(b[:8], k.Nonce)
	binary.BigEndian.PutUint64(b[8:], uint64(k.Account))
	sum := sha256.Sum256(b[:])
	return binary.BigEndian.Uint64(sum[:])
}

// Format returns the key's text: 62 characters of [A-Za-z0-9_]. It signs with the secret k.Secret if that is accepted.
func (s *Secret) Format(k Key) string {
	signing := s.with(k.Secret)
	k.Secret = signing.id
	out := make([]byte, 0, keyLength)
	out = append(out, prefix...)
	out = event.AppendBase62(out, k.Nonce, longDigits)
	out = event.AppendBase62(out, uint64(k.Account), longDigits)
	out = event.AppendBase62(out, uint64(k.Number), shortDigits)
	out = event.AppendBase62(out, uint64(k.Version), shortDigits)
	out = event.AppendBase62(out, uint64(k.Secret), secretDigits)
	sum := signing.keyMAC(k)
	out = event.AppendBase62(out, binary.BigEndian.Uint64(sum[:8]), longDigits)
	out = event.AppendBase62(out, binary.BigEndian.Uint64(sum[8:]), longDigits)
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
	next := func(digits int, most uint64) uint64 {
		v, ok := event.ParseBase62(rest[:digits], digits)
		rest, valid = rest[digits:], valid && ok && v <= most
		return v
	}
	k := Key{Nonce: next(longDigits, math.MaxUint64), Account: event.AccountID(next(longDigits, math.MaxUint64))}
	k.Number = num.Uint32(next(shortDigits, math.MaxUint32))
	k.Version = num.Uint32(next(shortDigits, math.MaxUint32))
	k.Secret = SecretID(num.Uint16(next(secretDigits, math.MaxUint16)))
	var given [macBytes]byte
	binary.BigEndian.PutUint64(given[:8], next(longDigits, math.MaxUint64))
	binary.BigEndian.PutUint64(given[8:], next(longDigits, math.MaxUint64))
	if !valid || k.Account == 0 || k.Version == 0 {
		return Key{}, ErrInvalid
	}
	for _, secret := range s.accepted {
		if secret.id == k.Secret && secret.keyMAC(k).equals(given) {
			return k, nil
		}
	}
	return Key{}, ErrInvalid
}

// keyMAC returns the MAC of all fields of a key.
func (k *subkeys) keyMAC(key Key) shortMAC {
	var b [26]byte
	data := binary.BigEndian.AppendUint64(b[:0], key.Nonce)
	data = binary.BigEndian.AppendUint64(data, uint64(key.Account))
	data = binary.BigEndian.AppendUint32(data, key.Version)
	data = binary.BigEndian.AppendUint32(data, key.Number)
	sum := k.key.sum(binary.BigEndian.AppendUint16(data, uint16(key.Secret)))
	return shortMAC(sum[:macBytes])
}

// shortMAC is a MAC truncated to the length used in keys.
type shortMAC [macBytes]byte

// equals compares in constant time.
func (m shortMAC) equals(given [macBytes]byte) bool {
	return subtle.ConstantTimeCompare(m[:], given[:]) == 1
}

// ManageToken is the management token of an anonymous document, which stores only its HashToken.
func (s *Secret) ManageToken(item string) string { return s.signing.manageToken(item) }

// StoredManageToken returns the token whose HashToken the document stores, or else ManageToken.
func (s *Secret) StoredManageToken(item string, hash []byte) string {
	for _, k := range s.accepted {
		if token := k.manageToken(item); hmac.Equal(HashToken(token), hash) {
			return token
		}
	}
	return s.ManageToken(item)
}

// CheckManageToken reports whether the token is the item's. It compares in constant time.
func (s *Secret) CheckManageToken(item, token string) bool {
	for _, k := range s.accepted {
		if hmac.Equal([]byte(k.manageToken(item)), []byte(token)) {
			return true
		}
	}
	return false
}

func (k *subkeys) manageToken(item string) string {
	return "mt_" + base64.RawURLEncoding.EncodeToString(k.manage.mac([]byte(item))[:20])
}

// HashToken is the stored form of a management or session token.
func HashToken(token string) []byte {
	sum := sha256.Sum256([]byte(token))
	return sum[:]
}

// Network is the pseudo-account of a source: the 4 bytes of an IPv4 address or the first 8 of an IPv6 one. It is a keyed hash,
// so that no journal holds an address, and differs between secrets.
func (s *Secret) Network(network []byte) event.AccountID { return s.signing.networkOf(network) }

// OtherNetworks are the source's pseudo-accounts under the other accepted secrets.
func (s *Secret) OtherNetworks(network []byte) []event.AccountID {
	var ids []event.AccountID
	for _, k := range s.accepted[1:] {
		ids = append(ids, k.networkOf(network))
	}
	return ids
}

func (k *subkeys) networkOf(network []byte) event.AccountID {
	return event.AccountID(binary.BigEndian.Uint64(k.network.mac(network)) | 1)
}

// SignLink signs a path and the Unix second at which the link expires.
func (s *Secret) SignLink(path string, expiresUnix int64) string {
	return base64.RawURLEncoding.EncodeToString(s.signing.linkMAC(path, expiresUnix))
}

// CheckLink verifies a signature made by SignLink. The caller checks the expiry.
func (s *Secret) CheckLink(path string, expiresUnix int64, signature string) bool {
	given, err := base64.RawURLEncoding.DecodeString(signature)
	return err == nil && slices.ContainsFunc(s.accepted, func(k *subkeys) bool {
		return hmac.Equal(given, k.linkMAC(path, expiresUnix))
	})
}

func (k *subkeys) linkMAC(path string, expiresUnix int64) []byte {
	return k.link.mac(binary.BigEndian.AppendUint64([]byte(path+"\x00"), num.Bits(expiresUnix)))[:macBytes]
}

// SignSession turns a random session id into the cookie's value.
func (s *Secret) SignSession(id []byte) string {
	encode := base64.RawURLEncoding.EncodeToString
	return encode(id) + "." + encode(s.signing.session.mac(id)[:macBytes])
}

// ParseSession verifies a cookie's value and returns the session id and the secret that signed it.
func (s *Secret) ParseSession(cookie string) ([]byte, SecretID, error) {
	idText, macText, ok := strings.Cut(cookie, ".")
	id, err1 := base64.RawURLEncoding.DecodeString(idText)
	given, err2 := base64.RawURLEncoding.DecodeString(macText)
	if ok && err1 == nil && err2 == nil {
		for _, k := range s.accepted {
			if hmac.Equal(given, k.session.mac(id)[:macBytes]) {
				return id, k.id, nil
			}
		}
	}
	return nil, 0, ErrInvalid
}

// signer is an HMAC-SHA256 key. It reuses keyed hashes, because keying one costs as much as using it and every request has a
// key to check. Safe for concurrent use.
type signer struct {
	hashes sync.Pool
}

// keyedHash includes its input and output buffers, so that a MAC needs no allocation.
type keyedHash struct {
	hash.Hash
	data []byte
	sum  [sha256.Size]byte
}

func newSigner(key []byte) *signer {
	return &signer{hashes: sync.Pool{New: func() any { return &keyedHash{Hash: hmac.New(sha256.New, key)} }}}
}

func (s *signer) mac(data []byte) []byte {
	sum := s.sum(data)
	return sum[:]
}

func (s *signer) sum(data []byte) [sha256.Size]byte {
	h := s.hashes.Get().(*keyedHash)
	defer s.hashes.Put(h)
	h.Reset()
	h.data = append(h.data[:0], data...)
	h.Write(h.data)
	h.Sum(h.sum[:0])
	return h.sum
}
