package httpin

import (
	"bytes"
	"encoding/binary"
	"math"
	"net/netip"

	"github.com/gofiber/fiber/v2/utils"
)

// The grammar of requests, as pure functions over bytes: RFC 9112, with field values and hosts of RFC 9110 and targets of RFC
// 3986. fasthttp and some proxies are more lenient. What two of them may read differently is refused here, before fasthttp
// sees it: docs/adr/0006-bodies-are-hidden-from-fasthttp.md says what and why.

// Reasons to refuse a request.
const (
	bareLineFeed   = "A line of the request ends with LF only: lines must end with CRLF (RFC 9112, 2.2)."
	controlInLine  = "The request has a NUL, a CR without LF, or another control character (RFC 9110, 5.5)."
	foldedLine     = "A header line starts with a space: folded lines are not allowed (RFC 9112, 5.2)."
	badFieldName   = "A header line must start with a name of letters, digits and !#$%&'*+-.^_`|~, immediately followed by a colon (RFC 9112, 5.1)."
	unknownVersion = "The request line must end with HTTP/1.1 or HTTP/1.0."
	badRequestLine = "The request line must be a method, a target and a version, with one space between them (RFC 9112, 3)."
	badMethod      = "The method must be a token (RFC 9110, 9.1)."
	badTarget      = "The request target must have only visible ASCII characters: encode others with % (RFC 3986)."
	fragment       = "The request target has a fragment: do not send # and what follows it (RFC 9112, 3.2)."
	badEncoding    = "The request target has a % that is not followed by two hexadecimal digits (RFC 3986, 2.1)."
	badForm        = "The request target must be a path, or an http or https address with a path (RFC 9112, 3.2)."
	badAsterisk    = "Only OPTIONS can have the target * (RFC 9112, 3.2.4)."
	badConnect     = "The target of CONNECT must be a host and port (RFC 9112, 3.2.3)."
	hostlessPath   = "The request target begins with two slashes: it could be read as a host."
	noHost         = "The Host header is missing (RFC 9112, 3.2)."
	badHost        = "Host must be one host name, IPv4 address or IPv6 address in brackets, and may have a port from 1 to 65535 (RFC 9112, 3.2)."
	otherHost      = "Host differs from the host of the request target (RFC 9112, 3.2.2)."
	badLength      = "Content-Length must be 1 to 18 digits (RFC 9110, 8.6)."
	badCoding      = "Transfer-Encoding must be chunked (RFC 9112, 6.1)."
	twoLengths     = "The request has both Content-Length and Transfer-Encoding (RFC 9112, 6.1)."
	badExpect      = "must be 100-continue"
	badChunk       = "A chunk must begin with its size in hexadecimal digits, at most 15, and end with CRLF (RFC 9112, 7.1)."
	badExtension   = "A chunk extension is not valid (RFC 9112, 7.1.1)."
)

const (
	maxLengthDigits = 18 // the longest that fasthttp reads
	maxChunkDigits  = 15
	maxHostBytes    = 255
	maxLabelBytes   = 63 // RFC 1035, 2.3.4
)

// The classes of bytes.
const (
	tokenByte      = 1 << iota // RFC 9110, 5.6.2
	unreservedByte             // RFC 3986, 2.3
	hexByte
	digitByte
	nameByte // of a host: letters, digits, - and _
)

//nolint:gochecknoglobals // a read-only table for every request
var classes = func() (table [256]uint8) {
	for c := range 256 {
		b := byte(c)
		letter := b|0x20 >= 'a' && b|0x20 <= 'z'
		digit := b >= '0' && b <= '9'
		if letter || digit || bytes.IndexByte([]byte("!#$%&'*+-.^_`|~"), b) >= 0 {
			table[b] |= tokenByte
		}
		if letter || digit || bytes.IndexByte([]byte("-._~"), b) >= 0 {
			table[b] |= unreservedByte
		}
		if digit || b|0x20 >= 'a' && b|0x20 <= 'f' {
			table[b] |= hexByte
		}
		if digit {
			table[b] |= digitByte
		}
		if letter || digit || b == '-' || b == '_' {
			table[b] |= nameByte
		}
	}
	return table
}()

func is(b byte, class uint8) bool { return classes[b]&class != 0 }

func allAre(b []byte, class uint8) bool {
	for _, c := range b {
		if classes[c]&class == 0 {
			return false
		}
	}
	return true
}

func isToken(b []byte) bool { return len(b) > 0 && allAre(b, tokenByte) }

// equalFold compares b with lower-case text, ignoring ASCII case only: strings.EqualFold takes a KELVIN SIGN for a k.
func equalFold(b []byte, lower string) bool {
	if len(b) != len(lower) {
		return false
	}
	for i, c := range b {
		if c >= 'A' && c <= 'Z' {
			c |= 0x20
		}
		if c != lower[i] {
			return false
		}
	}
	return true
}

// isText reports whether b has no control character but HTAB. It checks eight bytes at a time.
func isText(b []byte) bool {
	const each, highest = 0x0101010101010101, 0x8080808080808080
	for ; len(b) >= 8; b = b[8:] {
		w := binary.LittleEndian.Uint64(b)
		del := w ^ each*0x7f
		if ((w-each*' ')&^w|(del-each)&^del)&highest != 0 && !isShortText(b[:8]) {
			return false
		}
	}
	return isShortText(b)
}

