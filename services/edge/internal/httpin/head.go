package httpin

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"github.com/gofiber/fiber/v2"

	"quire.dev/services/edge/internal/httpin/httperr"
)

// errHeader ends a connection whose header was refused, or not read to its end by fasthttp, which would wait for more of it.
var errHeader = errors.New("the header is refused")

// head is a request's header as received so far, checked line by line against the grammar, and what it says about the body
// and the connection.
type head struct {
	begun bool // a byte has arrived
	done  bool
	start int // start of the request line, after empty lines
	at    int // start of the unfinished line
	seen  int // no LF between at and here

	line    requestLine
	lined   bool   // the request line is complete
	isHead  bool   // the method is HEAD: the answer has no body
	fields  uint64 // fields seen, by their bit: see fieldNames
	length  int64  // of an unchunked body
	chunked bool
	expect  bool           // the client waits for 100 Continue
	close   bool           // close the connection after the answer
	refusal *httperr.Error // nil: none
}

// judge checks the lines of b that were completed since the last call. b begins where the header does. Once done is set, b is
// ready for fasthttp from start to at: judge rewrites bytes that fasthttp would misread.
func (h *head) judge(b []byte, names *fieldNames) {
	h.begun = h.begun || len(b) > 0
	for !h.done && h.refusal == nil {
		i := bytes.IndexByte(b[h.seen:], '\n')
		if i < 0 {
			tail := bytes.TrimSuffix(b[h.seen:], []byte("\r"))
			if !isText(tail) { // its line may never end
				h.refuse(controlInLine)
			}
			h.seen += len(tail)
			return
		}
		h.seen += i + 1
		line, ok := bytes.CutSuffix(b[h.at:h.seen-1], []byte("\r"))
		if !ok {
			h.refuse(bareLineFeed)
			return
		}
		switch {
		case len(line) > 0 && !h.lined:
			h.beginWith(line)
		case len(line) > 0:
			h.addField(b, line, names)
		case !h.lined:
			h.start = h.seen
		default:
			h.end(b)
		}
		h.at = h.seen
	}
}

func (h *head) refuse(message string) { h.refusal = httperr.Malformed("%s", message) }

func (h *head) beginWith(line []byte) {
	var refusal string
	if h.line, refusal = parseRequestLine(line); refusal != "" {
		h.refuse(refusal)
	}
	h.lined, h.isHead = true, bytes.HasPrefix(line, []byte("HEAD "))
}

// addField records a field that concerns the request as a whole, or that must not be repeated.
func (h *head) addField(b, line []byte, names *fieldNames) {
	name, value, refusal := splitField(line)
	if refusal != "" {
		h.refuse(refusal)
		return
	}
	known := names.find(name)
	if known == nil {
		return
	}
	if h.fields&known.bit != 0 {
		h.refuseField(known, fmt.Sprintf("The request has more than one %s header.", known.name))
		return
	}
	h.fields |= known.bit
	switch known.meaning {
	case hostField:
		_, _, ok := splitHost(value)
		if authority := h.line.authorityOf(b[h.start:]); !ok {
			h.refuseField(known, badHost)
		} else if len(authority) > 0 && !bytes.EqualFold(authority, value) {
			h.refuseField(known, otherHost)
		}
	case lengthField:
		var ok bool
		if h.length, ok = parseDigits(value); !ok {
			h.refuseField(known, badLength)
		}
	case codingField:
		if h.chunked = equalFold(value, "chunked"); !h.chunked {
			h.refuseField(known, badCoding)
		}
	case expectField:
		if h.expect = equalFold(value, "100-continue"); !h.expect {
			h.refusal = httperr.InvalidField(known.name, badExpect)
		}
	case connectionField:
		eachElement(value, func(option []byte) { h.close = h.close || equalFold(option, "close") })
	}
}

func (h *head) refuseField(known *fieldName, message string) {
	h.refuse(message)
	h.refusal.Field = known.name
}

// end checks the complete header.
func (h *head) end(b []byte) {
	host := h.fields&hostField.bit() != 0
	switch {
	case !host && !h.line.http10:
		h.refuse(noHost)
	case h.line.doubtful || h.line.slashes && !host:
		h.refuse(hostlessPath)
	case h.chunked && h.fields&lengthField.bit() != 0:
		h.refuse(twoLengths)
	}
	if h.refusal != nil {
		return
	}
	if h.line.http10 {
		h.expect = false               // RFC 9110, 10.1.1
		h.close = h.close || h.chunked // RFC 9112, 6.1
	}
	if h.line.encoded {
		h.start += h.line.decodePath(b[h.start:])
	}
	h.done = true
}

// meaning is what a field says about the request as a whole.
type meaning uint8

const (
	noMeaning meaning = iota // for this package
	hostField
	lengthField
	codingField
	expectField
	connectionField
)

// bit is the field's bit in fieldNames.
func (m meaning) bit() uint64 { return 1 << m }

// fieldName is a field known to judge.
type fieldName struct {
	name, lower string
	meaning     meaning
	bit         uint64 // 0: repeatable
}

// fieldNames are the fields known to judge, indexed by the length of their names.
type fieldNames [][]fieldName

// newFieldNames returns this package's fields and the given ones, which must not be repeated.
func newFieldNames(single []string) fieldNames {
	var out fieldNames
	next := connectionField
	add := func(name string, means meaning, bit uint64) {
		for len(out) <= len(name) {
			out = append(out, nil)
		}
		out[len(name)] = append(out[len(name)], fieldName{name, strings.ToLower(name), means, bit})
	}
	add(fiber.HeaderHost, hostField, hostField.bit())
	add(fiber.HeaderContentLength, lengthField, lengthField.bit())
	add(fiber.HeaderTransferEncoding, codingField, codingField.bit())
	add(fiber.HeaderExpect, expectField, expectField.bit())
	add(fiber.HeaderConnection, connectionField, 0)
	for _, name := range single {
		if next++; next.bit() == 0 {
			panic("more fields that must be single than there are bits")
		}
		add(name, noMeaning, next.bit())
	}
	return out
}

// find returns the field with a name; nil if unknown.
func (f *fieldNames) find(name []byte) *fieldName {
	if len(name) >= len(*f) {
		return nil
	}
	same := (*f)[len(name)]
	for i := range same {
		if equalFold(name, same[i].lower) {
			return &same[i]
		}
	}
	return nil
}
