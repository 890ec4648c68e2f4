package httpin

import (
	"bytes"
	"errors"
	"strings"
)

// errHeader ends a connection whose header fasthttp could not read to its end. fasthttp would wait for more of it.
var errHeader = errors.New("a header line has no colon, or is refused")

// What is wrong with a request header that is refused. A proxy and this server might read it in different ways.
const (
	foldedLine     = "A header line begins with a space: it continues the line before (RFC 9112, 5.2)."
	controlInLine  = "The request header has a NUL, or a CR that no LF follows (RFC 9112, 2.2)."
	severalHosts   = "There is more than one Host header (RFC 9112, 3.2)."
	unknownVersion = "The request line must end with HTTP/1.1 or HTTP/1.0."
)

const (
	hostName     = "host:"
	versionBytes = len(" HTTP/1.1")
)

// headerScan finds the end of a request header: the first empty line after a line that is not empty. It ends lines as
// fasthttp does, at LF with or without a CR before it. It refuses what fasthttp lets pass.
type headerScan struct {
	begun    bool // a byte has come
	seenLine bool // a line that is not empty has ended
	lineLen  int
	nul      bool                   // there is one among the bytes at hand, perhaps of the body
	cr       bool                   // the last byte of the line is a CR
	start    [len(hostName)]byte    // of the line
	end      [versionBytes + 1]byte // of the request line, with its CR
	hosts    int
	refusal  string // empty: none. Nothing is taken from the line on that is refused
	done     bool
}

// take returns how many bytes of p belong to the header.
func (h *headerScan) take(p []byte) int {
	h.begun = h.begun || len(p) > 0
	h.nul = bytes.IndexByte(p, 0) >= 0
	for at := 0; at < len(p) && h.refusal == ""; {
		if h.lineLen == 0 && h.seenLine && (p[at] == ' ' || p[at] == '\t') {
			h.refusal = foldedLine // fasthttp would lose count of the bytes that it read
			return at
		}
		i := bytes.IndexByte(p[at:], '\n')
		if i < 0 {
			h.addToLine(p[at:])
			if h.refusal != "" {
				return at
			}
			return len(p)
		}
		h.addToLine(p[at : at+i])
		h.endLine()
		if h.refusal != "" {
			return at
		}
		at += i + 1
		if h.done {
			return at
		}
	}
	if h.refusal != "" {
		return 0
	}
	return len(p)
}

func (h *headerScan) addToLine(p []byte) {
	if len(p) == 0 {
		return
	}
	cr := bytes.IndexByte(p, '\r')
	if h.cr || cr >= 0 && cr < len(p)-1 || h.nul && bytes.IndexByte(p, 0) >= 0 {
		h.refusal = controlInLine
	}
	h.cr = cr >= 0
	if h.lineLen == 0 {
		h.start[0] = p[0]
	}
	if h.lineLen < len(h.start) && h.start[0]|0x20 == hostName[0] { // the others need not be kept
		copy(h.start[h.lineLen:], p)
	}
	if !h.seenLine {
		last := p[max(0, len(p)-len(h.end)):]
		copy(h.end[:], h.end[len(last):])
		copy(h.end[len(h.end)-len(last):], last)
	}
	h.lineLen += len(p)
}

// endLine ends a line, at its LF.
func (h *headerScan) endLine() {
	length := h.lineLen
	if h.cr {
		length--
	}
	switch {
	case length == 0:
		h.done = h.seenLine
	case !h.seenLine:
		h.seenLine = true
		if !h.knownVersion() {
			h.refusal = unknownVersion
		}
	case h.start[0]|0x20 == hostName[0] && length >= len(hostName) && strings.EqualFold(string(h.start[:]), hostName):
		if h.hosts++; h.hosts > 1 {
			h.refusal = severalHosts
		}
	}
	h.lineLen, h.cr = 0, false
}

func (h *headerScan) knownVersion() bool {
	version := h.end[1:]
	if h.cr {
		version = h.end[:versionBytes]
	}
	return string(version) == " HTTP/1.1" || string(version) == " HTTP/1.0"
}
