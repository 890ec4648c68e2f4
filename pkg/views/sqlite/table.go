package sqlite

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"quire.dev/pkg/views"
)

// table holds the statements of one collection.
//
// A document is a row: id, seq, gone, a column for each key, head, body. The body
// comes last, so that its overflow pages are read only on request. A deleted
// document is a row with gone, the Unix second of its deletion, and neither keys
// nor contents.
type table struct {
	name    string
	indexes map[string]string // quoted names
	keys    []string          // the declared ones
	put     string
	insert  string
	delete  string
	sweep   string
	columns string // id, seq and the keys
}

func quote(name string) string { return `"` + name + `"` }

func tableName(collection string) string { return "doc." + collection }

func keyColumn(key string) string { return "k." + key }

func goneIndex(collection string) string { return "gone." + collection }

func indexName(collection, index string) string { return "ix." + collection + "." + index }

// newTable makes the statements. They empty the columns of retired keys, which
// no index declares any more, in each document that they write.
func newTable(collection views.Collection, keys, retired []string) *table {
	t := &table{name: quote(tableName(collection.Name)), keys: keys, indexes: map[string]string{}}
	for _, index := range collection.Indexes {
		t.indexes[index.Name] = quote(indexName(collection.Name, index.Name))
	}
	names := []string{"id", "seq"}
	for _, key := range keys {
		names = append(names, quote(keyColumn(key)))
	}
	t.columns = strings.Join(names, ", ")
	names = append(names, "head", "body")
	var set []string
	for _, name := range names[1:] {
		set = append(set, name+" = excluded."+name)
	}
	for _, key := range retired {
		set = append(set, quote(keyColumn(key))+" = NULL")
	}
	upsert := "INSERT INTO " + t.name + " (" + strings.Join(names, ", ") + ") VALUES (" + placeholders(len(names)) + ")" +
		" ON CONFLICT (id) DO UPDATE SET " + strings.Join(set, ", ") + ", gone = NULL WHERE "
	t.put = upsert + "excluded.seq > seq OR excluded.seq = seq AND gone IS NULL"
	t.insert = upsert + "gone IS NOT NULL AND excluded.seq >= seq"

	set = set[:1]
	for _, name := range names[2:] {
		set = append(set, name+" = NULL")
	}
	for _, key := range retired {
		set = append(set, quote(keyColumn(key))+" = NULL")
	}
	t.delete = "INSERT INTO " + t.name + " (id, seq, gone) VALUES (?, ?, ?)" +
		" ON CONFLICT (id) DO UPDATE SET " + strings.Join(set, ", ") + ", gone = excluded.gone WHERE excluded.seq >= seq"
	t.sweep = "DELETE FROM " + t.name + " WHERE rowid IN (SELECT rowid FROM " + t.name +
		" WHERE gone < ? LIMIT ?)"
	return t
}

func placeholders(n int) string {
	return strings.TrimSuffix(strings.Repeat("?, ", n), ", ")
}

func (t *table) docArgs(d views.Doc) []any {
	args := make([]any, 0, len(t.keys)+4)
	args = append(args, d.ID, int64(d.Seq))
	for _, key := range t.keys {
		if v, ok := d.Keys.Find(key); ok {
			args = append(args, v.Any())
		} else {
			args = append(args, nil)
		}
	}
	return append(args, d.Head, d.Body)
}

func (t *table) putDoc(c *conn, d views.Doc) error {
	_, err := c.exec(t.put, t.docArgs(d)...)
	return err
}

func (t *table) insertDoc(c *conn, d views.Doc) error {
	added, err := c.exec(t.insert, t.docArgs(d)...)
	if err == nil && added == 0 {
		return fmt.Errorf("insert %q: %w", d.ID, views.ErrExists)
	}
	return err
}

func (t *table) deleteDoc(c *conn, d views.Delete, gone int64) error {
	_, err := c.exec(t.delete, d.ID, int64(d.Seq), gone)
	return err
}

// loadChunk bounds the ids of one statement. Shorter lists are filled up to a
// power of two, so that there are few statements.
const loadChunk = 64

func (t *table) load(ctx context.Context, c *conn, ids []string, parts views.Parts) ([]views.Doc, error) {
	if len(ids) > loadChunk {
		ids = slices.Compact(slices.Sorted(slices.Values(ids)))
	}
	docs := make([]views.Doc, 0, len(ids))
	columns := t.columns + ", head"
	if parts == views.Full {
		columns += ", body"
	}
	for chunk := range slices.Chunk(ids, loadChunk) {
		width := 1
		for width < len(chunk) {
			width *= 2
		}
		args := make([]any, width)
		for i := range args {
			args[i] = chunk[min(i, len(chunk)-1)]
		}
		text := "SELECT " + columns + " FROM " + t.name + " WHERE id IN (" + placeholders(width) + ") AND gone IS NULL"
		err := c.query(ctx, text, args, func(r row) error {
			d, err := t.doc(r)
			docs = append(docs, d)
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return docs, nil
}

func (t *table) list(ctx context.Context, c *conn, index views.Index, q views.Query) ([]views.Doc, error) {
	direction, compare := "", ">"
	if q.Desc {
		direction, compare = " DESC", "<"
	}
	var where, position, order []string
	var args []any
	for i, key := range index.Keys {
		column := quote(keyColumn(key))
		if i < len(q.Equal) {
			where = append(where, column+" = ?")
			args = append(args, q.Equal[i].Any())
			continue
		}
		// It shows SQLite that the partial index has all rows of the query.
		where = append(where, column+" IS NOT NULL")
		position = append(position, column)
		order = append(order, column+direction)
	}
	order = append(order, "id"+direction)
	if len(q.After) > 0 || q.AfterID != "" {
		where = append(where, "("+strings.Join(append(position, "id"), ", ")+") "+compare+" ("+placeholders(len(position)+1)+")")
		for _, v := range q.After {
			args = append(args, v.Any())
		}
		args = append(args, q.AfterID)
	}
	text := "SELECT " + t.columns + ", head FROM " + t.name +
		" INDEXED BY " + t.indexes[index.Name] +
		" WHERE " + strings.Join(where, " AND ") +
		" ORDER BY " + strings.Join(order, ", ") + " LIMIT ?"
	docs := make([]views.Doc, 0, min(q.Limit, 100))
	err := c.query(ctx, text, append(args, int64(q.Limit)), func(r row) error {
		d, err := t.doc(r)
		docs = append(docs, d)
		return err
	})
	return docs, err
}

// doc reads a row of t.columns, head and, where it was selected, body.
func (t *table) doc(r row) (d views.Doc, err error) {
	if d.ID, err = column[string](r, 0); err != nil {
		return d, err
	}
	seq, err := column[int64](r, 1)
	if err != nil {
		return d, err
	}
	d.Seq = uint64(seq)
	for i, key := range t.keys {
		if r[2+i] == nil {
			continue
		}
		v, err := r.value(2 + i)
		if err != nil {
			return d, err
		}
		if d.Keys == nil {
			d.Keys = make(views.Keys, 0, len(t.keys))
		}
		d.Keys = append(d.Keys, views.Key{Name: key, Value: v})
	}
	at := 2 + len(t.keys)
	if d.Head, err = r.blob(at); err != nil || len(r) == at+1 {
		return d, err
	}
	d.Body, err = r.blob(at + 1)
	return d, err
}
