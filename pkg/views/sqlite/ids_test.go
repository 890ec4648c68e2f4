package sqlite

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"quire.dev/pkg/views"
)

// count runs a query with one number as its answer.
func count(t *testing.T, s *Store, text string) (n int64) {
	t.Helper()
	err := s.read(t.Context(), "count", func(ctx context.Context, c *conn) (err error) {
		n, err = c.integer(ctx, text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// held is how many ids a collection has in memory.
func held(s *Store, collection string) int {
	x := &s.tables[collection].ids
	x.mu.RLock()
	defer x.mu.RUnlock()
	return len(x.fresh) + len(x.moving) - x.moved
}

// TestIDsOfNewDocumentsMoveIntoTheIndex: memory has a bounded number of them, each is found all the time, and after a start those
// that are not in the index are in memory again.
func TestIDsOfNewDocumentsMoveIntoTheIndex(t *testing.T) {
	const documents, limit = 5000, 400
	c := config(t)
	c.FreshIDs = limit
	s := open(t, c)
	var ids []string
	for n := range uint64(documents / 20) {
		b := batch(n, n+1, 20, 10)
		for _, p := range b.Puts {
			ids = append(ids, p.Doc.ID)
		}
		mustCommit(t, s, b)
		if n := held(s, "items"); n > 3*limit {
			t.Fatalf("%d ids are in memory", n)
		}
		for chunk := range slices.Chunk(ids, 500) {
			mustLoad(t, s, len(chunk), chunk...)
		}
	}
	indexed := count(t, s, `SELECT count(*) FROM "ids.items"`)
	if indexed < documents-3*limit {
		t.Fatalf("%d of %d ids are in the index", indexed, documents)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = open(t, c)
	if n := held(s, "items"); n < documents-int(indexed) || n > 3*limit {
		t.Fatalf("%d ids are in memory after a start, %d of %d were in the index", n, indexed, documents)
	}
	for chunk := range slices.Chunk(ids, 500) {
		mustLoad(t, s, len(chunk), chunk...)
	}
}

// TestReadersFindWhatMoves reads documents while others come and ids move.
func TestReadersFindWhatMoves(t *testing.T) {
	c := config(t)
	c.FreshIDs = 100
	s := open(t, c)
	const batches, size = 200, 10
	var mu sync.Mutex
	var committed uint64
	var readers sync.WaitGroup
	for seed := range uint64(3) {
		readers.Go(func() {
			random := rand.New(rand.NewPCG(1, seed))
			for at := uint64(0); at < batches; {
				mu.Lock()
				at = committed
				mu.Unlock()
				if at == 0 {
					continue
				}
				ids := make([]string, 30)
				for i := range ids {
					ids[i] = fmt.Sprintf("%d-%d", 1+random.Uint64N(at), random.IntN(size))
				}
				docs, err := s.Load(t.Context(), "items", ids, views.Heads) // some ids occur twice
				slices.Sort(ids)
				ids = slices.Compact(ids)
				if err != nil || len(docs) != len(ids) {
					t.Errorf("%d of %d documents, %v", len(docs), len(ids), err)
					return
				}
			}
		})
	}
	for n := range uint64(batches) {
		mustCommit(t, s, batch(n, n+1, size, 10))
		mu.Lock()
		committed = n + 1
		mu.Unlock()
	}
	readers.Wait()
}

// TestForgottenDeletionsLeaveTheIndex, those whose ids have moved and those whose ids have not.
func TestForgottenDeletionsLeaveTheIndex(t *testing.T) {
	for _, limit := range []int{1, 10, 1000} {
		c := config(t)
		c.FreshIDs = limit
		s := open(t, c)
		mustCommit(t, s, batch(0, 1, 30, 1))
		mustCommit(t, s, batch(1, 2, 30, 1))
		b := views.Batch{}
		for i := range 30 {
			b.Deletes = append(b.Deletes, views.Delete{Collection: "items", ID: fmt.Sprintf("1-%d", i), Seq: 3})
		}
		mustCommit(t, s, b)
		err := s.write(t.Context(), "sweep", func(c *conn) error {
			rows, err := s.tables["items"].sweep(c, s.now().Unix()+1, sweepLimit)
			if len(rows) != 30 {
				t.Errorf("limit %d: %d rows are removed", limit, len(rows))
			}
			s.tables["items"].ids.forget(rows)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		rows, indexed := count(t, s, `SELECT count(*) FROM "doc.items"`), count(t, s, `SELECT count(*) FROM "ids.items"`)
		dangling := count(t, s, `SELECT count(*) FROM "ids.items" WHERE number NOT IN (SELECT number FROM "doc.items")`)
		if rows != 30 || dangling != 0 || int(indexed)+held(s, "items") < 30 {
			t.Errorf("limit %d: %d rows, %d entries, %d of them without a row, %d ids in memory", limit, rows, indexed, dangling, held(s, "items"))
		}
		mustCommit(t, s, batch(2, 3, 30, 1)) // the numbers of the rows that were removed are not used again
		mustLoad(t, s, 4, "1-0", "1-29", "2-0", "2-29", "3-0", "3-29")
	}
}
