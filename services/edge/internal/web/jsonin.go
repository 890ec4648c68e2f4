package web

import (
	"errors"
	"unicode/utf16"
	"unicode/utf8"

	"quire.dev/services/edge/internal/fault"
)

// kind is what sort of value a field holds.
type kind uint8

const (
	kindNull kind = iota
	kindString
	kindNumber
	kindBool
	kindArray
	kindObject
	kindQuery // text of a query parameter: read as whatever the field wants
)

// value is the value of a field. Its bytes are part of the request's body.
type value struct {
	kind  kind
	text  []byte  // of a string, decoded; of a number, as written; of a bool, true or false
	items []value // of an array
}

const (
	maxJSONDepth  = 16
	maxJSONFields = 64 // no request has so many; more are not looked at
	maxJSONItems  = 1024
)

// parseObject reads data as one JSON object and calls field for each of its members. What JSON
// leaves to chance is refused as fault.Malformed: a name that comes twice, text that is not UTF-8,
// half a surrogate pair, anything after the object. Strings are decoded in place: data is not what
// it was afterwards.
func parseObject(data []byte, field func(name string, v value) error) error {
	if !utf8.Valid(data) {
		return malformed("The body is not valid UTF-8.")
	}
	p := &parser{data: data}
	err, fieldErr := p.object(field)
	if err == nil {
		p.space()
		if p.at < len(p.data) {
			err = errTrailing
		}
	}
	switch {
	case errors.Is(err, errTooMany) && fieldErr != nil:
		return fieldErr
	case err != nil:
		return malformed("The body is not a valid JSON object: %v (at byte %d).", err, p.at)
	}
	return fieldErr
}

func malformed(format string, args ...any) error {
	return fault.New(fault.Malformed, format, args...)
}

var (
	errSyntax    = errors.New("syntax error")
	errTrailing  = errors.New("there is something after it")
	errDuplicate = errors.New("a name comes twice")
	errTooMany   = errors.New("too many members")
	errDepth     = errors.New("nested too deeply")
	errSurrogate = errors.New("half a surrogate pair")
	errControl   = errors.New("a control character in a string")
	errNotObject = errors.New("it does not begin with {")
)

type parser struct {
	data  []byte
	at    int
	depth int
}

func (p *parser) space() {
	for p.at < len(p.data) {
		switch p.data[p.at] {
		case ' ', '\t', '\r', '\n':
			p.at++
		default:
			return
		}
	}
}

func (p *parser) peek() byte {
	if p.at < len(p.data) {
		return p.data[p.at]
	}
	return 0
}

func (p *parser) take(c byte) bool {
	if p.peek() == c && p.at < len(p.data) {
		p.at++
		return true
	}
	return false
}

// object reads the members. The first error of field is returned apart: a syntax error behind it
// matters more.
func (p *parser) object(field func(string, value) error) (err, fieldErr error) {
	p.space()
	if !p.take('{') {
		return errNotObject, nil
	}
	p.depth = 1
	var names []string
	p.space()
	if p.take('}') {
		return nil, nil
	}
	for {
		name, v, err := p.member()
		if err != nil {
			return err, fieldErr
		}
		for _, n := range names {
			if n == name {
				return errDuplicate, fieldErr
			}
		}
		if names = append(names, name); len(names) > maxJSONFields {
			return errTooMany, fieldErr
		}
		if fieldErr == nil {
			fieldErr = field(name, v)
		}
		p.space()
		switch {
		case p.take(','):
		case p.take('}'):
			return nil, fieldErr
		default:
			return errSyntax, fieldErr
		}
	}
}

func (p *parser) member() (string, value, error) {
	p.space()
	name, err := p.str()
	if err != nil {
		return "", value{}, err
	}
	p.space()
	if !p.take(':') {
		return "", value{}, errSyntax
	}
	v, err := p.value()
	return string(name), v, err
}

func (p *parser) value() (value, error) {
	p.space()
	switch c := p.peek(); {
	case c == '"':
		text, err := p.str()
		return value{kind: kindString, text: text}, err
	case c == '{':
		return value{kind: kindObject}, p.nestedObject()
	case c == '[':
		return p.array()
	case c == '-' || c >= '0' && c <= '9':
		return p.number()
	}
	for _, w := range [...]struct {
		text string
		kind kind
	}{{"true", kindBool}, {"false", kindBool}, {"null", kindNull}} {
		if end := p.at + len(w.text); end <= len(p.data) && string(p.data[p.at:end]) == w.text {
			v := value{kind: w.kind, text: p.data[p.at:end]}
			p.at = end
			return v, nil
		}
	}
	return value{}, errSyntax
}

