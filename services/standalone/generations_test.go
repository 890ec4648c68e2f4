package standalone

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"quire.dev/pkg/admin"
	"quire.dev/pkg/event"
	"quire.dev/pkg/eventually"
	"quire.dev/pkg/host"
	"quire.dev/pkg/installation"
	"quire.dev/pkg/journal"
	"quire.dev/services/standalone/internal/datafolder"
)

// TestGenerationsAreClosedUnderLoad: one process closes the generations of both partitions while clients write. Then everything that reads the
// journals works with two streams, in that process, in one that is started again, and restored from a backup.
func TestGenerationsAreClosedUnderLoad(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	folder, place := filepath.Join(t.TempDir(), "data"), filepath.Join(t.TempDir(), "backup")
	settings := []string{"QUIRE_PARTITIONS=2", "QUIRE_ADMIN_TOKEN=" + testAdminToken, "QUIRE_CHECKPOINT_INTERVAL=1s"}
	var shelves []*shelf
	var requests []string // in the closed and in the open generation
	runClosing(t, folder, func(q *Quire) {
		nc := connectTo(t, q)
		api := admin.Client{Base: q.URL(), Token: testAdminToken}
		explained, err := api.CreateAccount(t.Context(), admin.NewAccount{Email: "explained@example.org", Tier: "pro"}, "")
		if err != nil {
			t.Fatal(err)
		}
		requests = append(requests, createQuickPaste(t, q.URL(), explained.APIKey))
		for p := range 2 {
			if list, err := journal.Generations(t.Context(), nc, installation.Stream(event.Billing, p)); err != nil || len(list) != 1 {
				t.Fatalf("%d generations before the load: %v", len(list), err)
			}
		}
		shelves = newShelves(t, q.URL(), 3, rand.New(rand.NewPCG(seed, seed)))
		stop := writing(t, q.URL(), shelves)
		closed := awaitGenerations(t, nc)
		for p, g := range closed {
			eventually.True(t, "clients write to the next generation", func() bool {
				last, err := journal.Open(nc, event.Billing.Stream(p)).LastSequence(t.Context())
				return err == nil && last > g.Last
			})
		}
		for _, s := range shelves {
			want := len(s.now().versions) + 10
			eventually.True(t, "clients write", func() bool { return len(s.now().versions) >= want })
		}
		stop()
		requests = append(requests, createQuickPaste(t, q.URL(), explained.APIKey))
	})
	streams := []string{"BILLING_0", "BILLING_0_ODD", "BILLING_1", "BILLING_1_ODD", "FILE_0", "FILE_1", "LITE_0", "LITE_1", "PASTE_0", "PASTE_1"}
	for _, end := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL, syscall.SIGTERM} { // the next start is after the one before
		c := launch(t, folder, settings...)
		checkShelves(t, c, shelves)
		exportedHeads(t, folder, settings)
		for _, request := range requests {
			if out, errs, code := quire(t, folder, settings, "explain", request); code != 0 || !strings.Contains(out, "pasteLite.create") {
				t.Errorf("explain: %d %q %q", code, out, errs)
			}
		}
		if out, errs, code := quire(t, folder, settings, "audit", "--deep"); code != 0 || !strings.Contains(out, "everything matches") {
			t.Errorf("audit: %d %q %q", code, out, errs)
		}
		if out := passesDoctor(t, folder, settings); strings.Contains(out, "BILLING") {
			t.Errorf("doctor: %q", out)
		}
		_ = c.end(t, end)
		if got := recordedStreams(t, folder); !slices.Equal(got, streams) {
			t.Errorf("recorded are %v", got)
		}
	}
	agrees(t, folder)
	if out, errs, code := quire(t, folder, settings, "backup", "--to", place); code != 0 {
		t.Fatalf("back up: %d %q %q", code, out, errs)
	}
	restored := filepath.Join(t.TempDir(), "restored")
	if out, errs, code := quire(t, restored, settings, "restore", "--from", place); code != 0 {
		t.Fatalf("restore: %d %q %q", code, out, errs)
	}
	for range 2 {
		c := launch(t, restored, settings...)
		checkShelves(t, c, shelves)
		auditRestored(t, c.base)
		if err := c.end(t, syscall.SIGTERM); err != nil {
			t.Errorf("orderly stop: %v\n%s", err, c.stderr)
		}
	}
	agrees(t, restored)
}

