package freeport_test

import (
	"net"
	"strconv"
	"sync"
	"testing"

	"quire.dev/pkg/freeport"
)

// TestPortsDifferAndCanBeListenedOn, also where many look for one at once.
func TestPortsDifferAndCanBeListenedOn(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	taken := map[int]bool{}
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() {
			port, err := freeport.Next()
			if err != nil {
				t.Error(err)
				return
			}
			l, err := net.Listen("tcp", "127.0.0.1:"+strconv.Itoa(port))
			if err != nil {
				t.Error(err)
				return
			}
			defer l.Close()
			mu.Lock()
			defer mu.Unlock()
			if taken[port] {
				t.Errorf("port %d was returned twice", port)
			}
			taken[port] = true
		})
	}
	all.Wait()
}
