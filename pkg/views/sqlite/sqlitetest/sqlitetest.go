// Package sqlitetest changes the file of a read model behind its store's back, as someone does who can write to the disk.
package sqlitetest

import (
	"bytes"
	"io"
	"testing"
	"time"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"
)

// busyTimeout is how long a statement waits for a store that has the file open.
const busyTimeout = 30 * time.Second

// Exec runs a statement on a file, which must change something.
func Exec(t testing.TB, path, query string, args ...any) {
	t.Helper()
	conn := open(t, path)
	defer conn.Close()
	if err := sqlitex.Execute(conn, query, &sqlitex.ExecOptions{Args: args}); err != nil || conn.Changes() == 0 {
		t.Fatalf("%s: %d rows, %v", query, conn.Changes(), err)
	}
}

// Vacuum rewrites a file without free pages, so that its size is what its rows take.
func Vacuum(t testing.TB, path string) {
	t.Helper()
	conn := open(t, path)
	defer conn.Close()
	for _, query := range []string{"VACUUM", "PRAGMA wal_checkpoint(TRUNCATE)"} {
		if err := sqlitex.Execute(conn, query, nil); err != nil {
			t.Fatalf("%s: %v", query, err)
		}
	}
}

// Edit changes the head of the first document of a collection whose id begins with a text.
func Edit(t testing.TB, path, collection, prefix string, change func(head []byte) []byte) {
	t.Helper()
	conn := open(t, path)
	defer conn.Close()
	table := `"doc.` + collection + `"`
	var number int64
	var head []byte
	err := sqlitex.Execute(conn, `SELECT number, head FROM `+table+` WHERE id LIKE ? || '%' AND gone IS NULL ORDER BY id LIMIT 1`, &sqlitex.ExecOptions{
		Args: []any{prefix},
		ResultFunc: func(row *sqlite.Stmt) error {
			number = row.ColumnInt64(0)
			var err error
			head, err = io.ReadAll(row.ColumnReader(1))
			return err
		},
	})
	if err != nil || number == 0 {
		t.Fatalf("%s has no row %s, %v", collection, prefix, err)
	}
	changed := change(bytes.Clone(head))
	if err := sqlitex.Execute(conn, `UPDATE `+table+` SET head = ? WHERE number = ?`, &sqlitex.ExecOptions{Args: []any{changed, number}}); err != nil {
		t.Fatal(err)
	}
}

func open(t testing.TB, path string) *sqlite.Conn {
	t.Helper()
	conn, err := sqlite.OpenConn(path, sqlite.OpenReadWrite)
	if err != nil {
		t.Fatal(err)
	}
	conn.SetBusyTimeout(busyTimeout)
	return conn
}
