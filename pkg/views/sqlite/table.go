package sqlite

import (
	"context"
	"fmt"
	"math/bits"
	"slices"
	"strings"

	"quire.dev/pkg/num"
	"quire.dev/pkg/views"
)

// table holds the statements of one collection.
//
// A document is a row: number, id, seq, gone, a column for each key, head, body. The body comes last, so that its overflow
// pages are read only on request. Numbers increase with time. A deleted document is a row with gone, the Unix second of its
// deletion, and neither keys nor contents. ids finds the row of an id.
type table struct {
	collection string
	name       string
	indexes    map[string]string // quoted names
	keys       []string          // the declared ones
	ids        ids

	add    string // adds a row
	put    string // changes a row
	insert string // replaces the row of a deleted document
	remove string // marks a row as deleted
	gone   string // adds the row of a deleted document
	old    string // selects rows deleted before a time
	drop   string // removes a row
	dropID string // removes its entry in the index of ids

	isRow, findRow      string   // find the row of an id, by number and by hash
	above               string   // selects the rows after a number
	addIDs              []string // add 1, 2, 4 … indexChunk entries to the index
	readMark, writeMark string

	columns string         // id, seq and the keys
	loads   [2][2][]string // by numbers or hashes, and by views.Parts: for 1, 2, 4 … loadChunk of them
}

// Indexes of table.loads.
const (
	byNumber = iota
	byHash
)

func quote(name string) string { return `"` + name + `"` }

func tableName(collection string) string { return "doc." + collection }

func keyColumn(key string) string { return "k." + key }

func idsName(collection string) string { return "ids." + collection }

func goneIndex(collection string) string { return "gone." + collection }

func indexName(collection, index string) string { return "ix." + collection + "." + index }

// newTable builds the statements. Writing a document clears the columns of
// undeclared keys, which no index declares any more.
func newTable(collection views.Collection, keys, undeclared []string) *table {
	t := &table{collection: collection.Name, name: quote(tableName(collection.Name)), keys: keys, indexes: map[string]string{}}
	for _, index := range collection.Indexes {
		t.indexes[index.Name] = quote(indexName(collection.Name, index.Name))
	}
	names := []string{"id", "seq"}
	for _, key := range keys {
		names = append(names, quote(keyColumn(key)))
	}
	t.columns = strings.Join(names, ", ")
	t.prepareIDs()
	t.prepareLoads(quote(idsName(collection.Name)))

	// The parameters of all writing statements are the number, the id, the seq, the keys, head and body, in this order.
	names = append(append([]string{"number"}, names...), "head", "body")
	set := []string{"seq = ?3"}
	emptied := []string{"seq = ?3"}
	for i, name := range names[3:] {
		set = append(set, fmt.Sprintf("%s = ?%d", name, i+4))
		emptied = append(emptied, name+" = NULL")
	}
	for _, key := range undeclared {
		set = append(set, quote(keyColumn(key))+" = NULL")
		emptied = append(emptied, quote(keyColumn(key))+" = NULL")
	}
	t.add = "INSERT INTO " + t.name + " (" + strings.Join(names, ", ") + ") VALUES (" + placeholders(len(names)) + ")"
	change := "UPDATE " + t.name + " SET " + strings.Join(set, ", ") + ", gone = NULL WHERE number = ?1 AND "
	t.put = change + "(?3 > seq OR ?3 = seq AND gone IS NULL)"
	t.insert = change + "gone IS NOT NULL AND ?3 >= seq"
	t.gone = "INSERT INTO " + t.name + " (number, id, seq, gone) VALUES (?, ?, ?, ?)"
	t.remove = "UPDATE " + t.name + " SET " + strings.Join(emptied, ", ") + ", gone = ?4 WHERE number = ?1 AND ?3 >= seq"
	return t
}

