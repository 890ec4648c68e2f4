package viewstest

import (
	"bytes"
	"errors"
	"fmt"
	"sync"
	"testing"

	"quire.dev/pkg/views"
)

func testPutReplaces(t *testing.T, open Open) {
	s, _ := open(t)
	first := doc("a", 1, "ann", 10)
	first.Keys = append(first.Keys, views.Key{Name: end, Value: views.Int(5)})
	put(t, s, first)
	second := views.Doc{ID: "a", Seq: 2, Keys: views.Keys{{Name: word, Value: views.String("w")}}, Head: []byte("h")}
	put(t, s, second)
	same(t, load(t, s, views.Full, "a"), second)
	sameIDs(t, listAll(t, s, views.Index{Name: byEnd, Keys: []string{end}}, views.Query{}, 1))
}

func testOlderPut(t *testing.T, open Open) {
	s, _ := open(t)
	stored := doc("a", 7, "ann", 10)
	put(t, s, stored)
	put(t, s, doc("a", 6, "bob", 20))
	same(t, load(t, s, views.Full, "a"), stored)
	sameIDs(t, listAll(t, s, ownerIndex(), views.Query{Equal: []views.Value{views.String("bob")}}, 1))

	rewritten := doc("a", 7, "eve", 30)
	put(t, s, rewritten)
	same(t, load(t, s, views.Full, "a"), rewritten)
}

func testOlderDelete(t *testing.T, open Open) {
	s, _ := open(t)
	stored := doc("a", 7, "ann", 10)
	put(t, s, stored)
	remove(t, s, 6, "a")
	same(t, load(t, s, views.Full, "a"), stored)
	remove(t, s, 7, "a")
	same(t, load(t, s, views.Full, "a"))
}

func testDeletedStays(t *testing.T, open Open) {
	s, reopen := open(t)
	put(t, s, doc("a", 5, "ann", 10))
	remove(t, s, 8, "a", "never-was")
	gone := func() {
		t.Helper()
		same(t, load(t, s, views.Full, "a", "never-was"))
		sameIDs(t, listAll(t, s, ownerIndex(), views.Query{}, 10))
	}
	gone()
	for seq := uint64(5); seq <= 8; seq++ {
		put(t, s, doc("a", seq, "ann", 10), doc("never-was", seq, "ann", 10))
		gone()
	}
	s = reopen()
	put(t, s, doc("a", 8, "ann", 10))
	gone()
	remove(t, s, 7, "a")
	put(t, s, doc("a", 8, "ann", 10))
	gone()
	again := doc("a", 9, "ann", 20)
	put(t, s, again)
	same(t, load(t, s, views.Full, "a", "never-was"), again)
	sameIDs(t, listAll(t, s, ownerIndex(), views.Query{}, 10), "a")
}

func testBatchOrder(t *testing.T, open Open) {
	s, _ := open(t)
	p := func(id string, seq uint64, of string) views.Put {
		return views.Put{Collection: items, Doc: doc(id, seq, of, 1)}
	}
	d := func(id string, seq uint64) views.Delete {
		return views.Delete{Collection: items, ID: id, Seq: seq}
	}
	commit(t, s, views.Batch{
		Puts: []views.Put{
			p("newest first", 3, "x"), p("newest first", 2, "y"),
			p("newest last", 2, "x"), p("newest last", 3, "y"),
			p("equal", 2, "x"), p("equal", 2, "y"),
			p("deleted", 2, "x"), p("deleted at once", 2, "x"), p("put later", 3, "x"),
		},
		Deletes: []views.Delete{d("deleted", 3), d("deleted at once", 2), d("put later", 2)},
	})
	same(
		t, load(t, s, views.Full, "newest first", "newest last", "equal", "deleted", "deleted at once", "put later"),
		doc("newest first", 3, "x", 1), doc("newest last", 3, "y", 1), doc("equal", 2, "y", 1), doc("put later", 3, "x", 1),
	)
}

func testCheckpoint(t *testing.T, open Open) {
	s, reopen := open(t)
	const stream = "PASTE_0"
	stands(t, s, stream, 0)
	commit(t, s, views.Batch{Stream: stream, From: 0, To: 5, Puts: []views.Put{{Collection: items, Doc: doc("a", 5, "ann", 1)}}})
	commit(t, s, views.Batch{Stream: stream, From: 5, To: 9, Deletes: []views.Delete{{Collection: items, ID: "a", Seq: 9}}})
	commit(t, s, views.Batch{Stream: stream, From: 9, To: 10})
	commit(t, s, views.Batch{Stream: "other", From: 0, To: 1})
	for range 2 {
		stands(t, s, stream, 10)
		stands(t, s, "other", 1)
		same(t, load(t, s, views.Full, "a"))
		s = reopen()
	}
}

