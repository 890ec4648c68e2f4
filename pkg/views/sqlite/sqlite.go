// Package sqlite keeps read models in one SQLite file, inside the process.
//
// One goroutine owns the writing connection and groups all waiting writes into
// one transaction. A few others own a reading connection each. A caller only
// waits for them, until its deadline, even while the disk hangs.
package sqlite

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"quire.dev/pkg/num"
	"quire.dev/pkg/views"
)

// Values of Config.Synchronous.
const (
	// Normal loses nothing when the process dies. When the machine dies, the
	// last commits may be lost, each entirely. It is for documents that can be
	// projected again from a journal.
	Normal = "normal"
	// Full syncs every commit to the disk. It is for documents stored nowhere
	// else.
	Full = "full"
)

const (
	readers = 4
	// groupLimit bounds the writes that share a transaction.
	groupLimit = 64
	// tombstoneAge is how long a deletion is remembered.
	tombstoneAge  = time.Hour
	sweepInterval = time.Minute
	// emptyLog is how long the write-ahead log may hold deleted content.
	emptyLog   = 30 * time.Second
	sweepLimit = 500
)

// Config is the path and the schema of the file.
type Config struct {
	Path        string // of the database file; the folder must exist
	Collections []views.Collection
	Synchronous string           // Normal or Full; empty is Full
	Now         func() time.Time // ages deletions; nil: time.Now
	// EmptyLog is how long the write-ahead log may keep deleted or replaced content; 0: 30 s.
	EmptyLog time.Duration
	// CheckAtOnce is the size in bytes up to which a file that was not closed cleanly is checked before it is opened; 0: 64
	// MiB. A larger one is left to Store.Check.
	CheckAtOnce int64
	// FreshIDs is how many ids of new documents a collection keeps in memory before it moves them into its index; 0: 100,000,
	// which take six megabytes at most.
	FreshIDs int

	hash func(id string) int64 // for tests; nil: hashOf
}

// Store is a views.Store in one SQLite file.
type Store struct {
	path      string
	unchecked bool // Check must read the file
	schema    views.Schema
	tables    map[string]*table
	now       func() time.Time
	emptyLog  time.Duration
	freshIDs  int
	writes    chan writeJob
	reads     chan readJob
	quit      chan struct{}
	stop      func() error // once
	workers   sync.WaitGroup
}

var _ views.Store = (*Store)(nil)

var errClosed = errors.New("store is closed")

// Open opens or creates the file, and adds missing collections and indexes.
// Indexes that are no longer declared are dropped, documents never.
//
// A file that was not closed cleanly is checked completely: a small one first,
// one of more than Config.CheckAtOnce bytes by Check, which the caller must
// call. A damaged file (ErrDamaged), one of a newer version (ErrNewer) or of
// another application (ErrForeign) is left unchanged.
func Open(ctx context.Context, config Config) (*Store, error) {
	if config.Synchronous == "" {
		config.Synchronous = Full
	}
	if config.Synchronous != Normal && config.Synchronous != Full {
		return nil, fmt.Errorf("%w: synchronous %q, must be %q or %q", views.ErrInvalid, config.Synchronous, Normal, Full)
	}
	schema, err := views.NewSchema(config.Collections)
	if err != nil {
		return nil, err
	}
	path, err := filepath.Abs(config.Path)
	if err != nil {
		return nil, fmt.Errorf("find %s: %w", config.Path, err)
	}
	later, err := inspect(ctx, path, cmp.Or(config.CheckAtOnce, checkAtOnce))
	if err != nil {
		return nil, err
	}
	if later {
		err = mark(path, "")
	} else {
		err = unmark(path)
	}
	if err != nil {
		return nil, views.Unavailable("open "+path, err)
	}
	s := &Store{
		path:      path,
		unchecked: later,
		schema:    schema,
		now:       config.Now,
		emptyLog:  config.EmptyLog,
		freshIDs:  cmp.Or(config.FreshIDs, freshIDs),
		writes:    make(chan writeJob),
		reads:     make(chan readJob),
		quit:      make(chan struct{}),
	}
	if s.emptyLog <= 0 {
		s.emptyLog = emptyLog
	}
	if s.now == nil {
		s.now = time.Now
	}
	writer, err := connect(path, readWrite, writerPragmas(config.Synchronous))
	if err != nil {
		return nil, describe("open "+path, path, err)
	}
	if config.hash == nil {
		config.hash = hashOf
	}
	if s.tables, err = migrate(ctx, writer, schema, s.freshIDs, config.hash); err != nil {
		return nil, errors.Join(describe("prepare "+path, path, err), writer.Close())
	}
	pool := make([]*conn, 0, readers)
	for range readers {
		reader, err := connect(path, readWrite, readerPragmas())
		if err != nil {
			return nil, errors.Join(describe("open "+path, path, err), closeAll(pool, writer))
		}
		pool = append(pool, reader)
	}
	s.start(pool, writer)
	return s, nil
}

