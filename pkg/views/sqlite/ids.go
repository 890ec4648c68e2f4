package sqlite

import (
	"cmp"
	"context"
	"math/bits"
	"slices"
	"sync"

	"github.com/cespare/xxhash/v2"

	"quire.dev/pkg/num"
)

// freshIDs is how many ids a table keeps in memory before it moves them into its index. Half as many arrive during the move. An
// id takes 20 to 40 bytes in the map and 16 while it is moved.
const freshIDs = 100_000

// indexChunk bounds the entries that one statement adds to an index.
const indexChunk = 16

// ids finds the row of a document by the document's id.
//
// Ids are random, so each new id changes a different page of an index, and that page is written twice: to the write-ahead log,
// and from there to the file. In a table of a million documents this was most of what a commit wrote. So the ids of new rows
// stay in memory until there are many. Then they are moved into the index in index order, several per page. The rows reveal
// which ids are not in the index, so a restarted process finds them again: all rows with a number above a stored mark.
//
// The index holds hashes, which are shorter than ids. A hit is compared with the id of the row.
//
// The writing goroutine calls all methods; readers call only candidate.
type ids struct {
	last  int64 // number of the last row
	upTo  int64 // after the move in progress, all rows up to this one are in the index
	added int   // rows since the last step of a move
	hash  func(id string) int64

	mu     sync.RWMutex
	fresh  map[int64]int64 // from hash to number
	staged []int64         // hashes in fresh added by the current transaction
	moving []entry         // being moved, in index order
	moved  int             // of moving
}

// entry is an entry of the index. A number of 0 marks a row deleted during the move.
type entry struct{ hash, number int64 }

func hashOf(id string) int64 { return num.FromBits(xxhash.Sum64String(id)) }

// candidate returns the number of the row with the id's hash, if it is not in the index yet. The row may have another id with
// the same hash, or belong to an unfinished transaction.
func (x *ids) candidate(hash int64) (number int64, ok bool) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	if number, ok = x.fresh[hash]; ok {
		return number, true
	}
	if at, ok := x.find(hash); ok {
		return x.moving[at].number, true
	}
	return 0, false
}

// find returns the position of a hash in moving. mu is held.
func (x *ids) find(hash int64) (at int, ok bool) {
	at, ok = slices.BinarySearchFunc(x.moving, hash, func(p entry, hash int64) int { return cmp.Compare(p.hash, hash) })
	return at, ok && x.moving[at].number != 0
}

// next returns the entry for a row to add under the hash. Numbers up to mark are never reused, even after deletions.
func (x *ids) next(hash int64) entry {
	x.last++
	return entry{hash, x.last}
}

// stage adds a row of the current transaction. It returns false if another row outside the index has the same hash: then the
// caller puts this one into the index.
func (x *ids) stage(hash, number int64) bool {
	x.added++
	if _, taken := x.candidate(hash); taken {
		return false
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.fresh[hash] = number
	x.staged = append(x.staged, hash)
	return true
}

// commit keeps the staged rows.
func (x *ids) commit() { x.staged = x.staged[:0] }

// rollBack drops the staged rows.
func (x *ids) rollBack() {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, hash := range x.staged {
		delete(x.fresh, hash)
	}
	x.staged = x.staged[:0]
}

// forget removes deleted rows.
func (x *ids) forget(rows []entry) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, row := range rows {
		if x.fresh[row.hash] == row.number {
			delete(x.fresh, row.hash)
		} else if at, ok := x.find(row.hash); ok && x.moving[at].number == row.number {
			x.moving[at].number = 0
		}
	}
}

// due reports whether a step of a move is due. It begins a move once limit ids are waiting.
func (x *ids) due(limit int) bool {
	if x.moving != nil {
		return x.added > 0
	}
	if len(x.fresh) < limit {
		return false
	}
	moving := make([]entry, 0, len(x.fresh))
	for hash, number := range x.fresh {
		moving = append(moving, entry{hash, number})
	}
	slices.SortFunc(moving, func(a, b entry) int { return cmp.Compare(a.hash, b.hash) })
	x.mu.Lock()
	defer x.mu.Unlock()
	x.moving, x.moved, x.fresh, x.upTo = moving, 0, map[int64]int64{}, x.last
	return true
}