func testConflict(t *testing.T, open Open) {
	s, _ := open(t)
	const stream = "PASTE_0"
	stored := doc("a", 5, "ann", 1)
	commit(t, s, views.Batch{Stream: stream, From: 0, To: 5, Puts: []views.Put{{Collection: items, Doc: stored}}})
	for _, c := range []struct{ from, to uint64 }{{0, 9}, {4, 9}, {6, 9}, {4, 5}, {0, 5}} {
		err := s.Commit(t.Context(), views.Batch{
			Stream: stream, From: c.from, To: c.to,
			Puts:    []views.Put{{Collection: items, Doc: doc("b", 9, "ann", 1)}},
			Deletes: []views.Delete{{Collection: items, ID: "a", Seq: 9}},
		})
		refused(t, fmt.Sprintf("commit from %d to %d at 5", c.from, c.to), err, views.ErrConflict)
	}
	err := s.Commit(t.Context(), views.Batch{Stream: "unknown", From: 3, To: 4})
	refused(t, "commit of an unknown stream from 3", err, views.ErrConflict)
	same(t, load(t, s, views.Full, "a", "b"), stored)
	stands(t, s, stream, 5)
}

func testTwoWriters(t *testing.T, open Open) {
	s, _ := open(t)
	const stream, rounds, writers = "PASTE_0", 20, 4
	for round := range uint64(rounds) {
		var wait sync.WaitGroup
		var lock sync.Mutex
		winners := 0
		for w := range writers {
			wait.Go(func() {
				d := doc(fmt.Sprintf("round-%d", round), round+1, fmt.Sprintf("writer-%d", w), 1)
				mine := doc(fmt.Sprintf("round-%d-writer-%d", round, w), round+1, "all", 1)
				err := s.Commit(t.Context(), views.Batch{
					Stream: stream, From: round, To: round + 1,
					Puts: []views.Put{{Collection: items, Doc: d}, {Collection: items, Doc: mine}},
				})
				lock.Lock()
				defer lock.Unlock()
				switch {
				case err == nil:
					winners++
				case !errors.Is(err, views.ErrConflict):
					t.Errorf("commit: %v", err)
				}
			})
		}
		wait.Wait()
		if winners != 1 {
			t.Fatalf("round %d: %d of %d writers won", round, winners, writers)
		}
	}
	stands(t, s, stream, rounds)
	if docs := list(t, s, views.Query{Index: byOwner, Equal: []views.Value{views.String("all")}, Limit: 1000}); len(docs) != rounds {
		t.Fatalf("%d documents of %d winners", len(docs), rounds)
	}
}

// largeBatch exceeds one MongoDB document: two documents that each nearly fill one, small ones, and the deletion of "old".
func largeBatch(seq uint64) (views.Batch, []views.Doc) {
	var docs []views.Doc
	for i := range 2 {
		d := doc(fmt.Sprint("large-", i), seq, "ann", int64(i))
		d.Body = bytes.Repeat([]byte{byte('a' + i), byte(seq)}, (views.MaxDocBytes-1024)/2)
		docs = append(docs, d)
	}
	for i := range 100 {
		docs = append(docs, doc(fmt.Sprint("small-", i), seq, "bob", int64(i)))
	}
	b := views.Batch{Deletes: []views.Delete{{Collection: items, ID: "old", Seq: seq}}}
	for _, d := range docs {
		b.Puts = append(b.Puts, views.Put{Collection: items, Doc: d})
	}
	return b, docs
}

func testLargeBatch(t *testing.T, open Open) {
	s, reopen := open(t)
	put(t, s, doc("old", 1, "ann", 1))
	ids := []string{"old"}
	for i, stream := range []string{"", "large"} {
		b, docs := largeBatch(uint64(i + 1))
		if b.Stream = stream; stream != "" {
			b.To = 5
		}
		commit(t, s, b)
		s = reopen()
		for _, d := range docs {
			ids = append(ids, d.ID)
		}
		same(t, load(t, s, views.Full, ids...), docs...)
	}
	stale, _ := largeBatch(9)
	stale.Stream, stale.From, stale.To = "large", 1, 9
	refused(t, "commit from the wrong checkpoint", s.Commit(t.Context(), stale), views.ErrConflict)
	stands(t, s, "large", 5)
	for _, d := range load(t, s, views.Heads, ids...) {
		if d.Seq != 2 {
			t.Errorf("%s is of %d, want 2", d.ID, d.Seq)
		}
	}
}

