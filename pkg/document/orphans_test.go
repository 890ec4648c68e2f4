package document_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"quire.dev/pkg/blob"
	"quire.dev/pkg/document/fold"
	"quire.dev/pkg/event"
	"quire.dev/pkg/eventually"
	"quire.dev/pkg/journal"
	"quire.dev/pkg/views"
)

// movedClock is a clock that a test puts forward.
type movedClock struct{ ahead atomic.Int64 }

func (c *movedClock) now() time.Time          { return time.Now().Add(time.Duration(c.ahead.Load())) }
func (c *movedClock) forward(d time.Duration) { c.ahead.Add(int64(d)) }

// newOrphanWorld has the default intervals of the sweep and a clock to put forward.
func newOrphanWorld(t *testing.T) (*world, *movedClock) {
	t.Helper()
	w, clock := newWorld(t, fold.Pastes()), &movedClock{}
	w.clock = clock.now
	w.bounds.Sweep.OrphansEvery = 0 // an hour
	return w, clock
}

// inTrash is the key that a blob has in the trash.
func inTrash(key string) string { return "paste-trash" + strings.TrimPrefix(key, "paste") }

// settledSweeps waits until the engine's other sweeps have run twice by the clock as it is now.
func (w *world) settledSweeps() {
	w.t.Helper()
	for range 2 {
		e := w.newEdge("edge-" + event.NewItemID())
		made := create(alice, text("x"))
		made.GetCreate().ExpiresInMs = 1
		e.want(event.OutcomeStatus_OK, made)
		w.projected()
		eventually.True(w.t, "an expired document is swept", func() bool {
			docs, err := w.views.Store.Load(w.t.Context(), "paste", []string{made.Item}, views.Heads)
			return err == nil && len(docs) == 0
		})
	}
}

func TestOrphansGoToTheTrashAndNothingElse(t *testing.T) {
	w, clock := newOrphanWorld(t)
	w.start()
	e := w.newEdge("edge1")
	made := create(alice, text(""))
	earlier, current, lost := w.putBlob(made.Item, "earlier", "1"), w.putBlob(made.Item, "current", "2"), w.putBlob(made.Item, "lost", "3")
	never := w.putBlob(event.NewItemID(), "never", "4")
	made.GetCreate().Document = blobbed(earlier, 1)
	made.GetCreate().Document.Owner = alice
	e.do(made)
	e.do(update(alice, made.Item, &event.Update{Content: &event.Content{Blob: current, SizeBytes: 1}}))
	w.projected()

	clock.forward(59 * time.Minute)
	w.settledSweeps()
	for _, key := range []string{earlier, current, lost, never} {
		if !w.hasBlob(key) {
			t.Errorf("%s is gone within the first hour", key)
		}
	}
	clock.forward(2 * time.Minute)
	for _, key := range []string{lost, never} {
		eventually.True(t, key+" is in the trash", func() bool { return !w.hasBlob(key) && w.hasBlob(inTrash(key)) })
	}
	young := w.putBlob(event.NewItemID(), "young", "5")
	clock.forward(7*24*time.Hour - 2*time.Hour) // another sweep, within the retention
	eventually.True(t, "another sweep has run", func() bool { return w.hasBlob(inTrash(young)) })
	for _, key := range []string{lost, never} {
		if !w.hasBlob(inTrash(key)) {
			t.Errorf("%s has left the trash before its time", key)
		}
	}
	clock.forward(3 * time.Hour)
	for _, key := range []string{lost, never} {
		eventually.True(t, key+" has left the trash", func() bool { return !w.hasBlob(inTrash(key)) })
	}
	for _, key := range []string{earlier, current} {
		if !w.hasBlob(key) {
			t.Errorf("%s is gone", key)
		}
	}
}

func TestABlobInTheTrashThatADocumentNamesIsMovedBack(t *testing.T) {
	w, clock := newOrphanWorld(t)
	w.start()
	made := create(alice, text(""))
	key := w.putBlob(made.Item, "named", "content")
	made.GetCreate().Document = blobbed(key, 7)
	made.GetCreate().Document.Owner = alice
	w.newEdge("edge1").do(made)
	if err := w.blobs.Move(t.Context(), key, inTrash(key)); err != nil {
		t.Fatal(err)
	}
	clock.forward(30 * 24 * time.Hour) // long after the retention
	eventually.True(t, "it is back", func() bool { return w.hasBlob(key) && !w.hasBlob(inTrash(key)) })
}

