package trace

import (
	"strconv"
	"strings"

	"github.com/nats-io/nats.go"
)

// header of a journal's message has the traces of its sampled requests, each as "<offset> <traceparent>".
const header = "Quire-Trace"

// MaxInMessage bounds the traced requests in one journal message. Each takes 75 bytes, and a journal may be kept forever.
const MaxInMessage = 4

// Headers collects the header of a journal's message. Its zero value has none.
type Headers struct{ header nats.Header }

// Add adds the trace of the request at an offset, unless there are enough.
func (h *Headers) Add(offset int, s *Span) {
	if s == nil || len(h.header[header]) >= MaxInMessage {
		return
	}
	if h.header == nil {
		h.header = nats.Header{}
	}
	h.header[header] = append(h.header[header], strconv.Itoa(offset)+" "+s.Parent())
}

// Header returns the header; nil without traces.
func (h *Headers) Header() nats.Header { return h.header }

// In calls each with the offset and the traceparent of each request that the header names. What is malformed is left out.
func In(h nats.Header, each func(offset int, traceparent string)) {
	list := h[header]
	for _, entry := range list[:min(len(list), MaxInMessage)] {
		number, traceparent, _ := strings.Cut(entry, " ")
		if offset, err := strconv.Atoi(number); err == nil && offset >= 0 {
			each(offset, traceparent)
		}
	}
}
