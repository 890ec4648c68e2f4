package installation_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"quire.dev/pkg/blob"
	"quire.dev/pkg/blob/disk"
	"quire.dev/pkg/installation"
	"quire.dev/pkg/journal"
	"quire.dev/pkg/journal/journaltest"
	"quire.dev/pkg/views"
	"quire.dev/pkg/views/sqlite"
)

func journals(t *testing.T, id string) installation.Place {
	t.Helper()
	nc := journaltest.Start(t).Conn(t)
	stream := journal.Stream{Domain: "billing", Name: "BILLING_0", Subjects: []string{"billing.0.usage"}, Installation: id}
	if err := journal.Ensure(t.Context(), nc, []journal.Stream{stream}, 1); err != nil {
		t.Fatal(err)
	}
	return installation.Journals(nc, "BILLING_0")
}

func readModel(t *testing.T) views.Store {
	t.Helper()
	store, err := sqlite.Open(t.Context(), sqlite.Config{
		Path: filepath.Join(t.TempDir(), "views.db"), Collections: []views.Collection{installation.Collection()},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	return store
}

func blobs(t *testing.T) blob.Store {
	t.Helper()
	store, err := disk.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	return store
}

func await(t *testing.T, places ...installation.Place) error {
	t.Helper()
	id, err := installation.Await(t.Context(), slog.New(slog.DiscardHandler), places[0], places[1:]...)
	if err == nil && id == "" {
		t.Error("no id")
	}
	return err
}

func want(t *testing.T, err error, texts ...string) {
	t.Helper()
	if !errors.Is(err, installation.ErrMixed) {
		t.Fatalf("%v, want ErrMixed", err)
	}
	for _, text := range texts {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("%v does not say %q", err, text)
		}
	}
}

func TestASecondInstallationOnTheSameStoreIsRefused(t *testing.T) {
	mine, theirs := journals(t, "mine"), journals(t, "theirs")
	bucket, model := blobs(t), readModel(t)
	for range 2 { // the first to come, and again
		if err := await(t, mine, installation.ReadModel("paste", model), installation.Blobs(bucket, true)); err != nil {
			t.Fatal(err)
		}
	}
	fresh := readModel(t)
	err := await(t, theirs, installation.ReadModel("paste", fresh), installation.Blobs(bucket, true))
	want(t, err, "the journals (BILLING_0) to theirs", "the blob store to mine")
	// It has left no trace: the read model is free for the installation that it belongs to.
	if err := await(t, mine, installation.ReadModel("paste", fresh)); err != nil {
		t.Errorf("the read model after the refusal: %v", err)
	}
	want(t, await(t, theirs, installation.ReadModel("paste", model), installation.Blobs(blobs(t), true)), "the read model of paste to mine")
}

func TestTwoInstallationsThatComeAtOnceDoNotShareAStore(t *testing.T) {
	for range 5 {
		bucket := blobs(t)
		both := []installation.Place{journals(t, "one"), journals(t, "two")}
		errs := make([]error, len(both))
		var group sync.WaitGroup
		for i, place := range both {
			group.Go(func() { errs[i] = await(t, place, installation.Blobs(bucket, true)) })
		}
		group.Wait()
		if (errs[0] == nil) == (errs[1] == nil) {
			t.Errorf("%v and %v, want one refusal", errs[0], errs[1])
		}
		want(t, errors.Join(errs...), "one", "two")
	}
}

func TestAServiceThatMayNotWriteTheBlobStoresIDWaitsForIt(t *testing.T) {
	place, bucket := journals(t, "mine"), blobs(t)
	done := make(chan error, 1)
	go func() {
		_, err := installation.Await(t.Context(), slog.New(slog.DiscardHandler), place, installation.Blobs(bucket, false))
		done <- err
	}()
	if err := await(t, place, installation.Blobs(bucket, true)); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// hidden is a read model that does not answer at first.
type hidden struct {
	views.Store
	mu    sync.Mutex
	asked int
}

func (h *hidden) Load(ctx context.Context, collection string, ids []string, parts views.Parts) ([]views.Doc, error) {
	h.mu.Lock()
	h.asked++
	first := h.asked < 3
	h.mu.Unlock()
	if first {
		return nil, views.Unavailable("load", io.ErrUnexpectedEOF)
	}
	return h.Store.Load(ctx, collection, ids, parts)
}

func TestStoresThatDoNotAnswerAreAskedAgain(t *testing.T) {
	model := &hidden{Store: readModel(t)}
	if err := await(t, journals(t, "mine"), installation.ReadModel("paste", model)); err != nil || model.asked < 3 {
		t.Errorf("asked %d times, %v", model.asked, err)
	}
}

func TestJournalsWithoutAnIDAreWaitedFor(t *testing.T) {
	place := journals(t, "")
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	model := readModel(t)
	asked := make(chan struct{}, 100)
	watched := place
	watched.Owner = func(ctx context.Context) (string, error) {
		asked <- struct{}{}
		return place.Owner(ctx)
	}
	go func() {
		_, err := installation.Await(ctx, slog.New(slog.DiscardHandler), watched, installation.ReadModel("paste", model))
		done <- err
	}()
	<-asked
	<-asked
	cancel()
	err := <-done
	if !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	if err := await(t, journals(t, "another"), installation.ReadModel("paste", model)); err != nil {
		t.Errorf("the read model is not free: %v", err)
	}
}
