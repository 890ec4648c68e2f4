package postgres

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"quire.dev/pkg/views"
	"quire.dev/pkg/wait"
)

const (
	// layoutVersion is the version of the tables. docs/postgres.md describes it.
	layoutVersion = 1
	minServer     = 150000 // as in server_version_num
	// maxNameBytes is the longest name that PostgreSQL does not cut.
	maxNameBytes = 63
)

var (
	// ErrNewer means that a later version of this code has changed the layout.
	ErrNewer = errors.New("the schema was written by a newer version; nothing was changed: run that version, or restore a backup made before the upgrade")
	// ErrForeign means that the schema has tables of another application.
	ErrForeign = errors.New("the schema belongs to another application; nothing was changed: choose another schema")
	// ErrOld means that the server is older than PostgreSQL 15.
	ErrOld = errors.New("PostgreSQL 15 or newer is required")
)

// prepare changes the schema to what the collections need. One process at a time does that for a schema.
func (s *Store) prepare(ctx context.Context, schema string) error {
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return failure(ctx, "connect to PostgreSQL", err)
	}
	defer conn.Release()
	if err := checkServer(ctx, conn); err != nil {
		return err
	}
	unlock, err := lock(ctx, conn, schema)
	if err != nil {
		return failure(ctx, "wait for the schema "+schema, err)
	}
	defer unlock()
	p := &preparation{store: s, conn: conn, schema: schema}
	err = p.run(ctx)
	if errors.Is(err, ErrForeign) || errors.Is(err, ErrNewer) {
		return fmt.Errorf("schema %s: %w", schema, err)
	}
	if err != nil {
		return failure(ctx, "prepare the schema "+schema, err)
	}
	return nil
}

func checkServer(ctx context.Context, conn *pgxpool.Conn) error {
	var number int
	var name string
	err := conn.QueryRow(ctx, "SELECT current_setting('server_version_num')::int, current_setting('server_version')").Scan(&number, &name)
	if err != nil {
		return failure(ctx, "ask for the version of PostgreSQL", err)
	}
	return checkVersion(number, name)
}

func checkVersion(number int, name string) error {
	if number < minServer {
		return fmt.Errorf("%w: the server has %s", ErrOld, name)
	}
	return nil
}

// lock takes the lock of the schema. It does not wait in the server: CREATE INDEX CONCURRENTLY waits for all who wait there.
func lock(ctx context.Context, conn *pgxpool.Conn, schema string) (unlock func(), err error) {
	const key = "hashtextextended($1, 1366649202)" // another application is unlikely to lock the same number
	for retry := (wait.Backoff{Initial: 10 * time.Millisecond, Max: time.Second}); ; {
		var locked bool
		if err := conn.QueryRow(ctx, "SELECT pg_try_advisory_lock("+key+")", schema).Scan(&locked); err != nil {
			return nil, err
		}
		if locked {
			break
		}
		if !retry.Wait(ctx) {
			return nil, ctx.Err()
		}
	}
	return func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), connectTimeout)
		defer cancel()
		if _, err := conn.Exec(ctx, "SELECT pg_advisory_unlock("+key+")", schema); err != nil {
			_ = conn.Conn().Close(ctx) // which unlocks too
		}
	}, nil
}

// preparation is the work of prepare, with the schema locked.
type preparation struct {
	store   *Store
	conn    *pgxpool.Conn
	schema  string
	exists  bool
	tables  map[string]bool
	indexes map[string]bool // by name: whether it is whole
	later   []string        // statements that must run outside a transaction
}

func (p *preparation) run(ctx context.Context) error {
	if err := p.look(ctx); err != nil {
		return err
	}
	if err := p.check(ctx); err != nil {
		return err
	}
	if err := pgx.BeginFunc(ctx, p.conn, func(tx pgx.Tx) error { return p.create(ctx, tx) }); err != nil {
		return err
	}
	for _, statement := range p.later {
		if _, err := p.conn.Exec(ctx, statement); err != nil {
			return fmt.Errorf("%s: %w", statement, err)
		}
	}
	return nil
}

// look finds what exists.
func (p *preparation) look(ctx context.Context) error {
	if err := p.conn.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname = $1)", p.schema).Scan(&p.exists); err != nil {
		return err
	}
	p.tables, p.indexes = map[string]bool{}, map[string]bool{}
	rows, err := p.conn.Query(ctx, "SELECT c.relname, i.indexrelid IS NOT NULL, coalesce(i.indisvalid, true)"+
		" FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace LEFT JOIN pg_index i ON i.indexrelid = c.oid WHERE n.nspname = $1", p.schema)
	if err != nil {
		return err
	}
	var name string
	var isIndex, valid bool
	_, err = pgx.ForEachRow(rows, []any{&name, &isIndex, &valid}, func() error {
		if isIndex {
			p.indexes[name] = valid
		} else {
			p.tables[name] = true
		}
		return nil
	})
	return err
}

