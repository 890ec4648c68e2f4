package viewstest

import (
	"errors"
	"fmt"
	"testing"

	"quire.dev/pkg/views"
)

// RunSnapshot tests views.Snapshot. open returns an empty store of Collections(), and a function that opens snapshots of it.
func RunSnapshot(t *testing.T, open func(t *testing.T) (store views.Store, snapshot func() views.Snapshot)) {
	t.Run("a snapshot shows one moment", func(t *testing.T) {
		store, snapshot := open(t)
		var want []views.Doc
		for i := range 2500 {
			want = append(want, doc(fmt.Sprintf("d%04d", i), uint64(i+1), "ann", int64(i)))
		}
		want = append(want, views.Doc{ID: "bare", Seq: 3})
		put(t, store, want...)
		put(t, store, doc("gone", 1, "ann", 1))
		remove(t, store, 2, "gone")
		commit(t, store, views.Batch{Stream: "S", To: 7})
		s := snapshot()
		defer func() {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		}()
		put(t, store, doc("later", 1, "ann", 1), doc("d0001", 99, "eve", 1))
		remove(t, store, 99, "d0000")
		commit(t, store, views.Batch{Stream: "S", From: 7, To: 8})
		listed := idsOf(want[:2500])
		for range 2 {
			sameIDs(t, listAll(t, s, ownerIndex(), views.Query{Index: byOwner}, views.MaxList), listed...)
			sameIDs(t, listAll(t, s, ownerIndex(), views.Query{Index: byOwner, Equal: []views.Value{views.String("ann")}}, 999), listed...)
			loaded, err := s.Load(t.Context(), items, []string{"d0000", "d0001", "d2499", "bare", "gone", "later", "d0000"}, views.Full)
			if err != nil {
				t.Fatal(err)
			}
			same(t, loaded, want[0], want[1], want[2499], want[2500])
			if loaded, err = s.Load(t.Context(), items, []string{"d0007"}, views.Heads); err != nil || len(loaded) != 1 || len(loaded[0].Body) != 0 {
				t.Errorf("a head: %v, %v", loaded, err)
			}
			var got []views.Doc
			if err := s.Each(t.Context(), items, func(d views.Doc) error { got = append(got, d); return nil }); err != nil {
				t.Fatal(err)
			}
			same(t, got, want...)
		}
		if all, err := s.Checkpoints(t.Context()); len(all) != 1 || all["S"] != 7 || err != nil {
			t.Errorf("checkpoints: %v, %v", all, err)
		}
		mine := errors.New("mine")
		if err := s.Each(t.Context(), items, func(views.Doc) error { return mine }); !errors.Is(err, mine) || errors.Is(err, views.ErrUnavailable) {
			t.Errorf("the caller's error: %v", err)
		}
		if err := s.Each(t.Context(), plain, func(views.Doc) error { return mine }); err != nil {
			t.Errorf("an empty collection: %v", err)
		}
		next := snapshot()
		defer next.Close()
		if all, err := next.Checkpoints(t.Context()); all["S"] != 8 || err != nil {
			t.Errorf("the next snapshot's checkpoints: %v, %v", all, err)
		}
	})
}