func (s *Store) start(pool []*conn, writer *conn) {
	for _, c := range pool {
		s.workers.Go(func() { s.readLoop(c) })
	}
	w := &writerLoop{store: s, conn: writer, nextSweep: s.now(), written: true} // a killed process may have left a log
	s.workers.Go(w.run)
	s.stop = sync.OnceValue(func() error {
		close(s.quit)
		s.workers.Wait()
		return closeAll(pool, writer)
	})
}

// closeAll closes the writer last, since the last connection moves the
// write-ahead log into the file. A file without a log counts as closed cleanly.
func closeAll(pool []*conn, writer *conn) error {
	var errs []error
	for _, c := range pool {
		errs = append(errs, c.Close())
	}
	return errors.Join(append(errs, writer.Close())...)
}

// Close finishes the writes in progress and closes the file. It may be called
// more than once.
func (s *Store) Close() error {
	if err := s.stop(); err != nil {
		return views.Unavailable("close", err)
	}
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
	t := s.tables[collection]
	var docs []views.Doc
	err := s.read(ctx, "load from "+collection, func(ctx context.Context, c *conn) (err error) {
		docs, err = t.load(ctx, c, ids, parts)
		return err
	})
	if err != nil {
		return nil, err
	}
	return docs, nil
}

// List implements views.Store.
func (s *Store) List(ctx context.Context, collection string, q views.Query) ([]views.Doc, error) {
	index, err := s.schema.CheckQuery(collection, q)
	if err != nil {
		return nil, err
	}
	t := s.tables[collection]
	var docs []views.Doc
	err = s.read(ctx, "list "+collection+"."+q.Index, func(ctx context.Context, c *conn) (err error) {
		docs, err = t.list(ctx, c, index, q)
		return err
	})
	if err != nil {
		return nil, err
	}
	return docs, nil
}

// Commit implements views.Store.
func (s *Store) Commit(ctx context.Context, b views.Batch) error {
	if err := s.schema.CheckBatch(b); err != nil {
		return err
	}
	return s.write(ctx, "commit", func(c *conn) error {
		if err := advance(c, b); err != nil {
			return err
		}
		for _, p := range b.Puts {
			if err := s.tables[p.Collection].putDoc(c, p); err != nil {
				return err
			}
		}
		gone := s.now().Unix()
		for _, d := range b.Deletes {
			if err := s.tables[d.Collection].deleteDoc(c, d, gone); err != nil {
				return err
			}
		}
		return nil
	})
}

// advance moves the checkpoint of the batch, or returns ErrConflict.
func advance(c *conn, b views.Batch) error {
	if b.Stream == "" {
		return nil
	}
	var moved int64
	var err error
	if b.From == 0 {
		moved, err = c.exec(`INSERT INTO "checkpoints" VALUES (?, ?) ON CONFLICT DO NOTHING`, b.Stream, num.Int64(b.To))
	} else {
		moved, err = c.exec(`UPDATE "checkpoints" SET seq = ? WHERE stream = ? AND seq = ?`, num.Int64(b.To), b.Stream, num.Int64(b.From))
	}
	if err != nil {
		return err
	}
	if moved == 0 {
		return fmt.Errorf("commit %s from %d to %d: %w", b.Stream, b.From, b.To, views.ErrConflict)
	}
	return nil
}

// Insert implements views.Store.
func (s *Store) Insert(ctx context.Context, collection string, d views.Doc) error {
	if err := s.schema.CheckDoc(collection, d); err != nil {
		return err
	}
	return s.write(ctx, "insert into "+collection, func(c *conn) error {
		return s.tables[collection].insertDoc(c, d)
	})
}

// Checkpoint implements views.Store.
func (s *Store) Checkpoint(ctx context.Context, stream string) (uint64, error) {
	var seq int64
	err := s.read(ctx, "checkpoint of "+stream, func(ctx context.Context, c *conn) error {
		return c.query(ctx, `SELECT seq FROM "checkpoints" WHERE stream = ?`, []any{stream}, func(row row) (err error) {
			seq, err = row.integer(0)
			return err
		})
	})
	if err != nil {
		return 0, err
	}
	return num.Uint64(seq), nil
}
