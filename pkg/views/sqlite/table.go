package sqlite

import (
	"context"
	"fmt"
	"math/bits"
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
	columns string   // id, seq and the keys
	heads   []string // loads without body, of 1, 2, 4 … loadChunk ids
	full    []string // likewise, with body
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
	for width := 1; width <= loadChunk; width *= 2 {
		from := " FROM " + t.name + " WHERE id IN (" + placeholders(width) + ") AND gone IS NULL"
		t.heads = append(t.heads, "SELECT "+t.columns+", head"+from)
		t.full = append(t.full, "SELECT "+t.columns+", head, body"+from)
	}
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

// write runs put or insert, and returns how many rows it changed.
func (t *table) write(c *conn, text string, d views.Doc) (int64, error) {
	s, err := c.Prepare(text)
	if err != nil {
		return 0, err
	}
	s.BindText(1, d.ID)
	s.BindInt64(2, int64(d.Seq))
	at := 3
	for _, key := range t.keys {
		if v, ok := d.Keys.Find(key); ok { // where nothing is bound is NULL
			switch v := v.Any().(type) {
			case int64:
				s.BindInt64(at, v)
			case string:
				s.BindText(at, v)
			}
		}
		at++
	}
	for i, part := range [][]byte{d.Head, d.Body} {
		if len(part) > 0 {
			s.BindBytes(at+i, part)
		}
	}
	return c.finish(s)
}

func (t *table) putDoc(c *conn, d views.Doc) error {
	_, err := t.write(c, t.put, d)
	return err
}

func (t *table) insertDoc(c *conn, d views.Doc) error {
	added, err := t.write(c, t.insert, d)
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
	texts := t.heads
	if parts == views.Full {
		texts = t.full
	}
	docs := make([]views.Doc, 0, len(ids))
	for chunk := range slices.Chunk(ids, loadChunk) {
		power := bits.Len(uint(len(chunk) - 1))
		s, err := c.Prepare(texts[power])
		if err != nil {
			return nil, err
		}
		for i := range 1 << power {
			s.BindText(i+1, chunk[min(i, len(chunk)-1)])
		}
		err = rows(ctx, s, func(r row) error {
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
	if d.ID, err = r.text(0); err != nil {
		return d, err
	}
	seq, err := r.integer(1)
	if err != nil {
		return d, err
	}
	d.Seq = uint64(seq)
	for i, key := range t.keys {
		if r.ColumnIsNull(2 + i) {
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
	if d.Head, err = r.blob(at); err != nil || r.DataCount() == at+1 {
		return d, err
	}
	d.Body, err = r.blob(at + 1)
	return d, err
}
