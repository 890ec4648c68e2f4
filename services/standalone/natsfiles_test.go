package standalone

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"quire.dev/pkg/config"
	"quire.dev/pkg/host"
	"quire.dev/pkg/natsfiles"
	"quire.dev/services/standalone/internal/natsserver"
)

// TestTheEmbeddedServerIsOneWhoseFilesAreKnown: to upgrade NATS, run the tests of natsfiles and of this package with the new
// version, and then add it to natsfiles.Supports.
func TestTheEmbeddedServerIsOneWhoseFilesAreKnown(t *testing.T) {
	if !natsfiles.Supports(natsserver.Version) {
		t.Errorf("natsfiles was not tried with nats-server %s", natsserver.Version)
	}
	if natsfiles.Supports("2.99.0") {
		t.Error("natsfiles was tried with a version that does not exist")
	}
}

// runWith runs a quire that logs to the string it returns, beside how Run ended. do is called with it once it serves.
func runWith(t *testing.T, folder string, deps Deps, do func(*Quire)) (string, error) {
	t.Helper()
	return runQuire(t, host.Settings{Data: folder, Partitions: 1}, deps, do)
}

// runQuire is runWith with more settings.
func runQuire(t *testing.T, settings host.Settings, deps Deps, do func(*Quire)) (string, error) {
	t.Helper()
	var log lockedBuffer
	deps.Logger = slog.New(slog.NewTextHandler(&log, nil))
	settings.Listen, settings.AdminToken, settings.ContentRetention = "127.0.0.1:0", config.Secret(testAdminToken), 24*time.Hour
	q, err := New(settings, deps)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- q.Run(ctx) }()
	select {
	case err := <-ended:
		return log.String(), err
	case <-q.Ready():
	}
	do(q)
	stop()
	err = <-ended
	return log.String(), err
}

// connectTo connects to the embedded server of q.
func connectTo(t *testing.T, q *Quire) *nats.Conn {
	t.Helper()
	nc, err := (&process{Quire: q, host: host.New(q.cfg, q.deps.Logger)}).connect("test")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return nc
}

// consumers counts the consumers of all journals, which are those of followers.
func consumers(t *testing.T, q *Quire) (n int) {
	t.Helper()
	js, err := jetstream.New(connectTo(t, q))
	if err != nil {
		t.Fatal(err)
	}
	for s := range js.ListStreams(t.Context()).Info() {
		n += s.State.Consumers
	}
	return n
}

// TestTheFilesOfAnUnknownVersionAreLeftToTheServer: it says so once, followers have consumers, and the server repairs its files
// by itself. The check would refuse them.
func TestTheFilesOfAnUnknownVersionAreLeftToTheServer(t *testing.T) {
	t.Parallel()
	const unknown, says = "2.99.0", "unknown file format of this NATS version"
	folder := filepath.Join(t.TempDir(), "data")
	var key string
	create := func(q *Quire) {
		t.Helper()
		createQuickPaste(t, q.URL(), key)
	}
	log, err := runWith(t, folder, Deps{}, func(q *Quire) {
		key = accountKey(t, q.URL())
		create(q)
		if n := consumers(t, q); n != 0 {
			t.Errorf("%d consumers with a known version", n)
		}
	})
	if err != nil || strings.Contains(log, says) {
		t.Fatalf("a known version: %v\n%s", err, log)
	}
	log, err = runWith(t, folder, Deps{NATSVersion: unknown}, func(q *Quire) {
		create(q)
		if n := consumers(t, q); n < 4 { // of billing, paste, lite and file
			t.Errorf("%d consumers with an unknown version", n)
		}
		if err := q.RestartJournal(t.Context()); err != nil {
			t.Fatal(err)
		}
		create(q)
	})
	if err != nil || strings.Count(log, says) != 1 || !strings.Contains(log, "version="+unknown) {
		t.Errorf("an unknown version: %v\n%s", err, log)
	}
	block := filepath.Join(folder, "nats", "jetstream", "$G", "streams", "BILLING_0", "msgs", "1.blk")
	whole, err := os.ReadFile(block)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(block, append(whole, "no record"...), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := runWith(t, folder, Deps{}, func(*Quire) {}); !errors.Is(err, natsfiles.ErrDamaged) {
		t.Errorf("the check of a known version finds %v", err)
	}
	if _, err := runWith(t, folder, Deps{NATSVersion: unknown}, create); err != nil {
		t.Errorf("the server does not repair its files: %v", err)
	}
}

// TestOneFolderKnowsTheFilesOfNATS: their names are in no other code.
func TestOneFolderKnowsTheFilesOfNATS(t *testing.T) {
	private := regexp.MustCompile("\"[^\"\n]*(\\.blk|index\\.db|meta\\.inf|meta\\.sum|__new_msgs__)[^\"\n]*\"|\"(msgs|streams)\"")
	found := 0
	for _, root := range []string{"../../pkg", "../../services"} {
		err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
				return err
			}
			code, err := os.ReadFile(path)
			if err != nil || !private.Match(code) {
				return err
			}
			if !strings.HasPrefix(filepath.ToSlash(path), "../../pkg/natsfiles/") {
				t.Errorf("%s has %s: only pkg/natsfiles knows the files of NATS", path, private.Find(code))
			}
			found++
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if found < 2 {
		t.Errorf("%d files of natsfiles have such names", found)
	}
}
