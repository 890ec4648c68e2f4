package httpin

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"github.com/gofiber/fiber/v2"

	"quire.dev/services/edge/internal/httpin/httperr"
)

// errHeader ends a connection whose header is refused, or was not read by fasthttp to its end. fasthttp would wait for more of it.
var errHeader = errors.New("the header is refused")

// head is a request's header as far as it has come, judged line by line by the grammar, and what it says of the body and the
// connection.
type head struct {
	begun bool // a byte has come
	done  bool
	start int // of the request line, behind empty lines
	at    int // of the line that has not ended
	seen  int // there is no LF between at and here

	line    requestLine
	lined   bool   // the request line has ended
	isHead  bool   // its method is HEAD: the answer has no body
	fields  uint64 // that have been seen, by their bit: see fieldNames
	length  int64  // of a body that is not chunked
	chunked bool
	expect  bool           // the client waits for 100 Continue
	close   bool           // the client wants the connection to end with the answer
	refusal *httperr.Error // nil: none
}

// judge judges the lines of b that have ended since the last call. b begins where the header does. Once done is set, b is ready for
// fasthttp from start to at: judge writes on it where fasthttp would read something else than what it means.
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

// addField notes a field that says something of the request as a whole, and that a field which must be single has been sent.
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
		h.refuseField(known, fmt.Sprintf("There is more than one %s header.", known.name))
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

// end looks at the header as a whole.
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

// meaning is what a field says of the request as a whole.
type meaning uint8

const (
	noMeaning meaning = iota // to this package
	hostField
	lengthField
	codingField
	expectField
	connectionField
)

// bit is that of the field among fieldNames.
func (m meaning) bit() uint64 { return 1 << m }

// fieldName is a field that judge knows.
type fieldName struct {
	name, lower string
	meaning     meaning
	bit         uint64 // 0: it may come more than once
}

// fieldNames are the fields that judge knows, by the length of their names.
type fieldNames [][]fieldName

// newFieldNames adds fields that must be single to those that this package knows.
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

// find is the field of that name; nil where judge knows none.
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
