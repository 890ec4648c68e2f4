// Package freeport chooses ports on the loopback interface for servers of tests and benchmarks that have to know their port before
// they listen, or that listen on it again after a restart. Any other server listens on port 0.
package freeport

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"sync/atomic"
)

// Ports from first up to end are below those that Linux, the BSDs and Windows give to outgoing connections and to listeners on port 0.
// One of these is taken within seconds on a machine that runs other tests.
const first, end = 10000, 32768

// next is where the search goes on.
//
//nolint:gochecknoglobals // a process gets each port once, and processes begin at different ones
var next = rand.Uint32N(end - first)

// Next returns a port that nothing listens on. Safe for concurrent use.
func Next() (int, error) {
	for range end - first {
		port := first + int(atomic.AddUint32(&next, 1)%(end-first))
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err != nil {
			continue
		}
		if err := l.Close(); err != nil {
			return 0, fmt.Errorf("find a free port: %w", err)
		}
		return port, nil
	}
	return 0, errors.New("find a free port: all are in use")
}

// NextAddress is Next as 127.0.0.1:port.
func NextAddress() (string, error) {
	port, err := Next()
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), err
}
