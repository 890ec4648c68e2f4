package scenario

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"quire.dev/pkg/eventually"
)

const (
	trickling      = 500      // connections
	tricklingBytes = 70 << 10 // that each sends at once; then a byte now and then
)

// trickle opens connections that announce a paste of 4 MiB, send the beginning of it, and then a byte each half second.
// Their answers come on the channel; 0 stands for a connection that ended without one.
func trickle(t *testing.T, i *instance, a account, count int) (answers <-chan int) {
	t.Helper()
	out := make(chan int, count)
	beginning := `{"content": "` + strings.Repeat("x", tricklingBytes)
	conns := make([]net.Conn, count)
	for n := range conns {
		c, err := net.Dial("tcp", i.address())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		conns[n] = c
		go func() {
			defer c.Close()
			res, err := http.ReadResponse(bufio.NewReader(c), nil)
			if err != nil {
				out <- 0
				return
			}
			out <- res.StatusCode
		}()
		head := fmt.Sprintf("POST /api/dev/pastes/create HTTP/1.1\r\nHost: q\r\nx-api-key: %s\r\nX-Forwarded-For: %s\r\nContent-Length: %d\r\n\r\n",
			a.key, newSource(), 4<<20)
		if _, err := io.WriteString(c, head+beginning); err != nil {
			t.Logf("connection %d: %v", n, err) // it was refused meanwhile
		}
	}
	ended := t.Context().Done()
	go func() {
		tick := time.NewTicker(500 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
			case <-ended:
				return
			}
			for _, c := range conns {
				_, _ = io.WriteString(c, "x") // fails once it was cut
			}
		}
	}()
	return out
}

// TestBodiesThatTrickleStopNobody: 500 connections announce 4 MiB and trickle. Another client's creations of 20 KiB go on, and
// those that trickle are the ones that are cut.
func TestBodiesThatTrickleStopNobody(t *testing.T) {
	t.Parallel()
	i := start(t, behindProxy())
	crowd, other := i.account(t, "admin"), i.account(t, "admin")
	answers := trickle(t, i, crowd, trickling)
	content := strings.Repeat("twenty characters, ", 20<<10/20)
	created, cut := 0, 0
	for cut < trickling {
		select {
		case status := <-answers:
			if status != http.StatusRequestTimeout && status != http.StatusServiceUnavailable {
				t.Fatalf("a connection that trickles got %d", status)
			}
			cut++
		default:
			other.quick(t, object{"content": content})
			created++
		}
	}
	for range 50 {
		other.quick(t, object{"content": content})
		created++
	}
	eventually.NoError(t, "the creations are counted, and nothing of the crowd's is", func() error {
		if used, none := other.used(t, "pasteLite.create"), crowd.used(t, "pastes.create"); used != int64(created) || none != 0 {
			return fmt.Errorf("%d are counted, want %d; of the crowd's %d", used, created, none)
		}
		return nil
	})
}
