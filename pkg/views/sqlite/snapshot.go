package sqlite

import (
	"context"
	"errors"

	"quire.dev/pkg/views"
)

// snapshot is a views.Snapshot: a transaction of a connection of its own, which sees nothing that is committed later. The write-ahead log
// grows while it is open.
type snapshot struct {
	path   string
	conn   *conn
	schema views.Schema
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
	s := &snapshot{path: path, conn: c, schema: schema}
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
		all[stream] = uint64(n)
		return err
	})
	if err != nil {
		return nil, describe("read the checkpoints", s.path, err)
	}
	return all, nil
}

// Each implements views.Snapshot.
func (s *snapshot) Each(ctx context.Context, collection string, take func(views.Doc) error) error {
	keys, err := readKeys(ctx, s.conn, collection)
	if err != nil {
		return describe("read "+collection, s.path, err)
	}
	t := newTable(views.Collection{Name: collection}, keys, nil)
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
