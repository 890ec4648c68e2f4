package apikey

import (
	"strconv"
	"strings"
)

// defaultID is the id of the key with the number 0.
const defaultID = "default"

// ID is the id of a key in the API: "default" for number 0, else "k1", "k2" and so on.
func ID(number uint32) string {
	if number == 0 {
		return defaultID
	}
	return "k" + strconv.FormatUint(uint64(number), 10)
}

// ParseID is the inverse of ID. ok is false for any other text.
func ParseID(text string) (number uint32, ok bool) {
	if text == defaultID {
		return 0, true
	}
	n, err := strconv.ParseUint(strings.TrimPrefix(text, "k"), 10, 32)
	return uint32(n), err == nil && n != 0 && ID(uint32(n)) == text
}
