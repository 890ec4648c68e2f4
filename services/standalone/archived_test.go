package standalone

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"quire.dev/pkg/blob"
	"quire.dev/pkg/blob/disk"
	"quire.dev/pkg/eventually"
	"quire.dev/pkg/host"
	"quire.dev/pkg/segment"
	"quire.dev/services/archive"
	"quire.dev/services/standalone/internal/export"
)

// archivedInstallation has traffic over two months, all of it in segments.
type archivedInstallation struct {
	settings      []string // two months after its first start
	folder, blobs string
	holders       []*holder
	journals      []export.Journal // with the books
}

func newArchivedInstallation(t *testing.T) *archivedInstallation {
	t.Helper()
	a := &archivedInstallation{folder: filepath.Join(t.TempDir(), "data")}
	a.blobs = filepath.Join(a.folder, "blobs")
	settings := []string{
		"QUIRE_PARTITIONS=2", "QUIRE_ADMIN_TOKEN=" + testAdminToken, "QUIRE_CHECKPOINT_INTERVAL=1s", "QUIRE_SEGMENT_AGE=1s",
		"QUIRE_SECRET=" + strings.Repeat("s", 40), "QUIRE_CHECKPOINT_KEY=" + strings.Repeat("k", 40),
	}
	a.settings = append(settings, "QUIRE_DEV=1", "QUIRE_CLOCK_OFFSET=1800h")
	a.serve(t, settings, func(base string) {
		for n := range 3 {
			h, _ := billed(t, base, fmt.Sprintf("holder%d@example.org", n))
			a.holders = append(a.holders, h)
		}
	})
	eventually.NoError(t, "a stopped installation has nothing that is not archived", func() error {
		a.serve(t, a.settings, func(base string) { a.use(t, base) })
		a.journals = a.export(t, a.folder)
		return a.archives(t, a.journals)
	})
	return a
}

// serve has a process serve until its journals are archived.
func (a *archivedInstallation) serve(t *testing.T, settings []string, use func(base string)) {
	t.Helper()
	c := launch(t, a.folder, settings...)
	use(c.base)
	eventually.NoError(t, "the journals are archived", func() error { return a.archives(t, a.export(t, a.folder)) })
	if err := c.end(t, syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
}

// use has each account write.
func (a *archivedInstallation) use(t *testing.T, base string) {
	t.Helper()
	for _, h := range a.holders {
		for range 3 {
			h.call(t, http.MethodPost, base+"/api/dev/files/upload?name=later.txt", strings.NewReader("x"))
		}
	}
}

func (a *archivedInstallation) export(t *testing.T, folder string) []export.Journal {
	t.Helper()
	return exportTo(t, folder, a.settings, filepath.Join(t.TempDir(), "export"), "--books").Journals
}

// archives returns an error unless all messages of journals are in segments and in the log.
func (a *archivedInstallation) archives(t *testing.T, journals []export.Journal) error {
	archived, err := archive.OpenArchived(t.Context(), disk.Reading(a.blobs), "", 1)
	if err != nil {
		return err
	}
	ends, err := archived.Check(t.Context(), func(int64, int64) {})
	if err != nil {
		return err
	}
	for i, end := range ends {
		if messages := journals[i].Messages; end.Archived != messages || end.Logged != messages {
			return fmt.Errorf("%d messages and %+v", messages, end)
		}
	}
	return nil
}

func (a *archivedInstallation) restore(t *testing.T, from string, more ...string) (folder, out, errs string, code int) {
	t.Helper()
	folder = filepath.Join(t.TempDir(), "restored")
	out, errs, code = quire(t, folder, append(slices.Clip(a.settings), more...), "restore", "--from-archive", from)
	return folder, out, errs, code
}

// copied returns a copy of the archive, to be damaged, and the keys of a stream's segments in order.
func (a *archivedInstallation) copied(t *testing.T, stream string) (folder string, store *disk.Store, segments []string) {
	t.Helper()
	folder = filepath.Join(t.TempDir(), "blobs")
	if err := os.CopyFS(folder, os.DirFS(a.blobs)); err != nil {
		t.Fatal(err)
	}
	store, err := disk.Open(folder)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	err = store.Sweep(t.Context(), segment.Prefix(stream), time.Now().Add(time.Hour), func(info blob.Info) error {
		segments = append(segments, info.Key)
		return nil
	})
	if err != nil || len(segments) < 2 {
		t.Fatalf("segments of %s: %q, %v", stream, segments, err)
	}
	slices.Sort(segments)
	return folder, store, segments
}

// TestBillingIsRestoredFromItsArchiveAlone, and goes on. What is archived may also leave the journals.
func TestBillingIsRestoredFromItsArchiveAlone(t *testing.T) {
	t.Parallel()
	a := newArchivedInstallation(t)
	for name, test := range map[string]func(*testing.T){
		"whole": a.whole, "interrupted": a.interrupted, "refused": a.refused, "shortened": a.shortened,
		"the journals begin later": a.beginsLater, "generations pass": a.generationsPass,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t)
		})
	}
}