func isShortText(b []byte) bool {
	for _, c := range b {
		if c < ' ' && c != '\t' || c == 0x7f {
			return false
		}
	}
	return true
}

func isSpace(c byte) bool { return c == ' ' || c == '\t' }

// trimSpaces trims optional white space (RFC 9110, 5.6.3). It also replaces it with spaces in place, since fasthttp doesn't
// trim tabs.
func trimSpaces(b []byte) []byte {
	for len(b) > 0 && isSpace(b[0]) {
		b[0] = ' '
		b = b[1:]
	}
	for len(b) > 0 && isSpace(b[len(b)-1]) {
		b[len(b)-1] = ' '
		b = b[:len(b)-1]
	}
	return b
}

// splitField splits a field line of a header or trailer. refusal is empty if it is valid.
func splitField(line []byte) (name, value []byte, refusal string) {
	if isSpace(line[0]) {
		return nil, nil, foldedLine
	}
	colon := 0
	for colon < len(line) && is(line[colon], tokenByte) {
		colon++
	}
	switch {
	case !isText(line):
		return nil, nil, controlInLine
	case colon == 0 || colon == len(line) || line[colon] != ':':
		return nil, nil, badFieldName
	}
	return line[:colon], trimSpaces(line[colon+1:]), ""
}

// requestLine holds the offsets of the parts of a request line.
type requestLine struct {
	method    int // its end
	path, end int // of the target's path
	authority [2]int
	encoded   bool // the path has an unreserved character that is percent-encoded
	doubtful  bool // fasthttp may take the start of the path for a host
	slashes   bool // the path begins with two: without a Host, fasthttp takes the first segment for one
	http10    bool
}

// parseRequestLine parses a request line without its CRLF. refusal is empty if it is valid.
func parseRequestLine(line []byte) (r requestLine, refusal string) {
	r.method = bytes.IndexByte(line, ' ')
	end := bytes.LastIndexByte(line, ' ')
	version := line[end+1:]
	r.http10 = string(version) == "HTTP/1.0"
	switch {
	case !isText(line):
		return r, controlInLine
	case !r.http10 && string(version) != "HTTP/1.1":
		return r, unknownVersion
	case r.method == 0 || end <= r.method+1 || bytes.IndexByte(line[r.method+1:end], ' ') >= 0:
		return r, badRequestLine
	case !isToken(line[:r.method]):
		return r, badMethod
	}
	if refusal := r.findPath(line, line[r.method+1:end], end); refusal != "" {
		return r, refusal
	}
	return r, r.checkPath(line, end)
}

// authorityOf returns the host and port of an absolute target; empty for other targets.
func (r *requestLine) authorityOf(line []byte) []byte { return line[r.authority[0]:r.authority[1]] }

// findPath finds the path in a target of any form.
func (r *requestLine) findPath(line, target []byte, end int) (refusal string) {
	r.path = r.method + 1
	method := line[:r.method]
	switch {
	case string(method) == "CONNECT":
		host, port, ok := splitHost(target)
		if !ok || len(host) == 0 || len(port) == 0 {
			return badConnect
		}
		return ""
	case string(target) == "*":
		if string(method) != "OPTIONS" {
			return badAsterisk
		}
		return ""
	case target[0] == '/':
		r.slashes = len(target) > 1 && target[1] == '/'
		r.doubtful = r.slashes && bytes.Contains(target, []byte("://"))
		return ""
	}
	scheme := bytes.IndexByte(target, ':')
	if scheme < 0 || !equalFold(target[:scheme], "http") && !equalFold(target[:scheme], "https") || !bytes.HasPrefix(target[scheme+1:], []byte("//")) {
		return badForm
	}
	r.authority = [2]int{r.path + scheme + 3, end}
	rest := target[scheme+3:]
	if at := bytes.IndexAny(rest, "/?#"); at >= 0 {
		if rest[at] == '?' {
			return badForm // fasthttp would give the router an empty path
		}
		r.authority[1] = r.authority[0] + at
	}
	r.path = r.authority[1]
	if _, _, ok := splitHost(line[r.authority[0]:r.authority[1]]); !ok {
		return badHost
	}
	return ""
}

// checkPath checks the bytes of the path and the query.
func (r *requestLine) checkPath(line []byte, end int) (refusal string) {
	r.end = end
	for i := r.path; i < end; i++ {
		switch c := line[i]; {
		case c <= ' ' || c >= 0x7f:
			return badTarget
		case c == '#':
			return fragment
		case c == '?':
			r.end = min(r.end, i)
		case c == '%':
			if i+2 >= end || !is(line[i+1], hexByte) || !is(line[i+2], hexByte) {
				return badEncoding
			}
			r.encoded = r.encoded || r.end == end && is(unhex(line[i+1:i+3]), unreservedByte)
		}
	}
	return ""
}

