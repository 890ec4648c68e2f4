package viewstest

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"testing"
	"time"

	"quire.dev/pkg/views"
)

const (
	killStream = "PASTE_0"
	killWindow = 10 // documents that the stream keeps
)

// KillCollections returns the collections of the store of Kill.
func KillCollections() []views.Collection {
	return []views.Collection{{Name: "docs", Indexes: []views.Index{{Name: "by_number", Keys: []string{"number"}}}}}
}

func killBatch(from uint64) views.Batch {
	to := from + 1
	b := views.Batch{Stream: killStream, From: from, To: to}
	for _, id := range []string{"counter", fmt.Sprint("doc-", to)} {
		d := views.Doc{ID: id, Seq: to, Head: []byte(id), Body: make([]byte, 3000)}
		if id != "counter" {
			d.Keys = views.Keys{{Name: "number", Value: views.Int(int64(to))}}
		}
		b.Puts = append(b.Puts, views.Put{Collection: "docs", Doc: d, New: id != "counter"})
	}
	if to > killWindow {
		b.Deletes = []views.Delete{{Collection: "docs", ID: fmt.Sprint("doc-", to-killWindow), Seq: to}}
	}
	return b
}

// CommitUntilKilled is the work of the process that Kill kills.
func CommitUntilKilled(t *testing.T, s views.Store) {
	t.Helper()
	at, err := s.Checkpoint(t.Context(), killStream)
	if err != nil {
		t.Fatal(err)
	}
	for {
		if err := s.Commit(t.Context(), killBatch(at)); err != nil {
			t.Fatal(err)
		}
		at++
		fmt.Printf("\ncommitted %d\n", at)
	}
}

// Kill tests that a killed process keeps whole batches. The process is this test program with the variable ("NAME=value"). It
// runs the test named child, which calls CommitUntilKilled. open opens what a killed process has left; Kill closes it.
func Kill(t *testing.T, child, variable string, open func() views.Store) {
	var last uint64
	for round := range 6 {
		last = runUntilKilled(t, child, variable, last+uint64(1+37*round))
		s := open()
		checkWhole(t, s, last)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// runUntilKilled lets a child commit until it has reported the checkpoint,
// kills it, and returns the last one that it reported.
func runUntilKilled(t *testing.T, child, variable string, until uint64) uint64 {
	t.Helper()
	executable, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	process := exec.CommandContext(ctx, executable, "-test.run=^"+child+"$")
	process.Env = append(os.Environ(), variable)
	process.Stderr = os.Stderr
	output, err := process.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := process.Start(); err != nil {
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
			if err := process.Process.Kill(); err != nil {
				t.Fatal(err)
			}
		}
	}
	err = process.Wait()
	if !killed {
		t.Fatalf("the child ended by itself at %d: %v", last, err)
	}
	return last
}

// checkWhole fails unless checkpoint and documents come from whole batches, up
// to the last one reported or beyond it.
func checkWhole(t *testing.T, s views.Store, reported uint64) {
	t.Helper()
	at, err := s.Checkpoint(t.Context(), killStream)
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
	if want := min(at, killWindow); uint64(len(docs)) != want {
		t.Fatalf("%d documents at checkpoint %d, want %d", len(docs), at, want)
	}
	for i, d := range docs {
		want := at - uint64(len(docs)-1-i)
		if d.ID != "doc-"+strconv.FormatUint(want, 10) || d.Seq != want {
			t.Fatalf("document %d is %s at %d, want doc-%d", i, d.ID, d.Seq, want)
		}
	}
}
