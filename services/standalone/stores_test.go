package standalone

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"quire.dev/pkg/config"
	"quire.dev/pkg/eventually"
	"quire.dev/pkg/host"
	"quire.dev/pkg/views"
	"quire.dev/services/standalone/internal/quiretest"
	"quire.dev/tools/cluster/load"
)

// use lets clients use each service, and audits.
func use(t *testing.T, base string) {
	t.Helper()
	l := newCrowd(t, base, 8)
	stop := running(t, l)
	more(t, "some writes", l, 100)
	stop()
	if err := check(t, l); err != nil {
		t.Error(err)
	}
}

// journalServer runs a journal server with a listener, and returns its URL.
func journalServer(t *testing.T) string {
	t.Helper()
	ns, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, StoreDir: t.TempDir(), SyncAlways: true, NoSigs: true, NoLog: true, MaxPayload: 8 << 20,
	})
	if err != nil {
		t.Fatal(err)
	}
	ns.Start()
	t.Cleanup(func() { ns.Shutdown(); ns.WaitForShutdown() })
	if !ns.ReadyForConnections(2 * time.Minute) {
		t.Fatal("no journal server")
	}
	return ns.ClientURL()
}

func TestAJournalServerElsewhere(t *testing.T) {
	t.Parallel()
	url := journalServer(t)
	folder := filepath.Join(t.TempDir(), "data")
	for range 2 {
		c := launch(t, folder, "QUIRE_NATS_URL="+url)
		use(t, c.base)
		if err := c.end(t, syscall.SIGTERM); err != nil {
			t.Errorf("stop: %v\n%s", err, c.stderr)
		}
	}
}

func TestAJournalServerThatDoesNotAnswerStopsTheStartWithAClearError(t *testing.T) {
	t.Parallel()
	settings := []string{"QUIRE_LISTEN=127.0.0.1:0", "QUIRE_NATS_URL=nats://127.0.0.1:1"}
	if _, errs, code := quire(t, filepath.Join(t.TempDir(), "data"), settings); code != 1 || !strings.Contains(errs, "journal") {
		t.Errorf("exit %d, %q", code, errs)
	}
}

// TestAStartThatIsCutShortLeavesNothingOpen cancels a start, and starts again.
func TestAStartThatIsCutShortLeavesNothingOpen(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(t.TempDir(), "data")
	for _, after := range []time.Duration{0, time.Millisecond, 20 * time.Millisecond, 60 * time.Millisecond} {
		q, err := New(host.Settings{
			Listen: "127.0.0.1:0", Data: folder, AdminToken: config.Secret(testAdminToken), Partitions: 1, ContentRetention: 24 * time.Hour,
		}, Deps{})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), after)
		if err := q.Run(ctx); err != nil && ctx.Err() == nil {
			t.Errorf("cut short after %s: %v", after, err)
		}
		cancel()
	}
	use(t, launch(t, folder).base)
}

// TestAReadModelThatHangsStopsNoOtherService: each service has its own.
func TestAReadModelThatHangsStopsNoOtherService(t *testing.T) {
	t.Parallel()
	var lite quiretest.Views
	q, err := New(host.Settings{
		Listen: "127.0.0.1:0", Data: filepath.Join(t.TempDir(), "data"), AdminToken: config.Secret(testAdminToken), Partitions: 1,
		ContentRetention: 24 * time.Hour,
	}, Deps{View: func(service string, s views.Store) views.Store {
		if service != "lite" {
			return s
		}
		return lite.Wrap(s)
	}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- q.Run(ctx) }()
	t.Cleanup(func() {
		lite.Work()
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("stop: %v", err)
		}
	})
	<-q.Ready()
	l := newCrowd(t, q.URL(), 8)
	stop := running(t, l)
	more(t, "the load has begun", l, 50)
	lite.Hang()
	for _, kind := range []load.Kind{load.Paste, load.File} {
		had := l.Acked(kind)
		eventually.NoError(t, "others go on", func() error {
			if got := l.Acked(kind); got < had+20 {
				return fmt.Errorf("%s: %d writes since lite's read model hangs", kind, got-had)
			}
			return nil
		})
	}
	lite.Work()
	more(t, "quick pastes go on", l, 50)
	stop()
	if err := check(t, l); err != nil {
		t.Error(err)
	}
}
