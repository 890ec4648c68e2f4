package httpin

import (
	"testing"
)

func TestHeadersEndWhereTheyEnd(t *testing.T) {
	for _, tc := range []struct {
		in, rest string
		done     bool
	}{
		{"GET / HTTP/1.1\r\nA: b\r\n\r\nbody", "body", true},
		{"GET / HTTP/1.1\nA: b\n\nbody", "body", true},
		{"\r\n\r\nGET / HTTP/1.1\r\n\r\nbody\r\n", "body\r\n", true},
		{"GET / HTTP/1.1\r\nA: \r\n\r\n\r\n", "\r\n", true},
		{"GET / HTTP/1.1\r\nA: b\r\n", "", false},
		{"GET / HTTP/1.1\r\n\r\r\n", "", false},
	} {
		for step := 1; step <= len(tc.in); step++ {
			var h headerScan
			taken := 0
			for taken < len(tc.in) && !h.done {
				taken += h.take([]byte(tc.in[taken:min(taken+step, len(tc.in))]))
			}
			if tc.in[taken:] != tc.rest || h.done != tc.done {
				t.Errorf("%q by %d: left %q, done %v", tc.in, step, tc.in[taken:], h.done)
			}
		}
	}
}
