package sqlite

import (
	"context"
	"errors"
	"fmt"

	"quire.dev/pkg/num"
	"quire.dev/pkg/views"
)

// snapshot is a views.Snapshot: a transaction on a dedicated connection, which sees no later commits. The write-ahead log grows while it is
// open.
type snapshot struct {
	path   string
	conn   *conn
	schema views.Schema
	tables map[string]*table // that were read
}

// OpenSnapshot opens the file at path as of this moment, without writing to it. A store, in this process or another, must have the
// file open.
func OpenSnapshot(ctx context.Context, path string, collections []views.Collection) (views.Snapshot, error) {
	schema, err := views.NewSchema(collections)
	if err != nil {
		return nil, err
	}
	c, err := connect(path, readOnly, append(readerPragmas(), cellSizeCheck))
	if err != nil {
		return nil, describe("open "+path, path, err)
	}
	s := &snapshot{path: path, conn: c, schema: schema, tables: map[string]*table{}}
	if _, err = c.exec("BEGIN"); err == nil {
		_, err = s.Checkpoints(ctx) // the first read fixes the moment
	}
	if err != nil {
		return nil, errors.Join(describe("open "+path, path, err), c.Close())
	}
	return s, nil
}

// Checkpoints implements views.Snapshot.
func (s *snapshot) Checkpoints(ctx context.Context) (map[string]uint64, error) {
	all := map[string]uint64{}
	err := s.conn.query(ctx, `SELECT stream, seq FROM "checkpoints"`, nil, func(r row) error {
		stream, err := r.text(0)
		if err != nil {
			return err
		}
		n, err := r.integer(1)
		all[stream] = num.Uint64(n)
		return err
	})
	if err != nil {
		return nil, describe("read the checkpoints", s.path, err)
	}
	return all, nil
}

// Each implements views.Snapshot.
func (s *snapshot) Each(ctx context.Context, collection string, take func(views.Doc) error) error {
	t, err := s.table(ctx, collection)
	if err != nil {
		return describe("read "+collection, s.path, err)
	}
	var taken error
	err = s.conn.query(ctx, "SELECT "+t.columns+", head, body FROM "+t.name+" WHERE gone IS NULL", nil, func(r row) error {
		d, err := t.doc(r)
		if err != nil {
			return err
		}
		taken = take(s.declared(collection, d))
		return taken
	})
	if taken != nil {
		return taken
	}
	if err != nil {
		return describe("read "+collection, s.path, err)
	}
	return nil
}

// table has the collection's statements.
func (s *snapshot) table(ctx context.Context, collection string) (*table, error) {
	if t := s.tables[collection]; t != nil {
		return t, nil
	}
	keys, err := readKeys(ctx, s.conn, collection)
	if err != nil {
		return nil, err
	}
	for _, c := range s.schema.Collections() {
		if c.Name == collection {
			s.tables[collection] = newTable(c, keys, nil)
			return s.tables[collection], nil
		}
	}
	return nil, fmt.Errorf("%w: unknown collection %q", views.ErrInvalid, collection)
}

// Load implements views.Snapshot.
func (s *snapshot) Load(ctx context.Context, collection string, ids []string, parts views.Parts) ([]views.Doc, error) {
	if err := s.schema.CheckLoad(collection, ids); err != nil || len(ids) == 0 {
		return nil, err
	}
	t, err := s.table(ctx, collection)
	if err == nil && t.ids.fresh == nil {
		_, err = t.readIDs(ctx, s.conn, hashOf)
	}
	var docs []views.Doc
	if err == nil {
		docs, err = t.load(ctx, s.conn, ids, parts)
	}
	return s.found(collection, docs, err)
}

// List implements views.Snapshot.
func (s *snapshot) List(ctx context.Context, collection string, q views.Query) ([]views.Doc, error) {
	index, err := s.schema.CheckQuery(collection, q)
	if err != nil {
		return nil, err
	}
	t, err := s.table(ctx, collection)
	var docs []views.Doc
	if err == nil {
		docs, err = t.list(ctx, s.conn, index, q)
	}
	return s.found(collection, docs, err)
}

func (s *snapshot) found(collection string, docs []views.Doc, err error) ([]views.Doc, error) {
	if err != nil {
		return nil, describe("read "+collection, s.path, err)
	}
	for i := range docs {
		docs[i] = s.declared(collection, docs[i])
	}
	return docs, nil
}

// declared drops the keys that no index has any more.
func (s *snapshot) declared(collection string, d views.Doc) views.Doc {
	keys := d.Keys
	d.Keys = nil
	for _, name := range s.schema.Keys(collection) {
		if v, ok := keys.Find(name); ok {
			d.Keys = append(d.Keys, views.Key{Name: name, Value: v})
		}
	}
	return d
}

// Close implements views.Snapshot.
func (s *snapshot) Close() error { return s.conn.Close() }
