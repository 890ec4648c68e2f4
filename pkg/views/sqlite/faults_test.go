package sqlite

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"quire.dev/pkg/views"
	"quire.dev/pkg/views/viewstest"
)

func config(t *testing.T) Config {
	t.Helper()
	return Config{Path: filepath.Join(t.TempDir(), "views.db"), Collections: viewstest.Collections(), Synchronous: Normal}
}

func batch(from, to uint64, count, size int) views.Batch {
	b := views.Batch{Stream: "s", From: from, To: to}
	for i := range count {
		b.Puts = append(b.Puts, views.Put{Collection: "items", Doc: views.Doc{
			ID: fmt.Sprintf("%d-%d", to, i), Seq: to, Body: make([]byte, size),
			Keys: views.Keys{{Name: "owner", Value: views.String("ann")}, {Name: "created", Value: views.Int(int64(i))}},
		}})
	}
	return b
}

func mustCommit(t *testing.T, s *Store, b views.Batch) {
	t.Helper()
	if err := s.Commit(t.Context(), b); err != nil {
		t.Fatalf("commit: %v", err)
	}
}

func mustLoad(t *testing.T, s *Store, want int, ids ...string) []views.Doc {
	t.Helper()
	docs, err := s.Load(t.Context(), "items", ids, views.Full)
	if err != nil || len(docs) != want {
		t.Fatalf("load %q: %d documents, %v; want %d", ids, len(docs), err, want)
	}
	return docs
}