// prepareIDs builds the statements that find and remove rows.
func (t *table) prepareIDs() {
	index := quote(idsName(t.collection))
	t.isRow = "SELECT number FROM " + t.name + " WHERE number = ? AND id = ?"
	t.findRow = "SELECT d.number FROM " + index + " AS i CROSS JOIN " + t.name + " AS d ON d.number = i.number WHERE i.hash = ? AND d.id = ?"
	t.above = "SELECT number, id FROM " + t.name + " WHERE number > ? ORDER BY number"
	for width := 1; width <= indexChunk; width *= 2 {
		t.addIDs = append(t.addIDs, "INSERT OR IGNORE INTO "+index+" VALUES "+repeat("(?, ?)", width))
	}
	t.readMark = `SELECT coalesce(max(number), 0) FROM "moved" WHERE collection = ?`
	t.writeMark = `INSERT INTO "moved" VALUES (?, ?) ON CONFLICT DO UPDATE SET number = excluded.number`
	t.old = "SELECT number, id FROM " + t.name + " WHERE gone < ? LIMIT ?"
	t.drop = "DELETE FROM " + t.name + " WHERE number = ?"
	t.dropID = "DELETE FROM " + index + " WHERE hash = ? AND number = ?"
}

// prepareLoads builds the statements of load.
func (t *table) prepareLoads(index string) {
	for parts, columns := range []string{views.Heads: t.columns + ", head", views.Full: t.columns + ", head, body"} {
		for width := 1; width <= loadChunk; width *= 2 {
			in := " IN (" + placeholders(width) + ") AND gone IS NULL"
			t.loads[byNumber][parts] = append(t.loads[byNumber][parts], "SELECT "+columns+" FROM "+t.name+" WHERE number"+in)
			t.loads[byHash][parts] = append(t.loads[byHash][parts],
				"SELECT "+columns+" FROM "+index+" AS i CROSS JOIN "+t.name+" AS d ON d.number = i.number WHERE i.hash"+in)
		}
	}
}

func placeholders(n int) string { return repeat("?", n) }

// repeat lists a text n times.
func repeat(text string, n int) string {
	return strings.TrimSuffix(strings.Repeat(text+", ", n), ", ")
}

// write runs put or insert for a document with a row, or else adds one. It returns the number of rows changed.
func (t *table) write(c *conn, text string, d views.Doc) (int64, error) {
	at, found, err := t.locate(c, d.ID)
	switch {
	case err != nil:
		return 0, err
	case !found:
		return 1, t.addDoc(c, at, d)
	}
	return t.run(c, text, at, d)
}

// addDoc adds the row of a document.
func (t *table) addDoc(c *conn, at entry, d views.Doc) error {
	if _, err := t.run(c, t.add, at, d); err != nil {
		return err
	}
	return t.addID(c, at)
}

// run runs add, put or insert, and returns the number of rows changed.
func (t *table) run(c *conn, text string, at entry, d views.Doc) (int64, error) {
	s, err := c.Prepare(text)
	if err != nil {
		return 0, err
	}
	s.BindInt64(1, at.number)
	s.BindText(2, d.ID)
	s.BindInt64(3, num.Int64(d.Seq))
	column := 4
	for _, key := range t.keys {
		if v, ok := d.Keys.Find(key); ok { // else NULL
			switch v := v.Any().(type) {
			case int64:
				s.BindInt64(column, v)
			case string:
				s.BindText(column, v)
			}
		}
		column++
	}
	for i, part := range [][]byte{d.Head, d.Body} {
		if len(part) > 0 {
			s.BindBytes(column+i, part)
		}
	}
	return c.finish(s)
}

// addID adds the id of a new row to the index.
func (t *table) addID(c *conn, at entry) error {
	if t.ids.stage(at.hash, at.number) {
		return nil
	}
	return t.index(c, []entry{at})
}

func (t *table) putDoc(c *conn, p views.Put) error {
	if p.New {
		hash := t.ids.hash(p.Doc.ID)
		if _, taken := t.ids.candidate(hash); !taken {
			return t.addDoc(c, t.ids.next(hash), p.Doc)
		}
	}
	_, err := t.write(c, t.put, p.Doc)
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
	at, found, err := t.locate(c, d.ID)
	if err != nil {
		return err
	}
	text := t.gone
	if found {
		text = t.remove
	}
	if _, err := c.exec(text, at.number, d.ID, num.Int64(d.Seq), gone); err != nil || found {
		return err
	}
	return t.addID(c, at)
}

