package document_test

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"quire.dev/pkg/document/fold"
	"quire.dev/pkg/event"
	"quire.dev/pkg/views"
)

// staleReads is how many reads of the checkpoint a staleViews answers as before a commit.
const staleReads = 3

// staleViews is a read model whose reads go to another server after a commit, one that does not know yet whether the
// commit stays.
type staleViews struct {
	views.Store
	mu     sync.Mutex
	armed  bool
	before map[[2]string]*views.Doc // the documents before the last commit, by collection and id
	from   uint64
	stream string
	left   int // reads of the checkpoint until the commit is known
	shown  int // reads of the checkpoint that were answered as before
}

// staleAfterNext makes the next commit one that is not shown at once.
func (s *staleViews) staleAfterNext() {
	s.mu.Lock()
	s.armed = true
	s.mu.Unlock()
}

func (s *staleViews) Commit(ctx context.Context, b views.Batch) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.armed || b.Stream == "" {
		return s.Store.Commit(ctx, b)
	}
	names := map[[2]string]*views.Doc{}
	for _, p := range b.Puts {
		names[[2]string{p.Collection, p.Doc.ID}] = nil
	}
	for _, d := range b.Deletes {
		names[[2]string{d.Collection, d.ID}] = nil
	}
	for name := range names {
		docs, err := s.Store.Load(ctx, name[0], []string{name[1]}, views.Full)
		if err != nil {
			return err
		}
		if len(docs) > 0 {
			names[name] = &docs[0]
		}
	}
	if err := s.Store.Commit(ctx, b); err != nil {
		return err
	}
	s.armed, s.before, s.stream, s.from, s.left = false, names, b.Stream, b.From, staleReads
	return nil
}

func (s *staleViews) List(ctx context.Context, collection string, q views.Query) ([]views.Doc, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.Store.List(ctx, collection, q)
}

func (s *staleViews) Checkpoint(ctx context.Context, stream string) (uint64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.left > 0 && s.stream == stream {
		s.left--
		s.shown++
		return s.from, nil
	}
	return s.Store.Checkpoint(ctx, stream)
}

func (s *staleViews) Load(ctx context.Context, collection string, ids []string, parts views.Parts) ([]views.Doc, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	docs, err := s.Store.Load(ctx, collection, ids, parts)
	if err != nil || s.left == 0 {
		return docs, err
	}
	docs = slices.DeleteFunc(docs, func(d views.Doc) bool {
		_, changed := s.before[[2]string{collection, d.ID}]
		return changed
	})
	for _, id := range ids {
		if d := s.before[[2]string{collection, id}]; d != nil {
			docs = append(docs, *d)
		}
	}
	return docs, nil
}

// TestNothingIsDecidedOnAReadModelFromBefore has a read model show its state before the last commit, as
// MongoDB may for a moment after an election.
func TestNothingIsDecidedOnAReadModelFromBefore(t *testing.T) {
	for name, test := range map[string]func(t *testing.T, w *world, e *edge, stale *staleViews){
		"an update is not lost": func(t *testing.T, w *world, e *edge, stale *staleViews) {
			made := create(alice, text("x"))
			e.want(event.OutcomeStatus_OK, made)
			w.projected()
			language := "c"
			const rounds = 5 // the cache drops a document a moment later
			for n := range uint64(rounds) {
				stale.staleAfterNext()
				e.want(event.OutcomeStatus_OK, retitle(alice, made.Item, fmt.Sprint(n)))
				w.projected()
				if o := e.want(event.OutcomeStatus_OK, update(alice, made.Item, &event.Update{Language: &language})); o.Version != 2*n+3 {
					t.Fatalf("round %d: decided %v", n, o)
				}
				w.projected()
			}
			if d := w.get(alice, made.Item).Document; d.GetTitle() != fmt.Sprint(rounds-1) || d.GetLanguage() != "c" || d.GetVersion() != 2*rounds+1 {
				t.Errorf("reads %v", d)
			}
		},
		"what is deleted stays deleted": func(t *testing.T, w *world, e *edge, stale *staleViews) {
			made := create(alice, text("x"))
			e.want(event.OutcomeStatus_OK, made)
			w.projected()
			stale.staleAfterNext()
			e.want(event.OutcomeStatus_OK, remove(alice, made.Item))
			w.projected()
			e.want(event.OutcomeStatus_NOT_FOUND, retitle(alice, made.Item, "again"))
			w.projected()
			if a := w.get(alice, made.Item); a.Status != event.OutcomeStatus_NOT_FOUND {
				t.Errorf("reads %v", a)
			}
		},
		"a create is decided once": func(t *testing.T, w *world, e *edge, stale *staleViews) {
			stale.staleAfterNext()
			made, again := keyed(create(alice, text("x")), "k", 1), keyed(create(alice, text("x")), "k", 1)
			first := e.want(event.OutcomeStatus_OK, made)
			w.projected()
			if o := e.want(event.OutcomeStatus_OK, again); !o.Replayed || o.Item != first.Item {
				t.Errorf("decided %v, and %v before", o, first)
			}
			w.projected()
			if listed := w.list(&event.ListRequest{Account: alice, Limit: 10}); len(listed.Documents) != 1 {
				t.Errorf("listed: %v", listed)
			}
		},
		"a read sees what was decided before": func(t *testing.T, w *world, e *edge, stale *staleViews) {
			made := create(alice, text("x"))
			e.want(event.OutcomeStatus_OK, made)
			w.projected()
			stale.staleAfterNext()
			e.want(event.OutcomeStatus_OK, remove(alice, made.Item))
			w.projected()
			if a := w.get(alice, made.Item); a.Status != event.OutcomeStatus_NOT_FOUND {
				t.Errorf("reads %v", a)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			const tries = 20 // the cache drops a document a moment later, and may answer instead of the read model
			for range tries {
				w := newWorld(t, fold.Pastes())
				w.bounds.CacheBytes = 1 // each document is loaded
				stale := &staleViews{Store: w.views}
				w.await(w.launch(stale))
				test(t, w, w.newEdge("edge1"), stale)
				stale.mu.Lock()
				shown := stale.shown
				stale.mu.Unlock()
				if shown > 0 || t.Failed() {
					return
				}
			}
			t.Error("the read model was always current")
		})
	}
}

// TestAReadModelThatLostACommitIsBroughtUpToDate: a replica does not wait indefinitely for a commit that its read model has
// shown and lost, as after a restore or the loss of a majority.
func TestAReadModelThatLostACommitIsBroughtUpToDate(t *testing.T) {
	w := newWorld(t, fold.Pastes())
	w.bounds.ViewWait = 50 * time.Millisecond
	empty := w.views.Store
	lossy := &staleViews{Store: w.openViews(filepath.Join(w.folder, "lost.db"))}
	w.views.Store = lossy
	w.start()
	e := w.newEdge("edge1")
	made := create(alice, text("x"))
	e.want(event.OutcomeStatus_OK, made)
	w.projected()
	e.want(event.OutcomeStatus_OK, remove(alice, made.Item))
	w.projected()
	lossy.mu.Lock()
	lossy.Store = empty
	lossy.mu.Unlock()
	w.views.set(func() { w.views.put = nil }) // what is new to this one
	e.want(event.OutcomeStatus_NOT_FOUND, retitle(alice, made.Item, "again"))
	w.projected()
	if a := w.get(alice, made.Item); a.Status != event.OutcomeStatus_NOT_FOUND {
		t.Errorf("reads %v", a)
	}
}
