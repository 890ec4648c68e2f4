// Package viewstest is the conformance suite of the read-model stores: the
// guarantees that services rely on.
package viewstest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"quire.dev/pkg/views"
)

// Open returns an empty store of Collections(), and a function that closes it
// and reopens it with the same data. Open closes the store by t.Cleanup; its
// callers don't.
type Open func(t *testing.T) (store views.Store, reopen func() views.Store)

// Names of the suite's collections and indexes.
const (
	items   = "items"
	plain   = "plain"
	wide    = "wide"
	byOwner = "by_owner"
	byWord  = "by_word"
	byEnd   = "by_end"
	owner   = "owner"
	created = "created"
	word    = "word"
	end     = "end"
)

// Collections returns the collections of the store under test.
func Collections() []views.Collection {
	return []views.Collection{
		{Name: items, Indexes: []views.Index{
			ownerIndex(),
			{Name: byWord, Keys: []string{word, owner}},
			{Name: byEnd, Keys: []string{end}},
		}},
		{Name: plain},
		{Name: wide, Indexes: []views.Index{{Name: "by_all", Keys: []string{"a", "b", "c"}}}},
	}
}

func ownerIndex() views.Index {
	return views.Index{Name: byOwner, Keys: []string{owner, created}}
}

// Run tests every guarantee of package views.
func Run(t *testing.T, open Open) {
	for _, guarantee := range []struct {
		name string
		test func(t *testing.T, open Open)
	}{
		{"load returns what exists, with or without bodies", testLoad},
		{"load takes many ids, also repeated ones", testLoadMany},
		{"collections are apart", testCollectionsApart},
		{"list sorts by the remaining keys, then by id, both ways", testListOrder},
		{"list finds by any prefix of the keys", testListPrefix},
		{"list leaves out documents that lack a key", testListAbsentKeys},
		{"a list of all pages ends where it is stopped", testEachStops},
		{"list follows a document whose keys change", testListMoves},
		{"list sorts integers by value and strings by bytes", testListValues},
		{"list positions need no document behind them", testListPositions},
		{"pages stay stable under inserts and deletes", testListStable},
		{"a put replaces all of a document", testPutReplaces},
		{"an older put is ignored", testOlderPut},
		{"an older delete is ignored", testOlderDelete},
		{"a deleted document stays deleted for older puts", testDeletedStays},
		{"the newest change of a batch counts", testBatchOrder},
		{"a batch moves its checkpoint", testCheckpoint},
		{"a batch from the wrong checkpoint changes nothing", testConflict},
		{"of two writers at one checkpoint one wins", testTwoWriters},
		{"a batch above 16 MB is like any other", testLargeBatch},
		{"an invalid batch changes nothing", testInvalidBatch},
		{"insert takes an id once", testInsert},
		{"insert is unique under concurrency", testInsertRace},
		{"insert takes a deleted id", testInsertDeleted},
		{"what was written is there after a reopen", testReopen},
		{"what is set aside is made again", testSetAside},
		{"empty and huge contents come back", testContents},
		{"any UTF-8 comes back", testUnicode},
		{"limits are enforced", testLimits},
		{"an index takes values up to their limit", testWideIndex},
		{"an ended context is an unavailable store", testContext},
		{"a closed store is unavailable", testClosed},
		{"concurrent use keeps every write", testConcurrent},
		{"any sequence of calls behaves like the model", testModel},
	} {
		t.Run(guarantee.name, func(t *testing.T) { guarantee.test(t, open) })
	}
}

// deadline bounds one call, so that a hanging store fails one test instead of
// the whole run.
const deadline = time.Minute

type fataler interface {
	Helper()
	Fatalf(format string, args ...any)
	Context() context.Context
}

func commit(t fataler, s views.Store, b views.Batch) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	if err := s.Commit(ctx, b); err != nil {
		t.Fatalf("commit: %v", err)
	}
}

func put(t fataler, s views.Store, docs ...views.Doc) {
	t.Helper()
	for chunk := range slices.Chunk(docs, 100) {
		var b views.Batch
		for _, d := range chunk {
			b.Puts = append(b.Puts, views.Put{Collection: items, Doc: d})
		}
		commit(t, s, b)
	}
}

func remove(t fataler, s views.Store, seq uint64, ids ...string) {
	t.Helper()
	var b views.Batch
	for _, id := range ids {
		b.Deletes = append(b.Deletes, views.Delete{Collection: items, ID: id, Seq: seq})
	}
	commit(t, s, b)
}

