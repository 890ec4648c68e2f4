package sqlite

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"quire.dev/pkg/views"
)

const (
	childVariable = "QUIRE_TEST_SQLITE_CHILD" // path of the file that the child writes
	crashStream   = "PASTE_0"
	crashWindow   = 10 // documents that the stream keeps
)

func crashCollections() []views.Collection {
	return []views.Collection{{Name: "docs", Indexes: []views.Index{{Name: "by_number", Keys: []string{"number"}}}}}
}

func crashBatch(from uint64) views.Batch {
	to := from + 1
	b := views.Batch{Stream: crashStream, From: from, To: to}
	for _, id := range []string{"counter", fmt.Sprint("doc-", to)} {
		d := views.Doc{ID: id, Seq: to, Head: []byte(id), Body: make([]byte, 3000)}
		if id != "counter" {
			d.Keys = views.Keys{{Name: "number", Value: views.Int(int64(to))}}
		}
		b.Puts = append(b.Puts, views.Put{Collection: "docs", Doc: d, New: id != "counter"})
	}
	if to > crashWindow {
		b.Deletes = []views.Delete{{Collection: "docs", ID: fmt.Sprint("doc-", to-crashWindow), Seq: to}}
	}
	return b
}

// TestKilledChild is the process that TestKilledProcessKeepsWholeBatches
// kills; run by itself it has nothing to do.
func TestKilledChild(t *testing.T) {
	path := os.Getenv(childVariable)
	if path == "" {
		t.Skip("runs only as the child of TestKilledProcessKeepsWholeBatches")
	}
	s := open(t, Config{Path: path, Collections: crashCollections(), Synchronous: Normal, FreshIDs: 7})
	at, err := s.Checkpoint(t.Context(), crashStream)
	if err != nil {
		t.Fatal(err)
	}
	for {
		if err := s.Commit(t.Context(), crashBatch(at)); err != nil {
			t.Fatal(err)
		}
		at++
		fmt.Printf("\ncommitted %d\n", at)
	}
}

func TestKilledProcessKeepsWholeBatches(t *testing.T) {
	path := filepath.Join(t.TempDir(), "views.db")
	var last uint64
	for round := range 6 {
		last = runUntilKilled(t, path, last+uint64(1+37*round))
		if _, err := os.Stat(path + "-wal"); err != nil {
			t.Fatalf("a killed process leaves its log: %v", err)
		}
		s, err := Open(t.Context(), Config{Path: path, Collections: crashCollections(), Synchronous: Normal, FreshIDs: 7})
		if err != nil {
			t.Fatalf("open after kill: %v", err)
		}
		checkWhole(t, s, last)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// runUntilKilled lets a child commit until it has reported the checkpoint,
// kills it, and returns the last one that it reported.
func runUntilKilled(t *testing.T, path string, until uint64) uint64 {
	t.Helper()
	executable, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	child := exec.CommandContext(ctx, executable, "-test.run=^TestKilledChild$")
	child.Env = append(os.Environ(), childVariable+"="+path)
	child.Stderr = os.Stderr
	output, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	var last uint64
	killed := false
	lines := bufio.NewScanner(output)
	for lines.Scan() {
		var at uint64
		if _, err := fmt.Sscanf(lines.Text(), "committed %d", &at); err != nil {
			continue
		}
		last = at
		if at >= until && !killed {
			killed = true
			if err := child.Process.Kill(); err != nil {
				t.Fatal(err)
			}
		}
	}
	err = child.Wait()
	if !killed {
		t.Fatalf("the child ended by itself at %d: %v", last, err)
	}
	return last
}

// checkWhole fails unless checkpoint and documents come from whole batches, up
// to the last one reported or beyond it.
func checkWhole(t *testing.T, s *Store, reported uint64) {
	t.Helper()
	at, err := s.Checkpoint(t.Context(), crashStream)
	if err != nil {
		t.Fatal(err)
	}
	if at < reported {
		t.Fatalf("checkpoint is %d, but %d was reported as committed", at, reported)
	}
	counter, err := s.Load(t.Context(), "docs", []string{"counter"}, views.Full)
	if err != nil || len(counter) != 1 || counter[0].Seq != at || len(counter[0].Body) != 3000 {
		t.Fatalf("checkpoint is %d, the counter is %v, %v", at, counter, err)
	}
	docs, err := s.List(t.Context(), "docs", views.Query{Index: "by_number", Limit: views.MaxList})
	if err != nil {
		t.Fatal(err)
	}
	if want := min(at, crashWindow); uint64(len(docs)) != want {
		t.Fatalf("%d documents at checkpoint %d, want %d", len(docs), at, want)
	}
	for i, d := range docs {
		want := at - uint64(len(docs)-1-i)
		if d.ID != "doc-"+strconv.FormatUint(want, 10) || d.Seq != want {
			t.Fatalf("document %d is %s at %d, want doc-%d", i, d.ID, d.Seq, want)
		}
	}
}
