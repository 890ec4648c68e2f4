package document_test

import (
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"quire.dev/pkg/document/fold"
	"quire.dev/pkg/event"
	"quire.dev/pkg/views"
)

// TestFolderThatAnEarlierVersionLeftHalfWritten opens a read model as a version that split large
// messages left it when it was killed. The checkpoint is at message 2, which gives halfwrittenA to halfwrittenL the titles
// 0 to 11 under idempotency ids and deletes halfwrittenZ. Only the chunks of it are written. That version made the file,
// with its bounds lowered to a few kilobytes.
func TestFolderThatAnEarlierVersionLeftHalfWritten(t *testing.T) {
	w := newWorld(t, fold.Pastes())
	w.clock = func() time.Time { return time.Date(2026, 11, 21, 21, 0, 0, 0, time.UTC) } // the outcomes are swept a day after they were decided
	path := filepath.Join(w.folder, "earlier.db")
	unpack(t, path, filepath.Join("testdata", "half_written.db.gz"))
	w.views = &flakyViews{Store: w.openViews(path)}
	e := w.newEdge("edge2")
	for range 2 { // the journal has to be as long as it was
		e.store(e.encode())
	}
	w.stop(w.start())
	w.start() // the second start has nothing to complete

	for i := range 12 {
		item := fmt.Sprintf("halfwritten%c", 'A'+i)
		answers := w.read(&event.Read{Item: item, Requester: alice}, &event.Read{Item: item, Requester: alice, Version: 1})
		for version, title := range []string{fmt.Sprint(i), "t"} {
			d := answers[version].Document
			if d.GetTitle() != title || string(d.GetContent().GetInline()) != fmt.Sprint("content ", i) || d.GetVersion() != uint64(2-version) {
				t.Errorf("%s is read as %v, want the title %s", item, answers[version], title)
			}
		}
	}
	if a := w.get(alice, "halfwrittenZ"); a.Status != event.OutcomeStatus_NOT_FOUND {
		t.Errorf("deleted: %v", a)
	}
	listed := w.list(&event.ListRequest{Account: alice, Limit: 100})
	if len(listed.Documents) != 12 {
		t.Errorf("%d documents are listed", len(listed.Documents))
	}
	var ids []string
	for i := range 12 {
		id := event.NewIdempotencyID([]byte("scope"), "POST", "/", fmt.Sprint(i))
		ids = append(ids, fmt.Sprintf("%x", id[:]))
	}
	if kept, err := w.views.Load(t.Context(), "paste_outcomes", ids, views.Heads); err != nil || len(kept) != 12 {
		t.Errorf("%d outcomes are kept, %v", len(kept), err)
	}
	if left, err := w.views.Load(t.Context(), "paste_redo", []string{"PASTE_0/2/0", "PASTE_0/2/1"}, views.Heads); err != nil || len(left) != 0 {
		t.Errorf("%d chunks are left, %v", len(left), err)
	}
}

func unpack(t *testing.T, to, from string) {
	t.Helper()
	packed, err := os.Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer packed.Close()
	r, err := gzip.NewReader(packed)
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, data, 0o600); err != nil {
		t.Fatal(err)
	}
}
