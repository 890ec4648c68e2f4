package event

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/cespare/xxhash/v2"

	"quire.dev/pkg/num"
)

// ErrBadID means that text is not an id of the requested kind.
var ErrBadID = errors.New("bad id")

// AccountID identifies an account or, as a pseudo-account, the network of an anonymous caller. Zero is neither.
type AccountID uint64

// RequestID identifies one HTTP request. It is a UUIDv7 and so holds the time.
type RequestID [16]byte

// IdempotencyID is a hash of (scope, method and path, Idempotency-Key).
type IdempotencyID [16]byte

// NewAccountID draws a random account id.
func NewAccountID() AccountID {
	var b [8]byte
	for {
		rand.Read(b[:])
		if id := AccountID(binary.BigEndian.Uint64(b[:])); id != 0 {
			return id
		}
	}
}

// String is the id in 11 base62 characters, "" for zero.
func (a AccountID) String() string {
	if a == 0 {
		return ""
	}
	var b [accountDigits]byte
	return string(AppendBase62(b[:0], uint64(a), accountDigits))
}

// Bytes is the id in 8 big-endian bytes, from which its partition is derived.
func (a AccountID) Bytes() []byte { return binary.BigEndian.AppendUint64(nil, uint64(a)) }

// ParseAccountID is the inverse of String, for ids other than zero.
func ParseAccountID(s string) (AccountID, error) {
	v, ok := ParseBase62(s, accountDigits)
	if !ok || v == 0 {
		return 0, fmt.Errorf("account id %q: %w", s, ErrBadID)
	}
	return AccountID(v), nil
}

// NewRequestID returns an id with the present time: 48 bits of milliseconds, 74 random bits (RFC 9562, version 7). A UUID
// library would bring context and database/sql into every fold.
func NewRequestID() RequestID {
	var id RequestID
	binary.BigEndian.PutUint64(id[:8], num.Uint64(time.Now().UnixMilli())<<16)
	rand.Read(id[6:])
	id[6] = id[6]&0x0f | 0x70
	id[8] = id[8]&0x3f | 0x80
	return id
}

// String is the id as a UUID.
func (r RequestID) String() string {
	out := [36]byte{8: '-', 13: '-', 18: '-', 23: '-'}
	hex.Encode(out[:8], r[:4])
	hex.Encode(out[9:13], r[4:6])
	hex.Encode(out[14:18], r[6:8])
	hex.Encode(out[19:23], r[8:10])
	hex.Encode(out[24:], r[10:])
	return string(out[:])
}

// UnixMilli is the time of creation, by the clock of the edge that created the id.
func (r RequestID) UnixMilli() int64 {
	return int64(binary.BigEndian.Uint64(r[:8]) >> 16)
}

// ParseRequestID is the inverse of String.
func ParseRequestID(s string) (RequestID, error) {
	var id RequestID
	if len(s) == 36 && s[8] == '-' && s[13] == '-' && s[18] == '-' && s[23] == '-' {
		digits := append(make([]byte, 0, 32), s[:8]...) // stays on the stack: the edge does this on every request
		digits = append(append(append(append(digits, s[9:13]...), s[14:18]...), s[19:23]...), s[24:]...)
		if _, err := hex.Decode(id[:], digits); err == nil {
			return id, nil
		}
	}
	return RequestID{}, fmt.Errorf("request id %q: %w", s, ErrBadID)
}

// RequestIDFrom converts the bytes of a message's field, or returns ErrBadID unless there are 16.
func RequestIDFrom(b []byte) (RequestID, error) {
	if len(b) != 16 {
		return RequestID{}, fmt.Errorf("request id of %d bytes: %w", len(b), ErrBadID)
	}
	return RequestID(b), nil
}

// NewIdempotencyID derives an id from an Idempotency-Key. scope is the account, the network or "admin".
func NewIdempotencyID(scope []byte, method, path, key string) IdempotencyID {
	h := sha256.New()
	h.Write(scope)
	h.Write([]byte("\x00" + method + " " + path + "\x00" + key))
	return IdempotencyID(h.Sum(nil)[:16])
}

