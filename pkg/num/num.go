// Package num converts between integer types without wrapping around: a number that the new type can't hold becomes the
// nearest one that it can. Only Bits and FromBits keep the bits instead of the number.
package num

import "math"

// Integer is any integer type.
type Integer interface {
	~int | ~int8 | ~int16 | ~int32 | ~int64 | ~uint | ~uint8 | ~uint16 | ~uint32 | ~uint64
}

// Int64 returns n, or math.MaxInt64 if n is greater.
func Int64[N Integer](n N) int64 {
	if n > 0 && uint64(n) > math.MaxInt64 {
		return math.MaxInt64
	}
	return int64(n)
}

// Uint64 returns n, or 0 if n is negative.
func Uint64[N Integer](n N) uint64 {
	if n < 0 {
		return 0
	}
	return uint64(n)
}

// Int returns n, or the nearest int.
func Int[N Integer](n N) int { return int(max(math.MinInt, min(math.MaxInt, Int64(n)))) }

// Int32 returns n, or the nearest int32.
func Int32[N Integer](n N) int32 { return int32(max(math.MinInt32, min(math.MaxInt32, Int64(n)))) }

// Uint32 returns n, or the nearest uint32.
func Uint32[N Integer](n N) uint32 { return uint32(min(math.MaxUint32, Uint64(n))) }

// Uint16 returns n, or the nearest uint16.
func Uint16[N Integer](n N) uint16 { return uint16(min(math.MaxUint16, Uint64(n))) }

// Uint8 returns n, or the nearest uint8.
func Uint8[N Integer](n N) uint8 { return uint8(min(math.MaxUint8, Uint64(n))) }

// Abs returns n without its sign.
func Abs[N Integer](n N) uint64 {
	if n < 0 {
		return -Bits(int64(n))
	}
	return uint64(n)
}

// Bits returns n in two's complement, as formats on disk and hashes have it.
func Bits(n int64) uint64 { return uint64(n) } //nolint:gosec // the bits are kept

// FromBits is the inverse of Bits.
func FromBits(b uint64) int64 { return int64(b) } //nolint:gosec // the bits are kept