func load(t fataler, s views.Store, parts views.Parts, ids ...string) []views.Doc {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	docs, err := s.Load(ctx, items, ids, parts)
	if err != nil {
		t.Fatalf("load %q: %v", ids, err)
	}
	return docs
}

func list(t fataler, s views.Lister, q views.Query) []views.Doc {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	docs, err := s.List(ctx, items, q)
	if err != nil {
		t.Fatalf("list %+v: %v", q, err)
	}
	return docs
}

// maxListed is more than any test has documents.
const maxListed = 5000

// pages is a lister whose pages have at most as many documents as were asked for.
type pages struct {
	t fataler
	s views.Lister
}

func (p pages) List(_ context.Context, _ string, q views.Query) ([]views.Doc, error) {
	page := list(p.t, p.s, q)
	if len(page) > q.Limit {
		p.t.Fatalf("list returned %d documents for a limit of %d", len(page), q.Limit)
	}
	return page, nil
}

// listAll pages through an index, a page of size at a time.
func listAll(t fataler, s views.Lister, index views.Index, q views.Query, size int) []string {
	t.Helper()
	q.Limit = size
	var ids []string
	err := views.Each(t.Context(), pages{t, s}, items, index, q, func(d views.Doc) error {
		if ids = append(ids, d.ID); len(ids) > maxListed {
			t.Fatalf("list %+v does not end", q)
		}
		return nil
	})
	if err != nil {
		t.Fatalf("list %+v: %v", q, err)
	}
	return ids
}

// stands fails unless the stream is at that checkpoint.
func stands(t fataler, s views.Store, stream string, want uint64) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	if got, err := s.Checkpoint(ctx, stream); err != nil || got != want {
		t.Fatalf("%s stands at %d, %v, want %d", stream, got, err, want)
	}
}

// insert fails unless the result of the insert is want, which may be nil.
func insert(t fataler, s views.Store, d views.Doc, want error) {
	t.Helper()
	refused(t, fmt.Sprintf("insert of %q at %d", d.ID, d.Seq), s.Insert(t.Context(), items, d), want)
}

// refused fails unless the error is want, or both are nil.
func refused(t fataler, attempt string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("%s: %v, want %v", attempt, err, want)
	}
}

// same fails unless the documents are equal, in any order.
func same(t fataler, got []views.Doc, want ...views.Doc) {
	t.Helper()
	byID := func(a, b views.Doc) int { return strings.Compare(a.ID, b.ID) }
	got, want = slices.SortedFunc(slices.Values(got), byID), slices.SortedFunc(slices.Values(want), byID)
	if !slices.EqualFunc(got, want, equal) {
		t.Fatalf("got %s\nwant %s", describe(got), describe(want))
	}
}

func equal(a, b views.Doc) bool {
	return a.ID == b.ID && a.Seq == b.Seq && sameKeys(a.Keys, b.Keys) &&
		string(a.Head) == string(b.Head) && string(a.Body) == string(b.Body)
}

// sameKeys compares keys in any order.
func sameKeys(a, b views.Keys) bool {
	return len(a) == len(b) && !slices.ContainsFunc(a, func(key views.Key) bool {
		v, ok := b.Find(key.Name)
		return !ok || v != key.Value
	})
}

func describe(docs []views.Doc) string {
	var b strings.Builder
	for _, d := range docs {
		fmt.Fprintf(&b, "\n  {%q seq %d keys %v head %.40q (%d bytes) body %.40q (%d bytes)}",
			d.ID, d.Seq, d.Keys, d.Head, len(d.Head), d.Body, len(d.Body))
	}
	return b.String()
}

func sameIDs(t fataler, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Fatalf("got ids %q\nwant %q", got, want)
	}
}

func idsOf(docs []views.Doc) []string {
	ids := make([]string, 0, len(docs))
	for _, d := range docs {
		ids = append(ids, d.ID)
	}
	return ids
}

// doc returns a document of an owner, with its id and sequence in its contents.
func doc(id string, seq uint64, of string, at int64) views.Doc {
	return views.Doc{
		ID: id, Seq: seq,
		Keys: views.Keys{{Name: owner, Value: views.String(of)}, {Name: created, Value: views.Int(at)}},
		Head: fmt.Appendf(nil, "head of %s at %d", id, seq),
		Body: fmt.Appendf(nil, "body of %s at %d", id, seq),
	}
}

func headOnly(d views.Doc) views.Doc {
	d.Body = nil
	return d
}