// BodyHash compares two requests under one Idempotency-Key.
func BodyHash(parts ...[]byte) uint64 {
	h := sha256.New()
	var n [8]byte
	for _, p := range parts {
		binary.BigEndian.PutUint64(n[:], uint64(len(p)))
		h.Write(n[:])
		h.Write(p)
	}
	var sum [sha256.Size]byte
	return binary.BigEndian.Uint64(h.Sum(sum[:0]))
}

// ReadHash is what a metered read under an Idempotency-Key stands for: its target, the path and query, in the upper half, and
// the version of the document that it shows in the lower half, 0 where it shows none. It is never 0.
func ReadHash(path, query []byte, version uint64) uint64 {
	target := max(1, BodyHash(path, query)>>32)
	if version != 0 {
		version = BodyHash(binary.BigEndian.AppendUint64(nil, version)) >> 32
	}
	return target<<32 | version
}

// SameRead reports whether two ReadHashes have the same target.
func SameRead(a, b uint64) bool { return a>>32 == b>>32 }

// ItemIDLength is the length of a document's id in base62 characters (71 bits).
const ItemIDLength = 12

// NewItemID draws a document's id from the operating system's CSPRNG.
func NewItemID() string {
	out := make([]byte, 0, ItemIDLength)
	var buf [24]byte
	for len(out) < ItemIDLength {
		rand.Read(buf[:])
		for _, b := range buf {
			// 248 is the largest multiple of 62 in a byte. Larger values would bias the digits.
			if b < 248 && len(out) < ItemIDLength {
				out = append(out, base62[b%62])
			}
		}
	}
	return string(out)
}

// ValidItemID reports whether s has the form of a document's id.
func ValidItemID(s string) bool {
	if len(s) != ItemIDLength {
		return false
	}
	for i := range len(s) {
		if int(base62Values[s[i]]) == len(base62) {
			return false
		}
	}
	return true
}

// Partition maps a key to one of count partitions.
func Partition(key []byte, count int) int {
	if count <= 1 {
		return 0
	}
	return num.Int(xxhash.Sum64(key) % uint64(count))
}

// ItemPartition is Partition of a document's id.
func ItemPartition(id string, count int) int { return Partition([]byte(id), count) }

// AccountPartition is Partition of an account.
func AccountPartition(a AccountID, count int) int { return Partition(a.Bytes(), count) }

const (
	base62        = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	accountDigits = 11 // 62^11 > 2^64
)

// AppendBase62 appends v in exactly digits base62 characters, most significant first.
// v must be below 62^digits.
func AppendBase62(dst []byte, v uint64, digits int) []byte {
	start := len(dst)
	for range digits {
		dst = append(dst, '0')
	}
	for i := len(dst) - 1; i >= start; i-- {
		dst[i] = base62[v%62]
		v /= 62
	}
	return dst
}

// ParseBase62 parses exactly digits characters; false for other lengths, characters or an overflow.
func ParseBase62(s string, digits int) (uint64, bool) {
	if len(s) != digits {
		return 0, false
	}
	var v uint64
	for i := range len(s) {
		d := uint64(base62Values[s[i]])
		if d == uint64(len(base62)) || i >= base62Safe && v > (1<<64-1-d)/62 {
			return 0, false
		}
		v = v*62 + d
	}
	return v, true
}

// base62Safe is the number of digits that always fit a uint64.
const base62Safe = 10

// base62Values has the value of each digit by its byte, and 62 for all other bytes.
//
//nolint:gochecknoglobals // a table that every request reads and that nothing writes to
var base62Values = func() (values [256]uint8) {
	for c := range values {
		values[c] = uint8(len(base62))
	}
	for value, c := range []byte(base62) {
		values[c] = uint8(value)
	}
	return values
}()
