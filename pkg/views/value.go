package views

import (
	"cmp"
	"strconv"
	"strings"
)

// Value is a string or an int64. It is comparable; the zero Value is the empty
// string.
type Value struct {
	text   string
	number int64
	isInt  bool
}

// String returns the Value of a string: valid UTF-8, at most MaxValueBytes.
func String(s string) Value { return Value{text: s} }

// Int returns the Value of an integer.
func Int(n int64) Value { return Value{number: n, isInt: true} }

// Int64 returns the integer, or 0 for a string.
func (v Value) Int64() int64 { return v.number }

// Any returns the string or the int64.
func (v Value) Any() any {
	if v.isInt {
		return v.number
	}
	return v.text
}

// String formats the value for people.
func (v Value) String() string {
	if v.isInt {
		return strconv.FormatInt(v.number, 10)
	}
	return strconv.Quote(v.text)
}

// Compare orders values as the stores do: integers before strings, strings by
// their bytes.
func (v Value) Compare(other Value) int {
	switch {
	case v.isInt && other.isInt:
		return cmp.Compare(v.number, other.number)
	case v.isInt:
		return -1
	case other.isInt:
		return 1
	default:
		return strings.Compare(v.text, other.text)
	}
}
