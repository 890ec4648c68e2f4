package endpoint

import (
	"encoding/base64"

	"quire.dev/pkg/num"
	"quire.dev/services/edge/internal/fault"
	"quire.dev/services/edge/internal/httpin/input"
)

const cursorChars = 512

// FormatOpaque writes a cursor whose bytes billing made.
func FormatOpaque(cursor []byte) string { return base64.RawURLEncoding.EncodeToString(cursor) }

// NextCursor formats the cursor of the next page, which is empty at the end of the list.
func NextCursor(cursor []byte) (text *string, more bool) {
	if len(cursor) == 0 {
		return nil, false
	}
	return new(FormatOpaque(cursor)), true
}

// OpaqueCursor parses a cursor whose bytes billing checks.
func OpaqueCursor(_ string, v input.Value) ([]byte, error) {
	cursor, err := base64.RawURLEncoding.DecodeString(string(v.Text))
	if err != nil || len(cursor) == 0 || len(v.Text) > cursorChars {
		return nil, InvalidCursor()
	}
	return cursor, nil
}

const (
	DefaultPage = 50
	MaxPage     = 100
)

// PageLimit parses the number of items per page.
func PageLimit(name string, v input.Value) (uint32, error) {
	n, err := input.CountField(MaxPage)(name, v)
	return num.Uint32(n), err
}

// InvalidCursor is the answer to a cursor of another list.
func InvalidCursor() error {
	e := fault.New(fault.InvalidCursor, "cursor is not a nextCursor of this list. Start again without it.")
	e.Field = "cursor"
	return e
}
