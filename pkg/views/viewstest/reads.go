package viewstest

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"

	"quire.dev/pkg/views"
)

func testLoad(t *testing.T, open Open) {
	s, _ := open(t)
	a, b := doc("a", 1, "ann", 10), doc("b", 2, "bob", 20)
	put(t, s, a, b)
	same(t, load(t, s, views.Full, "a", "b", "missing"), a, b)
	same(t, load(t, s, views.Heads, "a", "b", "missing"), headOnly(a), headOnly(b))
	same(t, load(t, s, views.Full, "missing"))
	same(t, load(t, s, views.Full))
}

func testLoadMany(t *testing.T, open Open) {
	s, _ := open(t)
	const count = 300
	var docs []views.Doc
	var ids []string
	for i := range count {
		docs = append(docs, doc(fmt.Sprintf("doc-%03d", i), 1, "ann", int64(i)))
		ids = append(ids, docs[i].ID)
	}
	put(t, s, docs...)
	same(t, load(t, s, views.Full, append(ids, ids...)...), docs...)
	same(t, load(t, s, views.Full, "doc-007", "doc-007", "doc-008"), docs[7], docs[8])
	for _, n := range []int{63, 64, 65, 129} {
		same(t, load(t, s, views.Full, ids[:n]...), docs[:n]...)
	}
}

func testCollectionsApart(t *testing.T, open Open) {
	s, _ := open(t)
	a := doc("a", 1, "ann", 10)
	other := views.Doc{ID: "a", Seq: 9, Head: []byte("another a")}
	commit(t, s, views.Batch{Puts: []views.Put{{Collection: items, Doc: a}, {Collection: plain, Doc: other}}})
	same(t, load(t, s, views.Full, "a"), a)
	docs, err := s.Load(t.Context(), plain, []string{"a"}, views.Full)
	if err != nil {
		t.Fatal(err)
	}
	same(t, docs, other)
}

func testListOrder(t *testing.T, open Open) {
	s, _ := open(t)
	put(
		t, s,
		doc("d", 1, "ann", 30), doc("b", 1, "ann", 10), doc("c", 1, "ann", 10),
		doc("a", 1, "ann", 20), doc("x", 1, "bob", 15), doc("y", 1, "al", 15),
	)
	q := views.Query{Equal: []views.Value{views.String("ann")}}
	for size := 1; size <= 5; size++ {
		q.Desc = false
		sameIDs(t, listAll(t, s, ownerIndex(), q, size), "b", "c", "a", "d")
		q.Desc = true
		sameIDs(t, listAll(t, s, ownerIndex(), q, size), "d", "a", "c", "b")
	}
	page := list(t, s, views.Query{Index: byOwner, Equal: []views.Value{views.String("ann")}, Limit: 1})
	same(t, page, headOnly(doc("b", 1, "ann", 10)))
}

func testListPrefix(t *testing.T, open Open) {
	s, _ := open(t)
	put(
		t, s,
		doc("d", 1, "ann", 30), doc("b", 1, "bob", 10), doc("c", 1, "ann", 10),
		doc("a", 1, "ann", 10), doc("x", 1, "bob", 5),
	)
	for size := 1; size <= 6; size++ {
		sameIDs(t, listAll(t, s, ownerIndex(), views.Query{}, size), "a", "c", "d", "x", "b")
		sameIDs(t, listAll(t, s, ownerIndex(), views.Query{Desc: true}, size), "b", "x", "d", "c", "a")
		both := []views.Value{views.String("ann"), views.Int(10)}
		sameIDs(t, listAll(t, s, ownerIndex(), views.Query{Equal: both}, size), "a", "c")
		sameIDs(t, listAll(t, s, ownerIndex(), views.Query{Equal: both, Desc: true}, size), "c", "a")
	}
	sameIDs(t, listAll(t, s, ownerIndex(), views.Query{Equal: []views.Value{views.String("nobody")}}, 3))
}

func testListAbsentKeys(t *testing.T, open Open) {
	s, _ := open(t)
	never := doc("never", 1, "ann", 1)
	soon, late := doc("soon", 1, "ann", 2), doc("late", 1, "ann", 3)
	soon.Keys = append(soon.Keys, views.Key{Name: end, Value: views.Int(100)})
	late.Keys = append(late.Keys, views.Key{Name: end, Value: views.Int(200)})
	half := views.Doc{ID: "half", Seq: 1, Keys: views.Keys{{Name: owner, Value: views.String("ann")}}}
	put(t, s, never, soon, late, half, views.Doc{ID: "none", Seq: 1})
	sameIDs(t, listAll(t, s, views.Index{Name: byEnd, Keys: []string{end}}, views.Query{}, 1), "soon", "late")
	sameIDs(t, listAll(t, s, views.Index{Name: byEnd, Keys: []string{end}}, views.Query{Desc: true}, 1), "late", "soon")
	sameIDs(t, listAll(t, s, ownerIndex(), views.Query{Equal: []views.Value{views.String("ann")}}, 2), "never", "soon", "late")
	sameIDs(t, listAll(t, s, ownerIndex(), views.Query{Desc: true}, 2), "late", "soon", "never")
	same(t, load(t, s, views.Full, "half"), half)
}

func testEachStops(t *testing.T, open Open) {
	s, _ := open(t)
	put(t, s, doc("a", 1, "ann", 10), doc("b", 1, "ann", 20), doc("c", 1, "ann", 30), doc("d", 1, "ann", 40))
	failed := errors.New("failed")
	for _, end := range []struct{ returned, want error }{{views.ErrStop, nil}, {fmt.Errorf("enough: %w", views.ErrStop), nil}, {failed, failed}} {
		for limit := range 4 { // 0: pages of MaxList
			var ids []string
			err := views.Each(t.Context(), s, items, ownerIndex(), views.Query{Limit: limit}, func(d views.Doc) error {
				if ids = append(ids, d.ID); d.ID == "c" {
					return end.returned
				}
				return nil
			})
			if !errors.Is(err, end.want) {
				t.Errorf("a callback that returns %v ends the list with %v", end.returned, err)
			}
			sameIDs(t, ids, "a", "b", "c")
		}
	}
}

