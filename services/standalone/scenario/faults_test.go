package scenario

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"quire.dev/pkg/eventually"
	"quire.dev/services/standalone/internal/quiretest"
	"quire.dev/tools/cluster/load"
)

// underLoad runs fault while a crowd of clients works.
func underLoad(t *testing.T, i *instance, fault func(l *load.Load)) *load.Load {
	t.Helper()
	l := i.crowd(t)
	stop := quiretest.Running(t, l)
	defer stop()
	quiretest.More(t, "the load has begun", l, 50)
	fault(l)
	quiretest.More(t, "the load goes on after the fault", l, 50)
	return l
}

// TestJournalServersGoAwayAndComeBack restarts each of them, and then all at once.
func TestJournalServersGoAwayAndComeBack(t *testing.T) {
	t.Parallel()
	i := start(t)
	l := underLoad(t, i, func(l *load.Load) {
		for n, server := range i.journal() {
			if err := server.Restart(t.Context()); err != nil {
				t.Error(err)
			}
			quiretest.More(t, fmt.Sprint("writes go on after server ", n), l, 20)
		}
		for range 2 {
			group, ctx := errgroup.WithContext(t.Context())
			for _, server := range i.journal() {
				group.Go(func() error { return server.Restart(ctx) })
			}
			if err := group.Wait(); err != nil {
				t.Error(err)
			}
			quiretest.More(t, "writes go on after all of them", l, 20)
		}
	})
	if err := quiretest.Check(t, l); err != nil {
		t.Error(err)
	}
}

func TestReadModelsThatFailOrHangLoseNothing(t *testing.T) {
	t.Parallel()
	i := start(t)
	for name, condition := range map[string]readModel{"fail": fails, "hang": hangs} {
		t.Run(name, func(t *testing.T) {
			a := i.account(t, "admin")
			acked := []string{a.paste(t, object{"content": "from before"})}
			l := underLoad(t, i, func(*load.Load) {
				if err := i.readModels(t.Context(), condition); err != nil {
					t.Fatal(err)
				}
				defer func() {
					if err := i.readModels(t.Context(), works); err != nil {
						t.Error(err)
					}
				}()
				// A write may fail. If it is answered with success, it must be there later.
				if got := a.do(t, "POST", "/api/dev/pastes/create", withContent(nil)); got.status == http.StatusCreated {
					acked = append(acked, text(t, got.json(t), "id"))
				} else if got.status != http.StatusServiceUnavailable && got.status != http.StatusGatewayTimeout {
					t.Errorf("a write without read models: %d %s", got.status, got.body)
				}
				// A list needs the read models.
				a.do(t, "GET", "/api/dev/paste-lite/list", nil).fails(t, http.StatusServiceUnavailable, "unavailable", "")
			})
			eventually.NoError(t, "lists work again", func() error {
				if got := a.do(t, "GET", "/api/dev/paste-lite/list", nil); got.status != http.StatusOK {
					return fmt.Errorf("%d %s", got.status, got.body)
				}
				return nil
			})
			for _, id := range acked {
				a.do(t, "GET", "/api/dev/pastes/get/"+id, nil).ok(t, http.StatusOK)
			}
			if err := quiretest.Check(t, l); err != nil {
				t.Error(err)
			}
		})
	}
}

// ballastBytes is many times as much as the test itself writes until the disk is full.
const ballastBytes = 256 << 20

