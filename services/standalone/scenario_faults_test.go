package standalone

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"quire.dev/cluster/load"
	"quire.dev/pkg/views"
)

// underLoad has a crowd of clients at work while fault happens.
func underLoad(t *testing.T, i *instance, fault func(l *load.Load)) *load.Load {
	t.Helper()
	l := newCrowd(t, i.base, 16)
	stop := running(t, l)
	defer stop()
	more(t, "the load has begun", l, 50)
	fault(l)
	more(t, "the load goes on after the fault", l, 50)
	return l
}

func TestTheJournalServerGoesAwayAndComesBack(t *testing.T) {
	t.Parallel()
	i := start(t)
	l := underLoad(t, i, func(l *load.Load) {
		for range 3 {
			if err := i.q.journal.Restart(t.Context()); err != nil {
				t.Error(err)
			}
			more(t, "writes go on", l, 20)
		}
	})
	if err := check(t, l); err != nil {
		t.Error(err)
	}
}

// faultyViews is a read model that can be made to fail or to hang.
type faultyViews struct {
	views.Store
	mode *atomic.Int32
	free chan struct{} // closed when what hangs may go on
}

const (
	viewsWork int32 = iota
	viewsFail
	viewsHang
)

var errViews = errors.New("the read model fails for a test")

func (f *faultyViews) gate(ctx context.Context) error {
	switch f.mode.Load() {
	case viewsFail:
		return views.Unavailable("test", errViews)
	case viewsHang:
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-f.free:
		}
	}
	return nil
}

func (f *faultyViews) Load(ctx context.Context, collection string, ids []string, parts views.Parts) ([]views.Doc, error) {
	if err := f.gate(ctx); err != nil {
		return nil, err
	}
	return f.Store.Load(ctx, collection, ids, parts)
}

func (f *faultyViews) List(ctx context.Context, collection string, q views.Query) ([]views.Doc, error) {
	if err := f.gate(ctx); err != nil {
		return nil, err
	}
	return f.Store.List(ctx, collection, q)
}

func (f *faultyViews) Commit(ctx context.Context, b views.Batch) error {
	if err := f.gate(ctx); err != nil {
		return err
	}
	return f.Store.Commit(ctx, b)
}

func TestAReadModelThatFailsOrHangsLosesNothing(t *testing.T) {
	t.Parallel()
	for name, mode := range map[string]int32{"fails": viewsFail, "hangs": viewsHang} {
		t.Run(name, func(t *testing.T) {
			var state atomic.Int32
			free := make(chan struct{})
			i := start(t, withDeps(func(d *Deps) {
				d.View = func(service string, s views.Store) views.Store {
					if service != "lite" {
						return s
					}
					return &faultyViews{Store: s, mode: &state, free: free}
				}
			}))
			var once sync.Once
			release := func() { once.Do(func() { state.Store(viewsWork); close(free) }) }
			t.Cleanup(release)
			a := i.account(t, "admin")
			before := a.quick(t, object{"content": "from before"})
			l := underLoad(t, i, func(*load.Load) {
				state.Store(mode)
				// The other services go on as if nothing was.
				id := a.paste(t, nil)
				a.do(t, "GET", "/api/dev/pastes/get/"+id, nil).ok(t, http.StatusOK)
				// A list needs the read model.
				got := a.do(t, "GET", "/api/dev/paste-lite/list", nil)
				if got.status/100 == 2 {
					t.Errorf("a list without its read model: %s", got.body)
				}
				release()
			})
			eventually(t, "lists work again", func() error {
				if got := a.do(t, "GET", "/api/dev/paste-lite/list", nil); got.status != http.StatusOK {
					return fmt.Errorf("%d %s", got.status, got.body)
				}
				return nil
			})
			a.do(t, "GET", "/api/dev/paste-lite/get/"+before, nil).ok(t, http.StatusOK)
			if err := check(t, l); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestAFullDiskIsSurvived fills the disk under the data folder and frees it again.
func TestAFullDiskIsSurvived(t *testing.T) {
	t.Parallel()
	disk := t.TempDir()
	if err := unix.Mount("tmpfs", disk, "tmpfs", 0, "size=96m"); err != nil {
		t.Skipf("NOT TESTED: what a full disk does. Mounting a tmpfs needs root: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(disk, unix.MNT_DETACH); err != nil {
			t.Errorf("unmount: %v", err)
		}
	})
	ballast := filepath.Join(disk, "ballast")
	if err := os.WriteFile(ballast, make([]byte, 72<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	i := start(t, withConfig(func(c *Config) { c.Data = filepath.Join(disk, "data") }))
	a := i.account(t, "admin")
	ids := map[string]bool{}
	body := withContent(object{"content": strings.Repeat("0123456789abcdef", 4000)}) // inline, so that the journal fills
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
	i.do(t, "GET", "/livez", request{}).ok(t, http.StatusOK)
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	eventually(t, "creations work once there is room", func() error {
		got := a.do(t, "POST", "/api/dev/paste-lite/create", body)
		if got.status != http.StatusCreated {
			return fmt.Errorf("%d %s", got.status, got.body)
		}
		ids[text(t, got.json(t), "id")] = true
		return nil
	})
	for id := range ids {
		eventually(t, "what was created is there", func() error {
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

// TestSlowClientsDoNotStopOthers opens many connections that send a header byte by byte, or nothing.
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
		c, err := net.Dial("tcp", strings.TrimPrefix(i.base, "http://"))
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
	go func() { // drips
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