// step returns the ids to move next: two for each new one, so that a move ends before the next one begins.
func (x *ids) step() []entry {
	return x.moving[x.moved:min(x.moved+max(2*x.added, 256), len(x.moving))]
}

// finishStep records a committed step.
func (x *ids) finishStep(rows int) {
	x.moved += rows
	x.added = 0
	if x.moved == len(x.moving) {
		x.mu.Lock()
		defer x.mu.Unlock()
		x.moving, x.moved = nil, 0
	}
}

// readIDs reads the table's ids that are not in its index. It returns those whose hash another one of them has, which are.
func (t *table) readIDs(ctx context.Context, c *conn, hash func(string) int64) (twice []entry, err error) {
	x := &t.ids
	x.fresh, x.hash = map[int64]int64{}, hash
	if x.last, err = c.integer(ctx, t.readMark, t.collection); err != nil {
		return nil, err
	}
	err = c.query(ctx, t.above, []any{x.last}, func(r row) error {
		number, err := r.integer(0)
		if err != nil {
			return err
		}
		id, err := r.text(1)
		if err != nil {
			return err
		}
		x.last = number
		if hash := x.hash(id); !x.stage(hash, number) {
			twice = append(twice, entry{hash, number})
		}
		return nil
	})
	return twice, err
}

// openIDs reads the table's ids that are not in its index. A table created before this form of index gets all of its ids moved,
// in the current transaction.
func (t *table) openIDs(ctx context.Context, c *conn, limit int, hash func(string) int64) error {
	x := &t.ids
	twice, err := t.readIDs(ctx, c, hash)
	if err != nil {
		return err
	}
	x.commit()
	x.added = 0
	if err := t.index(c, twice); err != nil {
		return err
	}
	if len(x.fresh) < 2*limit {
		return nil
	}
	x.due(limit) // begins a move
	for x.moving != nil {
		moved, err := t.move(c)
		if err != nil {
			return err
		}
		x.finishStep(moved)
	}
	return nil
}

// move performs a step in the current transaction and returns how many ids it has moved, for the caller to pass to stepped
// after the commit.
func (t *table) move(c *conn) (moved int, err error) {
	rows := t.ids.step()
	if err := t.index(c, rows); err != nil {
		return 0, err
	}
	if t.ids.moved+len(rows) == len(t.ids.moving) {
		_, err = c.exec(t.writeMark, t.collection, t.ids.upTo)
	}
	return len(rows), err
}

// index puts rows into the index. A killed process may have done part of that already.
func (t *table) index(c *conn, rows []entry) error {
	rows = slices.DeleteFunc(slices.Clone(rows), func(row entry) bool { return row.number == 0 })
	for len(rows) > 0 {
		power := min(bits.Len(uint(len(rows))), len(t.addIDs)) - 1
		s, err := c.Prepare(t.addIDs[power])
		if err != nil {
			return err
		}
		for i, row := range rows[:1<<power] {
			s.BindInt64(2*i+1, row.hash)
			s.BindInt64(2*i+2, row.number)
		}
		if _, err := c.finish(s); err != nil {
			return err
		}
		rows = rows[1<<power:]
	}
	return nil
}

// locate returns the entry of the id's row, or false and the entry for a row to add.
func (t *table) locate(c *conn, id string) (at entry, found bool, err error) {
	at.hash = t.ids.hash(id)
	see := func(r row) (err error) {
		found = true
		at.number, err = r.integer(0)
		return err
	}
	if number, fresh := t.ids.candidate(at.hash); fresh {
		err = c.query(context.Background(), t.isRow, []any{number, id}, see)
	}
	if err == nil && !found {
		err = c.query(context.Background(), t.findRow, []any{at.hash, id}, see)
	}
	if err == nil && !found {
		at = t.ids.next(at.hash)
	}
	return at, found, err
}
