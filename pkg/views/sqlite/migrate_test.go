package sqlite

import (
	"errors"
	"slices"
	"testing"

	"quire.dev/pkg/views"
)

func collection(indexes ...views.Index) []views.Collection {
	return []views.Collection{{Name: "items", Indexes: indexes}}
}

func listed(t *testing.T, s *Store, collection, index string) []string {
	t.Helper()
	docs, err := s.List(t.Context(), collection, views.Query{Index: index, Limit: 10})
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, d := range docs {
		ids = append(ids, d.ID)
	}
	return ids
}

func TestDeclarationsChangeOverAnExistingFile(t *testing.T) {
	c := config(t)
	write := func(s *Store, id string, seq uint64, keys views.Keys) {
		t.Helper()
		mustCommit(t, s, views.Batch{Puts: []views.Put{{Collection: "items", Doc: views.Doc{
			ID: id, Seq: seq, Keys: keys, Head: []byte("head " + id), Body: []byte("body " + id),
		}}}})
	}
	expect := func(s *Store, collection, index string, want ...string) {
		t.Helper()
		if got := listed(t, s, collection, index); !slices.Equal(got, want) {
			t.Fatalf("%s lists %q, want %q", index, got, want)
		}
	}
	with := func(declared []views.Collection) *Store {
		t.Helper()
		c.Collections = declared
		return open(t, c)
	}
	shut := func(s *Store) {
		t.Helper()
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	one, two := views.Int(1), views.Int(2)
	byA := views.Index{Name: "by_a", Keys: []string{"a"}}
	byB := views.Index{Name: "by_b", Keys: []string{"b"}}
	byBA := views.Index{Name: "by_a", Keys: []string{"b", "a"}}
	byNew := views.Index{Name: "by_new", Keys: []string{"new"}}

	s := with(collection(byA, byB))
	write(s, "x", 1, views.Keys{{Name: "a", Value: one}, {Name: "b", Value: two}})
	write(s, "y", 1, views.Keys{{Name: "a", Value: two}, {Name: "b", Value: one}})
	write(s, "removed", 1, views.Keys{{Name: "a", Value: two}, {Name: "b", Value: one}})
	mustCommit(t, s, views.Batch{Stream: "s", To: 4, Deletes: []views.Delete{{Collection: "items", ID: "removed", Seq: 4}}})
	shut(s)

	t.Log("an index of other keys, one over a new key, another collection")
	s = with(append(collection(byBA, byB, byNew), views.Collection{Name: "more", Indexes: []views.Index{byA}}))
	expect(s, "items", "by_a", "y", "x")
	expect(s, "items", "by_new")
	expect(s, "more", "by_a")
	write(s, "x", 2, views.Keys{{Name: "a", Value: one}, {Name: "b", Value: two}, {Name: "new", Value: one}})
	write(s, "removed", 4, views.Keys{{Name: "a", Value: one}})
	expect(s, "items", "by_new", "x")
	docs := mustLoad(t, s, 2, "x", "y", "removed")
	for _, d := range docs {
		if string(d.Head) != "head "+d.ID || string(d.Body) != "body "+d.ID {
			t.Fatalf("%s came out as %q, %q", d.ID, d.Head, d.Body)
		}
	}
	if at, err := s.Checkpoint(t.Context(), "s"); at != 4 || err != nil {
		t.Fatalf("checkpoint is %d, %v", at, err)
	}
	shut(s)

	t.Log("a key dropped, and written over meanwhile")
	s = with(collection(byA))
	expect(s, "items", "by_a", "x", "y")
	if _, err := s.List(t.Context(), "items", views.Query{Index: "by_b", Limit: 1}); !errors.Is(err, views.ErrInvalid) {
		t.Fatalf("list of a dropped index: %v", err)
	}
	for _, d := range mustLoad(t, s, 2, "x", "y") {
		if _, ok := d.Keys.Find("b"); ok {
			t.Fatalf("%s still shows a dropped key", d.ID)
		}
	}
	write(s, "y", 2, views.Keys{{Name: "a", Value: two}})
	shut(s)

	t.Log("and back")
	s = with(append(collection(byA, byB, byNew), views.Collection{Name: "more", Indexes: []views.Index{byA}}))
	expect(s, "items", "by_b", "x")
	expect(s, "items", "by_new", "x")
}

func TestUnchangedDeclarationsDoNotWrite(t *testing.T) {
	c := config(t)
	s := open(t, c)
	mustCommit(t, s, batch(0, 1, 10, 10))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	before := contents(t, c.Path)
	if err := open(t, c).Close(); err != nil {
		t.Fatal(err)
	}
	if after := contents(t, c.Path); after != before {
		t.Fatalf("the file was changed from\n%s to\n%s", before, after)
	}
}

func TestBadConfigurationIsRefused(t *testing.T) {
	key := []string{"a"}
	for name, c := range map[string]Config{
		"synchronous":     {Path: "x", Synchronous: "off"},
		"collection name": {Path: "x", Collections: []views.Collection{{Name: `a"b`}}},
		"doubled":         {Path: "x", Collections: []views.Collection{{Name: "a"}, {Name: "A"}}},
		"index name":      {Path: "x", Collections: collection(views.Index{Name: "1", Keys: key})},
		"no keys":         {Path: "x", Collections: collection(views.Index{Name: "i"})},
		"key spelling":    {Path: "x", Collections: collection(views.Index{Name: "i", Keys: []string{"a"}}, views.Index{Name: "j", Keys: []string{"A"}})},
	} {
		c.Path = config(t).Path
		if _, err := Open(t.Context(), c); !errors.Is(err, views.ErrInvalid) {
			t.Errorf("%s: %v, want ErrInvalid", name, err)
		}
	}
}