// TestAFullDiskIsSurvived fills the disk of the data folder and makes room again.
func TestAFullDiskIsSurvived(t *testing.T) {
	t.Parallel()
	disk := t.TempDir()
	if err := unix.Mount("tmpfs", disk, "tmpfs", 0, fmt.Sprintf("size=%d", ballastBytes+newQuire(disk, "").emptyBytes())); err != nil {
		t.Skipf("NOT TESTED: a full disk. Mounting a tmpfs needs root: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(disk, unix.MNT_DETACH); err != nil {
			t.Errorf("unmount: %v", err)
		}
	})
	ballast := filepath.Join(disk, "ballast")
	if err := os.WriteFile(ballast, make([]byte, ballastBytes), 0o600); err != nil {
		t.Fatal(err)
	}
	i := start(t, in(disk))
	a := i.account(t, "admin")
	ids := map[string]bool{}
	body := withContent(object{"content": strings.Repeat("0123456789abcdef", 4000)}) // inline, so that the journal grows
	refused := 0
	for n := 0; n < 2000 && refused < 3; n++ {
		switch got := a.do(t, "POST", "/api/dev/paste-lite/create", body); got.status {
		case http.StatusCreated:
			ids[text(t, got.json(t), "id")] = true
		case http.StatusServiceUnavailable:
			got.fails(t, http.StatusServiceUnavailable, "unavailable", "")
			refused++
		case http.StatusGatewayTimeout:
			got.fails(t, http.StatusGatewayTimeout, "outcome_unknown", "")
			refused++
		default:
			t.Fatalf("on a full disk: %d %s", got.status, got.body)
		}
	}
	if refused == 0 {
		t.Fatal("the disk never got full")
	}
	for _, base := range i.operators() {
		if status, body := plain(t, base+"/livez"); status != http.StatusOK {
			t.Errorf("%s is not alive on a full disk: %d %s", base, status, body)
		}
	}
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	eventually.NoError(t, "creations work once there is room", func() error {
		if err := i.heal(t.Context()); err != nil {
			return err
		}
		got := a.do(t, "POST", "/api/dev/paste-lite/create", body)
		if got.status != http.StatusCreated {
			return fmt.Errorf("%d %s", got.status, got.body)
		}
		ids[text(t, got.json(t), "id")] = true
		return nil
	})
	for id := range ids {
		eventually.NoError(t, "each created paste is there", func() error {
			if got := a.do(t, "GET", "/api/dev/paste-lite/get/"+id, nil); got.status != http.StatusOK {
				return fmt.Errorf("%s: %d %s", id, got.status, got.body)
			}
			return nil
		})
	}
	if used := a.used(t, "pasteLite.create"); used < int64(len(ids)) {
		t.Errorf("%d were created, %d are counted", len(ids), used)
	}
	i.audit(t)
	i.restart(t)
	for id := range ids {
		a.do(t, "GET", "/api/dev/paste-lite/get/"+id, nil).ok(t, http.StatusOK)
	}
	i.audit(t)
}

// TestSlowClientsDoNotStopOthers opens many connections that send a header, or a body, byte by byte.
func TestSlowClientsDoNotStopOthers(t *testing.T) {
	t.Parallel()
	i := start(t)
	a := i.account(t, "pro")
	id := a.quick(t, nil)
	const crowd = 300
	conns := make([]net.Conn, 0, crowd)
	defer func() {
		for _, c := range conns {
			c.Close()
		}
	}()
	for n := range crowd {
		c, err := net.Dial("tcp", i.address())
		if err != nil {
			t.Fatal(err)
		}
		conns = append(conns, c)
		begin := "GET /api/dev/paste-lite/list HTTP/1.1\r\nHost: q\r\nX-Slow: "
		if n%2 == 0 {
			begin = "POST /api/dev/paste-lite/create HTTP/1.1\r\nHost: q\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{"
		}
		if _, err := io.WriteString(c, begin); err != nil {
			t.Fatal(err)
		}
	}
	ended := make(chan struct{})
	go func() { // sends the bytes
		defer close(ended)
		tick := time.NewTicker(500 * time.Millisecond)
		defer tick.Stop()
		for open := crowd; open > 0; {
			<-tick.C
			open = 0
			for _, c := range conns {
				if _, err := io.WriteString(c, "x"); err == nil {
					open++
				}
			}
		}
	}()
	for range 50 {
		a.do(t, "GET", "/api/dev/paste-lite/get/"+id, nil).ok(t, http.StatusOK)
		a.quick(t, nil)
	}
	select {
	case <-ended:
	case <-time.After(90 * time.Second):
		t.Error("slow clients are let go on for ever")
	}
	if used := a.used(t, "pasteLite.create"); used != 51 {
		t.Errorf("%d creations are counted, want 51", used)
	}
}