func TestFullDiskFailsAndWorksAgain(t *testing.T) {
	s := open(t, config(t))
	mustCommit(t, s, batch(0, 1, 10, 100))
	limit := func(pages int) {
		t.Helper()
		err := s.write(t.Context(), "limit pages", func(c *conn) error {
			_, err := c.exec(fmt.Sprintf("PRAGMA max_page_count = %d", pages))
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	limit(1) // SQLite takes what it has by now as the least
	for range 3 {
		if err := s.Commit(t.Context(), batch(1, 2, 10, 100_000)); !errors.Is(err, views.ErrUnavailable) {
			t.Fatalf("commit on a full disk: %v, want ErrUnavailable", err)
		}
		mustLoad(t, s, 1, "1-0", "2-0", "2-9")
		if at, err := s.Checkpoint(t.Context(), "s"); at != 1 || err != nil {
			t.Fatalf("checkpoint is %d, %v", at, err)
		}
	}
	limit(1_000_000)
	mustCommit(t, s, batch(1, 2, 10, 100_000))
	mustLoad(t, s, 3, "1-0", "2-0", "2-9")
}

func TestFailedWriteTakesNoNeighboursAlong(t *testing.T) {
	c := config(t)
	s := open(t, c)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	writer, err := connect(c.Path, readWrite, writerPragmas(Normal))
	if err != nil {
		t.Fatal(err)
	}
	w := &writerLoop{store: s, conn: writer}
	impossible := errors.New("impossible")
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	insert := func(id string) func(*conn) error {
		return func(c *conn) error { return s.tables["items"].insertDoc(c, views.Doc{ID: id}) }
	}
	jobs := []writeJob{
		{ctx: t.Context(), run: insert("a")},
		{ctx: t.Context(), run: func(c *conn) error { return errors.Join(insert("half")(c), impossible) }},
		{ctx: t.Context(), run: insert("a")},
		{ctx: cancelled, run: insert("late")},
		{ctx: t.Context(), run: insert("b")},
	}
	for i := range jobs {
		jobs[i].done = make(chan error, 1)
	}
	w.commit(jobs)
	for i, want := range []error{nil, impossible, views.ErrExists, context.Canceled, nil} {
		if got := <-jobs[i].done; !errors.Is(got, want) {
			t.Errorf("write %d: %v, want %v", i, got, want)
		}
	}
	if err := writer.Close(); err != nil {
		t.Fatal(err)
	}
	mustLoad(t, open(t, c), 2, "a", "b", "half", "late")
}

func TestHangingDiskCostsTheDeadline(t *testing.T) {
	s := open(t, config(t))
	hang, started := make(chan struct{}), make(chan struct{}, readers+1)
	go func() {
		_ = s.write(t.Context(), "hang", func(*conn) error { started <- struct{}{}; <-hang; return nil })
	}()
	for range readers {
		go func() {
			_ = s.read(t.Context(), "hang", func(context.Context, *conn) error { started <- struct{}{}; <-hang; return nil })
		}()
	}
	for range readers + 1 {
		<-started
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	err := s.Commit(ctx, batch(0, 1, 1, 1))
	if !errors.Is(err, views.ErrUnavailable) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("commit: %v", err)
	}
	_, err = s.Load(ctx, "items", []string{"a"}, views.Full)
	if !errors.Is(err, views.ErrUnavailable) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("load: %v", err)
	}
	close(hang)
	mustCommit(t, s, batch(0, 1, 1, 1))
	mustLoad(t, s, 1, "1-0")
}

func TestDeletionsAreForgottenAfterAnHour(t *testing.T) {
	var minutes atomic.Int64
	c := config(t)
	c.Now = func() time.Time { return time.Unix(1_800_000_000+60*minutes.Load(), 0) }
	s := open(t, c)
	mustCommit(t, s, batch(0, 5, 600, 1))
	b := views.Batch{}
	for _, p := range batch(0, 5, 600, 1).Puts {
		b.Deletes = append(b.Deletes, views.Delete{Collection: "items", ID: p.Doc.ID, Seq: 5})
	}
	mustCommit(t, s, b)
	// It counts in a write, when the sweep of the write before is over, and sets the clock for its own.
	remembered := func(minute int64) (n int64) {
		t.Helper()
		err := s.write(t.Context(), "count", func(c *conn) (err error) {
			n, err = c.integer(t.Context(), `SELECT count(*) FROM "doc.items" WHERE gone IS NOT NULL`)
			minutes.Store(minute)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	minutes.Store(59)
	mustCommit(t, s, batch(5, 6, 1, 1))
	if n := remembered(62); n != 600 {
		t.Fatalf("%d deletions remembered after 59 minutes, want 600", n)
	}
	if n := remembered(62); n != 600-sweepLimit {
		t.Fatalf("%d deletions remembered after one sweep, want %d", n, 600-sweepLimit)
	}
	if n := remembered(62); n != 0 {
		t.Fatalf("%d deletions remembered in the end", n)
	}
	mustCommit(t, s, batch(6, 7, 1, 1))
	mustLoad(t, s, 2, "6-0", "7-0")
}

// contents returns a digest of the file and its log.
func contents(t *testing.T, path string) string {
	t.Helper()
	var digest strings.Builder
	for _, name := range []string{path, path + "-wal"} {
		data, err := os.ReadFile(name)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
		fmt.Fprintf(&digest, "%s %d %x\n", filepath.Base(name), len(data), sha256.Sum256(data))
	}
	return digest.String()
}

// uncleanCopy returns a configuration over a copy of a store that is in use,
// which is what a crash leaves.
func uncleanCopy(t *testing.T) Config {
	t.Helper()
	c := config(t)
	s := open(t, c)
	mustCommit(t, s, batch(0, 1, 2000, 200))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = open(t, c)
	mustCommit(t, s, batch(1, 2, 1, 1))
	return copied(t, c)
}

// copied returns a configuration over a copy of the file and its log.
func copied(t *testing.T, c Config) Config {
	t.Helper()
	to := config(t)
	for _, suffix := range []string{"", "-wal"} {
		data, err := os.ReadFile(c.Path + suffix)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(to.Path+suffix, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return to
}

func TestRefusedFilesAreNotChanged(t *testing.T) {
	overwrite := func(t *testing.T, path string, offset int64, data string) {
		t.Helper()
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		_, err = f.WriteAt([]byte(data), offset)
		if err = errors.Join(err, f.Close()); err != nil {
			t.Fatal(err)
		}
	}
	run := func(t *testing.T, path, text string) {
		t.Helper()
		c, err := connect(path, readWrite, nil)
		if err != nil {
			t.Fatal(err)
		}
		_, err = c.exec(text)
		if err = errors.Join(err, c.Close()); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		name    string
		prepare func(t *testing.T) Config
		want    error
	}{
		{"newer version", func(t *testing.T) Config {
			c := uncleanCopy(t)
			run(t, c.Path, "PRAGMA user_version = 3")
			return c
		}, ErrNewer},
		{"damaged page after a crash", func(t *testing.T) Config {
			c := uncleanCopy(t)
			overwrite(t, c.Path, 20*4096, strings.Repeat("damage", 3000))
			return c
		}, ErrDamaged},
		{"damaged header", func(t *testing.T) Config {
			c := uncleanCopy(t)
			overwrite(t, c.Path, 0, "garbage garbage garbage")
			return c
		}, ErrDamaged},
		{"no database", func(t *testing.T) Config {
			c := config(t)
			overwrite(t, c.Path, 0, strings.Repeat("a text of somebody\n", 500))
			return c
		}, ErrDamaged},
		{"another application", func(t *testing.T) Config {
			c := config(t)
			run(t, c.Path, "CREATE TABLE theirs (a)")
			return c
		}, ErrForeign},
	} {
		t.Run(c.name, func(t *testing.T) {
			config := c.prepare(t)
			before := contents(t, config.Path)
			for range 2 {
				s, err := Open(t.Context(), config)
				if err == nil {
					t.Fatal(errors.Join(errors.New("the file was opened"), s.Close()))
				}
				if !errors.Is(err, c.want) {
					t.Fatalf("got %v, want %v", err, c.want)
				}
				if after := contents(t, config.Path); after != before {
					t.Fatalf("the file was changed from\n%s to\n%s", before, after)
				}
			}
		})
	}
}

func TestUncleanCopyOpens(t *testing.T) {
	s := open(t, uncleanCopy(t))
	mustLoad(t, s, 2, "1-1999", "2-0")
}
