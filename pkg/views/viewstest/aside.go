package viewstest

import (
	"context"
	"fmt"
	"testing"

	"quire.dev/pkg/views"
)

// testSetAside: a service makes again what was set aside, from the first message. Other collections and streams stay.
func testSetAside(t *testing.T, open Open) {
	s, reopen := open(t)
	for round := range 2 { // the second time beside what was set aside first
		for i := range uint64(20) {
			commit(t, s, views.Batch{Stream: "made", From: i, To: i + 1, Puts: []views.Put{
				{Collection: items, Doc: doc(fmt.Sprintf("item-%d", i), i+1, "ann", int64(i))},
			}})
		}
		commit(t, s, views.Batch{Stream: "kept", From: uint64(round), To: uint64(round) + 1, Puts: []views.Put{
			{Collection: plain, Doc: views.Doc{ID: "other", Seq: uint64(round)}},
		}})
		ctx, cancel := context.WithTimeout(t.Context(), deadline)
		defer cancel()
		if err := s.(views.Resetter).SetAside(ctx, fmt.Sprintf("round%d", round), []string{items}, []string{"made", "unknown"}); err != nil {
			t.Fatal(err)
		}
		s = reopen()
		same(t, load(t, s, views.Full, "item-0", "item-19"))
		sameIDs(t, listAll(t, s, ownerIndex(), views.Query{Equal: []views.Value{views.String("ann")}}, 20))
		for stream, want := range map[string]uint64{"made": 0, "kept": uint64(round) + 1} {
			if got, err := s.Checkpoint(ctx, stream); err != nil || got != want {
				t.Errorf("the checkpoint of %s is %d, want %d, %v", stream, got, want, err)
			}
		}
		if docs, err := s.Load(ctx, plain, []string{"other"}, views.Heads); err != nil || len(docs) != 1 {
			t.Errorf("the other collection has %d documents, %v", len(docs), err)
		}
	}
}
