package postgres

import (
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"quire.dev/pkg/num"
	"quire.dev/pkg/views"
)

// table holds the statements of one collection.
//
// A document is a row: id, seq, gone, keys, head, body. A deleted document is a row with gone, the time of its deletion, and
// neither keys nor contents. keys is an array with a position for each key that was ever declared. So a version that doesn't
// know a key leaves the document out of the key's indexes when it writes it, and a new key changes no table.
type table struct {
	name      string   // quoted, with the schema
	keys      []string // the declared ones
	positions map[string]int
	loads     [2]string // by views.Parts
	put       string
	insert    string
}

func quote(name string) string { return `"` + name + `"` }

// newTable builds the statements. Positions begin with 1, as in PostgreSQL.
func newTable(schema, collection string, keys []string, positions map[string]int) *table {
	t := &table{name: schema + "." + quote(collection), keys: keys, positions: positions}
	const columns = "id, seq, keys, head"
	t.loads[views.Heads] = "SELECT " + columns + " FROM " + t.name + " WHERE id = ANY($1) AND gone IS NULL"
	t.loads[views.Full] = "SELECT " + columns + ", body FROM " + t.name + " WHERE id = ANY($1) AND gone IS NULL"

	// Parameters: arrays of the ids, sequences, deletions, heads, bodies, and of each declared key.
	last := 0
	for _, key := range keys {
		last = max(last, positions[key])
	}
	elements := make([]string, last)
	for i := range elements {
		elements[i] = "NULL"
	}
	arrays, names := "$1::bytea[], $2::bigint[], $3::timestamptz[], $4::bytea[], $5::bytea[]", "id, seq, gone, head, body"
	for i, key := range keys {
		arrays += fmt.Sprintf(", $%d::bytea[]", i+6)
		names += fmt.Sprintf(", k%d", i)
		elements[positions[key]-1] = fmt.Sprintf("k%d", i)
	}
	write := "INSERT INTO " + t.name + " AS stored (id, seq, gone, keys, head, body)" +
		" SELECT id, seq, gone, CASE WHEN gone IS NULL THEN ARRAY[" + strings.Join(elements, ", ") + "]::bytea[] END, head, body" +
		" FROM unnest(" + arrays + ") AS given (" + names + ")" +
		" ON CONFLICT (id) DO UPDATE SET seq = excluded.seq, gone = excluded.gone, keys = excluded.keys, head = excluded.head, body = excluded.body WHERE "
	t.put = write + "excluded.seq > stored.seq OR excluded.seq = stored.seq AND (excluded.gone IS NOT NULL OR stored.gone IS NULL)"
	t.insert = write + "stored.gone IS NOT NULL AND excluded.seq >= stored.seq"
	return t
}

// arguments returns the parameters of put and insert.
func (t *table) arguments(changes []change) []any {
	n := len(changes)
	ids, seqs, gone, heads, bodies := make([][]byte, n), make([]int64, n), make([]*time.Time, n), make([][]byte, n), make([][]byte, n)
	args := []any{ids, seqs, gone, heads, bodies}
	for i, c := range changes {
		ids[i], seqs[i] = []byte(c.Doc.ID), num.Int64(c.Doc.Seq)
		if c.Deleted {
			gone[i] = &changes[i].gone
		}
		heads[i], bodies[i] = content(c.Doc.Head), content(c.Doc.Body)
	}
	for _, key := range t.keys {
		values := make([][]byte, n)
		for i, c := range changes {
			if v, ok := c.Doc.Keys.Find(key); ok {
				values[i] = encodeValue(v)
			}
		}
		args = append(args, values)
	}
	return args
}

// content is nil, which is NULL, for empty contents.
func content(b []byte) []byte {
	if len(b) == 0 {
		return nil
	}
	return b
}

// key is the expression of an index key.
func (t *table) key(name string) string { return "(keys[" + strconv.Itoa(t.positions[name]) + "])" }

// present is the condition of the rows in an index.
func (t *table) present(index views.Index) string {
	var conditions []string
	for _, key := range index.Keys {
		conditions = append(conditions, t.key(key)+" IS NOT NULL")
	}
	return strings.Join(conditions, " AND ")
}

// list returns the query of a page and its parameters.
func (t *table) list(index views.Index, q views.Query) (text string, args []any) {
	direction, compare := "", ">"
	if q.Desc {
		direction, compare = " DESC", "<"
	}
	parameter := func(value any) string {
		args = append(args, value)
		return "$" + strconv.Itoa(len(args))
	}
	where := t.present(index) + " AND gone IS NULL"
	var position, order []string
	for i, key := range index.Keys {
		if i < len(q.Equal) {
			where += " AND " + t.key(key) + " = " + parameter(encodeValue(q.Equal[i]))
			continue
		}
		position = append(position, t.key(key))
		order = append(order, t.key(key)+direction)
	}
	position, order = append(position, "id"), append(order, "id"+direction)
	if len(q.After) > 0 || q.AfterID != "" {
		var after []string
		for _, v := range q.After {
			after = append(after, parameter(encodeValue(v)))
		}
		after = append(after, parameter([]byte(q.AfterID)))
		where += " AND (" + strings.Join(position, ", ") + ") " + compare + " (" + strings.Join(after, ", ") + ")"
	}
	text = "SELECT id, seq, keys, head FROM " + t.name + " WHERE " + where + " ORDER BY " + strings.Join(order, ", ") + " LIMIT " + parameter(int64(q.Limit))
	return text, args
}

// docs reads and closes the rows of a query.
func (t *table) docs(rows pgx.Rows, parts views.Parts) (docs []views.Doc, err error) {
	err = t.each(rows, parts, func(d views.Doc) error {
		docs = append(docs, d)
		return nil
	})
	return docs, err
}

// each calls take for every row, and closes them.
func (t *table) each(rows pgx.Rows, parts views.Parts, take func(views.Doc) error) error {
	var id []byte
	var seq int64
	var keys [][]byte
	var d views.Doc
	columns := []any{&id, &seq, &keys, &d.Head}
	if parts == views.Full {
		columns = append(columns, &d.Body)
	}
	_, err := pgx.ForEachRow(rows, columns, func() error {
		d.ID, d.Seq, d.Keys = string(id), num.Uint64(seq), nil
		for _, key := range t.keys {
			at := t.positions[key] - 1
			if at >= len(keys) || keys[at] == nil {
				continue
			}
			v, err := decodeValue(keys[at])
			if err != nil {
				return fmt.Errorf("key %s of %q: %w", key, d.ID, err)
			}
			d.Keys = append(d.Keys, views.Key{Name: key, Value: v})
		}
		taken := d
		d.Head, d.Body = nil, nil
		return take(taken)
	})
	return err
}

// Encoded values begin with their type, and sort by bytes as views.Value.Compare does.
const (
	integerType = 'i'
	stringType  = 's'
)

func encodeValue(v views.Value) []byte {
	switch v := v.Any().(type) {
	case int64:
		return binary.BigEndian.AppendUint64([]byte{integerType}, num.Bits(v)^1<<63)
	case string:
		return append([]byte{stringType}, v...)
	default:
		panic("postgres: a value is neither an int64 nor a string")
	}
}

func decodeValue(b []byte) (views.Value, error) {
	switch {
	case len(b) == 9 && b[0] == integerType:
		return views.Int(num.FromBits(binary.BigEndian.Uint64(b[1:]) ^ 1<<63)), nil
	case len(b) > 0 && b[0] == stringType:
		return views.String(string(b[1:])), nil
	default:
		return views.Value{}, fmt.Errorf("%q is not a value", b)
	}
}