func testInvalidBatch(t *testing.T, open Open) {
	s, _ := open(t)
	good := views.Put{Collection: items, Doc: doc("good", 1, "ann", 1)}
	undeclared := views.Doc{ID: "x", Seq: 1, Keys: views.Keys{{Name: "undeclared", Value: views.Int(1)}}}
	for name, b := range map[string]views.Batch{
		"unknown collection": {Puts: []views.Put{good, {Collection: "nowhere", Doc: doc("x", 1, "ann", 1)}}},
		"undeclared key":     {Puts: []views.Put{good, {Collection: items, Doc: undeclared}}},
		"empty id":           {Puts: []views.Put{good, {Collection: items, Doc: views.Doc{Seq: 1}}}},
		"delete elsewhere":   {Puts: []views.Put{good}, Deletes: []views.Delete{{Collection: "nowhere", ID: "x", Seq: 1}}},
		"no progress":        {Stream: "s", From: 3, To: 3, Puts: []views.Put{good}},
		"sequence too large": {Puts: []views.Put{good, {Collection: items, Doc: views.Doc{ID: "x", Seq: 1 << 63}}}},
	} {
		refused(t, name, s.Commit(t.Context(), b), views.ErrInvalid)
	}
	same(t, load(t, s, views.Full, "good", "x"))
}

func testInsert(t *testing.T, open Open) {
	s, _ := open(t)
	a := doc("a", 3, "ann", 1)
	insert(t, s, a, nil)
	for seq := uint64(2); seq <= 4; seq++ {
		insert(t, s, doc("a", seq, "bob", 2), views.ErrExists)
	}
	same(t, load(t, s, views.Full, "a"), a)
	sameIDs(t, listAll(t, s, ownerIndex(), views.Query{}, 5), "a")
	put(t, s, doc("b", 0, "ann", 1))
	insert(t, s, doc("b", 5, "bob", 2), views.ErrExists)
}

func testInsertRace(t *testing.T, open Open) {
	s, _ := open(t)
	const inserters, ids = 16, 8
	winners := make([][]int, ids)
	var lock sync.Mutex
	var wait sync.WaitGroup
	for w := range inserters {
		wait.Go(func() {
			for id := range ids {
				err := s.Insert(t.Context(), items, doc(fmt.Sprint("id-", id), 0, fmt.Sprint("owner-", w), int64(w)))
				if err != nil && !errors.Is(err, views.ErrExists) {
					t.Errorf("insert: %v", err)
				}
				if err == nil {
					lock.Lock()
					winners[id] = append(winners[id], w)
					lock.Unlock()
				}
			}
		})
	}
	wait.Wait()
	for id, won := range winners {
		if len(won) != 1 {
			t.Fatalf("id-%d was inserted by %v", id, won)
		}
		name := fmt.Sprint("id-", id)
		same(t, load(t, s, views.Full, name), doc(name, 0, fmt.Sprint("owner-", won[0]), int64(won[0])))
	}
}

func testInsertDeleted(t *testing.T, open Open) {
	s, _ := open(t)
	put(t, s, doc("a", 5, "ann", 1))
	remove(t, s, 6, "a")
	insert(t, s, doc("a", 5, "bob", 2), views.ErrExists)
	again := doc("a", 6, "bob", 2)
	insert(t, s, again, nil)
	same(t, load(t, s, views.Full, "a"), again)
	sameIDs(t, listAll(t, s, ownerIndex(), views.Query{}, 5), "a")
	insert(t, s, again, views.ErrExists)
}

func testReopen(t *testing.T, open Open) {
	s, reopen := open(t)
	var docs []views.Doc
	var ids []string
	for i := range 50 {
		docs = append(docs, doc(fmt.Sprintf("doc-%02d", i), uint64(i), "ann", int64(i)))
		ids = append(ids, docs[i].ID)
	}
	put(t, s, docs...)
	inserted := doc("inserted", 1, "bob", 1)
	insert(t, s, inserted, nil)
	for range 2 {
		s = reopen()
		same(t, load(t, s, views.Full, append(ids, "inserted")...), append(docs, inserted)...)
		sameIDs(t, listAll(t, s, ownerIndex(), views.Query{Equal: []views.Value{views.String("ann")}}, 20), ids...)
		insert(t, s, inserted, views.ErrExists)
	}
}
