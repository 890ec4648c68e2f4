// This parser stays until the toolchain has encoding/json/jsontext without GOEXPERIMENT; Go 1.26 has not.

package input

import (
	"errors"
	"slices"
	"unicode/utf16"
	"unicode/utf8"

	"quire.dev/services/edge/internal/httpin/httperr"
)

// Kind is the type of a field's value.
type Kind uint8

// The types of JSON, and Query: the text of a query parameter, which each field parses as the type it needs.
const (
	Null Kind = iota
	String
	Number
	Bool
	Array
	Object
	Query
)

// Value is the value of a field. Its bytes alias the request's body.
type Value struct {
	Kind  Kind
	Text  []byte  // a decoded string; a number as written; true or false
	Items []Value // of an array

	Members []Member // of a nested object, in order, with unique names
}

// Member is a member of an object.
type Member struct {
	Name  string
	Value Value
}

const (
	maxJSONDepth  = 16
	maxJSONFields = 64 // of an object, or parameters of a query
	maxJSONItems  = 1024
)

// ParseObject parses data as one JSON object and calls field for each member. It rejects as malformed what parsers disagree
// about: a repeated name, text that is not UTF-8, half a surrogate pair, anything after the object. It decodes strings in
// place, and so changes data. An error of field is returned only if the rest is well formed.
func ParseObject(data []byte, field func(name string, v Value) error) error {
	if !utf8.Valid(data) {
		return httperr.Malformed("The body is not valid UTF-8.")
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
		return httperr.Malformed("The body is not a valid JSON object: %v (at byte %d).", err, p.at)
	}
	return fieldErr
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

// object parses the outermost object. It returns the first error of field separately, since a later syntax error takes
// precedence.
func (p *parser) object(field func(string, Value) error) (err, fieldErr error) {
	p.space()
	if p.peek() != '{' {
		return errNotObject, nil
	}
	names := make([]string, 0, 8)
	err = p.members(func(name string, v Value) error {
		if slices.Contains(names, name) {
			return errDuplicate
		}
		if names = append(names, name); len(names) > maxJSONFields {
			return errTooMany
		}
		if fieldErr == nil {
			fieldErr = field(name, v)
		}
		return nil
	})
	return err, fieldErr
}

// members parses an object from its opening brace.
func (p *parser) members(member func(string, Value) error) error {
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
		name, v, err := p.member()
		if err == nil {
			err = member(name, v)
		}
		if err != nil {
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

func (p *parser) member() (string, Value, error) {
	p.space()
	name, err := p.str()
	if err != nil {
		return "", Value{}, err
	}
	p.space()
	if !p.take(':') {
		return "", Value{}, errSyntax
	}
	v, err := p.value()
	return string(name), v, err
}

func (p *parser) value() (Value, error) {
	p.space()
	switch c := p.peek(); {
	case c == '"':
		text, err := p.str()
		return Value{Kind: String, Text: text}, err
	case c == '{':
		return p.inner()
	case c == '[':
		return p.array()
	case c == '-' || c >= '0' && c <= '9':
		return p.number()
	}
	for _, w := range [...]struct {
		text string
		kind Kind
	}{{"true", Bool}, {"false", Bool}, {"null", Null}} {
		if end := p.at + len(w.text); end <= len(p.data) && string(p.data[p.at:end]) == w.text {
			v := Value{Kind: w.kind, Text: p.data[p.at:end]}
			p.at = end
			return v, nil
		}
	}
	return Value{}, errSyntax
}

// inner parses a nested object.
func (p *parser) inner() (Value, error) {
	out := Value{Kind: Object}
	err := p.members(func(name string, v Value) error {
		if slices.ContainsFunc(out.Members, func(m Member) bool { return m.Name == name }) {
			return errDuplicate
		}
		if out.Members = append(out.Members, Member{name, v}); len(out.Members) > maxJSONFields {
			return errTooMany
		}
		return nil
	})
	return out, err
}

func (p *parser) array() (Value, error) {
	if p.depth++; p.depth > maxJSONDepth {
		return Value{}, errDepth
	}
	p.at++
	out := Value{Kind: Array}
	p.space()
	if p.take(']') {
		p.depth--
		return out, nil
	}
	for {
		v, err := p.value()
		if err != nil {
			return Value{}, err
		}
		if out.Items = append(out.Items, v); len(out.Items) > maxJSONItems {
			return Value{}, errTooMany
		}
		p.space()
		switch {
		case p.take(','):
		case p.take(']'):
			p.depth--
			return out, nil
		default:
			return Value{}, errSyntax
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

func (p *parser) number() (Value, error) {
	from := p.at
	p.take('-')
	leadingZero := p.peek() == '0'
	if n := p.digits(); n == 0 || leadingZero && n > 1 {
		return Value{}, errSyntax
	}
	if p.take('.') && p.digits() == 0 {
		return Value{}, errSyntax
	}
	if p.take('e') || p.take('E') {
		if !p.take('+') {
			p.take('-')
		}
		if p.digits() == 0 {
			return Value{}, errSyntax
		}
	}
	return Value{Kind: Number, Text: p.data[from:p.at]}, nil
}

// str parses a string and decodes it in place, since decoded text is never longer.
func (p *parser) str() ([]byte, error) {
	if !p.take('"') {
		return nil, errSyntax
	}
	from, out := p.at, p.at
	for p.at < len(p.data) {
		if n := PlainRun(p.data[p.at:]); n > 0 {
			copy(p.data[out:], p.data[p.at:p.at+n])
			out, p.at = out+n, p.at+n
			continue
		}
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

// escape decodes an escape sequence to data[out:] and returns its decoded length.
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
