// Package event is the vocabulary on the bus: the protobuf schemas of every event, verdict,
// request and answer, the subjects they travel on, the ids in them and their codec.
package event

import (
	"fmt"

	"quire.dev/pkg/num"
)

// Message is any generated message of this package.
type Message interface {
	MarshalVT() ([]byte, error)
	UnmarshalVT([]byte) error
}

// Encode returns m in protobuf's wire form. Fields come in the order of their numbers and no
// message has a map, so equal messages encode to equal bytes.
func Encode(m Message) ([]byte, error) {
	data, err := m.MarshalVT()
	if err != nil {
		return nil, fmt.Errorf("encode %T: %w", m, err)
	}
	return data, nil
}

// Decode reads data into m, which must be empty. m keeps no reference to data.
func Decode(data []byte, m Message) error {
	if err := m.UnmarshalVT(data); err != nil {
		return fmt.Errorf("decode %T of %d bytes: %w", m, len(data), err)
	}
	return nil
}

// Visibility decides which callers may read a document.
type Visibility uint32

// Visibilities, by their number on the bus. Unlisted is the API's default.
const (
	VisibilityUnspecified Visibility = iota
	Public
	Unlisted
	Private
)

// String is the visibility's name in the API.
func (v Visibility) String() string {
	switch v {
	case Public:
		return "public"
	case Unlisted:
		return "unlisted"
	case Private:
		return "private"
	}
	return fmt.Sprintf("visibility(%d)", uint32(v))
}

// ParseVisibility parses a name of the API.
func ParseVisibility(s string) (Visibility, bool) {
	for v := Public; v <= Private; v++ {
		if v.String() == s {
			return v, true
		}
	}
	return VisibilityUnspecified, false
}

// positionBits is the number of low bits of a list position that order documents of one millisecond as the journal does: 12 for
// the offset in a message and 8 for the message.
const positionBits = 20

// ListPosition is the primary sort key of lists; the id is the secondary one. It is the creation time and, within a
// millisecond, the order in the partition's journal. It fits until the year 2248. Beyond 256 messages of one partition in one
// millisecond the order differs, but stays stable.
func (d *Document) ListPosition() int64 {
	return d.GetCreatedMs()<<positionBits | d.GetCreatedOrder()&(1<<positionBits-1)
}

// InlineContentBytes is the largest content in an event. Larger content is a blob.
const InlineContentBytes = 64 << 10

// Length is the content's size in bytes; 0 for none.
func (c *Content) Length() int64 { return num.Int64(c.GetSizeBytes()) }