// runClosing runs a quire that closes generations of 32 KiB or ten seconds, until do returns. It looks each second.
func runClosing(t *testing.T, folder string, do func(*Quire)) {
	t.Helper()
	log, err := runQuire(t, host.Settings{
		Data: folder, Partitions: 2, GenerationBytes: 32 << 10, GenerationAge: 10 * time.Second, CheckpointInterval: time.Second,
	}, Deps{}, do)
	if err != nil {
		t.Fatalf("%v\n%s", err, log)
	}
	if strings.Contains(log, "level=ERROR") {
		t.Errorf("it logs errors:\n%s", log)
	}
}

// awaitGenerations waits for two generations of each partition, and returns the closed ones.
func awaitGenerations(t *testing.T, nc *nats.Conn) (closed []journal.Generation) {
	t.Helper()
	for p := range 2 {
		eventually.True(t, "two generations", func() bool {
			list, err := journal.Generations(t.Context(), nc, installation.Stream(event.Billing, p))
			if err != nil || len(list) < 2 {
				return false
			}
			closed = append(closed, list[0])
			return true
		})
	}
	return closed
}

// checkShelves fails unless everything that was written is there, and charged.
func checkShelves(t *testing.T, c *child, shelves []*shelf) {
	t.Helper()
	for _, s := range shelves {
		s.move(t, c.base)
		if err := s.verify(t.Context(), c.base, s.now()); err != nil {
			t.Error(err)
		}
	}
}

// recordedStreams are the streams without which the data folder would not be opened.
func recordedStreams(t *testing.T, folder string) []string {
	t.Helper()
	f, err := datafolder.Open(folder, datafolder.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}()
	return f.Streams()
}

// TestNoRequestFailsWhileAGenerationIsClosed: metered reads and writes, whose admissions, settlements and commands find nobody for a moment, wait instead.
func TestNoRequestFailsWhileAGenerationIsClosed(t *testing.T) {
	t.Parallel()
	text, err := runWith(t, filepath.Join(t.TempDir(), "data"), Deps{}, func(q *Quire) {
		api := admin.Client{Base: q.URL(), Token: testAdminToken}
		made, err := api.CreateAccount(t.Context(), admin.NewAccount{Email: "waits@example.org", Tier: "max"}, "")
		if err != nil {
			t.Fatal(err)
		}
		var group sync.WaitGroup
		closed, began := make(chan struct{}), make(chan struct{})
		begin := sync.OnceFunc(func() { close(began) })
		for n := range 3 {
			group.Go(func() {
				defer begin() // should a request fail
				for round := 0; ; round++ {
					createQuickPaste(t, q.URL(), made.APIKey)
					email := fmt.Sprintf("waits%d.%d@example.org", n, round)
					if _, err := api.CreateAccount(t.Context(), admin.NewAccount{Email: email, Tier: "free"}, ""); err != nil {
						t.Errorf("a command: %v", err)
					}
					if round == 2 {
						begin()
					}
					select {
					case <-closed:
						if round > 5 {
							return
						}
					default:
					}
				}
			})
		}
		<-began
		nc := connectTo(t, q)
		if err := journal.Advance(t.Context(), nc, installation.Stream(event.Billing, 0), 1); err != nil {
			t.Error(err)
		}
		close(closed)
		group.Wait()
	})
	if err != nil || strings.Contains(text, "level=ERROR") {
		t.Errorf("it ended with %v:\n%s", err, text)
	}
}
