package event

import (
	"testing"

	"pgregory.net/rapid"
)

// TestEntriesAreReadAsTheyWereWritten: each of the 43 bytes belongs to one field.
func TestEntriesAreReadAsTheyWereWritten(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		data := [EntryBytes]byte(rapid.SliceOfN(rapid.Byte(), EntryBytes, EntryBytes).Draw(rt, "entry"))
		e := DecodeEntry(&data)
		var again [EntryBytes]byte
		if e.Encode(&again); again != data {
			rt.Errorf("%x is read as %+v, and written as %x", data, e, again)
		}
	})
}