// nestedObject checks an object that no field wants.
func (p *parser) nestedObject() error {
	if p.depth++; p.depth > maxJSONDepth {
		return errDepth
	}
	p.at++
	p.space()
	if p.take('}') {
		p.depth--
		return nil
	}
	for {
		if _, _, err := p.member(); err != nil {
			return err
		}
		p.space()
		switch {
		case p.take(','):
		case p.take('}'):
			p.depth--
			return nil
		default:
			return errSyntax
		}
	}
}

func (p *parser) array() (value, error) {
	if p.depth++; p.depth > maxJSONDepth {
		return value{}, errDepth
	}
	p.at++
	out := value{kind: kindArray}
	p.space()
	if p.take(']') {
		p.depth--
		return out, nil
	}
	for {
		v, err := p.value()
		if err != nil {
			return value{}, err
		}
		if out.items = append(out.items, v); len(out.items) > maxJSONItems {
			return value{}, errTooMany
		}
		p.space()
		switch {
		case p.take(','):
		case p.take(']'):
			p.depth--
			return out, nil
		default:
			return value{}, errSyntax
		}
	}
}

func (p *parser) digits() int {
	from := p.at
	for p.at < len(p.data) && p.data[p.at] >= '0' && p.data[p.at] <= '9' {
		p.at++
	}
	return p.at - from
}

func (p *parser) number() (value, error) {
	from := p.at
	p.take('-')
	leadingZero := p.peek() == '0'
	if n := p.digits(); n == 0 || leadingZero && n > 1 {
		return value{}, errSyntax
	}
	if p.take('.') && p.digits() == 0 {
		return value{}, errSyntax
	}
	if p.take('e') || p.take('E') {
		if !p.take('+') {
			p.take('-')
		}
		if p.digits() == 0 {
			return value{}, errSyntax
		}
	}
	return value{kind: kindNumber, text: p.data[from:p.at]}, nil
}

// str reads a string and decodes it where it stands: what is decoded is never longer.
func (p *parser) str() ([]byte, error) {
	if !p.take('"') {
		return nil, errSyntax
	}
	from, out := p.at, p.at
	for p.at < len(p.data) {
		c := p.data[p.at]
		switch {
		case c == '"':
			p.at++
			return p.data[from:out:out], nil
		case c < ' ':
			return nil, errControl
		case c != '\\':
			p.data[out] = c
			out, p.at = out+1, p.at+1
		default:
			n, err := p.escape(out)
			if err != nil {
				return nil, err
			}
			out += n
		}
	}
	return nil, errSyntax
}

// escape decodes one escape sequence to data[out:] and returns its length there.
func (p *parser) escape(out int) (int, error) {
	if p.at+1 >= len(p.data) {
		return 0, errSyntax
	}
	c := p.data[p.at+1]
	p.at += 2
	switch c {
	case '"', '\\', '/':
	case 'b':
		c = '\b'
	case 'f':
		c = '\f'
	case 'n':
		c = '\n'
	case 'r':
		c = '\r'
	case 't':
		c = '\t'
	case 'u':
		r, err := p.unicode()
		if err != nil {
			return 0, err
		}
		return utf8.EncodeRune(p.data[out:], r), nil
	default:
		return 0, errSyntax
	}
	p.data[out] = c
	return 1, nil
}

func (p *parser) unicode() (rune, error) {
	r, err := p.hex4()
	if err != nil || !utf16.IsSurrogate(r) {
		return r, err
	}
	if !p.take('\\') || !p.take('u') {
		return 0, errSurrogate
	}
	low, err := p.hex4()
	if err != nil {
		return 0, err
	}
	if r = utf16.DecodeRune(r, low); r == utf8.RuneError {
		return 0, errSurrogate
	}
	return r, nil
}

func (p *parser) hex4() (rune, error) {
	if p.at+4 > len(p.data) {
		return 0, errSyntax
	}
	var r rune
	for _, c := range p.data[p.at : p.at+4] {
		switch {
		case c >= '0' && c <= '9':
			r = r<<4 | rune(c-'0')
		case c >= 'a' && c <= 'f':
			r = r<<4 | rune(c-'a'+10)
		case c >= 'A' && c <= 'F':
			r = r<<4 | rune(c-'A'+10)
		default:
			return 0, errSyntax
		}
	}
	p.at += 4
	return r, nil
}