func testListMoves(t *testing.T, open Open) {
	s, _ := open(t)
	ann := views.Query{Equal: []views.Value{views.String("ann")}}
	bob := views.Query{Equal: []views.Value{views.String("bob")}}
	put(t, s, doc("a", 1, "ann", 10), doc("b", 1, "ann", 20))
	put(t, s, doc("a", 2, "ann", 30))
	sameIDs(t, listAll(t, s, ownerIndex(), ann, 1), "b", "a")
	put(t, s, doc("b", 2, "bob", 20))
	sameIDs(t, listAll(t, s, ownerIndex(), ann, 1), "a")
	sameIDs(t, listAll(t, s, ownerIndex(), bob, 1), "b")
	put(t, s, views.Doc{ID: "b", Seq: 3})
	sameIDs(t, listAll(t, s, ownerIndex(), bob, 1))
	remove(t, s, 4, "a")
	sameIDs(t, listAll(t, s, ownerIndex(), views.Query{}, 1))
}

func testListValues(t *testing.T, open Open) {
	s, _ := open(t)
	var docs []views.Doc
	for i, n := range []int64{0, 1, -1, 9, 10, math.MaxInt64, math.MinInt64, 1 << 53, 1<<53 + 1} {
		docs = append(docs, views.Doc{ID: fmt.Sprint(i), Seq: 1, Keys: views.Keys{{Name: end, Value: views.Int(n)}}})
	}
	for i, w := range []string{"", "a", "B", "aa", "é", "z", "日", "10", "9", "\U0001F600", "\uFFFD"} {
		docs = append(docs, views.Doc{ID: fmt.Sprint("w", i), Seq: 1, Keys: views.Keys{{Name: word, Value: views.String(w)}, {Name: owner, Value: views.String("x")}}})
	}
	put(t, s, docs...)
	for _, index := range []views.Index{{Name: byEnd, Keys: []string{end}}, {Name: byWord, Keys: []string{word, owner}}} {
		key := index.Keys[0]
		var want []views.Doc
		for _, d := range docs {
			if _, ok := d.Keys.Find(key); ok {
				want = append(want, d)
			}
		}
		slices.SortFunc(want, func(a, b views.Doc) int { return a.Keys.Get(key).Compare(b.Keys.Get(key)) })
		sameIDs(t, listAll(t, s, index, views.Query{}, 2), idsOf(want)...)
		for _, d := range want {
			same(t, list(t, s, views.Query{Index: index.Name, Equal: []views.Value{d.Keys.Get(key)}, Limit: 5}), d)
		}
		slices.Reverse(want)
		sameIDs(t, listAll(t, s, index, views.Query{Desc: true}, 2), idsOf(want)...)
	}
}

func testListPositions(t *testing.T, open Open) {
	s, _ := open(t)
	put(t, s, doc("a", 1, "ann", 10), doc("b", 1, "ann", 20), doc("c", 1, "ann", 20), doc("d", 1, "ann", 30))
	for _, c := range []struct {
		name string
		at   int64
		id   string
		desc bool
		want []string
	}{
		{"between keys", 15, "zz", false, []string{"b", "c", "d"}},
		{"between keys, down", 25, "", true, []string{"c", "b", "a"}},
		{"between ids", 20, "bb", false, []string{"c", "d"}},
		{"between ids, down", 20, "bb", true, []string{"b", "a"}},
		{"no id is before every id", 20, "", false, []string{"b", "c", "d"}},
		{"no id is before every id, down", 20, "", true, []string{"a"}},
		{"behind the end", 99, "", false, nil},
		{"before the beginning, down", 0, "", true, nil},
	} {
		q := views.Query{
			Index: byOwner, Equal: []views.Value{views.String("ann")}, Limit: 10,
			After: []views.Value{views.Int(c.at)}, AfterID: c.id, Desc: c.desc,
		}
		if got := idsOf(list(t, s, q)); !slices.Equal(got, c.want) {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
}

func testListStable(t *testing.T, open Open) {
	for _, desc := range []bool{false, true} {
		t.Run(fmt.Sprintf("desc=%t", desc), func(t *testing.T) {
			s, _ := open(t)
			const count = 40
			var docs []views.Doc
			for i := range count {
				docs = append(docs, doc(fmt.Sprintf("old-%02d", i), 1, "ann", int64(i/4)))
			}
			put(t, s, docs...)
			q := views.Query{Index: byOwner, Equal: []views.Value{views.String("ann")}, Limit: 7, Desc: desc}
			seen := map[string]int{}
			for round := range count {
				page := list(t, s, q)
				if len(page) == 0 {
					break
				}
				for _, d := range page {
					seen[d.ID]++
				}
				last := page[len(page)-1]
				q = q.NextAfter(ownerIndex(), last)
				// The document at the position is deleted, and others are added
				// on both sides of it.
				remove(t, s, 2, last.ID)
				put(
					t, s,
					doc(fmt.Sprintf("new-%02d", round), 1, "ann", -1),
					doc(fmt.Sprintf("new-%02d-late", round), 1, "ann", count),
				)
			}
			for _, d := range docs {
				if seen[d.ID] != 1 {
					t.Errorf("%s was listed %d times", d.ID, seen[d.ID])
				}
			}
			for id, n := range seen {
				if n != 1 {
					t.Errorf("%s was listed %d times", id, n)
				}
			}
		})
	}
}