func unhex(b []byte) (v byte) {
	for _, c := range b {
		if c > '9' {
			c = c&^0x20 - 'A' + '9' + 1
		}
		v = v<<4 | (c - '0')
	}
	return v
}

// decodePath decodes percent-encoded unreserved characters of the path in place, which does not change its meaning (RFC 3986,
// 6.2.2.2). It returns how many bytes later the line begins as a result.
func (r *requestLine) decodePath(line []byte) (later int) {
	to := r.end
	for from := r.end; from > 0; {
		to, from = to-1, from-1
		line[to] = line[from]
		if from-2 < r.path || line[from-2] != '%' {
			continue
		}
		if c := unhex(line[from-1 : from+1]); is(c, unreservedByte) {
			line[to] = c
			from -= 2
		}
	}
	return to
}

// splitHost splits a Host, or the authority of a target, into host and optional port.
func splitHost(b []byte) (host, port []byte, ok bool) {
	if len(b) > maxHostBytes {
		return nil, nil, false
	}
	end := bytes.IndexByte(b, ':')
	if len(b) > 0 && b[0] == '[' {
		end = bytes.IndexByte(b, ']') + 1
		if end == 0 || end < len(b) && b[end] != ':' {
			return nil, nil, false
		}
	}
	if end < 0 || end == len(b) {
		return b, nil, validHost(b)
	}
	host, port = b[:end], b[end+1:]
	return host, port, validHost(host) && validPort(port)
}

func validPort(b []byte) bool {
	if len(b) == 0 || len(b) > 5 || b[0] == '0' {
		return false
	}
	n, ok := parseDigits(b)
	return ok && n <= math.MaxUint16
}

// validHost reports whether b is a DNS name, an IPv4 address, or an IPv6 address in brackets. A host whose last label is a
// number must be a full IPv4 address: some programs read 127.1 as one too, so it is refused here.
func validHost(b []byte) bool {
	if len(b) == 0 {
		return false
	}
	if b[0] == '[' {
		a, err := netip.ParseAddr(utils.UnsafeString(b[1 : len(b)-1]))
		return err == nil && a.Is6() && a.Zone() == ""
	}
	label := 0 // its start
	for i, c := range b {
		if c == '.' && i > label {
			if i+1 < len(b) {
				label = i + 1
			}
		} else if !is(c, nameByte) || i-label >= maxLabelBytes {
			return false
		}
	}
	if last := bytes.TrimSuffix(b[label:], []byte(".")); !isNumber(last) {
		return true
	}
	a, err := netip.ParseAddr(utils.UnsafeString(b))
	return err == nil && a.Is4()
}

// isNumber reports whether inet_aton would read a label as a number.
func isNumber(b []byte) bool {
	return len(b) > 0 && allAre(b, digitByte) || len(b) >= 2 && b[0] == '0' && b[1]|0x20 == 'x' && allAre(b[2:], hexByte)
}

// parseDigits parses decimal digits, as many as always fit an int64.
func parseDigits(b []byte) (n int64, ok bool) {
	if len(b) == 0 || len(b) > maxLengthDigits {
		return 0, false
	}
	for _, c := range b {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + int64(c-'0')
	}
	return n, true
}

// eachElement calls visit for each element of a list (RFC 9110, 5.6.1).
func eachElement(list []byte, visit func(element []byte)) {
	for len(list) > 0 {
		element, rest, _ := bytes.Cut(list, []byte(","))
		visit(bytes.Trim(element, " \t"))
		list = rest
	}
}

// parseChunkLine parses the line before a chunk, without its CRLF. refusal is empty if it is valid.
func parseChunkLine(line []byte) (size int64, refusal string) {
	digits := 0
	for digits < len(line) && is(line[digits], hexByte) {
		size = size<<4 | int64(unhex(line[digits:digits+1]))
		if digits++; digits > maxChunkDigits {
			return 0, badChunk
		}
	}
	if digits == 0 {
		return 0, badChunk
	}
	for rest := line[digits:]; len(rest) > 0; {
		var ok bool
		if rest, ok = skipExtension(rest); !ok {
			return 0, badExtension
		}
	}
	return size, ""
}

// skipExtension skips a chunk extension: ;name, ;name=token or ;name="text". White space around the signs is allowed.
func skipExtension(b []byte) (rest []byte, ok bool) {
	b = bytes.TrimLeft(b, " \t")
	if len(b) == 0 || b[0] != ';' {
		return nil, false
	}
	if b, ok = skipToken(bytes.TrimLeft(b[1:], " \t")); !ok {
		return nil, false
	}
	value, given := bytes.CutPrefix(bytes.TrimLeft(b, " \t"), []byte("="))
	if !given {
		return b, true
	}
	value = bytes.TrimLeft(value, " \t")
	if len(value) == 0 || value[0] != '"' {
		return skipToken(value)
	}
	for i := 1; i < len(value); i++ {
		switch value[i] {
		case '"':
			return value[i+1:], isText(value[:i])
		case '\\':
			i++
		}
	}
	return nil, false
}

func skipToken(b []byte) (rest []byte, ok bool) {
	n := 0
	for n < len(b) && is(b[n], tokenByte) {
		n++
	}
	return b[n:], n > 0
}