// sweep removes at most limit rows of documents deleted before a time. It returns the rows, which the caller passes to
// ids.forget after the commit.
func (t *table) sweep(c *conn, before int64, limit int) (rows []entry, err error) {
	err = c.query(context.Background(), t.old, []any{before, int64(limit)}, func(r row) error {
		number, err := r.integer(0)
		if err != nil {
			return err
		}
		id, err := r.text(1)
		rows = append(rows, entry{t.ids.hash(id), number})
		return err
	})
	if err != nil {
		return nil, err
	}
	for _, row := range rows {
		if _, err := c.exec(t.drop, row.number); err != nil {
			return nil, err
		}
		if _, err := c.exec(t.dropID, row.hash, row.number); err != nil {
			return nil, err
		}
	}
	return rows, nil
}

// loadChunk bounds the ids of one statement. Shorter lists are padded to a
// power of two, which limits the number of statements.
const loadChunk = 64

// load returns the documents with these ids. It looks in memory first and then in the index, so that it finds an id being
// moved.
func (t *table) load(ctx context.Context, c *conn, wanted []string, parts views.Parts) ([]views.Doc, error) {
	if len(wanted) > 1 { // a duplicate might be found in both
		wanted = slices.Compact(slices.Sorted(slices.Values(wanted)))
	}
	found := make([]views.Doc, 0, len(wanted))
	for chunk := range slices.Chunk(wanted, loadChunk) {
		var fresh, indexed []string
		var numbers, hashes []int64 // of those
		for _, id := range chunk {
			hash := t.ids.hash(id)
			if number, ok := t.ids.candidate(hash); ok {
				fresh, numbers = append(fresh, id), append(numbers, number)
			} else {
				indexed, hashes = append(indexed, id), append(hashes, hash)
			}
		}
		docs, err := t.loadSet(ctx, c, t.loads[byNumber][parts], numbers, fresh)
		if err != nil {
			return nil, err
		}
		found = append(found, docs...)
		if len(docs) < len(fresh) { // deleted, or the id is in the index and its hash equals a fresh one
			for _, id := range fresh {
				if !slices.ContainsFunc(docs, func(d views.Doc) bool { return d.ID == id }) {
					indexed, hashes = append(indexed, id), append(hashes, t.ids.hash(id))
				}
			}
		}
		if docs, err = t.loadSet(ctx, c, t.loads[byHash][parts], hashes, indexed); err != nil {
			return nil, err
		}
		found = append(found, docs...)
	}
	return found, nil
}

// loadSet runs the statement of texts for this number of values, and returns the rows whose ids are wanted.
func (t *table) loadSet(ctx context.Context, c *conn, texts []string, values []int64, wanted []string) (docs []views.Doc, err error) {
	if len(values) == 0 {
		return nil, nil
	}
	power := bits.Len(uint(len(values) - 1))
	s, err := c.Prepare(texts[power])
	if err != nil {
		return nil, err
	}
	for i := range 1 << power {
		s.BindInt64(i+1, values[min(i, len(values)-1)])
	}
	docs = make([]views.Doc, 0, len(values))
	err = rows(ctx, s, func(r row) error {
		d, err := t.doc(r)
		if slices.Contains(wanted, d.ID) {
			docs = append(docs, d)
		}
		return err
	})
	return docs, err
}

func (t *table) list(ctx context.Context, c *conn, index views.Index, q views.Query) ([]views.Doc, error) {
	direction, compare := "", ">"
	if q.Desc {
		direction, compare = " DESC", "<"
	}
	where := []string{"gone IS NULL"} // as in load
	var position, order []string
	var args []any
	for i, key := range index.Keys {
		column := quote(keyColumn(key))
		if i < len(q.Equal) {
			where = append(where, column+" = ?")
			args = append(args, q.Equal[i].Any())
			continue
		}
		// Shows SQLite that the partial index covers the query.
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

// doc reads a row of t.columns, head and, if selected, body.
func (t *table) doc(r row) (d views.Doc, err error) {
	if d.ID, err = r.text(0); err != nil {
		return d, err
	}
	seq, err := r.integer(1)
	if err != nil {
		return d, err
	}
	d.Seq = num.Uint64(seq)
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
