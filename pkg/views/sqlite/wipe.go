package sqlite

import (
	"context"
	"time"
)

const (
	// wipeEvery and wipePages bound what wiping takes from other writes: 512 KiB ten times a second, with pages of 4 KiB.
	wipeEvery = 100 * time.Millisecond
	wipePages = 128

	// wipeTable is in each file of which nothing is left to wipe, and then empty. Rows in it are of a wiping under way.
	wipeTable = `CREATE TABLE "wipe" (zeros BLOB)`
)

// wiper overwrites the free pages of a file that was made before deletions wrote zeros: they have what was deleted then. It fills
// them with rows of zeros, some at a time beside other writes, and deletes the rows again. The file does not grow for that, and a
// wiping that a restart cuts off goes on.
type wiper struct {
	emptying bool // no free page is left, and the rows are deleted
}

// step does some of the work, in a transaction that the caller has begun. It returns true once there is nothing left to do.
func (w *wiper) step(c *conn) (done bool, err error) {
	ctx := context.Background()
	tables, err := c.integer(ctx, `SELECT count(*) FROM sqlite_schema WHERE name = 'wipe'`)
	if err != nil {
		return false, err
	}
	var rows int64
	if tables == 0 {
		_, err = c.exec(wipeTable)
	} else {
		rows, err = c.integer(ctx, `SELECT count(*) FROM (SELECT 1 FROM "wipe" LIMIT 1)`)
	}
	if err != nil || tables > 0 && rows == 0 {
		return rows == 0, err
	}
	if !w.emptying {
		free, err := c.integer(ctx, "PRAGMA freelist_count")
		if err != nil {
			return false, err
		}
		if free > 0 {
			return false, fill(ctx, c, min(free, wipePages))
		}
		w.emptying = true
	}
	_, err = c.exec(`DELETE FROM "wipe" WHERE rowid = (SELECT min(rowid) FROM "wipe")`)
	return false, err
}

// fill takes free pages for a row of zeros.
func fill(ctx context.Context, c *conn, pages int64) error {
	size, err := c.integer(ctx, "PRAGMA page_size")
	if err == nil {
		_, err = c.exec(`INSERT INTO "wipe" VALUES (zeroblob(?))`, pages*size)
	}
	return err
}

// wipe does some of the wiping and returns whether it is done. Nothing is reported: a file that can't be written fails the next
// write too, which has a caller, and the next step tries again.
func (w *writerLoop) wipe() (done bool) {
	if w.begin() != nil {
		return false
	}
	done, err := w.wiper.step(w.conn)
	if err == nil {
		_, err = w.conn.exec("COMMIT")
	}
	if err != nil {
		w.rollback()
		return false
	}
	w.written = w.written || !done
	return done
}
