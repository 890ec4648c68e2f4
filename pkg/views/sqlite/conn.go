package sqlite

import (
	"context"
	"errors"
	"fmt"

	_ "modernc.org/sqlite" // corrects SQLite's memory page size on arm64
	"zombiezen.com/go/sqlite"

	"quire.dev/pkg/views"
)

// conn is a connection and its prepared statements, owned by one goroutine. It
// calls SQLite without database/sql, whose drivers allocate for every value,
// and without SQLite's own locks, which a single goroutine does not need.
type conn struct{ *sqlite.Conn }

const (
	busyTimeout   = "PRAGMA busy_timeout = 10000" // milliseconds; matters only beside a second process
	cellSizeCheck = "PRAGMA cell_size_check = ON" // detects damage early
)

func writerPragmas(synchronous string) []string {
	return []string{
		busyTimeout,
		"PRAGMA journal_mode = WAL",
		"PRAGMA synchronous = " + synchronous,
		"PRAGMA cache_size = -16384",           // KiB
		"PRAGMA journal_size_limit = 67108864", // bytes
		"PRAGMA wal_autocheckpoint = 500",      // pages: short checkpoints delay answers less
		cellSizeCheck,
		"PRAGMA temp_store = MEMORY", // no files elsewhere
		"PRAGMA secure_delete = ON",  // overwrites deleted content with zeros
	}
}

func readerPragmas() []string {
	return []string{busyTimeout, "PRAGMA query_only = ON", "PRAGMA cache_size = -2048"}
}

const (
	readOnly  = sqlite.OpenReadOnly
	readWrite = sqlite.OpenReadWrite | sqlite.OpenCreate
)

// connect opens a connection: readOnly, or readWrite to change or create the file.
func connect(path string, flags sqlite.OpenFlags, pragmas []string) (*conn, error) {
	opened, err := sqlite.OpenConn(path, flags)
	if err != nil {
		return nil, err
	}
	c := &conn{opened}
	for _, pragma := range pragmas {
		if _, err := c.exec(pragma); err != nil {
			return nil, errors.Join(fmt.Errorf("%s: %w", pragma, err), c.Close())
		}
	}
	return c, nil
}

// interruptOn interrupts each statement of the connection when ctx ends, even within a row.
func (c *conn) interruptOn(ctx context.Context) { c.SetInterrupt(ctx.Done()) }

// bind prepares a statement and binds its arguments, each an int64 or a string.
// Texts are few: they depend on the schema and the form of a query, never on
// values.
func (c *conn) bind(text string, args []any) (*sqlite.Stmt, error) {
	s, err := c.Prepare(text)
	if err != nil {
		return nil, err
	}
	for i, arg := range args {
		switch v := arg.(type) {
		case int64:
			s.BindInt64(i+1, v)
		case string:
			s.BindText(i+1, v)
		default: // naming the type would move each argument of each call to the heap
			return nil, errors.New("an argument is neither an int64 nor a string")
		}
	}
	return s, nil
}

// exec runs a statement to its end and returns the number of rows changed.
func (c *conn) exec(text string, args ...any) (int64, error) {
	s, err := c.bind(text, args)
	if err != nil {
		return 0, err
	}
	return c.finish(s)
}

// finish runs a statement to its end and returns the number of rows changed.
func (c *conn) finish(s *sqlite.Stmt) (int64, error) {
	for {
		if more, err := s.Step(); err != nil {
			return 0, errors.Join(err, release(s))
		} else if !more {
			return int64(c.Changes()), release(s)
		}
	}
}

// release resets a statement and clears its values, which may be megabytes.
func release(s *sqlite.Stmt) error { return errors.Join(s.Reset(), s.ClearBindings()) }

// query calls each for every row. It checks ctx before each row, which is soon
// enough for most statements; interruptOn is for the others.
func (c *conn) query(ctx context.Context, text string, args []any, each func(row) error) error {
	s, err := c.bind(text, args)
	if err != nil {
		return err
	}
	return rows(ctx, s, each)
}

// rows runs a statement for query.
func rows(ctx context.Context, s *sqlite.Stmt, each func(row) error) (err error) {
	defer func() { err = errors.Join(err, release(s)) }()
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		more, err := s.Step()
		if err != nil {
			return errors.Join(ctx.Err(), err) // SQLite only reports an interrupt
		}
		if !more {
			return nil
		}
		if err := each(row{s}); err != nil {
			return err
		}
	}
}

// row is the current row of a statement. Results of its methods may be kept.
type row struct{ *sqlite.Stmt }

func (r row) is(i int, want sqlite.ColumnType) error {
	if is := r.ColumnType(i); is != want {
		return fmt.Errorf("column %d is %s, not %s", i, is, want)
	}
	return nil
}

func (r row) integer(i int) (int64, error) { return r.ColumnInt64(i), r.is(i, sqlite.TypeInteger) }

func (r row) text(i int) (string, error) {
	if err := r.is(i, sqlite.TypeText); err != nil {
		return "", err
	}
	return r.ColumnText(i), nil
}

func (r row) blob(i int) ([]byte, error) {
	if r.ColumnIsNull(i) {
		return nil, nil
	}
	if err := r.is(i, sqlite.TypeBlob); err != nil {
		return nil, err
	}
	b := make([]byte, r.ColumnLen(i))
	r.ColumnBytes(i, b)
	return b, nil
}

func (r row) value(i int) (views.Value, error) {
	switch is := r.ColumnType(i); is {
	case sqlite.TypeInteger:
		return views.Int(r.ColumnInt64(i)), nil
	case sqlite.TypeText:
		return views.String(r.ColumnText(i)), nil
	default:
		return views.Value{}, fmt.Errorf("column %d is %s, not a key", i, is)
	}
}