// check refuses a schema that this version must not change.
func (p *preparation) check(ctx context.Context) error {
	if !p.tables["_layout"] {
		if len(p.tables) > 0 {
			return ErrForeign
		}
		return nil
	}
	var found int
	if err := p.conn.QueryRow(ctx, "SELECT version FROM "+p.store.name+"._layout").Scan(&found); err != nil {
		return err
	}
	if found > layoutVersion {
		return fmt.Errorf("%w (it has %d, this is %d)", ErrNewer, found, layoutVersion)
	}
	return nil
}

// create adds what is missing. Indexes of tables that exist are built later, beside the writes of other instances.
func (p *preparation) create(ctx context.Context, tx pgx.Tx) error {
	var statements []string
	name := p.store.name
	if !p.exists {
		statements = append(statements, "CREATE SCHEMA "+name)
	}
	if !p.tables["_layout"] {
		statements = append(statements,
			"CREATE TABLE "+name+"._layout (version int NOT NULL)",
			fmt.Sprintf("INSERT INTO %s._layout VALUES (%d)", name, layoutVersion),
			"CREATE TABLE "+name+"._checkpoints (stream bytea PRIMARY KEY, seq bigint NOT NULL)",
			"CREATE TABLE "+name+"._keys (collection text, key text, position int NOT NULL, PRIMARY KEY (collection, key), UNIQUE (collection, position))",
		)
	}
	for _, c := range p.store.schema.Collections() {
		if !p.tables[c.Name] {
			statements = append(statements, "CREATE TABLE "+name+"."+quote(c.Name)+
				" (id bytea, seq bigint NOT NULL, gone timestamptz, keys bytea[], head bytea, body bytea, CONSTRAINT "+quote(c.Name+".id")+" PRIMARY KEY (id))")
		}
	}
	if err := execute(ctx, tx, statements); err != nil {
		return err
	}
	for _, c := range p.store.schema.Collections() {
		if err := p.createIndexes(ctx, tx, c); err != nil {
			return err
		}
	}
	return nil
}

func execute(ctx context.Context, tx pgx.Tx, statements []string) error {
	for _, statement := range statements {
		if _, err := tx.Exec(ctx, statement); err != nil {
			return fmt.Errorf("%s: %w", statement, err)
		}
	}
	return nil
}

// createIndexes also gives new keys a position.
func (p *preparation) createIndexes(ctx context.Context, tx pgx.Tx, c views.Collection) error {
	declared := p.store.schema.Keys(c.Name)
	positions, err := p.positions(ctx, tx, c.Name, declared)
	if err != nil {
		return err
	}
	t := newTable(p.store.name, c.Name, declared, positions)
	p.store.tables[c.Name] = t
	indexes := map[string]string{c.Name + ".gone": "(gone) WHERE gone IS NOT NULL"}
	for _, index := range c.Indexes {
		// With the keys in the name, changed keys under the same name of an index create another one.
		indexes[c.Name+"."+index.Name+"."+strings.Join(index.Keys, ".")] = t.index(index)
	}
	for full, definition := range indexes {
		name := shorten(full)
		whole, exists := p.indexes[name]
		if whole {
			continue
		}
		if exists { // a process that built it was killed
			p.later = append(p.later, "DROP INDEX CONCURRENTLY "+p.store.name+"."+quote(name))
		}
		if p.tables[c.Name] {
			p.later = append(p.later, "CREATE INDEX CONCURRENTLY "+quote(name)+" ON "+t.name+" "+definition)
		} else if err := execute(ctx, tx, []string{"CREATE INDEX " + quote(name) + " ON " + t.name + " " + definition}); err != nil {
			return err
		}
	}
	return nil
}

// positions returns the positions of all keys that a collection ever had. It adds missing ones.
func (p *preparation) positions(ctx context.Context, tx pgx.Tx, collection string, declared []string) (map[string]int, error) {
	positions := map[string]int{}
	rows, err := tx.Query(ctx, "SELECT key, position FROM "+p.store.name+"._keys WHERE collection = $1", collection)
	if err != nil {
		return nil, err
	}
	var key string
	var position int
	if _, err := pgx.ForEachRow(rows, []any{&key, &position}, func() error { positions[key] = position; return nil }); err != nil {
		return nil, err
	}
	for _, key := range declared {
		if positions[key] > 0 {
			continue
		}
		positions[key] = len(positions) + 1
		if _, err := tx.Exec(ctx, "INSERT INTO "+p.store.name+"._keys VALUES ($1, $2, $3)", collection, key, positions[key]); err != nil {
			return nil, err
		}
	}
	return positions, nil
}

// index is the definition of an index: its keys, and the id.
func (t *table) index(index views.Index) string {
	columns := make([]string, 0, len(index.Keys)+1)
	for _, key := range index.Keys {
		columns = append(columns, t.key(key))
	}
	return "(" + strings.Join(append(columns, "id"), ", ") + ") WHERE " + t.present(index)
}

// shorten replaces the end of a name that is too long by a hash.
func shorten(name string) string {
	if len(name) <= maxNameBytes {
		return name
	}
	hash := sha256.Sum256([]byte(name))
	end := "." + hex.EncodeToString(hash[:8])
	return name[:maxNameBytes-len(end)] + end
}
