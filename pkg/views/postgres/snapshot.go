package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"quire.dev/pkg/num"
	"quire.dev/pkg/views"
)

// snapshot is a views.Snapshot: a transaction that sees nothing that is committed later.
type snapshot struct {
	name   string // quoted, of the schema
	conn   *pgx.Conn
	tx     pgx.Tx
	schema views.Schema
	tables map[string]*table // that were read
	listed bool              // the planner is to use indexes
}

// scans are the settings that let the planner do without an index.
func scans() []string { return []string{"enable_seqscan", "enable_bitmapscan", "enable_sort"} }

// OpenSnapshot opens an existing schema as of this moment. It needs the right to read its tables. Of Config it uses URL, Schema and
// Collections.
func OpenSnapshot(ctx context.Context, config Config) (views.Snapshot, error) {
	schema, err := views.NewSchema(config.Collections)
	if err != nil {
		return nil, err
	}
	settings, err := poolSettings(config)
	if err != nil {
		return nil, fmt.Errorf("%w: connect to PostgreSQL: %w", views.ErrInvalid, err)
	}
	// A scan needs no order, and may be idle while its documents are stored. List changes the plan.
	for _, name := range append(scans(), "idle_in_transaction_session_timeout") {
		delete(settings.ConnConfig.RuntimeParams, name)
	}
	conn, err := pgx.ConnectConfig(ctx, settings.ConnConfig)
	if err != nil {
		return nil, failure(ctx, "connect to PostgreSQL", err)
	}
	s := &snapshot{name: quote(config.Schema), conn: conn, schema: schema, tables: map[string]*table{}}
	s.tx, err = conn.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly})
	if err == nil {
		_, err = s.Checkpoints(ctx) // the first read fixes the moment
	}
	if err != nil {
		return nil, errors.Join(failure(ctx, "read the schema "+config.Schema, err), s.Close())
	}
	return s, nil
}

// Checkpoints implements views.Snapshot.
func (s *snapshot) Checkpoints(ctx context.Context) (map[string]uint64, error) {
	all := map[string]uint64{}
	rows, err := s.tx.Query(ctx, "SELECT stream, seq FROM "+s.name+"._checkpoints")
	if err != nil {
		return nil, failure(ctx, "read the checkpoints", err)
	}
	var stream []byte
	var seq int64
	if _, err := pgx.ForEachRow(rows, []any{&stream, &seq}, func() error { all[string(stream)] = num.Uint64(seq); return nil }); err != nil {
		return nil, failure(ctx, "read the checkpoints", err)
	}
	return all, nil
}

// Each implements views.Snapshot.
func (s *snapshot) Each(ctx context.Context, collection string, take func(views.Doc) error) error {
	what := "read " + collection
	t, err := s.table(ctx, collection)
	if err == nil {
		err = s.plan(ctx, false)
	}
	if err != nil {
		return failure(ctx, what, err)
	}
	rows, err := s.tx.Query(ctx, "SELECT id, seq, keys, head, body FROM "+t.name+" WHERE gone IS NULL")
	if err != nil {
		return failure(ctx, what, err)
	}
	var taken error
	err = t.each(rows, views.Full, func(d views.Doc) error {
		taken = take(d)
		return taken
	})
	if taken != nil {
		return taken
	}
	if err != nil {
		return failure(ctx, what, err)
	}
	return nil
}

// table has the collection's statements.
func (s *snapshot) table(ctx context.Context, collection string) (*table, error) {
	if t := s.tables[collection]; t != nil {
		return t, nil
	}
	positions := map[string]int{}
	rows, err := s.tx.Query(ctx, "SELECT key, position FROM "+s.name+"._keys WHERE collection = $1", collection)
	if err != nil {
		return nil, err
	}
	var key string
	var position int
	if _, err := pgx.ForEachRow(rows, []any{&key, &position}, func() error { positions[key] = position; return nil }); err != nil {
		return nil, err
	}
	var declared []string
	for _, key := range s.schema.Keys(collection) {
		if positions[key] > 0 {
			declared = append(declared, key)
		}
	}
	s.tables[collection] = newTable(s.name, collection, declared, positions)
	return s.tables[collection], nil
}

// plan has the planner use indexes, or whatever it takes for the best.
func (s *snapshot) plan(ctx context.Context, indexes bool) error {
	if s.listed == indexes {
		return nil
	}
	value := map[bool]string{true: "off", false: "on"}[indexes]
	for _, name := range scans() {
		if _, err := s.tx.Exec(ctx, "SET LOCAL "+name+" = "+value); err != nil {
			return err
		}
	}
	s.listed = indexes
	return nil
}

// Load implements views.Snapshot.
func (s *snapshot) Load(ctx context.Context, collection string, ids []string, parts views.Parts) ([]views.Doc, error) {
	if err := s.schema.CheckLoad(collection, ids); err != nil || len(ids) == 0 {
		return nil, err
	}
	wanted := make([][]byte, len(ids))
	for i, id := range ids {
		wanted[i] = []byte(id)
	}
	return s.query(ctx, collection, parts, func(t *table) (string, []any) { return t.loads[parts], []any{wanted} })
}

// List implements views.Snapshot.
func (s *snapshot) List(ctx context.Context, collection string, q views.Query) ([]views.Doc, error) {
	index, err := s.schema.CheckQuery(collection, q)
	if err != nil {
		return nil, err
	}
	return s.query(ctx, collection, views.Heads, func(t *table) (string, []any) { return t.list(index, q) })
}

func (s *snapshot) query(ctx context.Context, collection string, parts views.Parts, text func(*table) (string, []any)) ([]views.Doc, error) {
	t, err := s.table(ctx, collection)
	if err == nil {
		err = s.plan(ctx, true)
	}
	var rows pgx.Rows
	if err == nil {
		query, args := text(t)
		rows, err = s.tx.Query(ctx, query, args...)
	}
	var docs []views.Doc
	if err == nil {
		docs, err = t.docs(rows, parts)
	}
	if err != nil {
		return nil, failure(ctx, "read "+collection, err)
	}
	return docs, nil
}

// closeWait bounds the farewell to the server.
const closeWait = 5 * time.Second

// Close implements views.Snapshot. The end of the connection ends the transaction.
func (s *snapshot) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), closeWait)
	defer cancel()
	return s.conn.Close(ctx)
}
