package event

import (
	"encoding/binary"
	"errors"
	"io"

	"github.com/planetscale/vtprotobuf/protohelpers"

	"quire.dev/pkg/num"
)

// Fields that DecodeRequests decodes itself, by message.
const (
	batchRequests = 5

	requestID     = 1
	requestCharge = 7
	requestCreate = 10

	createDocument = 1

	documentID       = 1
	documentLanguage = 4
	documentContent  = 14

	contentInline = 1
	contentSHA256 = 4
)

// DecodeRequests is Decode for a RequestBatch with far fewer allocations. The requests share one, with their charges and the
// documents and contents of creates, so keeping one of these messages keeps them all. Strings and bytes are separate and may be
// kept alone, except request ids, which share one allocation of 16 bytes each.
func DecodeRequests(data []byte, batch *RequestBatch) error {
	d := requestDecoder{batch: batch}
	if d.decode(data) == nil {
		return nil
	}
	batch.Reset()
	return Decode(data, batch) // reports what is wrong
}

// requestDecoder passes all but a few fields to the generated code, which merges into a message.
type requestDecoder struct {
	batch    *RequestBatch
	spaces   []requestSpace
	ids      []byte
	language string // of the last document, for reuse: the next one mostly has the same
}

// minRequest bounds the memory that a message can claim. A create has more bytes.
const minRequest = 32

var errTiny = errors.New("requests are too small for creates")

// requestSpace holds the messages of one request.
type requestSpace struct {
	request  Request
	charge   Charge
	action   Request_Create
	create   Create
	document Document
	content  Content
}

// eachField calls take for each field of an encoded message. number is 0 for fields that are not length-delimited; whole
// includes the tag.
func eachField(data []byte, take func(number int32, value, whole []byte) error) error {
	for len(data) > 0 {
		n, err := protohelpers.Skip(data)
		if err != nil {
			return err
		}
		if n > len(data) {
			return io.ErrUnexpectedEOF
		}
		whole := data[:n]
		data = data[n:]
		number, value := delimited(whole)
		if err := take(number, value, whole); err != nil {
			return err
		}
	}
	return nil
}

// countOf counts the occurrences of a length-delimited field: the elements of a list.
func countOf(data []byte, field int32) (count int, err error) {
	err = eachField(data, func(number int32, _, _ []byte) error {
		if number == field {
			count++
		}
		return nil
	})
	return count, err
}

// delimited returns the number and value of a length-delimited field, and number 0 for any other.
func delimited(whole []byte) (number int32, value []byte) {
	const lengthDelimited = 2 // wire type
	tag, n := binary.Uvarint(whole)
	if n <= 0 || tag&7 != lengthDelimited {
		return 0, nil
	}
	length, m := binary.Uvarint(whole[n:])
	if m <= 0 || length != num.Uint64(len(whole)-n-m) {
		return 0, nil
	}
	return int32(tag >> 3), whole[n+m:] //nolint:gosec // the generated code truncates an oversized number too
}

func (d *requestDecoder) decode(data []byte) error {
	count, err := countOf(data, batchRequests)
	if err != nil {
		return err
	}
	if count*minRequest > len(data) {
		return errTiny
	}
	if count > 0 {
		d.spaces, d.ids = make([]requestSpace, count), make([]byte, count*len(RequestID{}))
		d.batch.Requests = make([]*Request, 0, count)
	}
	return eachField(data, func(number int32, value, whole []byte) error {
		if number != batchRequests {
			return d.batch.UnmarshalVT(whole)
		}
		s := &d.spaces[0]
		d.spaces = d.spaces[1:]
		d.batch.Requests = append(d.batch.Requests, &s.request)
		return d.request(s, value)
	})
}

func (d *requestDecoder) request(s *requestSpace, data []byte) error {
	r := &s.request
	return eachField(data, func(number int32, value, whole []byte) error {
		switch number {
		case requestID:
			if len(value) == len(RequestID{}) && r.RequestId == nil {
				r.RequestId, d.ids = d.ids[:0:len(value)], d.ids[len(value):]
			}
		case requestCharge:
			if r.Charge == nil {
				r.Charge = &s.charge
			}
			return r.Charge.UnmarshalVT(value)
		case requestCreate:
			if r.Action == nil {
				s.action.Create = &s.create
				r.Action = &s.action
			}
			if r.Action == &s.action {
				return d.create(s, value)
			}
		}
		return r.UnmarshalVT(whole)
	})
}

func (d *requestDecoder) create(s *requestSpace, data []byte) error {
	c := &s.create
	return eachField(data, func(number int32, value, whole []byte) error {
		if number != createDocument {
			return c.UnmarshalVT(whole)
		}
		if c.Document == nil {
			c.Document = &s.document
		}
		return d.document(s, value)
	})
}

func (d *requestDecoder) document(s *requestSpace, data []byte) error {
	doc := &s.document
	return eachField(data, func(number int32, value, whole []byte) error {
		switch number {
		case documentID:
			if string(value) == s.request.Item {
				doc.Id = s.request.Item
				return nil
			}
		case documentLanguage:
			if string(value) != d.language {
				d.language = string(value)
			}
			doc.Language = d.language
			return nil
		case documentContent:
			if doc.Content == nil {
				doc.Content = &s.content
			}
			return s.content.decode(value)
		}
		return doc.UnmarshalVT(whole)
	})
}

// maxTogether bounds the contents that share an allocation with their hash. A content of 64 KiB, say, would take 8 KiB more.
const maxTogether = 4 << 10

func (c *Content) decode(data []byte) error {
	if len(data) > maxTogether {
		return c.UnmarshalVT(data)
	}
	space := make([]byte, len(data))
	return eachField(data, func(number int32, value, whole []byte) error {
		switch number {
		case contentInline:
			c.Inline, space = space[:0:len(value)], space[len(value):]
		case contentSHA256:
			c.Sha256, space = space[:0:len(value)], space[len(value):]
		}
		return c.UnmarshalVT(whole)
	})
}
