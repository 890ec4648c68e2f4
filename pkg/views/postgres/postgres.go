// Package postgres keeps read models in PostgreSQL 15 or newer, one schema for each service.
//
// A batch is one transaction: it moves the checkpoint and writes the documents of a collection with one statement for many of
// them. Readers see whole batches only. Ids, streams and keys are bytea, which sorts by bytes whatever the collation of the
// database, and holds every string, even with NUL. docs/postgres.md describes the tables.
//
// Calls go to the server that takes writes. An acknowledged write is on its disk, and on its synchronous standby's disk if it has one.
package postgres

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"quire.dev/pkg/num"
	"quire.dev/pkg/views"
)

const (
	defaultTimeout = 10 * time.Second
	// connectTimeout bounds one attempt to connect to one host, unless the URL has connect_timeout.
	connectTimeout = 3 * time.Second
	// defaultConns is the size of the pool, unless the URL has pool_max_conns. A write holds a connection until its COMMIT is
	// answered, which may take until a standby returns, so reads keep a third for themselves.
	defaultConns = 12
	// commitLimit bounds a COMMIT whose caller has stopped waiting.
	commitLimit = 10 * time.Minute
	// tombstoneAge is how long a deletion is remembered: longer than any commit in progress with an older state of the
	// document.
	tombstoneAge  = time.Hour
	sweepInterval = 5 * time.Minute
)

// Config is the address of the server and the schema.
type Config struct {
	URL         string // postgres://user:password@host,host/database, with the options of pgxpool.ParseConfig
	Schema      string // named like a views.Collection; created if missing
	Collections []views.Collection
	// AsOwner makes an administrator act as the role with the schema's name, if there is one, so that tables belong to it.
	AsOwner bool
	Timeout time.Duration    // of a call whose context has no deadline; 0: 10 s
	Logger  *slog.Logger     // of the failures of Run; nil: silent
	Now     func() time.Time // ages deletions; nil: time.Now

	tracer pgx.QueryTracer // for tests, which interrupt calls
}

// Store is a views.Store in one schema of a database.
type Store struct {
	schema  views.Schema
	pool    *pgxpool.Pool
	name    string // of the schema, quoted
	tables  map[string]*table
	logger  *slog.Logger
	now     func() time.Time
	timeout time.Duration
	writers chan struct{} // a slot for each transaction
	commits context.Context
	close   func()
}

var _ views.Store = (*Store)(nil)

// Open connects, and creates the schema and its missing tables and indexes. Indexes that are no longer declared stay, since
// instances of an older version may still use them.
//
// A schema of another application (ErrForeign) or of a newer layout (ErrNewer) is left unchanged.
func Open(ctx context.Context, config Config) (*Store, error) {
	schema, err := views.NewSchema(config.Collections)
	if err != nil {
		return nil, err
	}
	if _, err := views.NewSchema([]views.Collection{{Name: config.Schema}}); err != nil {
		return nil, fmt.Errorf("schema of PostgreSQL: %w", err)
	}
	settings, err := poolSettings(config)
	if err != nil {
		return nil, fmt.Errorf("%w: connect to PostgreSQL: %w", views.ErrInvalid, err)
	}
	pool, err := pgxpool.NewWithConfig(ctx, settings)
	if err != nil {
		return nil, failure(ctx, "connect to PostgreSQL", err)
	}
	s := &Store{
		schema: schema, pool: pool, name: quote(config.Schema), tables: map[string]*table{},
		logger: config.Logger, now: config.Now, timeout: config.Timeout,
		writers: make(chan struct{}, max(1, settings.MaxConns*2/3)),
	}
	if s.logger == nil {
		s.logger = slog.New(slog.DiscardHandler)
	}
	if s.now == nil {
		s.now = time.Now
	}
	if s.timeout <= 0 {
		s.timeout = defaultTimeout
	}
	commits, abort := context.WithCancel(context.WithoutCancel(ctx))
	s.commits = commits
	s.close = sync.OnceFunc(func() {
		grace := time.AfterFunc(s.timeout, abort)
		pool.Close() // waits for calls in progress
		grace.Stop()
		abort()
	})
	if err := s.prepare(ctx, config.Schema); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

// poolSettings returns the settings of the URL, with those that Quire depends on overridden.
func poolSettings(config Config) (*pgxpool.Config, error) {
	given, err := pgx.ParseConfig(config.URL)
	if err != nil {
		return nil, err
	}
	settings, err := pgxpool.ParseConfig(config.URL)
	if err != nil {
		return nil, err
	}
	if given.RuntimeParams["pool_max_conns"] == "" {
		settings.MaxConns = defaultConns
	}
	set := settings.ConnConfig.RuntimeParams
	for name, value := range map[string]string{
		"synchronous_commit": "on", // not less, whatever the server's default is
		// Every query has an index that has its order. A planner without statistics might choose another plan.
		"enable_seqscan": "off", "enable_bitmapscan": "off", "enable_sort": "off", "jit": "off",
		"work_mem": "16MB", // twice a chunk
		// Without these a lost client's transaction would keep its locks for hours.
		"idle_in_transaction_session_timeout": "60s", "client_connection_check_interval": "5s",
		"tcp_keepalives_idle": "10", "tcp_keepalives_interval": "5", "tcp_keepalives_count": "3", "tcp_user_timeout": "30000",
	} {
		set[name] = value
	}
	if set["application_name"] == "" {
		set["application_name"] = config.Schema
	}
	if settings.ConnConfig.ConnectTimeout == 0 {
		settings.ConnConfig.ConnectTimeout = connectTimeout
	}
	dialer := net.Dialer{KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 10 * time.Second, Interval: 5 * time.Second, Count: 3}}
	settings.ConnConfig.DialFunc = dialer.DialContext
	settings.ConnConfig.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsReadWrite
	settings.ConnConfig.OnNotice = noteWarning
	settings.ConnConfig.Tracer = config.tracer
	if config.AsOwner {
		settings.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error { return becomeOwner(ctx, conn, config.Schema) }
	}
	return settings, nil
}