func TestTheSweepOfOrphansCanBeSwitchedOff(t *testing.T) {
	w, clock := newOrphanWorld(t)
	w.bounds.Sweep.KeepOrphans = true
	running := w.start()
	orphan := w.putBlob(event.NewItemID(), "orphan", "1")
	old := inTrash(w.putBlob(event.NewItemID(), "old", "2"))
	if err := w.blobs.Move(t.Context(), "paste"+strings.TrimPrefix(old, "paste-trash"), old); err != nil {
		t.Fatal(err)
	}
	clock.forward(30 * 24 * time.Hour)
	w.settledSweeps()
	w.stop(running)
	if !w.hasBlob(orphan) || !w.hasBlob(old) {
		t.Error("a blob was moved or deleted")
	}
}

// TestAnOlderCopyOfTheJournalMovesNoBlob: a restore drill on the bucket of the original.
func TestAnOlderCopyOfTheJournalMovesNoBlob(t *testing.T) {
	w, clock := newOrphanWorld(t)
	w.start()
	e := w.newEdge("edge1")
	e.want(event.OutcomeStatus_OK, create(alice, text("x")))
	last, err := journal.Open(w.nc, event.Paste.Stream(0)).LastSequence(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ahead := fmt.Sprint(last + 2) // as the original's sweep has left it
	if _, err := w.blobs.Put(t.Context(), "paste-trash/marks/0", strings.NewReader(ahead), -1); err != nil {
		t.Fatal(err)
	}
	unknown := w.putBlob(event.NewItemID(), "unknown", "1")
	clock.forward(2 * time.Hour)
	eventually.True(t, "the sweep is refused", func() bool { return strings.Contains(w.log.String(), "older copy") })
	if !w.hasBlob(unknown) {
		t.Error("a blob that only the original knows was moved")
	}
	for range 2 {
		e.want(event.OutcomeStatus_OK, create(alice, text("x")))
	}
	clock.forward(2 * time.Hour)
	eventually.True(t, "the journal has grown past the mark", func() bool { return w.hasBlob(inTrash(unknown)) })
}

// hangingBlobs hangs in a sweep until its context ends.
type hangingBlobs struct {
	blob.Store
	hangs chan struct{} // receives when a sweep hangs
}

func (h *hangingBlobs) Sweep(ctx context.Context, _ string, _ time.Time, _ func(blob.Info) error) error {
	h.hangs <- struct{}{}
	<-ctx.Done()
	return ctx.Err()
}

func TestABlobStoreThatHangsHoldsUpNoOtherSweep(t *testing.T) {
	w, clock := newOrphanWorld(t)
	hanging := &hangingBlobs{Store: w.blobs, hangs: make(chan struct{}, 1)}
	w.blobs = hanging
	w.start()
	clock.forward(2 * time.Hour)
	<-hanging.hangs
	w.settledSweeps()
}

// countedViews counts the loads from documents and versions.
type countedViews struct {
	views.Store
	loads atomic.Int64
}

func (c *countedViews) Load(ctx context.Context, collection string, ids []string, parts views.Parts) ([]views.Doc, error) {
	if collection == "paste" || collection == "paste_versions" {
		c.loads.Add(1)
	}
	return c.Store.Load(ctx, collection, ids, parts)
}

func TestOrphansOfManyItemsAreOneQuestion(t *testing.T) {
	const items = 120
	w, clock := newOrphanWorld(t)
	counted := &countedViews{Store: w.views}
	w.await(w.launch(counted))
	var keys []string
	for range items {
		keys = append(keys, w.putBlob(event.NewItemID(), "never", "1"))
	}
	clock.forward(2 * time.Hour)
	for _, key := range keys {
		eventually.True(t, key+" is in the trash", func() bool { return w.hasBlob(inTrash(key)) })
	}
	if n := counted.loads.Load(); n > 4 { // the live ones, and the trash
		t.Errorf("%d questions about %d items", n, items)
	}
}