func (a *archivedInstallation) whole(t *testing.T) {
	folder, out, errs, code := a.restore(t, a.blobs)
	if code != 0 || strings.Contains(out, "Lost") || !strings.Contains(out, "BILLING_1: ") {
		t.Fatalf("restore: %d %q %q", code, out, errs)
	}
	c := launch(t, folder, a.settings...)
	if got := a.export(t, folder); !reflect.DeepEqual(got, a.journals) {
		t.Errorf("restored journals are\n%+v\nbefore:\n%+v", got, a.journals)
	}
	a.goesOn(t, c, folder)
}

// goesOn fails unless billing and its log continue.
func (a *archivedInstallation) goesOn(t *testing.T, c *child, folder string) {
	t.Helper()
	logged := checkpointOf(t, c.base, 1)
	a.use(t, c.base)
	checkConsistent(t, filepath.Join(folder, "blobs"), logged, checkpointOf(t, c.base, logged.N+1))
	if out, errs, code := quire(t, folder, a.settings, "audit"); code != 0 {
		t.Errorf("audit: %d %q %q", code, out, errs)
	}
	if err := c.end(t, syscall.SIGTERM); err != nil {
		t.Error(err)
	}
}

// interrupted ends a restore at each of its steps: what it leaves is not started.
func (a *archivedInstallation) interrupted(t *testing.T) {
	for step, done := 0, false; !done; step++ {
		folder := filepath.Join(t.TempDir(), "interrupted")
		cfg, err := host.ReadSettings(host.Quire, append(slices.Clip(a.settings), "QUIRE_DATA="+folder))
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		calls := 0
		_, _, err = RestoreArchived(ctx, cfg, Copies{Place: a.blobs, Logger: slog.New(slog.DiscardHandler), Progress: func(string, uint64, uint64) {
			if calls++; calls == 1+step*step {
				cancel()
			}
		}})
		cancel()
		if done = err == nil; done {
			continue
		}
		if _, errs, code := quire(t, folder, append(slices.Clip(a.settings), "QUIRE_LISTEN=127.0.0.1:0")); code == 0 || !strings.Contains(errs, "VERSION is missing") {
			t.Errorf("interrupted at step %d by %v, and a start says %d %q", 1+step*step, err, code, errs)
		}
	}
}

// refused is the archive of another key, a damaged one, and one without its first segment.
func (a *archivedInstallation) refused(t *testing.T) {
	blobs, store, segments := a.copied(t, "BILLING_0")
	refuse := func(says string, more ...string) {
		t.Helper()
		if folder, out, errs, code := a.restore(t, blobs, more...); code == 0 || !strings.Contains(errs, says) {
			t.Errorf("want %q: %d %q %q", says, code, out, errs)
		} else if _, err := os.Stat(filepath.Join(folder, "VERSION")); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("refused with %q, and the folder is one to start", says)
		}
	}
	refuse("not a checkpoint of this log", "QUIRE_CHECKPOINT_KEY="+strings.Repeat("o", 40))
	data, err := blob.Read(t.Context(), store, segments[0], 64<<20)
	if err != nil {
		t.Fatal(err)
	}
	data[len(data)/2] ^= 1
	if _, err := store.Put(t.Context(), segments[0], bytes.NewReader(data), int64(len(data))); err != nil {
		t.Fatal(err)
	}
	refuse(segments[0])
	if err := store.Delete(t.Context(), segments[0]); err != nil {
		t.Fatal(err)
	}
	refuse("of BILLING_0 are missing from the archive")
}

// shortened lacks the last segment: what it had is lost, which the log records.
func (a *archivedInstallation) shortened(t *testing.T) {
	blobs, store, segments := a.copied(t, "BILLING_1")
	if err := store.Delete(t.Context(), segments[len(segments)-1]); err != nil {
		t.Fatal(err)
	}
	folder, out, errs, code := a.restore(t, blobs)
	if code != 0 || !strings.Contains(out, ". Lost: ") || !strings.Contains(out, "quire repair log") {
		t.Fatalf("restore of a shortened archive: %d %q %q", code, out, errs)
	}
	if out, errs, code := quire(t, folder, a.settings, "repair", "log", "--yes"); code != 0 || !strings.Contains(out, "recorded; the next checkpoint") {
		t.Fatalf("repair log: %d %q %q", code, out, errs)
	}
	a.goesOn(t, launch(t, folder, a.settings...), folder)
}