// becomeOwner changes the role of a connection to the owner of a schema.
func becomeOwner(ctx context.Context, conn *pgx.Conn, schema string) error {
	var exists bool
	if err := conn.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_roles WHERE rolname = $1)", schema).Scan(&exists); err != nil || !exists {
		return err
	}
	_, err := conn.Exec(ctx, "SET ROLE "+quote(schema))
	return err
}

// failure wraps an error of the driver.
func failure(ctx context.Context, what string, err error) error {
	if cause := ctx.Err(); cause != nil && !errors.Is(err, cause) {
		err = errors.Join(cause, err)
	}
	return views.Unavailable(what, err)
}

// bound gives a call without a deadline one.
func (s *Store) bound(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, s.timeout)
}

// Close closes the connections, and waits for calls in progress for at most Config.Timeout. It may be called more than once.
func (s *Store) Close() error {
	s.close()
	return nil
}

// Load implements views.Store.
func (s *Store) Load(ctx context.Context, collection string, ids []string, parts views.Parts) ([]views.Doc, error) {
	if err := s.schema.CheckLoad(collection, ids); err != nil {
		return nil, err
	}
	if len(ids) == 0 {
		return nil, nil
	}
	wanted := make([][]byte, len(ids))
	for i, id := range ids {
		wanted[i] = []byte(id)
	}
	t := s.tables[collection]
	return s.query(ctx, "load from "+collection, t, t.loads[parts], parts, wanted)
}

// List implements views.Store.
func (s *Store) List(ctx context.Context, collection string, q views.Query) ([]views.Doc, error) {
	index, err := s.schema.CheckQuery(collection, q)
	if err != nil {
		return nil, err
	}
	t := s.tables[collection]
	text, args := t.list(index, q)
	return s.query(ctx, "list "+collection+"."+q.Index, t, text, views.Heads, args...)
}

func (s *Store) query(ctx context.Context, what string, t *table, text string, parts views.Parts, args ...any) ([]views.Doc, error) {
	ctx, cancel := s.bound(ctx)
	defer cancel()
	rows, err := s.pool.Query(ctx, text, args...)
	if err != nil {
		return nil, failure(ctx, what, err)
	}
	docs, err := t.docs(rows, parts)
	if err != nil {
		return nil, failure(ctx, what, err)
	}
	return docs, nil
}

// Checkpoint implements views.Store.
func (s *Store) Checkpoint(ctx context.Context, stream string) (uint64, error) {
	ctx, cancel := s.bound(ctx)
	defer cancel()
	var seq int64
	err := s.pool.QueryRow(ctx, "SELECT seq FROM "+s.name+"._checkpoints WHERE stream = $1", []byte(stream)).Scan(&seq)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return 0, failure(ctx, "checkpoint of "+stream, err)
	}
	return num.Uint64(seq), nil
}
