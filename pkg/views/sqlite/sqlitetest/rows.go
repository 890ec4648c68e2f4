package sqlitetest

import (
	"io"
	"strings"
	"testing"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"quire.dev/pkg/num"
	"quire.dev/pkg/views"
)

// Row is a row of a collection's table: a document, or what is left of a deleted one.
type Row struct {
	Number int64
	Gone   int64 // Unix seconds; 0: it is not deleted
	Doc    views.Doc
}

// Rows returns all rows of a collection, by number.
func Rows(t testing.TB, path, collection string) (list []Row) {
	t.Helper()
	conn := open(t, path)
	defer conn.Close()
	err := sqlitex.Execute(conn, `SELECT * FROM "doc.`+collection+`" ORDER BY number`, &sqlitex.ExecOptions{
		ResultFunc: func(s *sqlite.Stmt) error {
			row, err := readRow(s)
			list = append(list, row)
			return err
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func readRow(s *sqlite.Stmt) (row Row, err error) {
	for i := range s.ColumnCount() {
		key, isKey := strings.CutPrefix(s.ColumnName(i), "k.")
		switch {
		case s.ColumnIsNull(i):
		case isKey && s.ColumnType(i) == sqlite.TypeInteger:
			row.Doc.Keys = append(row.Doc.Keys, views.Key{Name: key, Value: views.Int(s.ColumnInt64(i))})
		case isKey:
			row.Doc.Keys = append(row.Doc.Keys, views.Key{Name: key, Value: views.String(s.ColumnText(i))})
		case key == "number":
			row.Number = s.ColumnInt64(i)
		case key == "gone":
			row.Gone = s.ColumnInt64(i)
		case key == "id":
			row.Doc.ID = s.ColumnText(i)
		case key == "seq":
			row.Doc.Seq = num.Uint64(s.ColumnInt64(i))
		case key == "head":
			row.Doc.Head, err = io.ReadAll(s.ColumnReader(i))
		case key == "body":
			row.Doc.Body, err = io.ReadAll(s.ColumnReader(i))
		}
		if err != nil {
			return row, err
		}
	}
	return row, nil
}

// Replace replaces all rows of a collection.
func Replace(t testing.TB, path, collection string, list []Row) {
	t.Helper()
	conn := open(t, path)
	defer conn.Close()
	if err := replace(conn, `"doc.`+collection+`"`, list); err != nil {
		t.Fatal(err)
	}
}

func replace(conn *sqlite.Conn, table string, list []Row) (err error) {
	defer sqlitex.Save(conn)(&err)
	if err := sqlitex.Execute(conn, "DELETE FROM "+table, nil); err != nil {
		return err
	}
	for _, row := range list {
		columns, args := []string{"number", "id", "seq"}, []any{row.Number, row.Doc.ID, num.Int64(row.Doc.Seq)}
		if row.Gone != 0 {
			columns, args = append(columns, "gone"), append(args, row.Gone)
		}
		for _, key := range row.Doc.Keys {
			columns, args = append(columns, `"k.`+key.Name+`"`), append(args, key.Value.Any())
		}
		for name, part := range map[string][]byte{"head": row.Doc.Head, "body": row.Doc.Body} {
			if len(part) > 0 {
				columns, args = append(columns, name), append(args, part)
			}
		}
		places := strings.TrimSuffix(strings.Repeat("?, ", len(columns)), ", ")
		if err := sqlitex.Execute(conn, "INSERT INTO "+table+" ("+strings.Join(columns, ", ")+") VALUES ("+places+")", &sqlitex.ExecOptions{Args: args}); err != nil {
			return err
		}
	}
	return nil
}
